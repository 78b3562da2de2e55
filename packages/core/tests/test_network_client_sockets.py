"""The network client over real sockets of this machine, against peers that break off, dribble, or say nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from ottla.errors import ConnectionFailedError, RequestTimeoutError
from ottla.interfaces import Buffer, Transport, TransportLayer
from ottla.network import Completion, NetworkClient, Request
from ottla.network.backoff import Backoff
from ottla.network.metadata import Metadata
from ottla.plugins.transports import SocketLayer
from ottla.protocol import METADATA, MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla_transport_plaintext import PlaintextTransport
from real_selector import HANG_GUARD, make_selector, reset
from wrong_peers import ScriptedBroker, serving, stays_silent

pytestmark = pytest.mark.unmeasured


class Client:
    """A network client with a selector of its own."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        request_timeout: float = HANG_GUARD,
        setup_timeout: float = HANG_GUARD,
        transport: Transport | None = None,
    ) -> None:
        selector = make_selector(transport=transport)
        quickly = Backoff(initial=0.001, maximum=0.001)
        self.metadata = Metadata(
            bootstrap=[address],
            max_age=300.0,
            max_idle=300.0,
            refresh_backoff=quickly,
            wake=selector.wakeup,
        )
        self.client = NetworkClient(
            selector=selector,
            metadata=self.metadata,
            client_id="test",
            max_in_flight=5,
            request_timeout=request_timeout,
            reconnect_backoff=quickly,
            setup_backoff=Backoff(initial=setup_timeout, maximum=setup_timeout, random=lambda: 0.5),
            clock=time.monotonic,
        )
        self.close = self.client.shutdown

    def until(self, happened: Callable[[], object]) -> None:
        """Polls until something holds."""
        deadline = time.monotonic() + HANG_GUARD
        while not happened():
            assert time.monotonic() < deadline, "it never happened"
            self.client.poll(0.2, time.monotonic())

    def connect(self, *nodes: int) -> None:
        """Polls until metadata is there and these brokers are ready."""
        self.until(lambda: not self.metadata.cluster.bootstrap)
        self.until(lambda: all([self.client.ready(node, time.monotonic()) for node in nodes]))

    def ask(self, node: int) -> list[Completion]:
        """Send a request; its completion will be in the list."""
        completions: list[Completion] = []
        request = Request(
            message=METADATA,
            body=lambda version: [METADATA.request(version).encode(MetadataRequest(topics=[]))],
            on_complete=completions.append,
        )
        self.client.send(node, request, time.monotonic())
        return completions


def cluster_of(count: int) -> Callable[[str, int], MetadataResponse]:
    """Metadata of so many brokers, all behind the one address that answers."""
    return lambda host, port: MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=host, port=port) for node in range(count)]
    )


class Budget:
    """A socket that is reset once so many bytes have gone through it, one way; what did is counted both ways."""

    def __init__(self, peer: socket.socket, *, incoming: int | None = None, outgoing: int | None = None) -> None:
        self._peer = peer
        self._left = {"incoming": incoming, "outgoing": outgoing}
        self.count = {"incoming": 0, "outgoing": 0}

    def recv(self, size: int) -> bytes:
        got = self._peer.recv(self._allowed("incoming", size))
        self._note("incoming", len(got))
        return got

    def sendall(self, content: bytes) -> None:
        while content:
            taken = self._allowed("outgoing", len(content))
            self._note("outgoing", taken)  # first: the client may see the bytes before the next line here
            self._peer.sendall(content[:taken])
            content = content[taken:]

    def getsockname(self) -> tuple[str, int]:
        return cast("tuple[str, int]", self._peer.getsockname())

    def close(self) -> None:
        self._peer.close()

    def _allowed(self, way: str, size: int) -> int:
        left = self._left[way]
        if left == 0:
            reset(self._peer)
            raise ConnectionResetError
        return size if left is None else min(size, left)

    def _note(self, way: str, size: int) -> None:
        self.count[way] += size
        left = self._left[way]
        if left is not None:
            self._left[way] = left - size


class CutBroker:
    """A broker whose next connection is reset after so many bytes; the ones after it are whole."""

    def __init__(self) -> None:
        self.cut: dict[str, int] = {}
        self.connections: list[Budget] = []
        self.talk = ScriptedBroker(metadata=cluster_of(1))

    def __call__(self, peer: socket.socket) -> None:
        cut, self.cut = self.cut, {}
        self.connections.append(Budget(peer, **cut))
        self.talk(cast("socket.socket", self.connections[-1]))


