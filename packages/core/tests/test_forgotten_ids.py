"""Transactions whose coordinator has forgotten the transactional id, as after `transactional.id.expiration.ms`."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ottla.errors import FatalTransactionError, TransactionTimeoutError
from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import LinkConditions, SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import ForgottenIds, plan

pytestmark = pytest.mark.timeout(60)

VERSIONS = [0, 1, 2]
ROUND_TRIP = 0.2


def simulated(version: int) -> tuple[Simulation, SimulatedCluster]:
    """A cluster at a distance whose coordinator forgets the id after 5 seconds."""
    cluster = SimulatedCluster.of(1)
    cluster.transaction_version = version
    cluster.create("t", 1)
    cluster.sources["in"] = 1
    simulation = Simulation(cluster, seed=1)
    simulation.network.wire = LinkConditions(round_trip=ROUND_TRIP)
    plan(simulation, [ForgottenIds(at=5.0, transactional_id="x")])
    return simulation, cluster


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("waited", [0.0, ROUND_TRIP / 2, ROUND_TRIP * 6])
@pytest.mark.parametrize("first", ["a record", "an offset"])
def test_an_abort_goes_on_with_another_producer_id(version: int, waited: float, first: str) -> None:
    simulation, cluster = simulated(version)
    producer = simulation.producer({"transactional.id": "x", "linger.ms": 0})

    def program() -> None:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"one", partition=0, timestamp_ms=1)
        producer.commit_transaction()
        simulation.sleep(6.0 - simulation.clock())
        producer.begin_transaction()
        if first == "a record":
            producer.send("t", b"two", partition=0, timestamp_ms=1)
        else:
            with suppress(TransactionTimeoutError):
                producer.send_offsets_to_transaction({("in", 0): 1}, ConsumerGroupMetadata("g"), timeout=0.001)
        simulation.sleep(waited)
        if waited > ROUND_TRIP:  # the coordinator has been asked once more
            with pytest.raises(FatalTransactionError, match="INVALID_PRODUCER_ID_MAPPING"):
                producer.abort_transaction()
        else:
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send("t", b"three", partition=0, timestamp_ms=1)
            producer.commit_transaction()
        producer.close()

    simulation.run(program)

    assert cluster.topics["t"].committed(0) == [b"one", b"three"][: 1 + (waited < ROUND_TRIP)]
