"""TLS inside TLS, as to a broker behind a proxy with TLS: the whole contract, and the ends of either connection."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import pytest

from ottla.errors import CertificateNotTrustedError, ConnectionFailedError
from ottla.interfaces import Interest, TransportLayer
from ottla.plugins.transports import SocketLayer
from ottla_testkit.conformance import TransportConformance
from ottla_transport_ssl import TlsTransport
from ottla_transport_ssl.conformance import TlsConformance, TlsPeer
from ottla_transport_ssl.tls_layer import TlsOverLayer
from tls_peers import Peer, read, shake, tcp_pair, transport, until

_MAX_UNSENT = 65536


class TunnelSocket:
    """The socket of the inner server: its bytes pass through the outer one."""

    def __init__(self, outer: TlsPeer) -> None:
        self._outer = outer

    def recv(self, size: int) -> bytes:
        if self._outer.received:
            received = bytes(self._outer.received[:size])
            del self._outer.received[:size]
            return received
        if self._outer.ended:
            return b""
        raise BlockingIOError

    def send(self, data: bytes) -> int:
        if len(self._outer._plain) >= _MAX_UNSENT:
            raise BlockingIOError
        self._outer.write(data)
        return len(data)


class TlsInTlsPeer:
    """A server in a server: the proxy's TLS, and the broker's inside."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._outer = TlsPeer(sock, context)
        self._inner = TlsPeer(cast(socket.socket, TunnelSocket(self._outer)), context)
        self._finishing = False

    @property
    def received(self) -> bytearray:
        return self._inner.received

    @property
    def ended(self) -> bool:
        return self._inner.ended

    def advance(self) -> None:
        self._outer.advance()
        self._inner.advance()
        if self._finishing and not (self._inner._finishing or self._inner._plain or self._inner._encrypted):
            self._finishing = False
            self._outer.finish()
        self._outer.advance()

    def write(self, data: bytes) -> None:
        self._inner.write(data)

    def finish(self) -> None:
        self._inner.finish()
        self._finishing = True


class TlsInTls:
    """A transport whose layers are TLS over TLS."""

    def __init__(self, tls: TlsTransport) -> None:
        self._tls = tls

    def targets(self, host: str, port: int) -> None:
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        return self._tls.open_over(self._tls.open(sock, host, port), host, port)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        return self._tls.open_over(self._tls.open_over(lower, host, port), host, port)


class TestTlsInTls(TransportConformance):
    """Pieces of one byte, cuts anywhere, tickets, large amounts both ways, full sockets."""

    port = 9093
    settings: ClassVar[Mapping[str, Any]] = TlsConformance.settings_for({})

    @pytest.fixture(params=["TLSv1.2", "TLSv1.3"])
    def transport(self, request: pytest.FixtureRequest) -> TlsInTls:
        return TlsInTls(transport({**self.settings, "ssl.enabled.protocols": request.param}))

    @pytest.fixture
    def peer(self) -> Callable[[socket.socket], TlsInTlsPeer]:
        from ottla_transport_ssl.conformance import _party

        return lambda sock: TlsInTlsPeer(sock, _party().context)