def connect_and_ask(address: tuple[str, int]) -> list[Completion]:
    """Everything a client does up to the answer to a request of ours."""
    with contextlib.closing(Client(address)) as client:
        client.connect(0)
        answers = client.ask(0)
        client.until(lambda: answers)
        return answers


@pytest.mark.rule("network.flight.once", "selector.close.reset")
@pytest.mark.parametrize("way", ["incoming", "outgoing"])
def test_a_reset_at_any_byte_of_connection_setup_is_one_failed_attempt(way: str) -> None:
    broker = CutBroker()
    with serving(broker) as address:
        with contextlib.closing(Client(address)) as client:
            client.connect(0)
        bytes_of_all = broker.connections[0].count[way]
        assert bytes_of_all > 50
        for cut in range(bytes_of_all):
            broker.cut = {way: cut}
            before = len(broker.connections)

            assert [answer.error for answer in connect_and_ask(address)] == [None]
            assert len(broker.connections) - before == 2  # the one that was cut, and another one


@pytest.mark.rule("network.flight.once")
def test_a_reset_in_the_middle_of_a_response_fails_its_request_once() -> None:
    broker = CutBroker()
    with serving(broker) as address, contextlib.closing(Client(address)) as client:
        client.connect(0)
        connection = broker.connections[-1]
        connection._left["outgoing"] = 20
        answers = client.ask(0)
        client.until(lambda: answers)
        client.connect(0)

        assert len(answers) == 1
        assert isinstance(answers[0].error, ConnectionFailedError)
        assert answers[0].written


@pytest.mark.rule("selector.send.partial", "selector.receive.whole")
def test_the_whole_exchange_works_with_a_layer_of_single_bytes() -> None:
    class OneByte(SocketLayer):
        def write(self, chunks: Sequence[Buffer]) -> int:
            return super().write([memoryview(chunks[0])[:1]])

        def read_into(self, buffer: memoryview) -> int | None:
            return super().read_into(buffer[:1])

    class Narrow(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
            return OneByte(sock)

    with (
        serving(ScriptedBroker(metadata=cluster_of(3))) as address,
        contextlib.closing(Client(address, transport=Narrow())) as client,
    ):
        client.connect(0, 1, 2)
        answers = [client.ask(node) for node in range(3)]
        client.until(lambda: all(answers))

        assert [answer[0].error for answer in answers] == [None] * 3


@pytest.mark.rule("selector.round.fair")
def test_two_hundred_brokers_are_connected_and_used_at_once() -> None:
    count = 200
    with (
        serving(ScriptedBroker(metadata=cluster_of(count))) as address,
        contextlib.closing(Client(address)) as client,
    ):
        client.connect(*range(count))
        answers = [client.ask(node) for node in range(count)]
        client.until(lambda: all(answers))

        assert {answer[0].error for answer in answers} == {None}
        assert [answer[0].node for answer in answers] == list(range(count))


class FallsSilent(ScriptedBroker):
    """A broker that from some moment on reads and never answers, as behind a cable that was pulled."""

    def __init__(self) -> None:
        super().__init__(metadata=cluster_of(1))
        self.silent, self.released = threading.Event(), threading.Event()

    def _answer(self, peer: socket.socket, key: int, version: int) -> bytes | None:
        if self.silent.is_set():
            self.released.wait(HANG_GUARD)
            return None
        return super()._answer(peer, key, version)


@pytest.mark.rule("network.flight.timeout")
def test_a_peer_that_becomes_silent_is_left_after_the_request_timeout() -> None:
    broker = FallsSilent()
    with serving(broker) as address, contextlib.closing(Client(address, request_timeout=0.3)) as client:
        client.connect(0)
        broker.silent.set()
        answers = client.ask(0)
        client.until(lambda: answers)
        broker.released.set()

        assert isinstance(answers[0].error, RequestTimeoutError)
        assert "within request.timeout.ms (0.3 s)" in str(answers[0].error)


@pytest.mark.rule("network.connect.setup")
def test_a_peer_that_never_responds_is_abandoned_after_the_setup_timeout() -> None:
    with serving(stays_silent) as address, contextlib.closing(Client(address, setup_timeout=0.2)) as client:
        client.until(lambda: client.metadata.last_error is not None)

        assert "socket.connection.setup.timeout.ms (the client was still asking for API versions)" in str(
            client.metadata.last_error
        )
