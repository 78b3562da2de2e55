"""Replicated partitions of a simulation: when records are acknowledged, who leads, and what a log loses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import attrs
import pytest

from ottla.accumulator.delivery import Delivery
from ottla.errors import DeliveryError, ErrorCode
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import (
    CrashedBroker,
    Fault,
    IsolatedBroker,
    SlowFollower,
    UncleanElection,
    plan,
)
from ottla_testkit.simulation.planned_faults.clusters import batch_of_one
from ottla_testkit.simulation.replicated_partition import ALL_REPLICAS, ReplicatedPartition

pytestmark = pytest.mark.timeout(60)


@attrs.define
class Outcome:
    """A record that was sent each second, and when it was acknowledged; None: it was not."""

    simulation: Simulation
    deliveries: list[Delivery] = attrs.field(factory=list)
    acknowledged_at: dict[int, float] = attrs.field(factory=dict)

    @property
    def partition(self) -> ReplicatedPartition:
        return self.simulation.cluster.topics["t"].replicated[0]

    def values(self, broker: int | None = None) -> list[int]:
        """The records of a broker's log, by default the leader's."""
        log = self.simulation.cluster.topics["t"].logs[0] if broker is None else self.partition.replicas[broker].log
        return [int(record.value or b"") for record in log.records]


def sent(*faults: Fault, records: int = 5, settings: Mapping[str, object] | None = None) -> Outcome:
    """Send a record each second to a partition that broker 1 leads, while these faults happen."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 1, min_insync=2)
    simulation = Simulation(cluster, seed=1)
    plan(simulation, faults)
    producer = simulation.producer({"linger.ms": 0, "request.timeout.ms": 1_000, **(settings or {})})
    outcome = Outcome(simulation)

    def program() -> None:
        for number in range(records):
            delivery = producer.send("t", b"%d" % number, partition=0, timestamp_ms=number)
            outcome.deliveries.append(delivery)
            delivery.add_done_callback(partial(note, number))
            simulation.sleep(max(0.0, number + 1 - simulation.clock()))
        producer.flush()
        simulation.sleep(5.0)
        producer.close()

    def note(number: int, delivery: Delivery) -> None:
        if delivery.error is None:
            outcome.acknowledged_at[number] = simulation.clock()

    simulation.run(program)
    return outcome


def test_all_replicas_get_the_records_of_the_leader() -> None:
    outcome = sent()

    assert [outcome.values(broker) for broker in (1, 2, 3)] == [[0, 1, 2, 3, 4]] * 3


@pytest.mark.parametrize(("acks", "waits"), [("all", True), ("1", False)])
def test_only_acks_all_waits_for_the_followers(acks: str, waits: bool) -> None:
    slow = [SlowFollower(at=0.5, seconds=60.0, broker=broker, lag=0.4) for broker in (2, 3)]

    outcome = sent(*slow, settings={"acks": acks})

    assert (outcome.acknowledged_at[2] - 2.0 >= 0.39) is waits


def test_a_crashed_leader_has_a_successor_with_all_acknowledged_records() -> None:
    outcome = sent(CrashedBroker(at=1.5, seconds=60.0, broker=1, next_leader=2))

    assert outcome.partition.leader in (2, 3)
    assert outcome.partition.epoch == 1
    assert outcome.values() == [0, 1, 2, 3, 4]


def test_records_of_an_isolated_leader_are_truncated_and_sent_again() -> None:
    outcome = sent(IsolatedBroker(at=1.5, seconds=3.0, broker=1))

    assert outcome.partition.truncations > 0
    assert [outcome.values(broker) for broker in (1, 2, 3)] == [[0, 1, 2, 3, 4]] * 3
    assert outcome.acknowledged_at[2] > 2.5


def test_too_few_replicas_in_sync_refuse_records() -> None:
    slow = [SlowFollower(at=0.5, seconds=5.0, broker=broker, lag=3.0) for broker in (2, 3)]

    outcome = sent(*slow, settings={"delivery.timeout.ms": 2_000, "max.block.ms": 1_000})

    failed = [delivery.error for delivery in outcome.deliveries if delivery.error is not None]
    assert failed
    assert all(isinstance(error, DeliveryError) for error in failed)
    assert any("NOT_ENOUGH_REPLICAS" in str(error) for error in failed)


def test_an_unclean_election_loses_acknowledged_records() -> None:
    outcome = sent(
        SlowFollower(at=0.5, seconds=5.0, broker=3, lag=30.0),
        UncleanElection(at=3.5, topic="t", partition=0, leader=3),
    )

    lost = [int(record.value or b"") for record in outcome.partition.lost_records()]
    assert sorted(lost) == [1, 2, 3]
    assert set(lost) <= set(outcome.acknowledged_at)
    assert outcome.values() == [0, 4]


def test_a_follower_has_the_state_of_producers() -> None:
    outcome = sent(CrashedBroker(at=1.5, seconds=60.0, broker=1, next_leader=2))

    [entry] = outcome.simulation.cluster.topics["t"].producers[0].entries.values()
    assert [written.first for written in entry.batches] == [0, 1, 2, 3, 4]


def test_a_removed_batch_is_not_acknowledged_by_a_leader_that_leads_again() -> None:
    """Another broker led for so short a time that the leader has not noticed it, but it has its log."""
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 1, min_insync=2)
    simulation, codes = Simulation(cluster, seed=1), list[ErrorCode]()
    partition = cluster.topics["t"].replicated[0]

    def program() -> None:
        assert partition.append(1, batch_of_one(b"removed"), ALL_REPLICAS)[0] is ErrorCode.NONE
        partition.wait(1, 0, 30.0, codes.append)
        partition.prefer(2)
        partition.mark(7, 0, committed=True)
        partition.prefer(1)
        simulation.sleep(60.0)

    simulation.run(program)

    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert list(partition.lost_records()) == []


def test_a_follower_without_deleted_records_has_no_numbers_of_them() -> None:
    """A crashed broker that comes back begins where its leader's log begins, and may lead later."""
    cluster = SimulatedCluster.of(1, 2, 3)
    partition = cluster.create("t", 1, min_insync=1).replicated[0]
    partition.in_sync = [1]
    for number in (0, 1, 2):
        partition.append(1, batch_of_one(b"deleted", producer_id=7, epoch=0, sequence=number), ALL_REPLICAS)
    partition.delete_records(3, forgets=True)
    partition.append(1, batch_of_one(b"kept", producer_id=7, epoch=0, sequence=0), ALL_REPLICAS)

    follower = partition.replicas[3]
    partition._copy(follower)

    assert follower.log.start == partition.replicas[1].log.start == 3
    assert [batch.offset for batch in follower.log.producers.entries[7].batches] == [3]
