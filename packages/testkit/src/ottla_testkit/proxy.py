"""A TCP proxy on 127.0.0.1 that loses connections, refuses them, or keeps their bytes back, when told.

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
from typing import Self

from ottla_testkit.free_ports import HOST, free_ports

CONNECT_WITHIN = 10.0  # seconds
CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER


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
            for end in self._peers:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            while self._peers:
                self._lose(next(iter(self._peers)))

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
        self._watch(client, target)

    def _forward(self, end: socket.socket, events: int) -> None:
        peer, closed = self._peers[end], False
        try:
            if events & selectors.EVENT_WRITE:
                self._waiting[end] = self._waiting[end][end.send(self._waiting[end]) :]
            if events & selectors.EVENT_READ:
                self._waiting[peer] = end.recv(CHUNK)
                closed = not self._waiting[peer]
        except OSError:
            closed = True
        if closed:
            self._lose(end)
        else:
            self._watch(end, peer)

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
            lost.close()

    def _set_held(self, held: bool) -> None:
        with self._lock:
            self._held = held
            self._watch(*self._peers)
