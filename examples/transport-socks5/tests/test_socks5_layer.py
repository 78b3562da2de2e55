"""One connection through a proxy, on real sockets: whatever the pieces, nothing blocks, and no byte goes astray."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ottla.errors import ConnectionFailedError, NameResolutionError, ProtocolMismatchError
from ottla.interfaces import HostTarget, Interest, TransportLayer
from ottla.plugins.transports import SocketLayer
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_socks5_example import Socks5Transport
from ottla_transport_socks5_example.negotiation import UserPassword

HELLO = b"\x05\x02\x00\x02"
METHOD = b"\x05\x02"
LOGIN = b"\x01\x05alice\x06secret"
WELCOME = b"\x01\x00"
CONNECT = b"\x05\x01\x00\x03\x05kafka\x23\x84"
CONNECTED = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38"
SAID = [HELLO, LOGIN, CONNECT]
ANSWERS = [METHOD, WELCOME, CONNECTED]


class StingySocket(socket.socket):
    """A real one that takes a byte at a time."""

    def sendmsg(self, buffers: Iterable[Any], *others: Any) -> int:
        return super().send(bytes(next(iter(buffers)))[:1])


class PromptingTransport(PlaintextTransport):
    """A layer with its own handshake, as TLS has: it sends `?`, waits for `!`, and records what it should open."""

    def __init__(self) -> None:
        self.opened: list[tuple[socket.socket, str, int]] = []

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        self.opened.append((sock, host, port))
        return PromptingLayer(sock)


class PromptingLayer(SocketLayer):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._asked = False

    def handshake(self) -> bool:
        if not self._asked:
            self.write([b"?"])
            self._asked = True
        answer = bytearray(1)
        return self.read_into(memoryview(answer)) == 1 and answer == b"!"

    def interest(self) -> Interest:
        return Interest.READ

    def may_read(self) -> bool:
        return True

    def flush(self) -> bool:
        return False


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end, not blocking, and the proxy's, which waits for a second."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(1)
    yield ours, theirs
    ours.close()
    theirs.close()


def through(sock: socket.socket, inner: PlaintextTransport | None = None) -> TransportLayer:
    """A layer for kafka:9092 behind a proxy that knows alice."""
    login = UserPassword(b"alice", b"secret")
    transport = Socks5Transport(HostTarget("proxy", 1080), login=login, inner=inner or PlaintextTransport())
    return transport.open(sock, "kafka", 9092)


def negotiate(layer: TransportLayer, theirs: socket.socket) -> None:
    """The proxy's part up to its last byte, for correct requests."""
    for said, answer in zip(SAID, ANSWERS, strict=True):
        assert not layer.handshake()
        assert layer.interest() is Interest.READ
        assert theirs.recv(1000) == said
        theirs.sendall(answer)


def read(layer: TransportLayer, size: int = 100) -> bytes | None:
    buffer = bytearray(size)
    got = layer.read_into(memoryview(buffer))
    return None if got is None else bytes(buffer[:got])


