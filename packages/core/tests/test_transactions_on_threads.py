"""Transactions while the program and the I/O thread interrupt each other at any lock, in a simulation."""

from __future__ import annotations

import pytest
from long_forms import LONG

from ottla_testkit.simulation import SimulatedCluster, Simulation

SEEDS = 100 if LONG else 30
TRANSACTIONS = 10


def committed(seed: int) -> list[bytes | None]:
    """What is committed by transactions whose first record is acknowledged before the second one is sent."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    simulation = Simulation(cluster, seed=seed, switching=0.05)
    producer = simulation.producer(transactional_id="tx", linger_ms=0)

    def program() -> None:
        producer.init_transactions()
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            first = producer.send("t", b"%d first" % number, timestamp_ms=0)
            simulation.wait_for(first.done)
            producer.send("t", b"%d second" % number, timestamp_ms=0)
            producer.commit_transaction()
        producer.close()

    simulation.run(program)
    return cluster.topics["t"].committed(0)


@pytest.mark.timeout(120)
def test_a_commit_has_the_records_that_were_sent_just_before_it() -> None:
    expected = [b"%d %s" % (number, which) for number in range(TRANSACTIONS) for which in (b"first", b"second")]

    assert all(committed(seed) == expected for seed in range(SEEDS))
