"""A proxy with a broker behind it, for the conformance suite of this transport; `ottla plugins check` uses it, too.

It needs ottla-testkit, so no other module may import it.
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
_SUCCEEDED: Final = 0
_NOT_ALLOWED: Final = 2
_LENGTHS: Final[Mapping[int, int]] = {1: 4, 4: 16}
"""Length of addresses by their kind; a name is preceded by its length."""


class SocksPeer(PlainPeer):
    """Request a login if one is offered, accept any destination, and be the broker from then on."""

    reply = _SUCCEEDED

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._early = bytearray()
        self._exchanges = self._negotiation()
        self._wanted = next(self._exchanges)
        self._connected = False

    def advance(self) -> None:
        """Do the proxy's part first; the broker receives none of its bytes."""
        super().advance()
        while not self._connected and len(self.received) >= self._wanted:
            said = bytes(self.received[: self._wanted])
            del self.received[: self._wanted]
            try:
                self._wanted = self._exchanges.send(said)
            except StopIteration:
                self._connected = True
                super().write(bytes(self._early))
            super().advance()

    def write(self, data: bytes) -> None:
        """Take the broker's bytes, which wait until the connection is open."""
        if self._connected:
            super().write(data)
        else:
            self._early += data

    def _negotiation(self) -> Generator[int, bytes, None]:
        """Yield the number of bytes to read next, and receive them (RFC 1928, and RFC 1929 for the login)."""
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
        super().write(bytes([5, self.reply]) + b"\0\1\x7f\0\0\1\x04\x38")


class RefusingPeer(SocksPeer):
    """Refuse any destination, and keep the connection open."""

    reply = _NOT_ALLOWED


class Socks5Conformance(TransportConformance):
    """All requirements for a transport, the proxy's part included."""

    host = "kafka"
    settings: ClassVar[Mapping[str, Any]] = {"socks5.proxy": "127.0.0.1:1080"}

    @pytest.fixture
    def peer(self) -> type[SocksPeer]:
        return SocksPeer

    @pytest.fixture
    def refusing_peer(self) -> type[RefusingPeer]:
        return RefusingPeer