def test_bytes_pass_through_the_proxy_in_both_directions(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    layer = through(ours)
    negotiate(layer, theirs)

    assert layer.handshake()
    assert layer.write([b"to the ", b"broker"]) == 13
    assert layer.flush()
    assert theirs.recv(100) == b"to the broker"
    assert read(layer) is None
    theirs.sendall(b"from the broker")
    assert read(layer) == b"from the broker"
    theirs.close()
    assert read(layer) == b""


def test_responses_may_arrive_byte_by_byte(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    layer = through(ours)
    for said, answer in zip(SAID, ANSWERS, strict=True):
        for byte in range(len(answer)):
            assert not layer.handshake()
            assert layer.interest() is Interest.READ
            if byte == 0:
                assert theirs.recv(1000) == said
            theirs.sendall(answer[byte : byte + 1])

    assert layer.handshake()


def test_bytes_after_the_response_are_kept_for_the_inner_layer(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    layer = through(ours)
    theirs.sendall(b"".join(ANSWERS) + b"from the broker")

    assert layer.handshake()
    assert theirs.recv(1000) == b"".join(SAID)
    assert read(layer) == b"from the broker"


def test_a_socket_that_takes_a_byte_at_a_time_is_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stingy = StingySocket(fileno=ours.detach())
    stingy.setblocking(False)
    layer = through(stingy)
    heard = b""
    for said, answer in zip(SAID, ANSWERS, strict=True):
        assert not layer.handshake()
        while not heard.endswith(said):
            heard += theirs.recv(1000)
        theirs.sendall(answer)

    assert layer.handshake()
    assert heard == b"".join(SAID)
    layer.close()


def test_a_full_socket_is_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += ours.send(bytes(10_000))
    layer = through(ours)

    assert not layer.handshake()
    assert layer.interest() is Interest.WRITE
    while full:
        full -= len(theirs.recv(full))
    assert not layer.handshake()
    assert layer.interest() is Interest.READ
    assert theirs.recv(1000) == HELLO


def test_the_inner_transport_gets_the_socket_and_broker_name_afterwards(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    inner = PromptingTransport()
    layer = through(ours, inner)
    negotiate(layer, theirs)

    assert inner.opened == []
    assert not layer.handshake()
    assert inner.opened == [(ours, "kafka", 9092)]


def test_the_inner_handshake_starts_after_that_of_the_proxy(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    layer = through(ours, PromptingTransport())
    negotiate(layer, theirs)

    assert not layer.handshake()
    assert theirs.recv(1000) == b"?"
    assert not layer.handshake()
    theirs.sendall(b"!")
    assert layer.handshake()
    assert layer.interest() is Interest.READ
    assert layer.may_read()
    assert not layer.flush()


@pytest.mark.parametrize("length", range(len(b"".join(ANSWERS))))
def test_a_proxy_that_closes_at_any_byte_is_a_clear_error(
    pair: tuple[socket.socket, socket.socket], length: int
) -> None:
    ours, theirs = pair
    layer = through(ours)
    theirs.sendall(b"".join(ANSWERS)[:length])
    theirs.shutdown(socket.SHUT_WR)

    with pytest.raises(
        ConnectionFailedError,
        match="the SOCKS5 proxy proxy:1080 closed the connection before its response was complete",
    ):
        layer.handshake()


def test_a_reset_by_the_proxy_is_not_blamed_on_the_broker(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    layer = through(ours)
    theirs.close()

    with pytest.raises(ConnectionFailedError, match="the connection to the SOCKS5 proxy proxy:1080 was lost") as caught:
        layer.handshake()

    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("answers", "error", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", ProtocolMismatchError, "does not speak SOCKS5"),
        (METHOD + b"\x01\x01", ConnectionFailedError, "refused the login"),
        (METHOD + WELCOME + b"\x05\x05", ConnectionFailedError, "the host refused the connection"),
    ],
)
def test_a_refusal_by_the_proxy_ends_the_connection(
    pair: tuple[socket.socket, socket.socket], answers: bytes, error: type[ConnectionFailedError], said: str
) -> None:
    ours, theirs = pair
    layer = through(ours)
    theirs.sendall(answers)

    with pytest.raises(error, match=said):
        layer.handshake()


def test_no_response_of_any_kind_blocks_or_breaks_the_layer() -> None:
    for seed in range(300):
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            layer = through(ours)
            begun_well = b"".join(ANSWERS)[: seed % 14]
            theirs.sendall(begun_well + random.Random(seed).randbytes(20))
            theirs.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionFailedError):
                layer.handshake()
            layer.close()


def test_an_invalid_name_never_gets_a_layer(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _theirs = pair
    transport = Socks5Transport(HostTarget("proxy", 1080), login=None, inner=PlaintextTransport())

    with pytest.raises(NameResolutionError):
        transport.open(ours, "a..b", 9092)


@pytest.mark.parametrize("negotiated", [False, True])
def test_close_reaches_the_peer_at_any_time_and_may_be_repeated(
    pair: tuple[socket.socket, socket.socket], negotiated: bool
) -> None:
    ours, theirs = pair
    layer = through(ours)
    if negotiated:
        negotiate(layer, theirs)
        assert layer.handshake()

    layer.close()
    layer.close()

    assert ours.fileno() == -1
    assert theirs.recv(1000) == b""
