"""Markers of a simulated transaction are written to one partition after the other, late, or twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ottla.errors import ErrorCode
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.committed_reader import CommittedReader
from ottla_testkit.simulation.marker_channel import MarkerChannel
from ottla_testkit.simulation.partition_log import Marker, PartitionLog
from ottla_testkit.simulation.planned_faults import (
    CrashedBroker,
    Fault,
    FrozenBroker,
    MovedCoordinator,
    SeparateMarkers,
    plan,
)
from ottla_testkit.simulation.planned_faults.clusters import batch_of_one

pytestmark = pytest.mark.timeout(60)


class TwoPartitions:
    """A topic whose partitions broker 1, the coordinator, and broker 2 lead; one producer writes to both."""

    def __init__(self, *faults: Fault, lost: float = 0.0, version: int = 2, min_insync: int | None = None) -> None:
        self.cluster = SimulatedCluster.of(1, 2, 3)
        self.cluster.transaction_version, self.cluster.coordinator = version, 1
        self.topic = self.cluster.create("t", 1, 2, min_insync=min_insync)
        self.simulation = Simulation(self.cluster, seed=1)
        self.readers = [CommittedReader(self.topic, partition) for partition in (0, 1)]
        plan(self.simulation, [SeparateMarkers(at=0.0, seconds=100.0, slowest=0.1, lost=lost), *faults])

    @property
    def channel(self) -> MarkerChannel:
        channel = self.cluster.transactions.channel
        assert channel is not None
        return channel

    def run(self, *program: Callable[[], object]) -> None:
        settings = {"transactional.id": "x", "linger.ms": 0, "request.timeout.ms": 1_000, "retry.backoff.ms": 10}
        producer = self.producer = self.simulation.producer(settings)

        def whole() -> None:
            producer.init_transactions()
            for part in program:
                part()
            producer.close()
            self.simulation.sleep(5)

        self.simulation.run(whole)

    def transaction(self, *values: bytes, commit: bool = True) -> Callable[[], None]:
        def program() -> None:
            self.producer.begin_transaction()
            for value in values:
                for partition in (0, 1):
                    self.producer.send("t", value, partition=partition, timestamp_ms=1)
            self.producer.commit_transaction() if commit else self.producer.abort_transaction()

        return program

    def commit_after_the_fault(self) -> None:
        """Write to both partitions before anything happens, and commit half a second after a fault has begun."""
        self.producer.begin_transaction()
        for partition in (0, 1):
            self.producer.send("t", b"one", partition=partition, timestamp_ms=1)
        self.producer.flush()
        self.simulation.sleep(1.5 - self.simulation.clock())
        self.producer.commit_transaction()

    def read(self) -> Sequence[Sequence[bytes | None]]:
        """What readers of both partitions get now."""
        return [[record.value for record in reader.poll()] for reader in self.readers]


@pytest.mark.parametrize("version", [1, 2])
def test_a_reader_waits_for_the_marker_of_its_own_partition(version: int) -> None:
    world = TwoPartitions(FrozenBroker(at=1.0, seconds=10.0, broker=2), version=version)
    found: list[Sequence[Sequence[bytes | None]]] = []

    def look() -> None:
        found.append(world.read())

    def commit_while_the_other_leader_is_frozen() -> None:
        world.commit_after_the_fault()
        world.simulation.sleep(2.0 - world.simulation.clock())

    world.run(commit_while_the_other_leader_is_frozen, look, lambda: world.simulation.sleep(12), look)

    assert found == [[[b"one"], []], [[], [b"one"]]]


def test_the_next_transaction_waits_for_the_last_marker() -> None:
    world = TwoPartitions(CrashedBroker(at=1.0, seconds=3.0, broker=2, next_leader=2))
    ends: list[float] = []

    def write(value: bytes) -> None:
        world.transaction(value)()
        ends.append(world.simulation.clock())

    def first() -> None:
        world.commit_after_the_fault()
        ends.append(world.simulation.clock())

    world.run(first, lambda: write(b"two"))

    assert ends[0] < 2 < 4 < ends[1]
    assert world.read() == [[b"one", b"two"]] * 2


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_that_is_written_twice_ends_one_transaction(version: int) -> None:
    world = TwoPartitions(
        FrozenBroker(at=0.2, seconds=2.0, broker=2),
        MovedCoordinator(at=0.5, seconds=0.3, broker=3),
        lost=0.5,
        version=version,
    )

    world.run(*[world.transaction(b"%d" % number, commit=number % 3 > 0) for number in range(12)])

    assert world.read() == [[b"%d" % number for number in range(12) if number % 3]] * 2
    assert world.channel.codes[ErrorCode.NONE] > 24
    assert not any(log.open_transactions for log in world.topic.logs.values())


def test_a_marker_waits_for_replicas() -> None:
    world = TwoPartitions(min_insync=2)
    world.topic.replicated[1].in_sync = [2]

    def later() -> None:
        world.simulation.sleep(1.0)
        assert world.channel.codes[ErrorCode.NOT_ENOUGH_REPLICAS] > 2
        world.topic.replicated[1].in_sync = [1, 2, 3]

    def part() -> None:
        world.producer.begin_transaction()
        world.cluster.transactions.add("x", *_owner(world), ("t", 1))
        world.producer.send("t", b"one", partition=0, timestamp_ms=1)
        world.producer.commit_transaction()

    world.run(part, later)

    assert world.read() == [[b"one"], []]
    assert not world.cluster.transactions.ids["x"].completing


def _owner(world: TwoPartitions) -> tuple[int, int]:
    owner = world.cluster.transactions.ids["x"]
    return owner.producer_id, owner.epoch


def test_a_late_marker_of_an_older_epoch_is_refused() -> None:
    log = PartitionLog()
    log.append(batch_of_one(b"one", producer_id=7, epoch=3, sequence=0))

    assert log.judge_marker(7, 2, strict=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.judge_marker(7, 3, strict=False) is ErrorCode.NONE
    assert log.judge_marker(7, 3, strict=True) is None  # of the transaction before: KIP-1228
    assert log.judge_marker(7, 4, strict=True) is ErrorCode.NONE
    assert log.judge_marker(8, 0, strict=True) is ErrorCode.NONE
    log.replicate([Marker(7, 4, True)])
    assert log.judge_marker(7, 4, strict=True) is None
