"""A TCP proxy on 127.0.0.1 that loses connections, refuses them, or holds their bytes back, on request.

It counts the bytes that it forwards, and can lose connections at a given byte, once or as planned.

A broker's advertised listener bypasses it: clients use the proxy for their first connection only, unless
`advertised.listeners` (the `config` of `KafkaCluster`) names the proxy's port. When one side closes, so does the other.
One thread forwards. Callers change its state under a lock between two rounds; epoll and kqueue notice the change while
the thread waits.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterable
from typing import Self

from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.proxy.cut_plan import Cut, CutPlan, Direction
from ottla_testkit.proxy.pending_connections import RESET, PendingConnections

CHUNK = 1 << 16


class CuttingProxy:
    """Forward both ways between clients of `port` and a target, during a `with` block."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target = (target_host, target_port)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="cutting-proxy", daemon=True)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._waiting: dict[socket.socket, bytes] = {}  # bytes that a socket has yet to send
        self._ways: dict[socket.socket, Direction] = {}  # direction of the bytes that a socket sends
        self._plan = CutPlan()
        self._listener: socket.socket | None = None
        self._held = False

    def __enter__(self) -> Self:
        self._selector = selectors.DefaultSelector()
        self._pending = PendingConnections(self._selector, self._pair)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        try:
            self.accept()
            self._thread.start()
        except BaseException:
            self._wake.close()
            self._close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._wake.close()
        self._thread.join()
        self._close()

    def _close(self) -> None:
        self.refuse()
        self.cut()
        self._woken.close()
        self._selector.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the proxy."""
        return f"{HOST}:{self.port}"

    def point_to(self, target_host: str, target_port: int) -> None:
        """Connect new clients to another target; existing connections stay."""
        with self._lock:
            self._target = (target_host, target_port)

    def forwarded(self, way: Direction) -> int:
        """Return the number of bytes forwarded in this direction so far, over all connections."""
        with self._lock:
            return self._plan.forwarded[way]

    def cut(self) -> None:
        """Reset every connection; bytes in flight are lost. New connections are accepted unless refused."""
        with self._lock:
            self._cut(reset=True)

    def cut_after(self, count: int, way: Direction, *, reset: bool) -> None:
        """Lose every connection after exactly *count* more bytes in this direction: by a reset, or by a normal close.

        With a count of 0, that is when the next byte arrives here. Later connections are not affected.
        """
        with self._lock:
            self._plan.cut_after(count, way, reset=reset)

    @property
    def cut_is_due(self) -> bool:
        """Whether the cut of `cut_after` is still to come."""
        with self._lock:
            return self._plan.due

    def cut_by(self, plan: Iterable[Cut]) -> None:
        """Make several cuts in turn: the bytes of each are counted from the one before it."""
        with self._lock:
            self._plan.follow(plan)

    @property
    def cuts(self) -> int:
        """Number of planned cuts that were made."""
        with self._lock:  # a client that has noticed a cut must see it counted
            return self._plan.made

    def refuse(self) -> None:
        """Refuse new connections; existing ones stay."""
        with self._lock:
            if self._listener is not None:
                self._selector.unregister(self._listener)
                self._listener.close()
                self._listener = None

    def accept(self) -> None:
        """Accept new connections again, on the same port."""
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server((HOST, self.port))
                self._selector.register(self._listener, selectors.EVENT_READ)

    def hold(self) -> None:
        """Forward nothing in either direction until `release`."""
        self._set_held(True)

    def release(self) -> None:
        """Forward the held bytes, and continue."""
        self._set_held(False)

    def _run(self) -> None:
        while True:
            with self._lock:
                seconds = self._pending.seconds()
            ready = {key.fileobj: events for key, events in self._selector.select(seconds)}
            if self._woken in ready:
                return
            with self._lock:
                self._pending.proceed(ready)
                for end in self._peers.keys() & ready.keys():
                    if end in self._peers and not self._held:  # otherwise the connection was lost or held a moment ago
                        self._forward(end, ready[end])
                if self._listener is not None and self._listener in ready:
                    self._pending.accept(self._listener, *self._target)

    def _pair(self, client: socket.socket, target: socket.socket) -> None:
        for end, peer in ((client, target), (target, client)):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[end], self._waiting[end] = peer, b""
        self._ways[client], self._ways[target] = Direction.BACK, Direction.OUT
        self._watch(client, target)

    def _forward(self, end: socket.socket, events: int) -> None:
        peer, closed, cut_here = self._peers[end], False, False
        try:
            if events & selectors.EVENT_WRITE:
                self._send(end)
                cut_here = not self._allowed(self._ways[end])
            if events & selectors.EVENT_READ:
                self._waiting[peer] = end.recv(CHUNK)
                closed = not self._waiting[peer]
                cut_here |= not self._allowed(self._ways[peer])
        except OSError:
            closed = True
        if cut_here:
            self._cut(reset=self._plan.make())
        elif closed:
            self._lose(end)
        else:
            self._watch(end, peer)

    def _send(self, end: socket.socket) -> None:
        way = self._ways[end]
        sent = end.send(self._waiting[end][: self._allowed(way)])
        self._waiting[end] = self._waiting[end][sent:]
        self._plan.forwarded[way] += sent

    def _allowed(self, way: Direction) -> int:
        return self._plan.allowed(way, at_most=CHUNK)

    def _cut(self, *, reset: bool) -> None:
        if reset:
            for end in self._peers:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        while self._peers:
            self._lose(next(iter(self._peers)))
        self._pending.cut(reset=reset)

    def _watch(self, *ends: socket.socket) -> None:
        """Read from an end only while its peer has nothing left to send, so that no bytes accumulate here."""
        for end in ends:
            readable = 0 if self._held or self._waiting[self._peers[end]] else selectors.EVENT_READ
            writable = selectors.EVENT_WRITE if self._waiting[end] and not self._held else 0
            with contextlib.suppress(KeyError):
                self._selector.unregister(end)
            if readable or writable:
                self._selector.register(end, readable | writable)

    def _lose(self, end: socket.socket) -> None:
        for lost in (end, self._peers[end]):
            with contextlib.suppress(KeyError):
                self._selector.unregister(lost)
            del self._peers[lost], self._waiting[lost], self._ways[lost]
            lost.close()

    def _set_held(self, held: bool) -> None:
        with self._lock:
            self._held = held
            self._watch(*self._peers)
