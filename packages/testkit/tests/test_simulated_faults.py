"""Faults of a simulation do what their docstrings say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla import Producer
from ottla.errors import AbortableTransactionError, DeliveryError, ErrorCode, OttlaError
from ottla.protocol import ProduceRequest, ProduceResponse
from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import AfterAppend, LinkConditions, SimulatedCluster, SimulatedGroup, Simulation
from ottla_testkit.simulation.planned_faults import (
    DeniedTopic,
    Fault,
    FencedProducer,
    FrozenBroker,
    InterruptedProgram,
    MovedCoordinator,
    ProduceQuota,
    RebalancedGroup,
    SlowMarkers,
    ThrottlingBroker,
    TimedOutTransaction,
    plan,
)

pytestmark = pytest.mark.timeout(60)


def simulation_of(*faults: Fault) -> Simulation:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    simulation = Simulation(cluster, seed=1)
    plan(simulation, faults)
    return simulation


def times(simulation: Simulation, *, records: int = 3, size: int = 100) -> list[float]:
    """Send records one after the other; return the seconds of each until its acknowledgement."""
    producer = simulation.producer(linger_ms=0)
    found: list[float] = []

    def program() -> None:
        for number in range(records):
            began = simulation.clock()
            delivery = producer.send("t", bytes(size), timestamp_ms=number)
            assert simulation.wait_for(delivery.done, timeout=100)
            found.append(simulation.clock() - began)
        producer.close()

    simulation.run(program)
    return found


@pytest.mark.parametrize(
    "fault",
    [
        ThrottlingBroker(at=0.0, seconds=60.0, broker=1, throttle_ms=2_000),
        ProduceQuota(at=0.0, seconds=60.0, broker=1, bytes_per_second=85.0),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_throttled_producer_waits_after_each_response(fault: Fault) -> None:
    first, *others = times(simulation_of(fault))

    assert first == pytest.approx(0.0, abs=0.05)
    assert others == [pytest.approx(2.0, abs=0.1)] * 2


def test_bytes_take_time_on_a_narrow_link() -> None:
    simulation = simulation_of()
    simulation.network.wire = LinkConditions(bandwidth=10_000.0)

    assert times(simulation, size=20_000)[1:] == [pytest.approx(2.0, abs=0.1)] * 2


def test_a_denied_topic_refuses_records_and_then_takes_them() -> None:
    simulation = simulation_of(DeniedTopic(at=1.0, seconds=1.0, topic="t"))
    producer = simulation.producer(linger_ms=0)
    errors: list[DeliveryError | None] = []

    def program() -> None:
        for number in range(3):
            delivery = producer.send("t", b"v", partition=0, timestamp_ms=number)
            assert simulation.wait_for(delivery.done, timeout=10)
            errors.append(delivery.error)
            simulation.sleep(number + 1.1 - simulation.clock())
        producer.close()

    simulation.run(program)

    assert [error is None for error in errors] == [True, False, True]
    assert "TOPIC_AUTHORIZATION_FAILED" in str(errors[1])


def test_ctrl_c_ends_a_flush_that_waits() -> None:
    simulation = simulation_of(FrozenBroker(at=1.0, seconds=5.0, broker=1), InterruptedProgram(at=3.0, program=0))
    producer = simulation.producer(linger_ms=0)
    interrupted: list[float] = []

    def program() -> None:
        producer.send("t", b"v", timestamp_ms=0)
        simulation.sleep(1.5)
        producer.send("t", b"v", timestamp_ms=0)
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        interrupted.append(simulation.clock())
        producer.close()

    simulation.run(program)

    assert interrupted == [3.0]
    assert len(simulation.cluster.topics["t"].log[0]) == 2


def in_transactions(simulation: Simulation, body: Callable[[Producer], None]) -> None:
    """Run the body of a program with a transactional producer, and close."""
    producer = simulation.producer(transactional_id="x", linger_ms=0)

    def program() -> None:
        producer.init_transactions()
        try:
            body(producer)
        finally:
            producer.close()

    simulation.run(program)


def one_after_the_other(producer: Producer) -> None:
    for number in range(2):
        producer.begin_transaction()
        producer.send("t", b"%d" % number, timestamp_ms=number)
        producer.commit_transaction()


def test_the_next_transaction_waits_for_late_markers() -> None:
    simulation = simulation_of(SlowMarkers(at=0.0, seconds=100.0, marker_seconds=1.0))

    in_transactions(simulation, one_after_the_other)

    assert 1.0 <= simulation.clock() < 2.0
    assert simulation.cluster.topics["t"].log[0][1].value == b"1"


@pytest.mark.parametrize(
    "fault",
    [
        FencedProducer(at=1.0, transactional_id="x"),
        TimedOutTransaction(at=1.0, transactional_id="x"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_transaction_that_the_coordinator_aborted_is_not_committed(fault: Fault) -> None:
    simulation = simulation_of(fault)

    def transaction(producer: Producer) -> None:
        producer.begin_transaction()
        producer.send("t", b"v", timestamp_ms=0)
        simulation.sleep(2.0)
        with pytest.raises(OttlaError):
            producer.commit_transaction()

    in_transactions(simulation, transaction)

    assert simulation.cluster.topics["t"].committed(0) == []


def test_offsets_of_an_older_generation_are_refused_until_an_abort() -> None:
    simulation = simulation_of(RebalancedGroup(at=1.0, group="g"))
    simulation.cluster.sources["in"] = 1
    simulation.cluster.groups["g"] = SimulatedGroup(generation_id=4, members={"m": None})

    def consumer() -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", simulation.cluster.groups["g"].generation_id, "m")

    def transactions(producer: Producer) -> None:
        before = consumer()
        with producer.transaction():
            producer.send_offsets_to_transaction({("in", 0): 1}, before)
        simulation.sleep(2.0)
        producer.begin_transaction()
        with pytest.raises(AbortableTransactionError, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({("in", 0): 2}, before)
        producer.abort_transaction()
        assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 1}
        with producer.transaction():
            producer.send_offsets_to_transaction({("in", 0): 3}, consumer())

    in_transactions(simulation, transactions)

    assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 3}


def test_another_producer_id_follows_the_last_epoch() -> None:
    simulation = simulation_of()
    coordinator = simulation.cluster.transactions
    coordinator.last_epoch = 2
    ids: list[tuple[int, int]] = []

    def transactions(producer: Producer) -> None:
        for number in range(5):
            with producer.transaction():
                producer.send("t", b"%d" % number, timestamp_ms=number)
            ids.append((coordinator.ids["x"].producer_id, coordinator.ids["x"].epoch))

    in_transactions(simulation, transactions)

    first, second = sorted({producer_id for producer_id, _epoch in ids})
    assert ids == [(first, 1), (first, 2), (second, 0), (second, 1), (second, 2)]
    assert simulation.cluster.topics["t"].committed(0) == [b"0", b"1", b"2", b"3", b"4"]


def test_records_get_the_time_of_their_append() -> None:
    simulation = simulation_of()
    topic = simulation.cluster.topics["t"]
    topic.append_time = True
    simulation.cluster.wall_clock = lambda: 1_000.0 + simulation.clock()
    producer = simulation.producer(linger_ms=0)
    reported: list[int] = []

    def program() -> None:
        for number in range(2):
            simulation.sleep(5.0)
            reported.append(producer.send("t", b"v", timestamp_ms=number).result(timeout=60).timestamp_ms)
        producer.close()

    simulation.run(program)

    assert [record.timestamp_ms for record in topic.log[0]] == reported
    assert all(time // 1000 == second for time, second in zip(reported, (1_005, 1_010), strict=True))


def test_records_of_the_future_are_refused_one_by_one() -> None:
    simulation = simulation_of()
    simulation.cluster.topics["t"].timestamp_after_max_ms = 1_000
    producer = simulation.producer(linger_ms=50)
    errors: list[str] = []

    def program() -> None:
        deliveries = [producer.send("t", b"v", timestamp_ms=timestamp) for timestamp in (0, 9_000)]
        for delivery in deliveries:
            with pytest.raises(DeliveryError) as caught:
                delivery.result(timeout=60)
            errors.append(str(caught.value))
        producer.close()

    simulation.run(program)

    assert "one or more records" not in errors[1]
    assert "out of range" in errors[1]
    assert "1 other record of the batch was refused" in errors[0]


def with_a_coordinator_that_loads() -> Simulation:
    """A simulation whose second broker is the coordinator after one second, and has loaded its state after four."""
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 1)
    simulation = Simulation(cluster, seed=1)
    plan(simulation, [MovedCoordinator(at=1.0, seconds=3.0, broker=2)])
    return simulation


def test_a_coordinator_that_has_moved_loads_the_transactions_first() -> None:
    simulation = with_a_coordinator_that_loads()
    producer = simulation.producer(transactional_id="id")

    def program() -> None:
        producer.init_transactions()
        simulation.sleep(2.0)
        producer.begin_transaction()
        producer.send("t", b"v", timestamp_ms=1)
        producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert 4.0 < simulation.clock() < 6.0
    assert list(simulation.cluster.topics["t"].committed(0)) == [b"v"]


def test_a_frozen_broker_does_not_become_coordinator() -> None:
    cluster = SimulatedCluster.of(1, 2)
    simulation = Simulation(cluster, seed=1)
    plan(
        simulation,
        [FrozenBroker(at=1.0, seconds=5.0, broker=2), *(MovedCoordinator(at=at, broker=2) for at in (2.0, 7.0))],
    )
    coordinators: list[int | None] = []

    def program() -> None:
        for _ in range(2):
            simulation.sleep(5.0)
            coordinators.append(cluster.coordinates)

    simulation.run(program)

    assert coordinators == [1, 2]


def test_a_coordinator_that_loads_gives_no_producer_id() -> None:
    simulation = with_a_coordinator_that_loads()
    producer = simulation.producer(transactional_id="id")

    def program() -> None:
        simulation.sleep(2.0)
        producer.init_transactions()
        producer.close()

    simulation.run(program)

    assert 4.0 < simulation.clock() < 6.0


def test_a_transaction_ends_although_its_topic_was_deleted() -> None:
    simulation = simulation_of()
    producer = simulation.producer(transactional_id="id")

    def program() -> None:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", timestamp_ms=1).result()
        simulation.cluster.delete("t")
        producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert not simulation.cluster.topics


def test_a_refusal_after_the_append_has_the_offset_of_the_batch() -> None:
    simulation = simulation_of()
    broker = simulation.cluster.brokers[1]
    broker.codes.append(AfterAppend(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    seen: list[ProduceResponse] = []

    def edit(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
        seen.append(response)
        return response

    broker.edit = edit  # type: ignore[method-assign]

    times(simulation, records=1)

    first, second = (response.responses[0].partition_responses[0] for response in seen)
    assert (first.error_code, first.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 0)
