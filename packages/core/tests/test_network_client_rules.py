"""The rules of the network client, on a simulated network: who is ready, who is asked, what an answer may do."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import histories
from machine import Machine
from ottla.errors import (
    ConnectionFailedError,
    ConnectionRetiredError,
    ErrorCode,
    OttlaError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from ottla.interfaces import Target
from ottla.network import Completion, Request
from ottla.network.backoff import Backoff
from ottla.network.cluster import Broker
from ottla.network.connection import SLOW_AFTER, Connection
from ottla.network.connection_stage import Stage
from ottla.network.connections import Connections
from ottla.network.metadata_messages import read_response
from ottla.network.selector_interface import Address
from ottla.network.topic_ids import CheckResult
from ottla.protocol import (
    METADATA,
    PRODUCE,
    FinalizedFeatureKey,
    Message,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    ProduceRequest,
)
from ottla.results.stories import WaitKind
from ottla_testkit.simulation import KnownResponse, SimulatedCluster


def machine_of(*brokers: int, **settings: float) -> Machine:
    return Machine(SimulatedCluster.of(*brokers), **settings)  # type: ignore[arg-type]  # every setting is a number


def until(machine: Machine, happened: Callable[[], object]) -> None:
    """Polls until something holds."""
    for _ in range(200):
        if happened():
            return
        machine.client.poll(0.1, machine.clock())
    raise AssertionError("a thousand polls, and it has not happened")


def ready(machine: Machine, *nodes: int) -> Machine:
    """The same machine, with these brokers connected and its metadata young."""
    until(machine, lambda: not machine.metadata.cluster.bootstrap)
    until(machine, lambda: all(machine.client.ready(node, machine.clock()) for node in nodes or (1,)))
    return machine


def question(completions: list[Completion]) -> Request:
    return Request(
        message=METADATA,
        body=lambda version: [METADATA.request(version).encode(MetadataRequest(topics=[]))],
        on_complete=completions.append,
    )


def ask(machine: Machine, node: int = 1) -> list[Completion]:
    """Send a request; its completion will be in the list."""
    completions: list[Completion] = []
    machine.client.send(node, question(completions), machine.clock())
    return completions


def stage(machine: Machine, node: int) -> Stage:
    return machine.client._connections[node].stage


def asked_for_metadata(machine: Machine, node: int = 1) -> int:
    return [name for name, _version in machine.cluster.brokers[node].requests].count("Metadata")


class Tries:
    """Each connect that the client begins: when, for which node, at which address."""

    def __init__(self, machine: Machine) -> None:
        self.seen: list[tuple[float, int, object]] = []
        self._clock = machine.clock
        self._connect = machine.network.connect
        machine.network.connect = self.connect  # type: ignore[method-assign]  # to look on

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        self.seen.append((self._clock(), node, target.sockaddr))
        self._connect(node, target, host, port)

    @property
    def addresses(self) -> list[object]:
        return [address for _at, _node, address in self.seen]

    @property
    def pauses(self) -> list[float]:
        return [round(b[0] - a[0], 3) for a, b in itertools.pairwise(self.seen)]


# Who is ready


@pytest.mark.rule("network.ready.connects")
def test_ready_starts_one_connection_and_only_after_its_backoff() -> None:
    machine = ready(machine_of(1, 2))
    tries = Tries(machine)
    for _ in range(3):
        assert not machine.client.ready(2, machine.clock())
    assert [node for _at, node, _address in tries.seen] == [2]

    until(machine, lambda: stage(machine, 2) is Stage.READY)
    machine.network.hosts.refusing.add("broker-2")
    machine.network.cut(2)
    machine.client.poll(0.0, machine.clock())
    assert stage(machine, 2) is Stage.DISCONNECTED
    machine.client.ready(2, machine.clock())

    assert len(tries.seen) == 1
    assert machine.client.ready_at(2, machine.clock()) == pytest.approx(machine.clock() + 0.05)


@pytest.mark.rule("network.ready.all")
def test_a_broker_outside_of_the_cluster_is_never_ready() -> None:
    assert not ready(machine_of(1)).client.ready(9, 0.0)


@pytest.mark.rule("network.flight.bug")
def test_a_request_to_a_broker_that_is_not_ready_is_a_programming_error() -> None:
    machine = ready(machine_of(1))
    machine.network.takes.append(0)
    ask(machine)  # and it is not written

    with pytest.raises(AssertionError, match="requests are sent to ready brokers only"):
        ask(machine)


@pytest.mark.rule("network.throttle")
def test_a_throttled_broker_is_not_ready_and_throttle_times_never_shrink() -> None:
    machine = ready(machine_of(1))
    machine.cluster.create("t", 1)
    connection = machine.client._connections[1]
    machine.cluster.brokers[1].throttle_ms = 2_000
    first = produce_nothing(machine)
    until(machine, lambda: first)
    ends = connection.throttled_until
    assert first[0].throttled_until == ends == pytest.approx(machine.clock() + 2.0, abs=0.2)

    connection.throttled_until = float("-inf")
    machine.cluster.brokers[1].throttle_ms = 500
    second = produce_nothing(machine)  # as if it had left before the first was answered
    connection.throttled_until = ends
    until(machine, lambda: second)

    assert connection.throttled_until == ends
    assert not machine.client.ready(1, machine.clock())
    assert machine.client.ready_at(1, machine.clock()) == ends
    assert machine.client.ready(1, ends)


def produce_nothing(machine: Machine, *, node: int = 1) -> list[Completion]:
    """Send an empty Produce request: its answer has the throttle time."""
    completions: list[Completion] = []
    request = Request(
        message=PRODUCE,
        body=lambda version: [PRODUCE.request(version).encode(ProduceRequest(acks=-1))],
        on_complete=completions.append,
    )
    machine.client.send(node, request, machine.clock())
    return completions


# Connecting


@pytest.mark.rule("network.connect.addresses")
def test_each_attempt_takes_the_next_address_and_then_resolves_again() -> None:
    machine = machine_of(1)
    machine.network.hosts.refusing.add("seed")
    asked: list[str] = []

    def resolve(host: str, port: int, *, canonical: bool = False) -> Sequence[Address]:
        asked.append(host)
        return [Address(host=host, target=Target(0, f"{host}-{n}")) for n in range(3)]

    machine.network.resolve = resolve  # type: ignore[method-assign]  # a name with three addresses
    tries = Tries(machine)
    until(machine, lambda: len(tries.seen) == 7)

    assert tries.addresses == ["seed-0", "seed-1", "seed-2"] * 2 + ["seed-0"]
    assert asked == ["seed"] * 3


@pytest.mark.rule("network.connect.addresses", "network.connect.reset")
def test_a_success_resets_the_address_and_the_backoff() -> None:
    machine = machine_of(1, 2)
    machine.network.resolve = lambda host, port, canonical=False: [  # type: ignore[method-assign, misc]
        Address(host=host, target=Target(0, f"{host}-{n}")) for n in range(2)
    ]
    ready(machine, 1, 2)
    tries = Tries(machine)
    machine.network.hosts.refusing.add("broker-1")
    lose(machine, 1)
    until(machine, lambda: machine.client.ready(1, machine.clock()) or tries.addresses.count("broker-1-1") == 3)
    machine.network.hosts.refusing.clear()
    until(machine, lambda: machine.client.ready(1, machine.clock()))
    answers = ask(machine)
    until(machine, lambda: answers)
    tries.seen.clear()
    lose(machine, 1)
    lost_at = machine.clock()
    until(machine, lambda: machine.client.ready(1, machine.clock()))

    assert tries.addresses == ["broker-1-0"]
    assert tries.seen[0][0] - lost_at <= 0.2


def lose(machine: Machine, node: int) -> None:
    """Cut the connection to a broker, and let the client learn of it."""
    machine.network.cut(node)
    machine.client.poll(0.0, machine.clock())
    assert stage(machine, node) is Stage.DISCONNECTED


@pytest.mark.rule("network.connect.backoff")
def test_backoff_doubles_up_to_its_maximum_with_20_percent_jitter() -> None:
    for drawn in (0.0, 0.5, 0.999):
        backoff = Backoff(initial=0.05, maximum=1.0, random=lambda drawn=drawn: drawn)  # type: ignore[misc]
        factor = 0.8 + 0.4 * drawn
        expected = [min(0.05 * 2**n, 1.0) * factor for n in range(8)]
        assert [backoff.delay(n) for n in range(8)] == pytest.approx(expected)
    assert Backoff(initial=0.05, maximum=1.0).delay(10**6) <= 1.2


@pytest.mark.rule("network.connect.setup")
def test_the_setup_timeout_grows_after_each_failure_up_to_a_limit() -> None:
    machine = machine_of(1)
    machine.client._opener._setup_backoff = Backoff(initial=10.0, maximum=30.0, random=lambda: 0.5)
    machine.network.hosts.black_holes.add("seed")
    tries = Tries(machine)
    while len(tries.seen) < 5:
        machine.client.poll(60.0, machine.clock())

    assert [round(pause - backoff) for pause, backoff in zip(tries.pauses, (0.05, 0.1, 0.2, 0.4), strict=True)] == [
        10,
        20,
        30,
        30,
    ]


@pytest.mark.rule("network.connect.setup")
def test_a_lost_connection_does_not_lengthen_the_setup_timeout() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    machine.client._opener._setup_backoff = Backoff(initial=10.0, maximum=30.0, random=lambda: 0.5)
    machine.network.hosts.black_holes.add("broker-2")
    produce_nothing(machine, node=2)
    lose(machine, 2)
    lost_at = machine.clock()
    until(machine, lambda: machine.client.ready(2, machine.clock()) or machine.client._connections[2].failures == 2)

    assert machine.clock() - lost_at == pytest.approx(10.0, abs=1.0)


@pytest.mark.rule("network.connect.setup")
def test_the_setup_timeout_includes_apiversions() -> None:
    machine = machine_of(1, setup_timeout=10.0, request_timeout=60.0)
    machine.cluster.brokers[1].silent = True
    while machine.metadata.last_error is None:
        machine.client.poll(60.0, machine.clock())

    assert machine.clock() == pytest.approx(10.0)
    assert "asking for API versions" in str(machine.metadata.last_error)
    assert "it may be frozen, or not be a Kafka broker" in str(machine.metadata.last_error)


@pytest.mark.rule("network.connect.moved")
def test_a_broker_that_moved_to_another_host_loses_its_old_state() -> None:
    machine = ready(machine_of(1, 2), 1)
    machine.network.hosts.refusing.add("broker-2")
    machine.client.ready(2, machine.clock())
    until(machine, lambda: machine.client._connections[2].failures)
    tries = Tries(machine)

    moved = Broker(id=2, host="broker-1", port=9092)
    machine.metadata.update({**machine.metadata.cluster.brokers, 2: moved}, {}, machine.clock())
    machine.client.ready(2, machine.clock())

    assert tries.seen == [(machine.clock(), 2, "broker-1")]
    assert machine.client._connections[2].failures == 0


@pytest.mark.rule("network.connect.moved")
def test_a_broker_that_moved_while_connected_is_used_at_its_new_address() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    machine.cluster.create("t", 1)
    machine.metadata.use("t", machine.clock())
    until(machine, lambda: "t" in machine.metadata.cluster.topics)
    tries = Tries(machine)

    machine.metadata.move_leader("t", 0, Broker(id=1, host="broker-2", port=9092), 7, machine.clock())
    assert not machine.client.ready(1, machine.clock())
    until(machine, lambda: machine.client.ready(1, machine.clock()))

    assert tries.addresses == ["broker-2"]


@pytest.mark.rule("network.connect.resolves")
def test_a_failed_socket_creation_is_a_failed_attempt(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(1)
    connect = machine.network.connect

    def refuse(node: int, target: Target, host: str, port: int) -> None:
        raise ConnectionFailedError("could not connect to seed:9092: no socket: Too many open files")

    machine.network.connect = refuse  # type: ignore[method-assign]  # as when the process may open no more files
    machine.client.poll(0.1, machine.clock())
    machine.network.connect = connect  # type: ignore[method-assign]
    ready(machine)

    assert "Too many open files" in caplog.text


# Versions


def test_a_request_that_cannot_be_sent_waits_for_no_event() -> None:
    machine = ready(machine_of(1))
    machine.network.awaits_events = True
    del machine.client._connections[1].versions[PRODUCE.key]
    completions = produce_nothing(machine)
    assert not machine.client.awaits_events

    machine.client.poll(0.0, machine.clock())
    assert len(completions) == 1
    assert machine.client.awaits_events


@pytest.mark.rule("network.version.none")
def test_a_request_that_the_broker_does_not_support_is_not_sent() -> None:
    machine = ready(machine_of(1))
    del machine.client._connections[1].versions[PRODUCE.key]
    completions = produce_nothing(machine)
    machine.client.poll(0.0, machine.clock())

    assert isinstance(completions[0].error, UnsupportedVersionError)
    assert not completions[0].written
    assert "does not offer Produce" in str(completions[0].error)


@pytest.mark.rule("sender.expire.arrived")
def test_responses_are_read_behind_a_request_that_was_not_sent() -> None:
    """A poll that completes such a request reads nothing."""
    machine = ready(machine_of(1))
    machine.client.poll(0.0, machine.clock())  # so that the last poll has read nothing
    written = [produce_nothing(machine) for _ in range(2)]
    del machine.client._connections[1].versions[PRODUCE.key]
    unsupported = produce_nothing(machine)
    machine.client.read_responses(machine.clock())

    assert [len(completions) for completions in (*written, unsupported)] == [1, 1, 1]
    assert all(completions[0].response is not None for completions in written)


def test_records_wait_for_a_connection_whose_cluster_is_being_checked() -> None:
    machine = ready(machine_of(1))
    assert machine.client.obstacles.waits_for(1, machine.clock()) is None

    machine.client._connections[1].unchecked = True

    assert machine.client.obstacles.waits_for(1, machine.clock()) == (WaitKind.CONNECTION, "1")


@pytest.mark.parametrize("result", [CheckResult.SAME, CheckResult.LEARNED])
def test_a_connection_takes_records_once_its_topics_are_known(result: CheckResult) -> None:
    machine = ready(machine_of(1))
    connection = machine.client._connections[1]
    connection.unchecked = True

    machine.client._opener.cluster_check._act_on(connection, ["t"], result, machine.clock())

    assert machine.client.ready(1, machine.clock(), for_records=True)


@pytest.mark.rule("network.version.none")
@pytest.mark.parametrize("offered", [(90, 99), (9, 3), (-5, -1)])
def test_a_version_range_without_overlap_is_reported(offered: tuple[int, int]) -> None:
    machine = ready(machine_of(1))
    machine.client._connections[1].versions[PRODUCE.key] = offered
    completions = produce_nothing(machine)
    machine.client.poll(0.0, machine.clock())

    assert isinstance(completions[0].error, UnsupportedVersionError)
    assert f"the broker takes {offered[0]} to {offered[1]}" in str(completions[0].error)


@pytest.mark.rule("network.version.fallback")
def test_a_response_before_the_first_request_is_written_is_a_violation() -> None:
    machine = machine_of(1)
    network = machine.network
    network.takes.extend([10, 0])
    until(machine, lambda: network.connected)
    network.link(-1).answer((1).to_bytes(4, "big") + b"\0\x23\0\0\0\0")
    machine.client.poll(0.0, machine.clock())

    assert machine.client._connections[-1].closing


@pytest.mark.rule("network.version.features")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_older_finalized_features_change_nothing(order: tuple[int, int]) -> None:
    machine = machine_of(1, 2, 3)
    answers = {node: (epoch, level) for node, (epoch, level) in zip(order, ((7, 1), (8, 2)), strict=True)}
    for node, (epoch, level) in answers.items():
        broker = machine.cluster.brokers[node]
        answer = broker._api_versions()
        levels = [FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)]
        reported = attrs.evolve(answer, finalized_features_epoch=epoch, finalized_features=levels)
        broker._api_versions = functools.partial(lambda each: each, reported)  # type: ignore[method-assign]
    machine.cluster.seed = 3
    machine.cluster.features_epoch = 1
    ready(machine, 1)
    ready(machine, 2)

    assert (machine.client.features.epoch, machine.client.features.levels) == (8, {"transaction.version": 2})


@pytest.mark.rule("network.version.highest")
@pytest.mark.parametrize("message", [METADATA, PRODUCE])
def test_a_garbled_range_of_versions_is_not_believed(message: Message[Any, Any]) -> None:
    machine = machine_of(1)
    offered = machine.cluster.brokers[1].versions
    right, offered[message.key] = offered[message.key], (13, 0)
    for _ in range(20):
        machine.client.poll(0.1, machine.clock())
    assert machine.metadata.cluster.bootstrap

    offered[message.key] = right
    until(machine, lambda: machine.client.ready(1, machine.clock()))


# In flight


@pytest.mark.rule("network.flight.fifo")
@pytest.mark.parametrize(
    ("unexpected", "reported"),
    [
        (b"", "unreadable"),
        (b"\0", "unreadable"),
        (b"\0\0\0\1\0", "was expected"),
        (b"\xff" * 300, "unreadable"),
    ],
)
def test_a_frame_that_belongs_to_no_request_closes_the_connection(unexpected: bytes, reported: str) -> None:
    machine = ready(machine_of(1))
    machine.cluster.brokers[1].answer = lambda frame: KnownResponse(unexpected)  # type: ignore[method-assign]  # hostile
    completions = ask(machine)
    until(machine, lambda: completions)

    assert isinstance(completions[0].error, ConnectionFailedError)
    assert reported in str(completions[0].error)
    assert stage(machine, 1) is Stage.DISCONNECTED


@pytest.mark.rule("network.flight.fifo")
def test_an_unsolicited_response_closes_the_connection() -> None:
    machine = ready(machine_of(1))
    machine.network.link(1).answer(b"\0\0\0\1")
    until(machine, lambda: stage(machine, 1) is Stage.DISCONNECTED)

    assert "a response without a request" in str(machine.client._connections[1].last_failure)


@pytest.mark.rule("network.lost.order", "network.flight.once")
def test_requests_in_flight_on_a_lost_connection_fail_once_in_order() -> None:
    machine = ready(machine_of(1))
    machine.cluster.brokers[1].silent = True
    order: list[int] = []
    errors: list[OttlaError | None] = []

    def note(number: int) -> Callable[[Completion], None]:
        def take(completion: Completion) -> None:
            order.append(number)
            errors.append(completion.error)

        return take

    for number in range(4):
        request = question([])
        request = Request(message=request.message, body=request.body, on_complete=note(number))
        machine.client.send(1, request, machine.clock())
        machine.client.poll(0.0, machine.clock())
    machine.network.cut(1)
    until(machine, lambda: order)
    for _ in range(5):
        machine.client.poll(0.0, machine.clock())

    assert order == [0, 1, 2, 3]
    assert all(isinstance(error, ConnectionFailedError) for error in errors)


@pytest.mark.rule("network.flight.timeout")
def test_earlier_responses_do_not_prolong_the_timeout_of_a_later_request() -> None:
    machine = ready(machine_of(1, request_timeout=3.0))
    ask(machine)
    machine.client.poll(0.0, machine.clock())
    machine.cluster.brokers[1].silent = True
    machine.clock.advance(1.0)
    late = ask(machine)
    started = machine.clock()
    until(machine, lambda: late)

    assert machine.clock() - started == pytest.approx(3.0, abs=0.15)
    assert isinstance(late[0].error, RequestTimeoutError)


# The choice of a broker


def connections_of(**stages: tuple[Stage, int]) -> tuple[Connections, list[Broker]]:
    """Connections to brokers with these stages and so many requests in flight; broker a is 0, b is 1."""
    connections = Connections(max_in_flight=5, chance=Random(1))
    brokers = []
    for number, (stage_of, in_flight) in enumerate(stages.values()):
        broker = Broker(id=number, host=f"broker-{number}", port=9092)
        brokers.append(broker)
        connection = connections.of(broker)
        connection.stage, connection.began_at = stage_of, 0.0
        connection.in_flight.extend([SimpleNamespace(sent_at=0.0)] * in_flight)  # type: ignore[list-item]
    return connections, brokers


def chosen(
    connections: Connections, brokers: Sequence[Broker], now: float = 0.0, *, doubted: int | None = None
) -> set[int]:
    """The brokers that are chosen in fifty tries."""
    picks: list[Connection | None] = [connections.least_loaded(brokers, now, doubted=doubted) for _ in range(50)]
    return {pick.broker.id for pick in picks if pick is not None}


@pytest.mark.rule("network.least-loaded")
def test_the_metadata_broker_is_idle_or_least_busy_or_connecting_or_new() -> None:
    full, idle, busy, busier = (Stage.READY, 5), (Stage.READY, 0), (Stage.READY, 2), (Stage.READY, 3)
    coming, new = (Stage.CONNECTING, 0), (Stage.DISCONNECTED, 0)

    assert chosen(*connections_of(a=full, b=idle, c=busy, d=coming, e=new)) == {1}
    assert chosen(*connections_of(a=full, b=busier, c=busy, d=coming, e=new)) == {2}
    assert chosen(*connections_of(a=full, b=new, c=coming, d=new)) == {2}
    assert chosen(*connections_of(a=full, b=new)) == {1}
    assert chosen(*connections_of(a=full)) == set()


@pytest.mark.rule("network.least-loaded.slow")
def test_a_broker_that_does_not_answer_is_the_last_choice() -> None:
    coming, new, negotiating = (Stage.CONNECTING, 0), (Stage.DISCONNECTED, 0), (Stage.NEGOTIATING, 0)

    assert chosen(*connections_of(a=coming, b=new), now=SLOW_AFTER - 0.1) == {0}
    assert chosen(*connections_of(a=coming, b=new), now=SLOW_AFTER) == {1}
    assert chosen(*connections_of(a=coming, b=negotiating, c=new), now=SLOW_AFTER) == {1}
    assert chosen(*connections_of(a=coming, b=coming, c=coming, d=new), now=SLOW_AFTER) == {0, 1, 2}


@pytest.mark.rule("producer.transactions.elsewhere")
def test_a_doubted_broker_is_chosen_before_an_unresponsive_one() -> None:
    coming, new, idle, busy = (Stage.CONNECTING, 0), (Stage.DISCONNECTED, 0), (Stage.READY, 0), (Stage.READY, 2)
    full = (Stage.READY, 5)

    assert chosen(*connections_of(a=idle, b=busy), doubted=0) == {1}
    assert chosen(*connections_of(a=idle, b=new), doubted=0) == {1}
    assert chosen(*connections_of(a=new, b=coming), doubted=0) == {1}
    assert chosen(*connections_of(a=idle, b=coming), doubted=0, now=SLOW_AFTER) == {0}
    assert chosen(*connections_of(a=idle), doubted=0) == {0}
    assert chosen(*connections_of(a=idle, b=full), doubted=0) == {1}
    assert chosen(*connections_of(a=idle, b=full, c=new), doubted=0) == {2}
    assert chosen(*connections_of(a=idle, b=full), doubted=0, now=SLOW_AFTER) == {0}
    assert chosen(*connections_of(a=idle, b=full, c=coming), doubted=0) == {2}
    closing = connections_of(a=idle, b=full)
    closing[0][1].reason = ConnectionFailedError("not needed any more")
    assert chosen(*closing, doubted=0) == {0}
    several = connections_of(a=idle, b=coming, c=coming, d=coming, e=new)
    assert chosen(*several, doubted=0) == {1, 2, 3}
    assert chosen(*several, doubted=0, now=SLOW_AFTER) == {0}


def test_a_broker_with_late_responses_is_awaited_for_a_while_only() -> None:
    """Then the doubted broker is asked: the wait does not last until a request times out."""
    machine = ready(machine_of(1, 2), 1, 2)
    machine.client._connections[2].max_in_flight = 1
    machine.cluster.brokers[2].silent = True
    sent_at = machine.clock()
    ask(machine, 2)

    assert machine.client.least_loaded(sent_at, metadata_first=False, doubted=1) is None
    again_at = machine.client.next_try(sent_at)
    assert again_at == pytest.approx(sent_at + SLOW_AFTER)
    assert machine.client.least_loaded(again_at, metadata_first=False, doubted=1) == 1


@pytest.mark.rule("network.least-loaded")
def test_among_equal_brokers_one_is_chosen_at_random() -> None:
    connections, brokers = connections_of(a=(Stage.READY, 0), b=(Stage.READY, 0), c=(Stage.READY, 0))

    assert chosen(connections, brokers) == {0, 1, 2}


@pytest.mark.rule("network.least-loaded")
def test_a_broker_in_backoff_or_throttled_is_not_chosen() -> None:
    connections, brokers = connections_of(a=(Stage.READY, 0), b=(Stage.DISCONNECTED, 0))
    connections[0].throttled_until = connections[1].retry_at = 1.0

    assert chosen(connections, brokers) == set()


@pytest.mark.rule("network.metadata.waits")
def test_while_no_broker_can_be_chosen_the_client_does_not_spin() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].up = False
    machine.client.poll(1.0, machine.clock())
    machine.network.waits.clear()
    polls = 0
    while machine.clock() < 60:
        machine.client.poll(60 - machine.clock(), machine.clock())
        polls += 1

    assert polls < 200  # a try a second, and the rounds that each takes


# Metadata


@pytest.mark.rule("network.metadata.one")
def test_one_metadata_request_is_in_flight_at_a_time() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    for broker in machine.cluster.brokers.values():
        broker.silent = True
        broker.requests.clear()
    for n in range(10):
        machine.metadata.use(f"topic-{n}", machine.clock())
        machine.metadata.request_update()
        machine.client.poll(0.2, machine.clock())

    assert asked_for_metadata(machine, 1) + asked_for_metadata(machine, 2) == 1


@pytest.mark.rule("network.metadata.lost")
def test_a_lost_metadata_connection_is_retried_after_the_backoff() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    for broker in machine.cluster.brokers.values():
        broker.silent = True
        broker.requests.clear()
    machine.metadata.use("new", machine.clock())
    until(machine, lambda: machine.client.in_flight() == 1)
    [asked] = [node for node in (1, 2) if asked_for_metadata(machine, node)]
    other = 3 - asked
    machine.cluster.brokers[other].silent = False
    lost_at = machine.clock()
    machine.network.cut(asked)
    until(machine, lambda: asked_for_metadata(machine, other))

    assert machine.clock() - lost_at < 1.0  # and not after the request's time-out


@pytest.mark.rule("network.metadata.lost", "metadata.backoff")
def test_a_lost_metadata_request_counts_as_failed() -> None:
    machine = ready(machine_of(1, 2, 3, 4), 1, 2, 3, 4)
    machine.network.holding = True
    pauses = []
    for _ in range(3):
        machine.metadata.request_update()
        until(machine, lambda: machine.client.in_flight() == 1)
        [asked] = [node for node in (1, 2, 3, 4) if machine.client._connections[node].in_flight]
        machine.clock.advance(5.0)
        machine.network.cut(asked)
        machine.client.poll(0.0, machine.clock())
        pauses.append(round(machine.metadata.due_at() - machine.clock(), 3))

    assert pauses == [0.1, 0.2, 0.4]  # the retry backoff, doubled each time


@pytest.mark.rule("network.metadata.lost")
def test_metadata_without_a_common_version_is_retried_and_reported() -> None:
    machine = machine_of(1)
    machine.cluster.brokers[1].versions[METADATA.key] = (0, 0)
    machine.metadata.use("t", machine.clock())
    machine.run(1.0)

    assert machine.metadata.last_error is not None
    assert isinstance(machine.metadata.last_error.__cause__, UnsupportedVersionError)
    assert machine.metadata.due_at() <= machine.clock() + 1.2


@pytest.mark.rule("network.metadata.due")
def test_a_lost_connection_requests_metadata() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    machine.client.poll(0.0, machine.clock())
    before = asked_for_metadata(machine, 2)
    machine.network.cut(1)
    machine.client.poll(0.0, machine.clock())

    assert machine.metadata.due_at() <= machine.clock() + 0.12
    until(machine, lambda: asked_for_metadata(machine, 1) + asked_for_metadata(machine, 2) > before)


@pytest.mark.rule("network.metadata.due")
def test_a_closed_idle_connection_requests_nothing_and_has_no_backoff() -> None:
    machine = ready(machine_of(1))
    due = machine.metadata.due_at()
    machine.network.retire(1, ConnectionRetiredError("idle"))
    machine.client.poll(0.0, machine.clock())

    assert machine.metadata.due_at() == due
    assert machine.client._connections[1].failures == 0
    assert machine.client.ready_at(1, machine.clock()) == float("inf")


@pytest.mark.rule("network.metadata.empty")
def test_a_response_without_brokers_is_a_failure_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ready(machine_of(1))
    known = machine.metadata.cluster
    monkeypatch.setattr(SimulatedCluster, "metadata", lambda _cluster: MetadataResponse())  # it knows no broker
    machine.metadata.request_update()
    until(machine, lambda: machine.metadata.last_error)

    assert machine.metadata.cluster is known
    assert machine.metadata.due_at() > machine.clock()


@pytest.mark.rule("network.metadata.broken")
@pytest.mark.parametrize("numbers", [[1], [0, 2], [0, 0], [-1, 0], [2**31 - 1]])
def test_a_response_with_wrong_partition_numbers_is_a_failure(numbers: Sequence[int]) -> None:
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="broker-1", port=9092)],
        topics=[
            MetadataResponseTopic(
                name="t", partitions=[MetadataResponsePartition(partition_index=n, leader_id=1) for n in numbers]
            )
        ],
    )

    with pytest.raises(OttlaError, match="does not number the partitions of 't' from 0"):
        read_response(answer, ["t"])


@pytest.mark.rule("network.metadata.broken")
def test_a_negative_leader_is_none_and_partitions_come_in_any_order() -> None:
    partitions = [
        MetadataResponsePartition(partition_index=2, leader_id=5),
        MetadataResponsePartition(partition_index=0, leader_id=-7),
        MetadataResponsePartition(partition_index=1, leader_id=-1),
    ]
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=5, host="five", port=9092)],
        topics=[MetadataResponseTopic(name="t", partitions=partitions)],
    )

    topics = read_response(answer, ["t"]).topics

    assert topics["t"].leaders == (-1, -1, 5)


@pytest.mark.rule("metadata.id")
@pytest.mark.parametrize(("topic_id", "epoch"), [(bytes(16), -1), (b"\1" * 16, 7)])
def test_leader_epochs_count_only_for_topics_with_ids(topic_id: bytes, epoch: int) -> None:
    """Without an id a topic that was created again would seem to have outdated leaders (KAFKA-12257)."""
    partitions = [MetadataResponsePartition(leader_id=5, leader_epoch=7)]
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=5, host="five", port=9092)],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)],
    )

    assert read_response(answer, ["t"]).topics["t"].epochs == (epoch,)


@pytest.mark.rule("metadata.id")
def test_a_recreated_topic_without_an_id_is_found_again() -> None:
    """Found by a random history: its records went to the former leader until delivery.timeout.ms had passed."""
    histories.run("reshaped", 772)


@pytest.mark.rule("network.metadata.unasked")
def test_topics_that_were_not_requested_are_omitted() -> None:
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=5, host="five", port=9092)],
        topics=[
            MetadataResponseTopic(name="another", error_code=29, partitions=[MetadataResponsePartition(leader_id=5)]),
            # What would make a response of no use, if it were of a topic that was asked for.
            MetadataResponseTopic(name="odd", partitions=[MetadataResponsePartition(partition_index=7)]),
            MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=5)]),
        ],
    )

    topics = read_response(answer, ["t"]).topics

    assert list(topics) == ["t"]


@pytest.mark.rule("network.metadata.unasked")
def test_topics_that_were_not_requested_are_neither_kept_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    for number in range(200):
        cluster.create(f"another-{number}", -1)  # without a leader, which is worth a line where it is asked for
    machine = ready(Machine(cluster))
    machine.metadata.use("t", machine.clock())
    machine.run(30.0)

    assert set(machine.metadata.cluster.topics) <= {"t"}
    assert "another" not in caplog.text


@pytest.mark.rule("network.metadata.own")
def test_internal_requests_complete_no_request_of_the_caller() -> None:
    machine = ready(machine_of(1))
    completions = ask(machine)
    machine.client.poll(0.0, machine.clock())
    machine.metadata.request_update()
    for _ in range(10):
        machine.client.poll(0.1, machine.clock())

    assert len(completions) == 1
    assert machine.client.in_flight() == 0


@pytest.mark.rule("network.metadata.due")
def test_failing_metadata_is_requested_about_once_a_second() -> None:
    machine = ready(machine_of(1))
    machine.cluster.metadata_code = ErrorCode.UNKNOWN_SERVER_ERROR
    machine.client._metadata_updater._rebootstraps = False
    machine.metadata.request_update()
    before, started = asked_for_metadata(machine), machine.clock()
    while machine.clock() < started + 100:
        machine.client.poll(10.0, machine.clock())

    assert 80 <= asked_for_metadata(machine) - before <= 110


# A poll


@pytest.mark.rule("network.poll.left-over")
def test_already_completed_requests_are_reported_without_a_poll() -> None:
    machine = ready(machine_of(1))
    machine.client._connections[1].versions = {}
    completions = produce_nothing(machine)
    polls: list[float] = []
    machine.network.poll = polls.append  # type: ignore[method-assign, assignment]  # to look on
    machine.client.poll(60.0, machine.clock())

    assert len(completions) == 1
    assert polls == []


@pytest.mark.rule("network.poll.order")
def test_a_poll_handles_writes_responses_disconnects_then_callbacks() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    reported: list[tuple[str, Stage]] = []

    def note(name: str) -> Callable[[Completion], None]:
        return lambda completion: reported.append((name, stage(machine, 2)))

    def request(name: str, *, answered: bool = True) -> Request:
        body = question([]).body
        return Request(message=METADATA, body=body, on_complete=note(name), expects_response=answered)

    machine.cluster.brokers[2].silent = True
    machine.client.send(2, request("lost"), machine.clock())
    machine.client.poll(0.0, machine.clock())
    machine.cluster.brokers[2].silent = False
    machine.client.send(1, request("answered"), machine.clock())
    machine.client.poll(0.0, machine.clock())
    machine.client.send(2, request("sent", answered=False), machine.clock())
    reported.clear()
    network = machine.network
    network.connected, network.sent, network.received, network.disconnected = (
        [],
        [2],
        [],
        {2: ConnectionFailedError("cut")},
    )
    network.poll = lambda timeout: None  # type: ignore[method-assign]  # all of it in one round
    machine.client.poll(0.0, machine.clock())

    assert reported == [("sent", Stage.DISCONNECTED), ("lost", Stage.DISCONNECTED)]


@pytest.mark.rule("network.poll.callback")
def test_a_callback_that_sends_or_raises_affects_no_other() -> None:
    machine = ready(machine_of(1))
    more: list[Completion] = []

    def send_more(_completion: Completion) -> None:
        machine.client.send(1, question(more), machine.clock())
        raise ZeroDivisionError("a fault of ours")

    request = Request(message=METADATA, body=question([]).body, on_complete=send_more)
    machine.client.send(1, request, machine.clock())
    with pytest.raises(ZeroDivisionError):  # the round fails, but only when all that came is complete
        until(machine, lambda: more)
    until(machine, lambda: more)

    assert more[0].response is not None


@pytest.mark.rule("network.poll.returns")
def test_a_poll_waits_no_longer_than_its_timeout_or_next_deadline() -> None:
    machine = ready(machine_of(1, request_timeout=3.0))
    machine.client.poll(0.0, machine.clock())
    machine.network.waits.clear()
    machine.client.poll(0.7, machine.clock())
    machine.cluster.brokers[1].silent = True
    ask(machine)
    machine.client.poll(60.0, machine.clock())
    machine.client.poll(60.0, machine.clock())
    machine.client.poll(-5.0, machine.clock())

    assert machine.network.waits[0] == pytest.approx(0.7)
    assert machine.network.waits[1] == pytest.approx(3.0)


@pytest.mark.rule("network.shutdown")
def test_shutdown_completes_every_request_once_and_closes_the_network() -> None:
    machine = ready(machine_of(1, 2), 1, 2)
    for broker in machine.cluster.brokers.values():
        broker.silent = True
    lists = [ask(machine, node) for node in (1, 2)]
    machine.client.shutdown()

    assert [type(each[0].error) for each in lists] == [ConnectionFailedError, ConnectionFailedError]
    assert not machine.network.links


@pytest.mark.rule("network.lost.log")
@pytest.mark.parametrize(
    ("what", "reported"), [("refusing", "could not connect to seed:9092"), ("black_holes", "socket.connection.setup")]
)
def test_an_unreachable_broker_is_warned_about_once_with_the_reason(
    what: str, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_of(1)
    getattr(machine.network.hosts, what).add("seed")
    machine.run(25.0)

    warnings = Counter(record.getMessage() for record in caplog.records if "connection_log" in record.name)
    assert len(warnings) == 1
    assert reported in next(iter(warnings))


def test_the_time_of_the_round_so_far_counts_towards_a_wait() -> None:
    machine = ready(machine_of(1))
    machine.client.poll(0.0, machine.clock())
    machine.network.waits.clear()
    began_at = machine.clock()
    machine.clock.advance(0.3)
    machine.client.poll(1.0, began_at)

    assert machine.network.waits == [pytest.approx(0.7)]


@pytest.mark.parametrize("throttle_ms", [1, 2])
def test_the_shortest_throttle_time_is_kept(throttle_ms: int) -> None:
    machine = ready(machine_of(1))
    machine.cluster.brokers[1].throttle_ms = throttle_ms
    completions = produce_nothing(machine)
    until(machine, lambda: completions)

    assert completions[0].throttled_until == pytest.approx(completions[0].now + throttle_ms / 1000)
