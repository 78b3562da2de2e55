"""What the suite needs to know of this transport, also for `ottla plugins check`: a proxy, and the broker behind it.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import socket
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla_testkit.conformance import PlainPeer, TransportConformance

_NO_LOGIN: Final = 0
_PASSWORD: Final = 2
_CONNECT: Final = 1
_LENGTHS: Final[Mapping[int, int]] = {1: 4, 4: 16}
"""Of addresses by their kind; the length of a name goes before it."""


class SocksPeer(PlainPeer):
    """Asks for a login where one is offered, connects to whatever is wanted, and is the broker from then on."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._early = bytearray()
        self._course = self._negotiation()
        self._wanted = next(self._course)
        self._connected = False

    def advance(self) -> None:
        """The proxy's part comes first, and is no part of what the broker hears."""
        super().advance()
        while not self._connected and len(self.received) >= self._wanted:
            said = bytes(self.received[: self._wanted])
            del self.received[: self._wanted]
            try:
                self._wanted = self._course.send(said)
            except StopIteration:
                self._connected = True
                super().write(bytes(self._early))
            super().advance()

    def write(self, data: bytes) -> None:
        """The broker's words wait until it is connected to."""
        if self._connected:
            super().write(data)
        else:
            self._early += data

    def _negotiation(self) -> Generator[int, bytes, None]:
        """Yields how many bytes come next, and is sent them (RFC 1928, and RFC 1929 for the login)."""
        version, methods = yield 2
        offered = yield methods
        login = _PASSWORD in offered
        super().write(bytes([5, _PASSWORD if login else _NO_LOGIN]))
        if login:
            _login_version, length = yield 2
            yield length
            [length] = yield 1
            yield length
            super().write(b"\1\0")
        again, command, _reserved, kind = yield 4
        assert (version, again, command) == (5, 5, _CONNECT), "that is no SOCKS5"
        [length] = [_LENGTHS[kind]] if kind in _LENGTHS else (yield 1)
        yield length + 2  # the port
        super().write(b"\5\0\0\1\x7f\0\0\1\x04\x38")


class Socks5Conformance(TransportConformance):
    """Every promise of a transport, the proxy's part included."""

    host = "kafka"
    settings: ClassVar[Mapping[str, Any]] = {"socks5.proxy": "127.0.0.1:1080"}

    @pytest.fixture
    def peer(self) -> type[SocksPeer]:
        return SocksPeer
