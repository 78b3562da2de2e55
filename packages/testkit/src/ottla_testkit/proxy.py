"""A TCP proxy on 127.0.0.1 that loses connections, refuses them, or keeps their bytes back, when told.

A broker's advertised listener goes around it: clients use the proxy for their first connection only, unless
`advertised.listeners` (the `config` of `KafkaCluster`) names the proxy's port. One thread does all the work;
callers hand it commands and wait. When one side closes, so does the other.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

from ottla_testkit.free_ports import HOST

OBEY_WITHIN = 10.0  # seconds
CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing loses what is under way


class CuttingProxy:
    """Forwards both ways between clients of `port` and a target, from entering a `with` block to its end."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.port = 0  # chosen by the first accept()
        self._target = (target_host, target_port)
        self._commands: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="cutting-proxy", daemon=True)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._waiting: dict[socket.socket, bytes] = {}  # bytes that a socket has yet to send
        self._held = self._ended = False
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *error: object) -> None:
        for command in (self._cut, self._refuse, self._end):
            self._tell(command)
        self._thread.join(OBEY_WITHIN)
        self._selector.close()
        self._wake.close()
        self._woken.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the proxy."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many clients are connected through it."""
        return len(self._peers) // 2

    def cut(self) -> None:
        """Reset every connection; bytes under way are lost. New ones are welcome unless refused."""
        self._tell(self._cut)

    def refuse(self) -> None:
        """Refuse new connections; those that exist go on."""
        self._tell(self._refuse)

    def accept(self) -> None:
        """Welcome new connections again, on the same port."""
        self._tell(self._listen)

    def hold(self) -> None:
        """Forward nothing in either direction until `release`."""
        self._tell(lambda: self._set_held(True))

    def release(self) -> None:
        """Forward what was held, and go on."""
        self._tell(lambda: self._set_held(False))

    def _tell(self, command: Callable[[], None]) -> None:
        """Let the thread do it, and wait until it is done; what goes wrong is raised here."""
        done: Future[None] = Future()
        self._commands.put((command, done))
        self._wake.send(b"!")
        done.result(OBEY_WITHIN)

    def _run(self) -> None:
        while not self._ended:
            for key, events in self._selector.select():
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._woken:
                    self._obey()
                elif end is self._listener:
                    self._welcome(end)
                elif end in self._peers:  # else its peer closed it in this very round
                    self._forward(end, events)

    def _obey(self) -> None:
        self._woken.recv(1)
        command, done = self._commands.get()
        try:
            done.set_result(command())
        except Exception as error:
            done.set_exception(error)

    def _welcome(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        try:
            target = socket.create_connection(self._target, OBEY_WITHIN)
        except OSError:
            _reset(client)
            return
        for end, peer in ((client, target), (target, client)):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[end], self._waiting[end] = peer, b""
        self._watch(client)
        self._watch(target)

    def _forward(self, end: socket.socket, events: int) -> None:
        peer = self._peers[end]
        try:
            if events & selectors.EVENT_WRITE:
                self._waiting[end] = self._waiting[end][end.send(self._waiting[end]) :]
            if events & selectors.EVENT_READ:
                self._waiting[peer] = end.recv(CHUNK)
                if not self._waiting[peer]:
                    raise ConnectionResetError
        except OSError:
            self._lose(end, peer.close)
            end.close()
            return
        self._watch(end)
        self._watch(peer)
