"""Simulated coordinators that forget, change their protocol, cannot confirm a write, or are two brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla import Producer
from ottla.errors import ErrorCode, FatalTransactionError
from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import (
    ChangedTransactionVersion,
    CutConnections,
    Fault,
    ForgottenIds,
    MovedGroupCoordinator,
    UnconfirmedWrite,
    plan,
)

pytestmark = pytest.mark.timeout(60)


class World:
    """Three brokers, a topic of one partition, and a program with a transactional producer."""

    def __init__(self, *faults: Fault, version: int = 2) -> None:
        self.cluster = SimulatedCluster.of(1, 2, 3)
        self.cluster.transaction_version = version
        self.topic = self.cluster.create("t", 1)
        self.cluster.sources["in"] = 1
        self.simulation = Simulation(self.cluster, seed=1)
        plan(self.simulation, faults)
        settings = {"transactional.id": "x", "linger.ms": 0, "request.timeout.ms": 1_000, "retry.backoff.ms": 10}
        self.producer = self.simulation.producer(settings)

    def run(self, program: Callable[[Producer], object]) -> Any:
        results: list[object] = []

        def whole() -> None:
            self.producer.init_transactions()
            results.append(program(self.producer))
            self.producer.close()

        self.simulation.run(whole)
        return results[0]

    def wait_until(self, moment: float) -> None:
        self.simulation.sleep(moment - self.simulation.clock())

    def write(self, value: bytes, *, offset: int | None = None) -> None:
        """Write a record in a transaction of its own, perhaps with a consumer's offset."""
        self.producer.begin_transaction()
        self.producer.send("t", value, partition=0, timestamp_ms=1)
        if offset is not None:
            self.producer.send_offsets_to_transaction({("in", 0): offset}, ConsumerGroupMetadata("g"))
        self.producer.commit_transaction()

    def versions(self, name: str) -> Sequence[int]:
        """The versions of the requests of this name, in their order."""
        every = [found for broker in self.cluster.brokers.values() for found in broker.requests]
        return [version for found, version in every if found == name]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("lost", [False, True])
def test_a_forgotten_id_ends_its_producer(version: int, lost: bool) -> None:
    world = World(ForgottenIds(at=1.0, transactional_id="x", lost=lost), version=version)

    def program(producer: Producer) -> None:
        world.write(b"one")
        world.wait_until(2.0)
        with pytest.raises(FatalTransactionError, match="INVALID_PRODUCER_ID_MAPPING"):
            world.write(b"two")

    world.run(program)

    assert world.topic.committed(0) == [b"one"]


@pytest.mark.parametrize("lost", [False, True])
def test_only_a_loss_takes_an_id_with_an_open_transaction(lost: bool) -> None:
    world = World(ForgottenIds(at=1.0, transactional_id="x", lost=lost))

    def program(producer: Producer) -> None:
        producer.begin_transaction()
        producer.send("t", b"one", partition=0, timestamp_ms=1)
        world.wait_until(2.0)
        producer.abort_transaction()
        world.write(b"two")

    world.run(program)

    assert world.topic.committed(0) == [b"two"]
    assert bool(world.cluster.transactions.lost) == lost
    assert len(world.topic.open_transactions[0]) == lost  # for ever


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_changed_level_is_used_from_the_next_transaction_on(before: int, after: int) -> None:
    world = World(
        ChangedTransactionVersion(at=1.0, level=after),
        CutConnections(at=1.1, broker=1, graceful=True),
        version=before,
    )

    def program(producer: Producer) -> None:
        producer.begin_transaction()
        producer.send("t", b"one", partition=0, timestamp_ms=1).result(timeout=5)
        world.wait_until(2.0)
        producer.send("t", b"two", partition=0, timestamp_ms=1)
        producer.commit_transaction()
        world.write(b"three")

    world.run(program)

    assert world.topic.committed(0) == [b"one", b"two", b"three"]
    assert [version >= 5 for version in world.versions("EndTxn")] == [before == 2, after == 2]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("request_name", ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"])
@pytest.mark.parametrize("version", [1, 2])
def test_an_unconfirmed_write_is_carried_out(version: int, request_name: str, code: ErrorCode) -> None:
    world = World(UnconfirmedWrite(at=1.0, seconds=5.0, request=request_name, code=code, broker=3), version=version)

    def program(producer: Producer) -> None:
        world.write(b"one", offset=1)
        world.wait_until(2.0)
        world.write(b"two", offset=2)

    world.run(program)

    asked = version == 1 or request_name == "EndTxn"
    assert world.topic.committed(0) == [b"one", b"two"]
    assert world.cluster.transactions.committed_offsets == {("g", "in", 0): 2}
    assert world.cluster.coordinates == (3 if asked else 1)
    # Before KIP-890, a commit that may be carried out is repeated in a transaction that has the same partitions again.
    assert len(world.cluster.transactions.ends) == (3 if (version, request_name) == (1, "EndTxn") else 2)


def test_groups_may_have_another_coordinator() -> None:
    world = World(MovedGroupCoordinator(at=0.0, broker=2), MovedGroupCoordinator(at=1.0, broker=3))

    def program(producer: Producer) -> None:
        world.write(b"one", offset=1)
        world.wait_until(2.0)
        world.write(b"two", offset=2)

    world.run(program)

    answered = {
        broker.id: [name for name, _version in broker.requests if name in ("TxnOffsetCommit", "EndTxn")]
        for broker in world.cluster.brokers.values()
    }
    assert answered == {
        1: ["EndTxn", "EndTxn"],
        2: ["TxnOffsetCommit", "TxnOffsetCommit"],  # the last one is refused
        3: ["TxnOffsetCommit"],
    }
    assert world.cluster.transactions.committed_offsets == {("g", "in", 0): 2}
