"""A request's time-out does not count throttle time, nor responses that have already arrived."""

from __future__ import annotations

import attrs
import pytest

from machine import Machine
from ottla.accumulator.delivery import Delivery
from ottla.errors import DeliveryTimeoutError, ProducerClosedError
from ottla.network.client_side_throttling import FIRST_VERSIONS, pause
from ottla.protocol import API_VERSIONS, METADATA, PRODUCE
from ottla.protocol.catalogue import MESSAGES
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster


def machine_with_topic(*leaders: int, **settings: float) -> Machine:
    """A machine that has a connection to each leader of topic t."""
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    machine = Machine(cluster, **settings)  # type: ignore[arg-type]  # every setting is a number
    machine.metadata.use("t", machine.clock())
    for partition in range(len(leaders)):
        machine.send(b"first", partition=partition)
    machine.run_until_idle()
    return machine


def one_request_each(machine: Machine, count: int) -> list[Delivery]:
    """Records to so many partitions, each in a request of its own; all requests are in flight."""
    deliveries = []
    for partition in range(count):
        deliveries.append(machine.send(b"record", partition=partition))
        for _ in range(2):
            machine.sender.run_once(machine.clock(), until=machine.clock())
    assert machine.client.in_flight() == count
    return deliveries


def take_one_answer(machine: Machine) -> None:
    """Let one response arrive: the client would read all that are there at once."""
    arrived = machine.network.link(1).client.received
    size = 4 + int.from_bytes(arrived[:4], "big")
    later = bytes(arrived[size:])
    del arrived[size:]
    machine.network.held.clear()
    machine.sender.run_once(machine.clock(), until=machine.clock())
    machine.network.held.add(1)
    arrived += later


def run(machine: Machine, seconds: float) -> None:
    """Rounds for just so long."""
    end = machine.clock() + seconds
    while machine.clock() < end:
        machine.sender.run_once(machine.clock(), until=end)


# Throttling


@pytest.mark.rule("network.throttle.time-out")
def test_throttle_time_does_not_count_towards_the_request_timeout() -> None:
    machine = machine_with_topic(1, 1, 1, 1, request_timeout=4.0)
    machine.network.held.add(1)
    machine.cluster.brokers[1].throttle_ms = 6_000
    deliveries = one_request_each(machine, 3)
    connects = machine.network.connects
    take_one_answer(machine)  # and the broker reads nothing more for six seconds
    run(machine, 6.0)
    machine.cluster.brokers[1].throttle_ms = 0
    machine.network.held.clear()
    machine.run_until_idle()

    assert [delivery.exception() for delivery in deliveries] == [None] * 3
    assert [machine.log(partition=partition) for partition in range(3)] == [[b"first", b"record"]] * 3
    assert machine.network.connects == connects


@pytest.mark.rule("network.throttle.time-out")
def test_each_throttled_response_extends_timeouts_of_requests_in_flight() -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=4.0)
    machine.network.held.add(1)
    machine.cluster.brokers[1].throttle_ms = 6_000
    one_request_each(machine, 3)
    sent_at = machine.clock()
    connection = machine.client._connections[1]
    take_one_answer(machine)
    take_one_answer(machine)
    while connection.last_failure is None:
        machine.round()

    assert machine.clock() - sent_at == pytest.approx(4.0 + 6.0 + 6.0, abs=0.5)


@pytest.mark.rule("network.throttle.once")
@pytest.mark.parametrize(("newest", "waits"), [(5, 0.0), (6, 5.0)])
def test_a_throttle_time_that_an_old_broker_waited_is_not_waited_again(newest: int, waits: float) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, newest)
    machine = Machine(cluster)
    machine.metadata.use("t", machine.clock())
    machine.send(b"first")
    machine.run_until_idle()
    cluster.brokers[1].throttle_ms = 5_000
    machine.send(b"second")
    machine.run_until_idle()
    cluster.brokers[1].throttle_ms = 0
    throttled_at = machine.clock()
    machine.send(b"third")
    machine.run_until_idle()

    assert machine.clock() - throttled_at == pytest.approx(waits)


@pytest.mark.rule("network.throttle.once")
def test_every_response_with_a_throttle_time_has_its_first_client_version() -> None:
    never = {"ListTransactions", "DescribeTransactions", "GetTelemetrySubscriptions", "PushTelemetry"}
    throttling = {m.name for m in MESSAGES if hasattr(m.response_type(), "throttle_time_ms")}

    assert throttling == FIRST_VERSIONS.keys() | never


