"""A TCP proxy on 127.0.0.1 that loses connections, refuses them, or keeps their bytes back, when told.

It counts what it forwards, and may be told to lose connections at a byte, once or as planned.

A broker's advertised listener goes around it: clients use the proxy for their first connection only, unless
`advertised.listeners` (the `config` of `KafkaCluster`) names the proxy's port. When one side closes, so does
the other. One thread forwards; a lock lets callers change what it works on between two of its rounds, which
epoll and kqueue notice while it waits.
"""

from __future__ import annotations

import contextlib
import enum
import selectors
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Self

import attrs

from ottla_testkit.processes.free_ports import HOST, free_ports

CONNECT_WITHIN = 10.0  # seconds
CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER


class Way(enum.Enum):
    """Where bytes are going."""

    OUT = "to the target"
    BACK = "to the client"


@attrs.frozen(kw_only=True)
class Cut:
    """Lose every connection, by a reset, once so many more bytes went one way: to the target, or back from it."""

    after: int
    from_target: bool = False


class CuttingProxy:
    """Forwards both ways between clients of `port` and a target, from entering a `with` block to its end."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target = (target_host, target_port)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="cutting-proxy", daemon=True)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._waiting: dict[socket.socket, bytes] = {}  # what a socket has yet to send
        self._ways: dict[socket.socket, Way] = {}  # of what is sent on a socket
        self._forwarded = dict.fromkeys(Way, 0)
        self._cut_at: tuple[Way, int] | None = None
        self._cut_resets = False
        self._listener: socket.socket | None = None
        self._held = False
        self._plan: Iterator[Cut] | None = None
        self._cuts = 0

    def __enter__(self) -> Self:
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self.accept()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._wake.close()
        self._thread.join()
        self.refuse()
        self.cut()
        self._woken.close()
        self._selector.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the proxy."""
        return f"{HOST}:{self.port}"

    def point_to(self, target_host: str, target_port: int) -> None:
        """Take new connections to another target; those that exist go on."""
        with self._lock:
            self._target = (target_host, target_port)

    def forwarded(self, way: Way) -> int:
        """How many bytes went this way so far, over all connections."""
        with self._lock:
            return self._forwarded[way]

    def cut(self) -> None:
        """Reset every connection; bytes under way are lost. New ones are welcome unless refused."""
        with self._lock:
            self._cut(reset=True)

    def cut_after(self, count: int, way: Way, *, reset: bool) -> None:
        """Once so many more bytes went this way, and not one more, lose every connection: by a reset, or in good order.

        Where no byte may go, that is when the next one arrives here. Later connections are left alone.
        """
        with self._lock:
            self._cut_at = (way, self._forwarded[way] + count)
            self._cut_resets = reset

    @property
    def cut_is_due(self) -> bool:
        """Whether what `cut_after` asked for has yet to happen."""
        with self._lock:
            return self._cut_at is not None

    def cut_by(self, plan: Iterable[Cut]) -> None:
        """Cut in the middle of things, again and again: the bytes of each cut are counted from the one before it."""
        with self._lock:
            self._plan = iter(plan)
            self._turn_to_next_cut()

    @property
    def cuts(self) -> int:
        """How many of the planned cuts have come."""
        with self._lock:  # whoever has felt one sees it counted
            return self._cuts

    def refuse(self) -> None:
        """Refuse new connections; those that exist go on."""
        with self._lock:
            if self._listener is not None:
                self._selector.unregister(self._listener)
                self._listener.close()
                self._listener = None

    def accept(self) -> None:
        """Welcome new connections again, on the same port."""
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server((HOST, self.port))
                self._selector.register(self._listener, selectors.EVENT_READ)

    def hold(self) -> None:
        """Forward nothing in either direction until `release`."""
        self._set_held(True)

    def release(self) -> None:
        """Forward what was held, and go on."""
        self._set_held(False)

    def _run(self) -> None:
        while True:
            ready = {key.fileobj: events for key, events in self._selector.select()}
            if self._woken in ready:
                return
            with self._lock:
                for end in self._peers.keys() & ready.keys():
                    if end in self._peers and not self._held:  # else lost or held a moment ago
                        self._forward(end, ready[end])
                if self._listener is not None and self._listener in ready:
                    self._welcome(self._listener)

    def _welcome(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        try:
            target = socket.create_connection(self._target, CONNECT_WITHIN)
        except OSError:
            client.close()
            return
        for end, peer in ((client, target), (target, client)):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[end], self._waiting[end] = peer, b""
        self._ways[client], self._ways[target] = Way.BACK, Way.OUT
        self._watch(client, target)

    def _forward(self, end: socket.socket, events: int) -> None:
        peer, closed, cut_here = self._peers[end], False, False
        try:
            if events & selectors.EVENT_WRITE:
                self._send(end)
                cut_here = not self._may_go(self._ways[end])
            if events & selectors.EVENT_READ:
                self._waiting[peer] = end.recv(CHUNK)
                closed = not self._waiting[peer]
                cut_here |= not self._may_go(self._ways[peer])
        except OSError:
            closed = True
        if cut_here:
            self._cut_as_told()
        elif closed:
            self._lose(end)
        else:
            self._watch(end, peer)

    def _send(self, end: socket.socket) -> None:
        way = self._ways[end]
        sent = end.send(self._waiting[end][: self._may_go(way)])
        self._waiting[end] = self._waiting[end][sent:]
        self._forwarded[way] += sent

    def _may_go(self, way: Way) -> int:
        """How many bytes may go this way in one go, until the cut if one is due."""
        if self._cut_at is None or self._cut_at[0] is not way:
            return CHUNK
        return self._cut_at[1] - self._forwarded[way]

    def _cut_as_told(self) -> None:
        self._cut_at = None
        self._cut(reset=self._cut_resets)
        if self._plan is not None:
            self._cuts += 1
            self._turn_to_next_cut()

    def _turn_to_next_cut(self) -> None:
        cut = next(self._plan or iter(()), None)
        if cut is None:
            self._plan = None
            return
        way = Way.BACK if cut.from_target else Way.OUT
        self._cut_at = (way, self._forwarded[way] + cut.after)
        self._cut_resets = True

    def _cut(self, *, reset: bool) -> None:
        if reset:
            for end in self._peers:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        while self._peers:
            self._lose(next(iter(self._peers)))

    def _watch(self, *ends: socket.socket) -> None:
        """Read from an end only while its peer has nothing left to send, so that nothing piles up here."""
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
