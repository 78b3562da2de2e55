"""A TLS server for the conformance suite of this transport; `ottla plugins check` uses it, too.

It needs ottla-testkit[tls], so no other module may import it.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import pytest

from ottla.errors import PluginNotFoundError
from ottla_testkit.conformance import TransportConformance

_TRUST: Final = "ssl.truststore."
_PIECE: Final = 65536


class TlsPeer:
    """A TLS server that accepts TLS 1.2 and 1.3. It encrypts bytes only shortly before it can send them."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.received = bytearray()
        self.ended = False
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._ready = False
        self._finishing = False
        self._plain = bytearray()
        self._encrypted = b""

    def advance(self) -> None:
        """Read, do the handshake's next step or decrypt, and write pending bytes."""
        try:
            self._receive()
            self._decrypt()
        except OSError:  # an alert of the layer, no TLS at all, or a lost connection
            self.ended = True
        with contextlib.suppress(OSError):
            self._send()

    def write(self, data: bytes) -> None:
        """Queue bytes; `advance` sends them as the socket allows."""
        self._plain += data

    def finish(self) -> None:
        """End TLS with a close_notify once all bytes have been sent."""
        self._finishing = True

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while received := self._sock.recv(_PIECE):
                self._incoming.write(received)
            self._incoming.write_eof()

    def _decrypt(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            if not self._ready:
                self._tls.do_handshake()
                self._ready = True
            while data := self._tls.read(_PIECE):
                self.received += data
            self.ended = True

    def _send(self) -> None:
        while self._sent() and self._ready and self._plain:
            self._tls.write(self._plain[:_PIECE])
            del self._plain[:_PIECE]
        if self._finishing and not (self._plain or self._encrypted):
            self._finishing = False
            with contextlib.suppress(ssl.SSLError):  # we do not wait for the layer's close_notify
                self._tls.unwrap()
            self._sent()

    def _sent(self) -> bool:
        """Whether all encrypted bytes have been sent."""
        self._encrypted += self._outgoing.read()
        with contextlib.suppress(BlockingIOError, InterruptedError):
            self._encrypted = self._encrypted[self._sock.send(self._encrypted) :]
        return not self._encrypted


class TlsConformance(TransportConformance):
    """All requirements for a transport, with a server whose certificate the settings trust."""

    port = 9093
    settings: ClassVar[Mapping[str, Any]] = {}

    @staticmethod
    def settings_for(given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings with the peer's authority as the trusted one."""
        others = {key: value for key, value in given.items() if not key.startswith(_TRUST)}
        return {**others, f"{_TRUST}certificates": _party().authority}

    @pytest.fixture
    def peer(self) -> Callable[[socket.socket], TlsPeer]:
        return lambda sock: TlsPeer(sock, _party().context)


class _Party(NamedTuple):
    """The peer's TLS context, and its authority as PEM."""

    context: ssl.SSLContext
    authority: str


@functools.cache
def _party() -> _Party:
    try:
        import trustme
    except ImportError as error:
        raise PluginNotFoundError(
            "the suite's TLS server needs the library trustme; try: pip install 'ottla-testkit[tls]'"
        ) from error
    authority = trustme.CA(organization_name="Ottla's conformance suite")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 2  # as many as a broker sends
    authority.issue_cert("localhost", "127.0.0.1", "::1").configure_cert(context)
    return _Party(context=context, authority=authority.cert_pem.bytes().decode())