class Lower(SocketLayer):
    """A socket that gives bytes as a test says, and then an end or an error."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.ending: int | OSError | None = None
        self.read_size = 65536

    def read_into(self, buffer: memoryview) -> int | None:
        got = super().read_into(buffer[: self.read_size])
        if got is not None or self.ending is None:
            return got
        if isinstance(self.ending, OSError):
            raise self.ending
        return self.ending


def connected(trusting: Mapping[str, Any], context: ssl.SSLContext) -> tuple[TransportLayer, Lower, Peer]:
    """After the handshake over a lower layer."""
    ours, theirs = tcp_pair()
    lower, peer = Lower(ours), Peer(theirs, context)
    layer = transport(trusting).open_over(lower, "localhost", 9093)
    shake(cast(Any, layer), peer)
    return layer, lower, peer


@pytest.mark.parametrize("ending", [0, ConnectionResetError("reset")])
def test_bytes_come_before_the_end_of_the_lower_layer_that_follows_them(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext, ending: int | OSError
) -> None:
    layer, lower, peer = connected(trusting, server_context)
    peer.say(b"last words")
    lower.ending = ending

    until(lambda: layer.may_read() or read(cast(Any, layer)) == b"last words")
    assert layer.may_read(), "the end is not reported"
    with pytest.raises(ConnectionResetError) if ending else contextlib.nullcontext():
        assert read(cast(Any, layer)) == b""
    lower.close()
    peer.sock.close()


def test_our_close_notify_reaches_the_peer_behind_a_layer(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext
) -> None:
    layer, _lower, peer = connected(trusting, server_context)
    layer.close()

    until(lambda: peer.ended, peer.step)
    assert peer.said_goodbye
    peer.sock.close()


def test_an_untrusted_broker_behind_a_layer_is_refused(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext
) -> None:
    ours, theirs = tcp_pair()
    peer = Peer(theirs, server_context)
    layer = transport({}).open_over(SocketLayer(ours), "localhost", 9093)
    with pytest.raises(CertificateNotTrustedError, match="localhost:9093"):
        until(lambda: False, peer.step, layer.handshake)
    layer.close()
    theirs.close()


def test_an_error_of_the_lower_layer_is_reported_unchanged(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext
) -> None:
    class Refusing(SocketLayer):
        def handshake(self) -> bool:
            raise ConnectionFailedError("the proxy says no")

    ours, theirs = tcp_pair()
    layer = transport(trusting).open_over(Refusing(ours), "localhost", 9093)
    with pytest.raises(ConnectionFailedError, match="the proxy says no"):
        layer.handshake()
    layer.close()
    assert ours.fileno() == -1
    theirs.close()


def test_tls_waits_for_the_handshake_of_the_layer_below(trusting: Mapping[str, Any]) -> None:
    class Waiting(SocketLayer):
        def handshake(self) -> bool:
            return False

        def interest(self) -> Interest:
            return Interest.WRITE

    ours, theirs = tcp_pair()
    layer = transport(trusting).open_over(Waiting(ours), "localhost", 9093)

    assert not layer.handshake()
    assert layer.interest() is Interest.WRITE
    layer.close()
    assert theirs.recv(100) == b"", "a ClientHello was sent too early"
    theirs.close()


def test_details_begin_with_those_of_the_lower_layer(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext
) -> None:
    class Detailed(Lower):
        def details(self) -> list[tuple[str, str]]:
            return [("through", "a proxy"), ("protocol", "TLSv1.2"), ("proxy's cipher", "x"), ("warning", "old")]

    ours, theirs = tcp_pair()
    layer, peer = transport(trusting).open_over(Detailed(ours), "localhost", 9093), Peer(theirs, server_context)
    shake(cast(Any, layer), peer)
    assert isinstance(layer, TlsOverLayer)

    assert layer.details()[:5] == (
        ("through", "a proxy"),
        ("proxy's protocol", "TLSv1.2"),
        ("proxy's cipher", "x"),
        ("warning", "old"),
        ("protocol", "TLSv1.3"),
    )
    layer.close()
    theirs.close()


def test_the_layer_waits_for_room_while_the_lower_one_holds_bytes(
    trusting: Mapping[str, Any], server_context: ssl.SSLContext
) -> None:
    class Holding(Lower):
        holds = False

        def flush(self) -> bool:
            return not self.holds

        def interest(self) -> Interest:
            return Interest.WRITE if self.holds else Interest.NONE

    ours, theirs = tcp_pair()
    lower = Holding(ours)
    layer, peer = transport(trusting).open_over(lower, "localhost", 9093), Peer(theirs, server_context)
    lower.holds = True
    assert not layer.handshake()
    assert layer.interest() == Interest.READ | Interest.WRITE
    lower.holds = False
    shake(cast(Any, layer), peer)
    assert layer.interest() is Interest.NONE
    layer.close()
    theirs.close()
