"""The faults of a simulated network, each as its client sees it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from ottla.errors import ConnectionFailedError
from ottla.interfaces import Target
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import (
    Chance,
    KnownResponse,
    LinkConditions,
    Session,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedNetwork,
)

REQUEST = b"\0\0\0\7request"


@attrs.define(kw_only=True, slots=False)
class Echo(SimulatedBroker):
    """A broker that answers what it was asked."""

    asked: list[tuple[float, bytes]] = attrs.field(factory=list)

    def respond(self, session: Session, frame: bytes, now: float) -> KnownResponse:
        self.asked.append((now, frame))
        return KnownResponse(frame)


class ConnectedClient:
    """A client with one connection, which a poll has reported as ready."""

    def __init__(self, wire: LinkConditions | None = None, *, seed: int = 1) -> None:
        self.clock = ManualClock()
        cluster = SimulatedCluster()
        self.broker = Echo(cluster=cluster, id=1)
        cluster.brokers = {1: self.broker}
        self.network = SimulatedNetwork(cluster, self.clock, seed=seed)
        self.network.wire = wire or LinkConditions()
        self.received: list[tuple[float, bytes]] = []

    def connect(self) -> None:
        self.network.connect(1, Target(0, "broker-1"), "broker-1", 9092)
        self.until(lambda: self.network.connected)

    def until(self, happened: Callable[[], object], *, at_most: int = 1_000) -> None:
        for _ in range(at_most):
            self.poll()
            if happened():
                return
        raise AssertionError("it has not happened")

    def poll(self, timeout: float = 60.0) -> None:
        self.network.poll(timeout)
        self.received += [(self.clock(), bytes(answer)) for _node, answer in self.network.received]

    def send(self) -> bool:
        return self.network.send(1, [REQUEST])


def connected_client(wire: LinkConditions | None = None, *, seed: int = 1) -> ConnectedClient:
    client = ConnectedClient(wire, seed=seed)
    client.connect()
    return client


def test_a_connection_takes_a_round_trip_and_a_request_half_of_it() -> None:
    client = connected_client(LinkConditions(round_trip=0.1, setup=0.05))
    assert client.clock() == pytest.approx(0.15)

    client.send()
    client.until(lambda: client.received)

    [(asked_at, _frame)], [(received_at, answer)] = client.broker.asked, client.received
    assert asked_at == pytest.approx(0.2)
    assert received_at == pytest.approx(0.25)
    assert answer == b"request"


def test_several_requests_are_in_flight_at_once() -> None:
    client = connected_client(LinkConditions(round_trip=0.1))
    began = client.clock()
    for _ in range(5):
        assert client.send()

    client.until(lambda: len(client.received) == 5)

    assert client.clock() == pytest.approx(began + 0.1)


def test_jitter_keeps_the_order_of_a_connection() -> None:
    client = connected_client(LinkConditions(round_trip=0.01, jitter=0.1))
    for number in range(20):
        assert client.network.send(1, [b"\0\0\0\1", bytes([number])])

    client.until(lambda: len(client.received) == 20)

    assert [body for _at, body in client.received] == [bytes([number]) for number in range(20)]
    assert len({at for at, _frame in client.broker.asked}) > 1


def test_a_script_sets_how_many_bytes_a_write_takes() -> None:
    client = connected_client()
    client.network.takes.extend([3, 0, 4])

    assert not client.send()
    story = []
    for _ in range(3):
        client.poll(0.0)
        story.append(list(client.network.sent))

    assert story == [[], [], [1]]
    client.until(lambda: client.received)


def test_a_random_write_takes_all_bytes_some_or_none() -> None:
    client = connected_client(LinkConditions(partial_writes=0.3, nothing=0.3))
    at_once = 0
    for _ in range(50):
        if client.send():
            at_once += 1
        else:
            client.until(lambda: client.network.sent)

    assert 10 < at_once < 40
    client.until(lambda: len(client.received) == 50)


def test_a_full_buffer_takes_more_when_the_broker_has_acknowledged() -> None:
    client = connected_client(LinkConditions(round_trip=0.1, buffer=len(REQUEST)))
    began = client.clock()
    assert client.send()
    assert not client.send()

    client.until(lambda: client.network.sent)

    assert client.clock() == pytest.approx(began + 0.1)


def test_a_response_in_pieces_arrives_with_its_last_piece() -> None:
    client = connected_client(LinkConditions(round_trip=0.01, jitter=0.1, pieces=1.0))
    polls = 0
    for number in range(1, 11):
        client.send()
        while len(client.received) < number:
            client.poll()
            polls += 1

    assert polls > 10  # a piece ends a wait, too
    assert [answer for _at, answer in client.received] == 10 * [b"request"]


@pytest.mark.parametrize(("out", "back", "asked"), [(True, True, 0), (True, False, 0), (False, True, 1)])
def test_bytes_on_a_half_open_connection_vanish_silently(out: bool, back: bool, asked: int) -> None:
    client = connected_client()
    client.network.half_open(1, out=out, back=back)

    assert client.send()
    client.poll(30.0)

    assert len(client.broker.asked) == asked
    assert (client.received, client.network.disconnected) == ([], {})
    assert client.clock() == 30.0


def test_a_frozen_broker_accepts_connections_and_resumes_with_them() -> None:
    client = ConnectedClient()
    client.network.freeze(1)
    client.connect()
    client.send()
    client.poll(5.0)
    assert not client.broker.asked

    client.network.thaw(1)
    client.until(lambda: client.received)

    assert client.broker.asked == [(5.0, b"request")]


def test_a_frozen_broker_reads_later_what_was_sent_before_a_close() -> None:
    client = connected_client()
    client.network.freeze(1)
    client.send()
    client.poll(1.0)
    client.network.close(1, ConnectionFailedError("no response within a second"))
    client.until(lambda: client.network.disconnected)
    assert not client.broker.asked

    client.network.thaw(1)
    client.poll(1.0)

    assert [request for _at, request in client.broker.asked] == [b"request"]


def test_a_reset_within_a_request_means_that_no_broker_received_it() -> None:
    client = connected_client(LinkConditions(round_trip=0.1))
    client.network.takes.append(5)
    assert not client.send()

    client.network.cut(1)
    client.until(lambda: client.network.disconnected)
    client.poll(1.0)

    assert not client.broker.asked


def test_data_written_before_a_close_arrives() -> None:
    client = connected_client(LinkConditions(round_trip=0.1))
    client.send()
    client.network.close(1, ConnectionFailedError("enough"))
    client.poll()
    client.poll(1.0)

    assert len(client.broker.asked) == 1
    assert not client.received


def test_a_broker_closes_an_idle_connection() -> None:
    client = ConnectedClient()
    client.network.hosts.broker_idle = 10.0
    client.connect()
    client.poll(4.0)
    client.send()
    client.until(lambda: client.received)

    client.until(lambda: client.network.disconnected)

    assert client.clock() == 14.0


def test_a_slow_name_is_resolved_after_its_delay() -> None:
    client = ConnectedClient()
    client.network.names.seconds["broker-1"] = 3.0

    assert client.network.resolve("broker-1", 9092) is None
    client.poll()
    assert client.clock() == 3.0
    assert client.network.resolve("broker-1", 9092)


def test_a_client_that_polls_endlessly_is_a_failure() -> None:
    client = connected_client()

    def spin() -> None:
        for _ in range(100_000):
            client.poll(0.0)

    with pytest.raises(AssertionError, match="the client spins"):
        spin()


def test_random_numbers_are_the_same_in_every_python_version() -> None:
    chance = Chance(42)

    assert [chance.randrange(1_000) for _ in range(5)] == [291, 858, 764, 250, 62]
    assert chance.random() == 0.21840519371218436


def test_drawing_from_a_fork_does_not_change_its_origin() -> None:
    one, other = Chance(7), Chance(7)
    fork = one.fork()
    other.fork()
    for _ in range(10):
        fork.random()

    assert one.random() == other.random()