@pytest.mark.rule("network.throttle.once")
def test_a_throttle_time_is_obeyed_from_the_first_client_version_on() -> None:
    assert [pause(METADATA, version, 1_500) for version in (3, 5, 6, 13)] == [0.0, 0.0, 1.5, 1.5]
    assert [pause(METADATA, 13, ms) for ms in (0, -1)] == [0.0, 0.0]


def test_a_throttle_time_of_days_ends_after_an_hour() -> None:
    machine = machine_with_topic(1, delivery_timeout=20_000.0)
    machine.cluster.brokers[1].throttle_ms = 2**31 - 1
    machine.send(b"first")
    machine.run_until_idle()
    machine.cluster.brokers[1].throttle_ms = 0
    throttled_at = machine.clock()
    delivery = machine.send(b"second")
    machine.run_until_idle()

    assert delivery.exception() is None
    assert machine.clock() - throttled_at == pytest.approx(3600.0)


@pytest.mark.rule("network.throttle.time-out")
def test_throttle_times_of_days_in_several_responses_end_after_an_hour() -> None:
    """Each added an hour: a metadata request without a response waited for three, and no other broker was asked."""
    machine = machine_with_topic(1, 1, 1, 1, request_timeout=4.0)
    machine.network.held.add(1)
    machine.cluster.brokers[1].throttle_ms = 2**31 - 1
    one_request_each(machine, 4)
    sent_at = machine.clock()
    connection = machine.client._connections[1]
    for _ in range(3):
        take_one_answer(machine)
    while connection.last_failure is None:
        machine.round()

    assert 3600 < machine.clock() - sent_at < 3700


@pytest.mark.rule("network.metadata.throttled")
def test_a_hanging_connection_does_not_block_metadata_of_a_throttled_one() -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[2] = SimulatedBroker(cluster=machine.cluster, id=2)
    machine.network.hosts.black_holes.add("broker-2")
    machine.metadata.request_update()
    machine.run(1.0)
    broker = machine.cluster.brokers[1]
    broker.throttle_ms = 3_000
    machine.send(b"second")
    machine.run_until_idle()
    throttled_at, known = machine.clock(), broker.requests.count(("Metadata", METADATA.max_version))
    machine.client.ready(2, throttled_at)  # its connection hangs for ten seconds
    machine.metadata.request_update()

    while broker.requests.count(("Metadata", METADATA.max_version)) == known:
        machine.round()

    assert machine.clock() - throttled_at == pytest.approx(3.0, abs=0.1)


@pytest.mark.rule("network.throttle")
def test_a_response_to_apiversions_throttles_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster.of(1)
    broker = cluster.brokers[1]
    answer = broker._api_versions
    monkeypatch.setattr(broker, "_api_versions", lambda: attrs.evolve(answer(), throttle_time_ms=2_000))
    machine = Machine(cluster, setup_timeout=1.0)
    machine.client.poll(0.0, machine.clock())
    while not any(name == "Metadata" for name, _version in broker.requests):
        machine.client.poll(60.0, machine.clock())

    assert broker.requests[0] == (API_VERSIONS.name, API_VERSIONS.max_version)
    assert machine.clock() >= 2.0


# The oldest request


@pytest.mark.rule("network.flight.timeout")
def test_a_connection_times_out_with_its_oldest_request() -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=4.0)
    machine.network.held.add(1)
    first_sent_at = machine.clock()
    for partition in range(3):
        machine.send(b"record", partition=partition)
        run(machine, 1.0)
    connection = machine.client._connections[1]
    assert len(connection.in_flight) == 3
    while connection.last_failure is None:
        machine.round()

    assert machine.clock() - first_sent_at == pytest.approx(4.0)


# What has arrived


@pytest.mark.rule("network.flight.arrived")
def test_received_responses_are_read_before_a_timeout_is_checked() -> None:
    machine = machine_with_topic(1, 1, 1, 1, request_timeout=30.0)
    machine.network.held.add(1)
    deliveries = one_request_each(machine, 4)
    connects = machine.network.connects
    machine.clock.advance(31.0)  # the process was stopped, or something held the interpreter
    machine.network.held.clear()
    while not all(delivery.done() for delivery in deliveries):
        machine.round()

    assert [delivery.exception() for delivery in deliveries] == [None] * 4
    assert machine.network.connects == connects
    assert [machine.log(partition=partition) for partition in range(4)] == [[b"first", b"record"]] * 4


