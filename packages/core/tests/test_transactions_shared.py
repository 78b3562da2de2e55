"""Transactions that several producers join, each with partitions of its own, against a simulated cluster."""

from __future__ import annotations

from collections import deque

import pytest

from ottla.errors import (
    AbortableTransactionError,
    ErrorCode,
    IllegalStateError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from ottla.transactions import SharedTransaction
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated

VERSIONS = pytest.mark.parametrize("version", [0, 1, 2])


def cluster_of(version: int = 2) -> SimulatedCluster:
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 1, 2)
    cluster.transaction_version = version
    return cluster


def opened(cluster: SimulatedCluster, name: str = "x") -> SharedTransaction:
    """A transaction that an owner opens, at the coordinator itself."""
    code, producer_id, epoch = cluster.transactions.initialize(name, None)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:  # an open transaction was aborted
        _code, producer_id, epoch = cluster.transactions.initialize(name, None)
    return SharedTransaction(
        transactional_id=name, producer_id=producer_id, epoch=epoch, level=cluster.transaction_version
    )


def end(cluster: SimulatedCluster, shared: SharedTransaction, *, commit: bool = True) -> ErrorCode:
    code, _id, _epoch = cluster.transactions.end(
        shared.transactional_id, shared.producer_id, shared.epoch, commit=commit, newest=shared.level >= 2
    )
    return code


def committed(cluster: SimulatedCluster, partition: int = 0) -> list[bytes | None]:
    return cluster.topics["t"].committed(partition)


def requests(simulation: Simulated) -> set[str]:
    return {name for broker in simulation.cluster.brokers.values() for name, _ in broker.requests}


@VERSIONS
def test_records_of_several_members_become_visible_with_the_commit(version: int) -> None:
    cluster = cluster_of(version)
    shared = opened(cluster)
    for partition in (0, 1):
        with simulated(cluster=cluster, transactional_id="x") as simulation:
            simulation.producer.join_transaction(shared)
            simulation.producer.send("t", b"v", partition=partition)
            report = simulation.producer.leave_transaction()
            assert report.acknowledged == 1
    assert (committed(cluster, 0), committed(cluster, 1)) == ([], [])
    assert end(cluster, shared) is ErrorCode.NONE

    assert (committed(cluster, 0), committed(cluster, 1)) == ([b"v"], [b"v"])


@VERSIONS
def test_one_producer_joins_one_transaction_after_another(version: int) -> None:
    cluster = cluster_of(version)
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        for value in (b"0", b"1", b"2"):
            shared = opened(cluster)
            for part in (b"a", b"b"):  # the same one twice, as two tasks do
                simulation.producer.join_transaction(shared)
                simulation.producer.send("t", value + part, partition=0)
                simulation.producer.leave_transaction()
            end(cluster, shared)

    assert committed(cluster) == [b"0a", b"0b", b"1a", b"1b", b"2a", b"2b"]


def test_a_member_neither_initializes_nor_ends_the_transaction() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(opened(cluster))
        simulation.producer.send("t", b"v", partition=0)
        simulation.producer.leave_transaction()
        simulation.producer.join_transaction(opened(cluster))
        simulation.producer.send("t", b"v", partition=0)
        simulation.producer.close()

        assert not {"InitProducerId", "EndTxn"} & requests(simulation)
    assert committed(cluster) == []


def test_leaving_without_records_sends_no_request() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(opened(cluster))
        simulation.producer.leave_transaction()

        assert not {"Produce", "AddPartitionsToTxn", "EndTxn"} & requests(simulation)


def test_leaving_does_not_wait_for_linger() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x", linger_ms=60_000) as simulation:
        simulation.producer.join_transaction(opened(cluster))
        simulation.producer.send("t", b"v", partition=0)

        assert simulation.producer.leave_transaction(timeout=5).acknowledged == 1


@VERSIONS
def test_a_shared_transaction_that_ended_takes_no_more_records(version: int) -> None:
    cluster = cluster_of(version)
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(opened(cluster))
        opened(cluster)  # another producer has the id now
        late = simulation.producer.send("t", b"late", partition=0)
        with pytest.raises((ProducerFencedError, AbortableTransactionError)):
            simulation.producer.leave_transaction()
        with pytest.raises((ProducerFencedError, AbortableTransactionError)):
            simulation.producer.send("t", b"later", partition=0)
        simulation.run_until(late.done)
        assert late.exception() is not None

    assert committed(cluster) == []


def test_a_failed_record_requires_an_abort_by_the_owner() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(opened(cluster))
        cluster.brokers[1].codes = deque([ErrorCode.INVALID_RECORD])
        refused = simulation.producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match="its owner has to abort it; close this producer"):
            simulation.producer.leave_transaction()
        with pytest.raises(AbortableTransactionError, match="its owner has to abort it"):
            simulation.producer.join_transaction(opened(cluster))

        simulation.run_until(refused.done)
        assert refused.exception() is not None
        assert "EndTxn" not in requests(simulation)
        simulation.producer.close()


def test_leaving_can_be_retried_after_a_timeout() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(opened(cluster))
        simulation.know("t")
        cluster.brokers[1].codes = deque([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        simulation.producer.send("t", b"v", partition=0)
        with pytest.raises(TransactionTimeoutError, match="leaving a shared transaction, which its owner ends"):
            simulation.producer.leave_transaction(timeout=0.05)

        assert simulation.producer.leave_transaction().acknowledged == 1


def test_calls_in_the_wrong_order_are_refused() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        producer = simulation.producer
        with pytest.raises(IllegalStateError, match=r"'x' is not initialized"):
            producer.leave_transaction()
        with pytest.raises(IllegalStateError, match=r"has transactional.id 'y', but this producer has 'x'"):
            producer.join_transaction(opened(cluster, "y"))
        producer.join_transaction(opened(cluster))
        for call in (producer.commit_transaction, producer.abort_transaction, producer.prepare_transaction):
            with pytest.raises(IllegalStateError, match="the transaction's owner ends it"):
                call()
        with pytest.raises(IllegalStateError, match="which its owner ends"):
            producer.join_transaction(opened(cluster))
        producer.leave_transaction()
        with pytest.raises(IllegalStateError, match="not initialized"):
            producer.send("t", b"v")
    with (
        simulated(cluster=cluster) as simulation,
        pytest.raises(IllegalStateError, match=r"join_transaction needs a producer with a transactional\.id"),
    ):
        simulation.producer.join_transaction(opened(cluster))


def test_a_producer_that_owns_the_id_cannot_join() -> None:
    cluster = cluster_of()
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        with pytest.raises(IllegalStateError, match="call begin_transaction"):
            simulation.producer.join_transaction(opened(cluster))


def test_a_member_may_take_the_id_over_afterwards() -> None:
    cluster = cluster_of()
    shared = opened(cluster)
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        simulation.producer.join_transaction(shared)
        simulation.producer.send("t", b"no", partition=0)
        simulation.producer.leave_transaction()
        simulation.producer.init_transactions()
        with simulation.producer.transaction():
            delivery = simulation.producer.send("t", b"yes", partition=0)

        assert not isinstance(delivery.exception(), TransactionAbortedError)
    assert committed(cluster) == [b"yes"]
