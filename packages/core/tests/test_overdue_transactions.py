"""A transaction that is open for longer than `transaction.timeout.ms` is aborted by the simulated coordinator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla import Producer
from ottla.errors import AbortableTransactionError, FatalTransactionError
from ottla.transactions import ConsumerGroupMetadata
from ottla_testkit.simulation import SimulatedCluster, Simulation
from ottla_testkit.simulation.planned_faults import Fault, FencedProducer, MovedCoordinator, StoppedProcess, plan

CHECKS = 1.0
GROUP = ConsumerGroupMetadata("group")


def overdue(
    end: Callable[[Producer], object], *, version: int = 2, faults: tuple[Fault, ...] = (), sleep: float = 5.0
) -> SimulatedCluster:
    """Write, sleep beyond the time-out of 2 s and *end* the transaction; then write another one."""
    cluster = SimulatedCluster.of(1, 2)
    cluster.transaction_version = version
    cluster.transactions.time_out_check_seconds = CHECKS
    cluster.create("t", 1)
    cluster.sources["in"] = 1
    simulation = Simulation(cluster, seed=1)
    plan(simulation, faults)
    producer = simulation.producer({"transactional.id": "tx", "transaction.timeout.ms": 2_000})

    def program() -> None:
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"late", timestamp_ms=1).result(60)
            simulation.sleep(sleep)
            try:
                end(producer)
            except AbortableTransactionError:
                producer.abort_transaction()
            with producer.transaction():
                producer.send("t", b"next", timestamp_ms=2)
        finally:
            producer.close()

    simulation.run(program)
    return cluster


def commit(producer: Producer) -> None:
    producer.commit_transaction()


def send(producer: Producer) -> None:
    producer.send("t", b"more", timestamp_ms=1)
    producer.commit_transaction()


def send_offsets(producer: Producer) -> None:
    producer.send_offsets_to_transaction({("in", 0): 7}, GROUP)


@pytest.mark.parametrize("end", [commit, send, send_offsets])
def test_with_epochs_of_transactions_the_producer_goes_on(end: Callable[[Producer], object]) -> None:
    cluster = overdue(end)

    assert cluster.topics["t"].committed(0) == [b"next"]
    assert cluster.transactions.committed_offsets == {}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("end", [commit, send, send_offsets])
def test_before_them_the_producer_is_fenced(end: Callable[[Producer], object], version: int) -> None:
    with pytest.raises(FatalTransactionError):
        overdue(end, version=version)


def test_a_fenced_producer_cannot_go_on_after_its_offsets_were_refused() -> None:
    with pytest.raises(FatalTransactionError):
        overdue(send_offsets, faults=(FencedProducer(at=4.0, transactional_id="tx"),))


def test_a_transaction_that_is_short_enough_commits() -> None:
    assert overdue(commit, sleep=1.5).topics["t"].committed(0) == [b"late", b"next"]


def test_a_process_that_is_stopped_loses_its_transaction() -> None:
    cluster = overdue(commit, sleep=0.5, faults=(StoppedProcess(at=0.2, seconds=10.0),))

    assert cluster.topics["t"].committed(0) == [b"next"]


def test_a_coordinator_aborts_once_it_has_loaded_its_state() -> None:
    loading = MovedCoordinator(at=1.0, seconds=4.5, broker=2)

    assert overdue(commit, sleep=1.5, faults=(loading,)).topics["t"].committed(0) == [b"next"]
    assert overdue(commit, sleep=6.5, faults=(loading,)).topics["t"].committed(0) == [b"next"]