@pytest.mark.rule("network.flight.arrived")
def test_received_responses_do_not_extend_the_timeout_of_others() -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=30.0)
    machine.network.held.add(1)
    first, second, third = one_request_each(machine, 3)
    machine.clock.advance(31.0)
    take_one_answer(machine)
    take_one_answer(machine)
    assert first.done()
    assert second.done()
    machine.network.waits.clear()
    machine.round()
    machine.round()

    assert not third.done()
    assert "did not answer a Produce request" in str(machine.client._connections[1].last_failure)
    assert sum(machine.network.waits) == 0.0


@pytest.mark.rule("sender.expire.arrived")
def test_received_responses_are_read_before_records_expire() -> None:
    machine = machine_with_topic(1, 1, 1, 1, request_timeout=30.0, delivery_timeout=40.0)
    machine.network.held.add(1)
    deliveries = one_request_each(machine, 4)
    machine.clock.advance(41.0)  # the process was stopped, or a callback kept the I/O thread
    machine.network.held.clear()
    while not all(delivery.done() for delivery in deliveries):
        machine.round()

    assert [delivery.exception() for delivery in deliveries] == [None] * 4


@pytest.mark.rule("network.flight.arrived", "sender.expire.arrived")
@pytest.mark.parametrize("stopped_for", [31.0, 41.0])
def test_a_process_stopped_in_a_poll_reads_what_has_arrived_meanwhile(
    stopped_for: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=30.0, delivery_timeout=40.0)
    machine.network.held.add(1)
    deliveries = one_request_each(machine, 3)
    connects, poll = machine.network.connects, machine.network.poll

    def stopped(timeout: float) -> None:
        poll(0.0)
        machine.clock.advance(stopped_for)
        machine.network.held.clear()
        monkeypatch.setattr(machine.network, "poll", poll)

    monkeypatch.setattr(machine.network, "poll", stopped)
    while not all(delivery.done() for delivery in deliveries):
        machine.round()

    assert [delivery.exception() for delivery in deliveries] == [None] * 3
    assert machine.network.connects == connects


@pytest.mark.rule("sender.expire.arrived")
def test_responses_that_have_arrived_are_read_before_a_close_fails() -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=30.0, delivery_timeout=40.0)
    machine.network.held.add(1)
    deliveries = one_request_each(machine, 3)
    machine.network.held.clear()  # they come while the process is stopped, until after the deadline of the close
    machine.sender.read_responses(machine.clock())
    machine.sender.abort(ProducerClosedError("closed"), machine.clock())

    assert [delivery.exception(0) for delivery in deliveries] == [None] * 3


@pytest.mark.rule("sender.expire.arrived")
def test_records_without_a_response_expire_once_nothing_more_arrives() -> None:
    machine = machine_with_topic(1, 1, 1, request_timeout=60.0, delivery_timeout=40.0)
    machine.network.held.add(1)
    first, second, third = one_request_each(machine, 3)
    machine.clock.advance(41.0)
    take_one_answer(machine)

    assert first.exception(0) is None
    assert isinstance(second.exception(0), DeliveryTimeoutError)
    assert isinstance(third.exception(0), DeliveryTimeoutError)


@pytest.mark.rule("sender.expire.arrived")
def test_a_round_that_has_polled_before_its_end_does_not_wait() -> None:
    """The first poll has taken the wake-up, for example of a close."""
    machine = machine_with_topic(1, request_timeout=60.0, delivery_timeout=40.0)
    machine.clock.advance(41.0)  # no record is in flight, but the time when one would have expired has come
    machine.network.wakeup()
    before = machine.clock()
    machine.sender.run_once(before, until=before + 100.0)

    assert machine.clock() == before


@pytest.mark.rule("network.throttle")
def test_metadata_that_is_due_is_requested_after_the_throttle_time() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    machine = Machine(cluster)
    machine.send(b"first")
    machine.run_until_idle()
    machine.run(1.0)
    cluster.brokers[1].throttle_ms = 1_500
    machine.send(b"second")
    machine.run_until_idle()
    throttled_at = machine.clock()
    machine.metadata.request_update()
    cluster.brokers[1].requests.clear()
    for _ in range(5):
        machine.sender.run_once(machine.clock(), until=throttled_at + 60.0)
        if cluster.brokers[1].requests:
            break

    assert cluster.brokers[1].requests[0][0] == "Metadata"
    assert machine.clock() - throttled_at == pytest.approx(1.5, abs=0.1)
