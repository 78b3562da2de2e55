"""A TCP proxy on 127.0.0.1 that loses connections, refuses them, or keeps their bytes back, when told.

Connections are lost at once by `cut`, or in the middle of what is said by `cut_by`, byte by byte as planned.

A broker's advertised listener goes around it: clients use the proxy for their first connection only, unless
`advertised.listeners` (the `config` of `KafkaCluster`) names the proxy's port. When one side closes, so does
the other. One thread forwards; a lock lets callers change what it works on between two of its rounds, which
epoll and kqueue notice while it waits.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Self

import attrs

from ottla_testkit.free_ports import HOST, free_ports

CONNECT_WITHIN = 10.0  # seconds
CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER


@attrs.frozen(kw_only=True)
class Cut:
    """Lose every connection once so many more bytes went one way: to the target, or back from it."""

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
        self._listener: socket.socket | None = None
        self._held = False
        self._targets: set[socket.socket] = set()
        self._plan: Iterator[Cut] = iter(())
        self._next_cut: Cut | None = None
        self._counted = 0  # bytes that went the way of the next cut
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

    def cut(self) -> None:
        """Reset every connection; bytes under way are lost. New ones are welcome unless refused."""
        with self._lock:
            self._reset_all()

    def cut_by(self, plan: Iterable[Cut]) -> None:
        """Cut in the middle of things: the bytes of each cut are counted from the one before it."""
        with self._lock:
            self._plan = iter(plan)
            self._turn_to_next_cut()

    @property
    def cuts(self) -> int:
        """How many of the planned cuts have come."""
        return self._cuts

    def forward_to(self, host: str, port: int) -> None:
        """The target of connections yet to come: so a broker can advertise the proxy and be started after it."""
        with self._lock:
            self._target = (host, port)

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
        self._targets.add(target)
        self._watch(client, target)

    def _forward(self, end: socket.socket, events: int) -> None:
        peer, closed = self._peers[end], False
        try:
            if events & selectors.EVENT_WRITE:
                self._waiting[end] = self._waiting[end][end.send(self._waiting[end]) :]
            if events & selectors.EVENT_READ:
                data, cut_now = self._up_to_cut(end, end.recv(CHUNK))
                self._waiting[peer], closed = data, not data
                if cut_now:
                    with contextlib.suppress(OSError):  # the peer may have gone first
                        peer.send(data)
                    self._cut_as_planned()
                    return
        except OSError:
            closed = True
        if closed:
            self._lose(end)
        else:
            self._watch(end, peer)

    def _up_to_cut(self, end: socket.socket, data: bytes) -> tuple[bytes, bool]:
        """What of *data* still goes on, and whether the next cut comes right behind it."""
        cut = self._next_cut
        if cut is None or (end in self._targets) != cut.from_target:
            return data, False
        left = cut.after - self._counted
        self._counted += len(data)
        return data[:left], len(data) >= left

    def _cut_as_planned(self) -> None:
        self._cuts += 1
        self._reset_all()
        self._turn_to_next_cut()

    def _turn_to_next_cut(self) -> None:
        self._next_cut, self._counted = next(self._plan, None), 0

    def _reset_all(self) -> None:
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
            del self._peers[lost], self._waiting[lost]
            self._targets.discard(lost)
            lost.close()

    def _set_held(self, held: bool) -> None:
        with self._lock:
            self._held = held
            self._watch(*self._peers)
