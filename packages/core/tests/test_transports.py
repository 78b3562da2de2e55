"""Layers for plugins to build on: a negotiation over any layer, in any pieces, then the bytes of the inner layer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pytest

from ottla.errors import ConnectionFailedError, InvalidPluginError, NameResolutionError
from ottla.interfaces import Buffer, HostTarget, Interest, Target, Transport, TransportLayer
from ottla.plugins.transports import Exchange, Negotiation, SocketLayer, TunnelLayer, open_layer
from ottla.plugins.transports.chain import TransportChain, UnchangedBytes
from ottla_testkit.conformance import PlainPeer, TransportConformance
from ottla_transport_plaintext import PlaintextTransport

HELLO, OK = b"HELLO\n", b"OK\n"

Pair = tuple[socket.socket, socket.socket]


def greeting(name: str = "") -> Negotiation:
    """A gateway that answers to HELLO with OK, then to a name with the same name."""
    received = yield Exchange(HELLO, len(OK))
    if received != OK:
        raise ConnectionFailedError("the gateway said no")
    if name:
        yield Exchange(name.encode(), len(name))


class Gateway:
    """A transport through a gateway, which may be reached over another layer. It says where it should connect to."""

    def __init__(self, inner: Transport, *, target: Target | HostTarget | None = None) -> None:
        self._inner = inner
        self._target = target

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget] | None:
        return None if self._target is None else [self._target]

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        return self.open_over(SocketLayer(sock), host, port)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        return TunnelLayer(
            lower,
            negotiation=greeting(f"{host}:{port}"),
            peer=f"the gateway to {host}:{port}",
            inner=self._inner,
            host=host,
            port=port,
        )


class GatewayPeer(PlainPeer):
    """The gateway, and the broker behind it."""

    name = b"kafka:9092"

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._turns = [(HELLO, OK), (self.name, self.name)]
        self._early = b""

    def advance(self) -> None:
        super().advance()
        while self._turns and self.received.startswith(self._turns[0][0]):
            said, answer = self._turns.pop(0)
            del self.received[: len(said)]
            super().write(answer if self._turns else answer + self._early)
            super().advance()

    def write(self, data: bytes) -> None:
        if self._turns:
            self._early += data
        else:
            super().write(data)


class TestTunnel(TransportConformance):
    """A tunnel keeps the whole contract, over a socket and over another layer."""

    host = "kafka"

    @pytest.fixture
    def transport(self) -> Gateway:
        return Gateway(PlaintextTransport())

    @pytest.fixture
    def peer(self) -> type[GatewayPeer]:
        return GatewayPeer


class TwoGatewaysPeer(GatewayPeer):
    """A gateway behind a gateway, and the broker behind both."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._turns = [(HELLO, OK), (b"second:1", b"second:1"), (HELLO, OK), (b"kafka:9092", b"kafka:9092")]


class TestChain(TransportConformance):
    """Two gateways in a row keep the whole contract."""

    host = "kafka"

    @pytest.fixture
    def transport(self) -> TransportChain:
        return chain()

    @pytest.fixture
    def peer(self) -> type[TwoGatewaysPeer]:
        return TwoGatewaysPeer


def chain() -> TransportChain:
    first = Gateway(UnchangedBytes(), target=HostTarget("first", 1))
    second = Gateway(UnchangedBytes(), target=HostTarget("second", 1))
    return TransportChain([first, second, PlaintextTransport()])


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Our end, not blocking, and the other, which waits for a second."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(1)
    yield ours, theirs
    ours.close()
    theirs.close()


def tunnel(lower: TransportLayer, inner: Transport | None = None) -> TunnelLayer:
    return TunnelLayer(
        lower,
        negotiation=greeting(),
        peer="the gateway",
        remedy="check its port",
        inner=inner or PlaintextTransport(),
        host="kafka",
        port=9092,
    )


class SocketsOnly(PlaintextTransport):
    """A transport without `open_over`, and the sockets that it was given."""

    open_over = None  # type: ignore[assignment]  # as if it were not there

    def __init__(self) -> None:
        self.given: list[tuple[socket.socket, str, int]] = []

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        self.given.append((sock, host, port))
        return super().open(sock, host, port)


class Wrapped(SocketLayer):
    """A layer that is more than a socket, though it adds nothing."""


def test_a_transport_over_a_bare_socket_gets_the_socket_itself(pair: Pair) -> None:
    transport = SocketsOnly()
    open_layer(transport, SocketLayer(pair[0]), "kafka", 9092)

    assert transport.given == [(pair[0], "kafka", 9092)]


def test_a_transport_for_sockets_only_is_refused_over_a_layer(pair: Pair) -> None:
    with pytest.raises(InvalidPluginError, match=r"SocketsOnly takes only a socket.*implement open_over"):
        open_layer(SocketsOnly(), Wrapped(pair[0]), "kafka", 9092)


def test_after_the_last_turn_the_inner_transport_gets_the_socket(pair: Pair) -> None:
    ours, theirs = pair
    inner = SocketsOnly()
    layer = tunnel(SocketLayer(ours), inner)
    theirs.sendall(OK + b"from the broker")

    assert layer.handshake()
    assert inner.given == [(ours, "kafka", 9092)]
    buffer = bytearray(100)
    assert layer.read_into(memoryview(buffer)) == 15
    assert buffer.startswith(b"from the broker")


