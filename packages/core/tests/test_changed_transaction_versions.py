"""Brokers learn of another `transaction.version` at different times, while a transaction may have begun."""

from __future__ import annotations

import pytest

from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import LinkConditions, SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import (
    ChangedTransactionVersion,
    CutConnections,
    Fault,
    OutdatedFeatures,
    plan,
)

pytestmark = pytest.mark.timeout(60)

ROUND_TRIP = 0.2


def simulated(*faults: Fault) -> tuple[Simulation, SimulatedCluster]:
    """A cluster of the old protocol at a distance, whose first broker is the coordinator."""
    cluster = SimulatedCluster.of(1, 2)
    cluster.transaction_version = 1
    cluster.create("t", 2)
    cluster.sources["in"] = 1
    simulation = Simulation(cluster, seed=1)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    plan(simulation, faults)
    return simulation, cluster


@pytest.mark.rule("producer.transactions.protocol")
@pytest.mark.parametrize("late", [True, False], ids=["the coordinator is late", "all know it"])
@pytest.mark.parametrize("first", ["a record", "an offset"])
def test_a_lost_response_and_another_version_do_not_fence_a_producer(first: str, *, late: bool) -> None:
    simulation, cluster = simulated(
        *[OutdatedFeatures(at=4.9, seconds=20.0, broker=1)] * late,
        ChangedTransactionVersion(at=5.0, level=2),
        CutConnections(at=5.1, broker=2),
        CutConnections(at=5.1, broker=1),
        CutConnections(at=6.0 + ROUND_TRIP * 0.75, broker=1),  # it has the request, and its response is lost
    )
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0})

    def program() -> None:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"one", timestamp_ms=1)
        producer.commit_transaction()
        producer.begin_transaction()
        simulation.sleep(6.0 - simulation.clock())
        if first == "an offset":
            producer.send_offsets_to_transaction({("in", 0): 7}, ConsumerGroupMetadata("g"))
        producer.send("t", b"two", timestamp_ms=1)
        producer.commit_transaction()
        simulation.sleep(20.0)
        producer.begin_transaction()
        producer.send("t", b"three", timestamp_ms=1)
        producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert cluster.topics["t"].committed(0) == [b"one", b"two", b"three"]
    assert [committed for _id, _partitions, committed in cluster.transactions.ends] == [True] * 3
