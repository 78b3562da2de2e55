"""The fixtures of a transport's suite: its connections with a peer, whose bytes the suite moves."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from ottla.interfaces import SupportsOpenOver, Transport, TransportLayer, supports
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import has_ability
from ottla_testkit.conformance.harness.concurrent_calls import NotBackError
from ottla_testkit.conformance.harness.lower_layer import LowerLayer
from ottla_testkit.conformance.harness.peer import Peer
from ottla_testkit.conformance.harness.session import LayerSession
from ottla_testkit.conformance.harness.wire import Pair, Wire, tcp_pair

MakePeer = Callable[[socket.socket], Peer]
Begin = Callable[..., LayerSession]


class TransportConnections(BoundedSuite):
    """The base of the tests of a transport."""

    subject: ClassVar[str] = "transport"
    contract: ClassVar[type] = Transport
    host = "localhost"
    """Host name of the broker that the layers are opened for."""
    port = 9092
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call fails as blocking, and an exchange as stuck."""
    over_layers: ClassVar[bool] = True
    """Whether connections are also opened over other layers; False if the transport has no `open_over`."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each case over sockets, and over layers too."""
        if "begin" in metafunc.fixturenames:
            metafunc.parametrize("begin", ["socket", "layer"] if self.over_layers else ["socket"], indirect=True)

    @pytest.fixture
    def transport(self) -> Transport:
        """The transport under test."""
        raise NotImplementedError("give a fixture `transport` that returns your Transport")

    @pytest.fixture
    def peer(self) -> MakePeer:
        """A function that makes the peer of one connection, on a non-blocking socket."""
        raise NotImplementedError("give a fixture `peer` that returns a callable: a socket to a Peer")

    def socket_pair(self) -> Pair:
        """Two connected sockets of the kind that the transport gets."""
        return tcp_pair()

    @pytest.fixture
    def begin(self, request: pytest.FixtureRequest, transport: Transport, peer: MakePeer) -> Iterator[Begin]:
        """Open connections whose handshake has not begun: over sockets, and over layers if the transport can."""
        over_layer = request.param == "layer"
        if over_layer and not has_ability(transport, SupportsOpenOver):
            pytest.skip(
                "optional: the plugin has no open_over (SupportsOpenOver); over_layers = False leaves these cases out"
            )
        begun: list[LayerSession] = []

        def open_layer(sock: socket.socket, always_may_read: bool) -> TransportLayer:
            if over_layer and supports(transport, SupportsOpenOver):
                layer = transport.open_over(LowerLayer(sock, always_may_read=always_may_read), self.host, self.port)
            else:
                layer = transport.open(sock, self.host, self.port)
            check_contract(layer, TransportLayer, made_by="open_over()" if over_layer else "open()")
            return layer

        def begin(
            *, large_buffers: bool = False, always_may_read: bool = False, by: MakePeer | None = None
        ) -> LayerSession:
            wire = Wire(self.socket_pair, large_buffers=large_buffers)
            try:
                layer = open_layer(wire.layer_end, always_may_read)
            except BaseException:
                wire.close()
                raise
            session = LayerSession(layer=layer, wire=wire, peer=(by or peer)(wire.peer_end), timeout=self.timeout)
            begun.append(session)
            return session

        yield begin
        try:
            with contextlib.ExitStack() as stack:
                for session in begun:
                    stack.callback(session.abandon if self.usage.stopped_by or session.layer.running else session.close)
        except NotBackError as error:
            self.usage.stopped_by = str(error)
            raise