def test_a_peer_that_closes_in_the_negotiation_is_an_error_that_names_it(pair: Pair) -> None:
    ours, theirs = pair
    layer = tunnel(SocketLayer(ours))
    theirs.sendall(OK[:1])
    theirs.shutdown(socket.SHUT_WR)

    said = "the gateway closed the connection before its response was complete; check its port"
    with pytest.raises(ConnectionFailedError, match=said):
        layer.handshake()


def test_a_connection_lost_in_the_negotiation_is_an_error_naming_the_peer(pair: Pair) -> None:
    class Lost(SocketLayer):
        def read_into(self, buffer: memoryview) -> int | None:
            raise ConnectionResetError("reset by peer")

    with pytest.raises(ConnectionFailedError, match="the connection to the gateway was lost: reset by peer"):
        tunnel(Lost(pair[0])).handshake()


def test_the_negotiation_waits_for_the_lower_layers_handshake_and_room(pair: Pair) -> None:
    class Slow(SocketLayer):
        shaken = flushed = False
        writable = 0

        def handshake(self) -> bool:
            return self.shaken

        def flush(self) -> bool:
            return self.flushed

        def interest(self) -> Interest:
            return Interest.NONE if self.shaken else Interest.READ

        def write(self, chunks: Sequence[Buffer]) -> int:
            return super().write([memoryview(chunks[0])[: self.writable]]) if self.writable else 0

    ours, theirs = pair
    lower = Slow(ours)
    layer = tunnel(lower)
    assert not layer.handshake()
    assert layer.interest() is Interest.READ
    lower.shaken = True
    assert not layer.handshake()
    assert layer.interest() is Interest.WRITE
    lower.writable = 2
    theirs.sendall(OK)

    assert not layer.handshake()
    assert theirs.recv(100) == HELLO
    lower.flushed = True
    assert layer.handshake()


@pytest.mark.parametrize("opened", [False, True])
def test_closing_a_tunnel_closes_what_is_below(pair: Pair, opened: bool) -> None:
    ours, theirs = pair
    layer = tunnel(SocketLayer(ours))
    if opened:
        theirs.sendall(OK)
        assert layer.handshake()

    layer.close()
    layer.close()

    assert ours.fileno() == -1


# Chains


def test_each_link_connects_to_where_the_next_one_wants_to_go(pair: Pair) -> None:
    ours, theirs = pair
    made = chain()
    assert made.targets("kafka", 9092) == [HostTarget("first", 1)]
    layer = made.open(ours, "kafka", 9092)
    for answer in (OK, b"second:1", OK, b"kafka:9092"):
        theirs.sendall(answer)

    assert layer.handshake()
    assert theirs.recv(100) == HELLO + b"second:1" + HELLO + b"kafka:9092"


def test_the_details_of_a_chain_name_its_proxies_from_near_to_far(pair: Pair) -> None:
    ours, theirs = pair
    layer = chain().open(ours, "kafka", 9092)
    theirs.sendall(OK + b"second:1" + OK + b"kafka:9092")
    assert layer.handshake()
    assert isinstance(layer, TunnelLayer)

    assert layer.details() == [("through", "the gateway to second:1"), ("through", "the gateway to kafka:9092")]
    assert layer.cipher() is None


@pytest.mark.parametrize("cipher", [("AES", "TLSv1.3"), None])
def test_the_cipher_of_a_tunnel_is_the_one_to_the_broker(pair: Pair, cipher: tuple[str, str] | None) -> None:
    class Inner(SocketLayer):
        def cipher(self) -> tuple[str, str] | None:
            return cipher

    ours, theirs = pair
    layer = chain().open(ours, "kafka", 9092)
    theirs.sendall(OK + b"second:1" + OK + b"kafka:9092")
    assert layer.handshake()
    assert isinstance(layer, TunnelLayer)
    layer._opened = Inner(ours)

    assert layer.cipher() == cipher


def test_a_link_without_targets_passes_the_next_ones_on() -> None:
    made = TransportChain([Gateway(UnchangedBytes()), Gateway(UnchangedBytes(), target=HostTarget("proxy", 3128))])

    assert made.targets("kafka", 9092) == [HostTarget("proxy", 3128)]
    assert TransportChain([Gateway(UnchangedBytes())] * 2).targets("kafka", 9092) == [HostTarget("kafka", 9092)]


def test_a_later_link_may_give_an_address_in_place_of_a_name() -> None:
    target = Target(socket.AF_INET6, ("::1", 3128, 0, 0))
    made = TransportChain([Gateway(UnchangedBytes()), Gateway(UnchangedBytes(), target=target)])

    assert made.targets("kafka", 9092) == [HostTarget("::1", 3128)]


def test_a_later_link_on_a_unix_socket_is_refused_with_the_reason() -> None:
    target = Target(socket.AF_UNIX, "/run/relay.sock")
    made = TransportChain([Gateway(UnchangedBytes()), Gateway(UnchangedBytes(), target=target)])

    with pytest.raises(NameResolutionError, match=r"only the first transport of connection\.via"):
        made.targets("kafka", 9092)
