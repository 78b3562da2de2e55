"""States, moves and errors of a transactional producer, against a simulated cluster."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import error_copies
import pytest

from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    ConnectionFailedError,
    ErrorCode,
    FatalTransactionError,
    IllegalStateError,
    InvalidRecordError,
    OttlaError,
    ProducerClosedError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionTimeoutError,
    UndeliveredError,
    UnsupportedVersionError,
)
from ottla.network import Request
from ottla.producer.producer import Producer
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.group_metadata import ConsumerGroupMetadata
from ottla.transactions.manager import TransactionManager
from ottla.transactions.offsets import OffsetAndMetadata
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla.transactions.request_source import RequestSource
from ottla.transactions.state_table import NEXT_STEPS, TRANSITIONS, State
from ottla.transactions.transaction_error_actions import (
    TRANSACTION_ERROR_ACTIONS,
    CoordinatorRequestKind,
    TransactionErrorAction,
)
from ottla.transactions.transaction_requests import AddPartitionsToTxn
from ottla_testkit.simulation import SimulatedCluster, SimulatedGroup
from simulated_producer import Simulated, simulated

VERSIONS = pytest.mark.parametrize("version", [0, 1, 2])
ONE_BY_ONE = {"batch.size": 1, "batch.growth.enable": False}


def cluster_of(version: int = 2, *, partitions: int = 2) -> SimulatedCluster:
    cluster = SimulatedCluster.of(1, 2)
    cluster.sources["in"] = 2
    cluster.create("t", *(1 + n % 2 for n in range(partitions)))
    cluster.transaction_version = version
    return cluster


def begun(simulation: Simulated) -> Producer:
    simulation.producer.init_transactions()
    simulation.producer.begin_transaction()
    return simulation.producer


def abort_for_an_expired_record(simulation: Simulated, producer: Producer) -> None:
    """Send a record that is acknowledged and one that is not: no commit is possible, and the transaction is aborted."""
    producer.send("t", b"first", partition=0)
    simulation.run_until_idle()
    simulation.cluster.brokers[1].silent = True
    producer.send("t", b"lost", partition=0)
    simulation.pass_time(2.5)
    simulation.cluster.brokers[1].silent = False
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()


def manager(simulation: Simulated) -> TransactionManager:
    assert simulation.producer._transactions is not None
    return simulation.producer._transactions.manager


def requests_of(simulation: Simulated) -> RequestSource:
    assert simulation.sender._coordinator_requests is not None
    return simulation.sender._coordinator_requests._request_source


def committed(simulation: Simulated, partition: int = 0) -> list[bytes | None]:
    return simulation.cluster.topics["t"].committed(partition)


def refuse(simulation: Simulated, request: str, *codes: ErrorCode) -> None:
    for broker in simulation.cluster.brokers.values():
        broker.errors_by_request[request] = deque(codes)


def requests(simulation: Simulated) -> list[str]:
    return [name for broker in simulation.cluster.brokers.values() for name, _ in broker.requests]


# Their ordinary course


@VERSIONS
@pytest.mark.rule("producer.transactions")
def test_records_become_visible_together(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        for partition in (0, 1):
            producer.send("t", b"v", partition=partition)
        producer.send_offsets_to_transaction({("in", 0): 5}, "g")
        simulation.pass_time(1.0)
        assert (committed(simulation, 0), committed(simulation, 1)) == ([], [])
        report = producer.commit_transaction()

        assert report.acknowledged == 2
        assert (committed(simulation, 0), committed(simulation, 1)) == ([b"v"], [b"v"])
        assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 5}


@VERSIONS
def test_requests_are_those_of_the_transaction_version(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        producer.send_offsets_to_transaction({("in", 0): 5}, "g")
        producer.commit_transaction()
        newest = {name: number for broker in simulation.cluster.brokers.values() for name, number in broker.requests}

        assert ("AddPartitionsToTxn" in newest, "AddOffsetsToTxn" in newest) == (version < 2, version < 2)
        assert (newest["Produce"], newest["EndTxn"], newest["TxnOffsetCommit"]) == (
            (13, 5, 5) if version == 2 else (11, 4, 4)
        )


@VERSIONS
def test_aborted_records_are_never_visible(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"no", partition=0)
        simulation.run_until_idle()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"yes", partition=0)

        assert simulation.log() == [b"no", b"yes"]
        assert committed(simulation) == [b"yes"]


@VERSIONS
def test_an_empty_transaction_sends_no_request(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.abort_transaction()

        assert "EndTxn" not in requests(simulation)


@pytest.mark.rule("accumulator.ready.transaction")
def test_a_commit_does_not_wait_for_linger() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        before = simulation.clock()
        producer.send("t", b"v", key=b"k")
        producer.commit_transaction()

        assert simulation.clock() - before < 5
        assert committed(simulation, 0) + committed(simulation, 1) == [b"v"]


@pytest.mark.rule("accumulator.abort.undrained")
def test_an_abort_drops_queued_records_without_waiting_for_them() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        before = simulation.clock()
        delivery = producer.send("t", b"v", partition=0)
        report = producer.abort_transaction()

        assert simulation.clock() - before < 5
        assert isinstance(delivery.exception(), TransactionAbortedError)
        assert report.failed == 1
        assert simulation.log() == []
        producer.close()  # the abort has answered for it


@VERSIONS
@pytest.mark.rule("accumulator.drain.transaction", "sender.round.transaction")
def test_no_record_is_written_to_a_partition_before_it_is_added(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        refuse(simulation, "AddPartitionsToTxn", *[ErrorCode.CONCURRENT_TRANSACTIONS] * 5)
        producer.send("t", b"v", partition=0)
        simulation.run_until(lambda: "AddPartitionsToTxn" in requests(simulation) or simulation.log())
        assert (simulation.log() == []) == (version < 2)
        producer.commit_transaction()

        assert committed(simulation) == [b"v"]


def test_with_transaction_v2_each_transaction_has_its_own_epoch() -> None:
    with simulated(cluster=cluster_of(2), transactional_id="x", config=ONE_BY_ONE) as simulation:
        producer = begun(simulation)
        sequences = []
        for _ in range(3):
            for _ in range(2):
                producer.send("t", b"v", partition=0)
            simulation.run_until_idle()
            [entry] = simulation.cluster.topics["t"].producers[0].entries.values()
            sequences.append((entry.epoch, [written.first for written in entry.batches]))
            producer.commit_transaction()
            producer.begin_transaction()

        assert sequences == [(0, [0, 1]), (1, [0, 1]), (2, [0, 1])]


def test_with_transaction_v1_sequences_continue_across_transactions() -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x", config=ONE_BY_ONE) as simulation:
        producer = begun(simulation)
        for _ in range(3):
            producer.send("t", b"v", partition=0)
            producer.commit_transaction()
            producer.begin_transaction()
        [entry] = simulation.cluster.topics["t"].producers[0].entries.values()

        assert (entry.epoch, [written.first for written in entry.batches]) == (0, [0, 1, 2])


def test_a_broker_that_has_forgotten_the_producer_gets_numbers_from_0() -> None:
    """Brokers before 2.4 forget it with its records, as when they are older than the topic's retention."""
    with simulated(cluster=cluster_of(1), transactional_id="x", config=ONE_BY_ONE) as simulation:
        simulation.cluster.older_logs = True
        producer = begun(simulation)
        producer.send("t", b"deleted", partition=0)
        producer.commit_transaction()
        topic = simulation.cluster.topics["t"]
        topic.delete_records(0, len(topic.log_of(0).entries), forgets=True)
        with producer.transaction():
            producer.send("t", b"kept", partition=0)
        [entry] = topic.producers[0].entries.values()

        assert committed(simulation)[-1] == b"kept"
        assert (entry.epoch, [written.first for written in entry.batches]) == (0, [0])


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (0, 1)])
def test_a_changed_transaction_version_is_used_from_the_next_one_on(before: int, after: int) -> None:
    with simulated(cluster=cluster_of(before), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"1", partition=0)
        simulation.run_until_idle()
        simulation.cluster.transaction_version, simulation.cluster.features_epoch = after, 2
        simulation.network.cut(1)  # a new connection learns the cluster's finalized features
        simulation.network.cut(2)
        simulation.pass_time(1.0)
        producer.commit_transaction()
        for value in (b"2", b"3"):
            with producer.transaction():
                producer.send("t", value, partition=0)
        assert committed(simulation) == [b"1", b"2", b"3"]
        bumped = simulation.cluster.transactions.ids["x"].epoch

        # From old to new the id is asked for once more: something of the old transaction may be under way in its epoch.
        assert requests(simulation).count("InitProducerId") == (2 if (before, after) == (1, 2) else 1)
        assert bumped == {(1, 2): 3, (2, 1): 1, (0, 1): 0}[before, after]


# Wrong moments

CALLS: dict[str, Callable[[Producer], object]] = {
    "init_transactions": lambda producer: producer.init_transactions(),
    "begin_transaction": lambda producer: producer.begin_transaction(),
    "send": lambda producer: producer.send("t", b"v"),
    "send_offsets_to_transaction": lambda producer: producer.send_offsets_to_transaction({("in", 0): 1}, "g"),
    "prepare_transaction": lambda producer: producer.prepare_transaction(),
    "commit_transaction": lambda producer: producer.commit_transaction(),
    "abort_transaction": lambda producer: producer.abort_transaction(),
}
ALLOWED = {
    State.UNINITIALIZED: {"init_transactions"},
    State.READY: {"begin_transaction"},
    State.IN_TRANSACTION: {
        "send",
        "send_offsets_to_transaction",
        "prepare_transaction",
        "commit_transaction",
        "abort_transaction",
    },
    State.PREPARED: {"commit_transaction", "abort_transaction"},
}


def bring(simulation: Simulated, state: State) -> None:
    steps = {
        State.UNINITIALIZED: [],
        State.READY: ["init_transactions"],
        State.IN_TRANSACTION: ["init_transactions", "begin_transaction"],
        State.PREPARED: ["init_transactions", "begin_transaction", "prepare_transaction"],
    }[state]
    for step in steps:
        CALLS[step](simulation.producer)
    assert manager(simulation).state is state


@pytest.mark.parametrize("state", ALLOWED, ids=lambda state: state.name)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_the_wrong_state_names_the_state_and_the_right_call(state: State, call: str) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        bring(simulation, state)
        if call in ALLOWED[state]:
            CALLS[call](simulation.producer)
            return
        with pytest.raises(IllegalStateError) as caught:
            CALLS[call](simulation.producer)

        reported = str(caught.value)
        assert reported.startswith(
            f"{call} cannot be called now: the producer with transactional.id 'x' is {state.value}"
        )
        assert NEXT_STEPS[state] in reported
        assert simulation.accumulator.incomplete == 0


def test_every_state_has_transitions_and_advice() -> None:
    assert set(TRANSITIONS) == set(NEXT_STEPS) == set(State)
    assert all(State.FATAL_ERROR in moves for state, moves in TRANSITIONS.items() if state is not State.FATAL_ERROR)
    assert TRANSITIONS[State.FATAL_ERROR] == frozenset()


@pytest.mark.parametrize("call", [name for name in CALLS if name != "send"])
def test_without_an_id_there_are_no_transactions(call: str) -> None:
    with (
        simulated(1) as simulation,
        pytest.raises(IllegalStateError, match=rf"{call} needs a producer with a transactional\.id"),
    ):
        CALLS[call](simulation.producer)


def test_after_close_every_call_is_refused() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        begun(simulation)
        simulation.producer.close()
        for call in CALLS.values():
            with pytest.raises(ProducerClosedError):
                call(simulation.producer)


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", "prepare_transaction"])
def test_a_call_that_would_deadlock_is_refused(call: str) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        raised: list[BaseException] = []

        def on_delivery(_delivery: object) -> None:
            try:
                CALLS[call](producer)
            except OttlaError as error:
                raised.append(error)

        producer.send("t", b"v", on_delivery=on_delivery)
        simulation.run_until_idle()

        assert [type(error) for error in raised] == [IllegalStateError]
        producer.commit_transaction()


# What goes wrong


def test_every_code_has_an_action_for_every_request() -> None:
    assert {kind: set(table) for kind, table in TRANSACTION_ERROR_ACTIONS.items()} == {
        kind: set(ErrorCode) for kind in CoordinatorRequestKind
    }
    assert all(table[ErrorCode.NONE] is TransactionErrorAction.DONE for table in TRANSACTION_ERROR_ACTIONS.values())
    assert all(
        table[ErrorCode.CONCURRENT_TRANSACTIONS] is TransactionErrorAction.RETRY
        for table in TRANSACTION_ERROR_ACTIONS.values()
    )


@VERSIONS
@pytest.mark.rule("sender.transaction.fatal")
def test_a_failed_record_allows_only_an_abort(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x", linger_ms=100) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        refused = producer.send("t", b"v", partition=0)
        simulation.run_until(lambda: manager(simulation).state is State.ABORTABLE_ERROR)
        with pytest.raises(AbortableTransactionError):
            producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError, match="call abort_transaction") as caught:
            producer.commit_transaction()
        assert "INVALID_RECORD" in str(caught.value)
        assert error_copies.same(refused.exception(), caught.value.__cause__)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"next", partition=0)

        assert committed(simulation) == [b"next"]


def test_a_commit_in_progress_fails_with_a_failed_record() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        assert simulation.cluster.transactions.ends == []
        producer.abort_transaction()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, ErrorCode.PRODUCER_FENCED])
def test_a_record_behind_a_failed_one_is_dropped_at_once(code: ErrorCode) -> None:
    """A thread that awaits it may run the rounds itself: one that dropped it must not wait for anything else."""
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(code)
        refused = producer.send("t", b"refused", partition=0)
        simulation.run_until(refused.done)
        behind = producer.send("t", b"behind", partition=1)
        simulation.round()

        assert behind.done()
        assert simulation.sender.due_at <= simulation.clock()
        assert behind.error is not None


def test_a_record_in_flight_behind_a_failed_one_is_dropped() -> None:
    """The broker refuses it for its number, which says nothing that the error of the failed record does not."""
    config = {"batch.size": 1, "batch.growth.enable": False, "transactional.id": "x"}
    with simulated(cluster=cluster_of(), config=config) as simulation:
        producer = begun(simulation)
        producer.send("t", b"before", partition=0)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        refused, behind = (producer.send("t", b"%d" % number, partition=0) for number in range(2))
        simulation.run_until(lambda: refused.done() and behind.done())

        assert isinstance(behind.error, TransactionAbortedError)
        assert behind._place()[0].attempts == 1
        assert "INVALID_RECORD" in str(behind.error)
        producer.abort_transaction()


def test_a_record_that_cannot_be_encoded_fails_at_once() -> None:
    with simulated(1, know=False) as simulation:
        simulation.cluster.brokers[1].versions[0] = (0, 2)
        simulation.know("t")
        delivery = simulation.producer.send("t", b"v", partition=0, headers=[("a", b"1")])
        simulation.run_until(delivery.done)

        assert delivery.error is not None
        assert simulation.sender.due_at <= simulation.clock()


@VERSIONS
def test_close_aborts_a_transaction_whose_offsets_expire_meanwhile(version: int) -> None:
    times = {"max.block.ms": 1_000, "request.timeout.ms": 1_000, "delivery.timeout.ms": 5_000}
    with simulated(cluster=cluster_of(version), transactional_id="x", config=times) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        for call in (partial(producer.send_offsets_to_transaction, {("gone", 0): 1}, "g"), producer.commit_transaction):
            with pytest.raises(TransactionTimeoutError):
                call()
        before = simulation.clock()
        producer.close()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]
        assert simulation.clock() - before < 4


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_RECORD])
def test_close_waits_for_nothing_after_a_failed_transaction(code: ErrorCode) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        for broker in simulation.cluster.brokers.values():
            broker.codes.append(code)
        delivery = producer.send("t", b"v", partition=0)
        manager = simulation.producer._engine.transactions.manager  # type: ignore[union-attr]
        simulation.run_until(lambda: manager.state is not State.IN_TRANSACTION)
        before = simulation.clock()
        assert delivery.exception(0) is not None
        producer.close(60)

        assert simulation.clock() - before < 1


def test_a_failure_that_was_raised_hides_none_of_the_next_transaction() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        broker = simulation.cluster.brokers[simulation.cluster.topics["t"].leaders[0]]
        broker.codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        broker.codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()

        with pytest.raises(UndeliveredError):
            producer.flush(0)


def test_an_abort_does_not_wait_for_the_pause_of_other_requests() -> None:
    times = {"max.block.ms": 1_000, "retry.backoff.ms": 30_000, "retry.backoff.max.ms": 30_000}
    with simulated(cluster=cluster_of(), transactional_id="x", config=times) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        with pytest.raises(TransactionTimeoutError):
            producer.send_offsets_to_transaction({("gone", 0): 1}, "g")
        producer.abort_transaction()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


def test_close_aborts_what_prepare_has_not_returned_in_time() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=1)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].silent = True
        producer.send("t", b"late", partition=0)
        with pytest.raises(TransactionTimeoutError, match="is preparing a transaction"):
            producer.prepare_transaction()
        simulation.cluster.brokers[1].silent = False
        simulation.network.cut(1)
        with suppress(UndeliveredError):
            producer.close()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


def test_an_error_raised_by_commit_is_not_raised_again_by_close() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.close()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.abort_transaction])
@pytest.mark.parametrize("version", [0, 1])
def test_a_failure_known_before_the_end_is_not_raised_again_by_close(
    version: int, end: Callable[[Producer], object]
) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        fence(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        with pytest.raises(ProducerFencedError):
            end(producer)
        assert str(producer.flush()) == "0 acknowledged, 0 failed, 0 pending"
        producer.close()


def test_records_that_failed_before_a_commit_are_not_raised_by_close() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=0) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        for _ in range(2):  # the second round knows that the record of the first has failed
            producer.send("t", b"v", partition=0)
            simulation.run_until_idle()
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.close()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


def test_records_that_fail_after_a_failed_commit_are_not_raised_by_close() -> None:
    with simulated(1, 2, transactional_id="x", linger_ms=0) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=1)
        simulation.run_until_idle()
        simulation.network.held.add(2)
        late = producer.send("t", b"late", partition=1)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        for _ in range(2):
            producer.send("t", b"v", partition=0)
            simulation.round()
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        assert not late.done()
        del late
        producer.close()


@VERSIONS
def test_an_expired_record_fails_its_transaction_and_the_epoch_changes(version: int) -> None:
    config = {"delivery.timeout.ms": 2_000, "request.timeout.ms": 1_900, "linger.ms": 0}
    with simulated(cluster=cluster_of(version), transactional_id="x", config=config) as simulation:
        producer = begun(simulation)
        abort_for_an_expired_record(simulation, producer)
        with producer.transaction():
            producer.send("t", b"next", partition=0)

        assert committed(simulation) == [b"next"]
        assert simulation.cluster.transactions.ids["x"].epoch >= 1


def fence(simulation: Simulated) -> None:
    simulation.cluster.transactions.initialize("x", None)


@VERSIONS
def test_a_fenced_producer_refuses_every_call(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        fence(simulation)
        with pytest.raises(ProducerFencedError, match=r"'x'.*close this producer"):
            producer.commit_transaction()
        for call in CALLS.values():
            with pytest.raises(ProducerFencedError):
                call(producer)

        assert committed(simulation) == []
        producer.close()


@VERSIONS
@pytest.mark.rule("producer.transactions.in-doubt")
def test_a_commit_that_has_reached_no_coordinator_is_not_committed(version: int) -> None:
    cluster = cluster_of(version)
    cluster.coordinator = 2
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        simulation.network.hosts.refusing.add("broker-2")
        simulation.network.cut(2)
        simulation.pass_time(0.1)  # it is noticed before the commit
        with pytest.raises(TransactionTimeoutError):
            producer.commit_transaction(1)
        fence(simulation)
        simulation.network.hosts.refusing.clear()
        with pytest.raises(ProducerFencedError) as fenced:
            producer.commit_transaction()

        assert "may have been committed" not in str(fenced.value)


@pytest.mark.rule("producer.send.fatal-state")
def test_with_v2_a_fenced_write_is_abortable_and_the_abort_says_why() -> None:
    with simulated(cluster=cluster_of(2), transactional_id="x") as simulation:
        producer = begun(simulation)
        fence(simulation)
        delivery = producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        assert "INVALID_PRODUCER_EPOCH" in str(delivery.exception())
        with pytest.raises(ProducerFencedError):
            producer.abort_transaction()
        with pytest.raises(ProducerFencedError):
            producer.send("t", b"v")


def test_a_refused_producer_id_may_be_requested_again() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        refuse(simulation, "InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(TransactionError, match="call init_transactions again") as caught:
            simulation.producer.init_transactions()
        assert not isinstance(caught.value, FatalTransactionError)
        refuse(simulation, "InitProducerId")
        simulation.producer.init_transactions()

        assert manager(simulation).state is State.READY


def test_a_time_below_zero_is_over_at_once_and_the_error_helps() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        with pytest.raises(
            TransactionTimeoutError, match=r"-1 s \(timeout, which does not wait; pass None to wait for"
        ):
            producer.commit_transaction(-1)
        with pytest.raises(TransactionTimeoutError, match=r"not done within 0 s \(timeout\)"):
            producer.commit_transaction(0)
        assert producer.commit_transaction().acknowledged == 1


def test_an_initialization_out_of_time_says_that_no_broker_can_be_reached() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        for broker in simulation.cluster.brokers.values():
            broker.up = False

        with pytest.raises(TransactionTimeoutError, match=r"initialized; last error: .*ECONNREFUSED") as caught:
            simulation.producer.init_transactions()

        assert isinstance(caught.value.__cause__, ConnectionFailedError)


@pytest.mark.parametrize("call", ["commit_transaction", "prepare_transaction"])
def test_a_transaction_out_of_time_says_why_its_records_are_not_written(call: str) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
        producer.send("t", b"v", partition=0)

        with pytest.raises(TransactionTimeoutError, match="last error: NOT_ENOUGH_REPLICAS") as caught:
            CALLS[call](producer)

        assert isinstance(caught.value.__cause__, BrokerError)


@pytest.mark.parametrize(
    ("call", "request_name"),
    [
        ("commit_transaction", "EndTxn"),
        ("abort_transaction", "EndTxn"),
        ("prepare_transaction", "Produce"),
        ("send_offsets_to_transaction", "TxnOffsetCommit"),
    ],
)
@pytest.mark.parametrize("done_meanwhile", [True, False])
def test_after_a_timeout_the_same_call_waits_for_the_same_result(
    call: str, request_name: str, done_meanwhile: bool
) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        if request_name != "Produce":
            simulation.run_until_idle()
        for broker in simulation.cluster.brokers.values():
            broker.silent = True
        with pytest.raises(TransactionTimeoutError, match=rf"{call} was not done within .*; call it again to wait"):
            CALLS[call](producer)
        for broker in simulation.cluster.brokers.values():
            broker.silent = False
        simulation.network.cut(1)
        simulation.network.cut(2)
        if done_meanwhile:
            simulation.pass_time(5.0)
        for _ in range(40):
            try:
                CALLS[call](producer)
                break
            except TransactionTimeoutError:
                continue

        assert manager(simulation).state in (State.READY, State.PREPARED, State.IN_TRANSACTION)


def test_a_result_that_was_not_requested_again_is_not_skipped() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=1_000) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        simulation.network.holding = True
        with pytest.raises(TransactionTimeoutError):
            producer.commit_transaction()
        simulation.network.holding = False
        simulation.pass_time(1.0)
        with pytest.raises(IllegalStateError, match="the caller of commit_transaction has not got its outcome"):
            producer.begin_transaction()
        producer.commit_transaction()
        producer.begin_transaction()

        assert committed(simulation) == [b"v"]


@VERSIONS
def test_a_coordinator_that_moves_is_found_again(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        simulation.cluster.coordinator = 2
        producer.commit_transaction()

        assert committed(simulation) == [b"v"]
        assert requests(simulation).count("FindCoordinator") == 2


def searches(simulation: Simulated) -> list[float]:
    """The times of FindCoordinator requests in ten seconds of `init_transactions`, in rounds of 5 ms."""
    found: list[float] = []
    with pytest.raises(TransactionTimeoutError):
        simulation.producer.init_transactions(0)
    end = simulation.clock() + 10.0
    while simulation.clock() < end:
        before = requests(simulation).count("FindCoordinator")
        simulation.round(until=simulation.clock() + 0.005)
        found += [simulation.clock()] * (requests(simulation).count("FindCoordinator") - before)
    return found


@pytest.mark.rule("sender.coordinator.backoff")
@pytest.mark.parametrize("listed", [True, False])
def test_an_unreachable_coordinator_is_searched_with_exponential_backoff(listed: bool) -> None:
    cluster = cluster_of()
    config = {"retry.backoff.ms": 100, "retry.backoff.max.ms": 1_000}
    with simulated(cluster=cluster, transactional_id="x", config=config) as simulation:
        cluster.coordinator = 2 if listed else 9
        if listed:
            simulation.network.hosts.refusing.add("broker-2")
        times = searches(simulation)
        pauses = [after - before for before, after in itertools.pairwise(times)]

        assert 10 <= len(times) <= 20
        assert all(
            0.8 * expected <= pause <= 1.2 * expected + 0.05
            for pause, expected in zip(pauses, [0.1, 0.2, 0.4, 0.8, *[1.0] * 20], strict=False)
        ), pauses
        cluster.coordinator = 1
        simulation.producer.init_transactions()

        assert manager(simulation).state is State.READY


def test_a_refusal_by_all_servers_is_raised_at_once() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", know=False) as simulation:
        simulation.network.hosts.other_protocol.add("seed")
        with pytest.raises(TransactionError, match="TLS alert"):
            simulation.producer.init_transactions()

        assert simulation.clock() < 1.0


@pytest.mark.parametrize("finds", ["groups", "transactions"])
def test_brokers_without_transactions_are_recognised(finds: str) -> None:
    cluster = cluster_of()
    for broker in cluster.brokers.values():
        for key in (22, 24, 25, 26, 28):
            del broker.versions[key]
        if finds == "groups":  # as before 0.11
            broker.versions[10] = (0, 0)
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        with pytest.raises(TransactionError, match=r"transactions need brokers of 0\.11 or later") as caught:
            simulation.producer.init_transactions()
        assert isinstance(caught.value.__cause__, UnsupportedVersionError)


def test_two_phase_commit_without_broker_support_is_refused() -> None:
    config = {"transaction.two.phase.commit.enable": True}
    with (
        simulated(cluster=cluster_of(), transactional_id="x", config=config) as simulation,
        pytest.raises(TransactionError, match="KIP-939"),
    ):
        simulation.producer.init_transactions()


# Blocks and ends


def divide(simulation: Simulated, before: Callable[[], object]) -> None:
    """A block that writes something, and then raises."""
    with simulation.producer.transaction() as producer:
        producer.send("t", b"no", partition=0)
        simulation.run_until_idle()
        before()
        raise ZeroDivisionError


def test_a_with_block_commits_at_its_end_and_aborts_when_it_raises() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        with simulation.producer.transaction() as producer:
            producer.send("t", b"yes", partition=0)
        with pytest.raises(ZeroDivisionError):
            divide(simulation, lambda: None)

        assert committed(simulation) == [b"yes"]
        assert manager(simulation).state is State.READY


def test_a_with_block_whose_commit_fails_is_aborted_and_raises() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        with pytest.raises(AbortableTransactionError), simulation.producer.transaction() as producer:
            producer.send("t", b"no", partition=0)

        assert manager(simulation).state is State.READY


def test_a_with_block_never_hides_its_own_exception() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        with pytest.raises(ZeroDivisionError) as caught:
            divide(simulation, lambda: fence(simulation))

        assert "while aborting the transaction" in caught.value.__notes__[0]


@VERSIONS
@pytest.mark.rule("producer.close.abort-transaction")
def test_close_aborts_an_open_transaction(version: int) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        simulation.run_until_idle()
        producer.close()

        assert simulation.cluster.transactions.ends == [("x", 1, False)]


def test_close_reports_records_that_the_abort_drops() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        with pytest.raises(UndeliveredError):
            producer.close()


def test_close_leaves_a_prepared_transaction_unchanged() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        prepared = producer.prepare_transaction()
        producer.close()

        assert simulation.cluster.transactions.ends == []
        assert (prepared.transactional_id, prepared.epoch, prepared.level, prepared.written) == ("x", 0, 2, True)


def test_close_finishes_a_commit_in_progress() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", max_block_ms=0) as simulation:
        with pytest.raises(TransactionTimeoutError):
            simulation.producer.init_transactions()
        simulation.pass_time(1.0)
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        with pytest.raises(TransactionTimeoutError):
            producer.commit_transaction()
        producer.close()

        assert simulation.cluster.transactions.ends == [("x", 1, True)]


@VERSIONS
@pytest.mark.parametrize("end", [Producer.commit_transaction, Producer.prepare_transaction])
@pytest.mark.rule("producer.close.abort-transaction")
def test_close_aborts_a_transaction_that_fails_meanwhile(version: int, end: Callable[[Producer], object]) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x", max_block_ms=0) as simulation:
        with pytest.raises(TransactionTimeoutError):
            simulation.producer.init_transactions()
        simulation.pass_time(1.0)
        producer = begun(simulation)
        producer.send("t", b"first", partition=1)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"refused", partition=0)
        with pytest.raises(TransactionTimeoutError):
            end(producer)
        with pytest.raises(UndeliveredError):
            producer.close()

        assert [how for _, _, how in simulation.cluster.transactions.ends] == [False]


# Prepared


def test_a_prepared_transaction_can_be_serialized() -> None:
    prepared = PreparedTransaction(transactional_id="é", producer_id=2**62, epoch=7, level=2)

    assert PreparedTransaction.from_bytes(prepared.to_bytes()) == prepared
    assert PreparedTransaction.from_string(str(prepared)) == prepared


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"1" * 5000, b'{"form": 1, "epoch": "1"}'])
def test_bytes_of_another_format_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="not a prepared transaction"):
        PreparedTransaction.from_bytes(data)


def test_prepare_is_refused_after_a_failed_record() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x", linger_ms=60_000) as simulation:
        producer = begun(simulation)
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        producer.send("t", b"v", partition=0)
        with pytest.raises(AbortableTransactionError):
            producer.prepare_transaction()
        producer.abort_transaction()


def test_with_v1_the_epoch_of_a_prepared_transaction_is_never_reused() -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=0)
        prepared = producer.prepare_transaction()
        producer.commit_transaction()
        with producer.transaction():
            producer.send("t", b"w", partition=0)

        assert prepared.epoch == 0
        assert simulation.cluster.transactions.ids["x"].epoch == 1


# Offsets


class Foreign:
    """An object of another client's."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("partition", "position"),
    [
        (("in", 0), 5),
        (("in", 0), OffsetAndMetadata(5, "note")),
        (Foreign(topic="in", partition=0), Foreign(offset=5, metadata=None)),
    ],
)
@pytest.mark.parametrize(
    "group",
    ["g", ConsumerGroupMetadata("g", 3, "m", "i"), Foreign(group_id="g", generation_id=3, member_id="m")],
)
def test_offsets_may_be_written_in_several_ways(partition: object, position: object, group: object) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        simulation.cluster.groups["g"] = SimulatedGroup(generation_id=3, members={"m": "i"})
        producer = begun(simulation)
        producer.send_offsets_to_transaction({partition: position}, group)
        producer.commit_transaction()

        assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 5}


@pytest.mark.parametrize(
    ("offsets", "group"),
    [
        ({("in", 0): -1}, "g"),
        ({("in", 0): True}, "g"),
        ({("in", 0): "5"}, "g"),
        ({"in": 5}, "g"),
        ({("in", -1): 5}, "g"),
        ({("in", 0): 5}, ""),
        ({("in", 0): 5}, None),
    ],
)
def test_invalid_offsets_are_refused_and_the_transaction_continues(
    offsets: dict[object, object], group: object
) -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        with pytest.raises(InvalidRecordError):
            producer.send_offsets_to_transaction(offsets, group)

        assert manager(simulation).state is State.IN_TRANSACTION


def test_a_consumer_that_lost_its_partitions_is_refused() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        producer = begun(simulation)
        refuse(simulation, "TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(AbortableTransactionError, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({("in", 0): 1}, ConsumerGroupMetadata("g", 1, "m"))
        producer.abort_transaction()

        assert simulation.cluster.transactions.committed_offsets == {}


@VERSIONS
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "this user may not read topic 'in', and therefore not commit the offset",
        ),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, "the offset of topic 'in', partition 0, for group 'g' has more metadata"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "This user needs Read for group 'g'; call abort_transaction"),
        (ErrorCode.STALE_MEMBER_EPOCH, "It was for group 'g'; call abort_transaction"),
    ],
)
def test_a_refused_offset_only_fails_its_transaction(version: int, code: ErrorCode, words: str) -> None:
    with simulated(cluster=cluster_of(version), transactional_id="x") as simulation:
        producer = begun(simulation)
        refuse(simulation, "TxnOffsetCommit", code)
        with pytest.raises(AbortableTransactionError, match=words):
            producer.send_offsets_to_transaction({("in", 0): 1}, "g")
        producer.abort_transaction()
        refuse(simulation, "TxnOffsetCommit")
        with producer.transaction():
            producer.send_offsets_to_transaction({("in", 0): 2}, "g")

        assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 2}


@pytest.mark.parametrize("call", [Producer.commit_transaction, Producer.prepare_transaction])
def test_offsets_of_a_missing_topic_end_with_the_delivery_timeout(call: Callable[[Producer], object]) -> None:
    times = {"max.block.ms": 1_000, "request.timeout.ms": 1_000, "delivery.timeout.ms": 5_000}
    with simulated(cluster=cluster_of(), transactional_id="x", config=times) as simulation:
        producer = begun(simulation)
        with pytest.raises(TransactionTimeoutError):
            producer.send_offsets_to_transaction({("gone", 3): 1}, "g")
        with pytest.raises(TransactionTimeoutError):
            call(producer)
        simulation.pass_time(2.5)
        with pytest.raises(
            AbortableTransactionError, match=r"not written within delivery\.timeout\.ms \(5 s\)"
        ) as caught:
            call(producer)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(caught.value)
        assert "the offset of topic 'gone', partition 3, for group 'g'" in str(caught.value)
        producer.abort_transaction()

        assert manager(simulation).state is State.READY


def test_offsets_expire_while_their_request_has_no_response() -> None:
    times = {"max.block.ms": 60_000, "request.timeout.ms": 30_000, "delivery.timeout.ms": 31_000}
    with simulated(cluster=cluster_of(), transactional_id="x", config=times) as simulation:
        producer = begun(simulation)
        simulation.network.holding = True
        with pytest.raises(TransactionTimeoutError):
            producer.send_offsets_to_transaction({("in", 0): 1}, "g", timeout=30.5)
        started = simulation.clock()
        with pytest.raises(AbortableTransactionError, match=r"not written within delivery\.timeout\.ms"):
            producer.commit_transaction()

        assert simulation.clock() - started < 2


def test_the_error_of_expired_offsets_has_the_last_answer_as_its_cause() -> None:
    times = {"max.block.ms": 1_000, "request.timeout.ms": 1_000, "delivery.timeout.ms": 5_000}
    with simulated(cluster=cluster_of(), transactional_id="x", config=times) as simulation:
        producer = begun(simulation)
        with pytest.raises(TransactionTimeoutError):
            producer.send_offsets_to_transaction({("gone", 0): 1}, "g")
        simulation.pass_time(5.0)
        with pytest.raises(AbortableTransactionError, match="UNKNOWN_TOPIC_OR_PARTITION") as raised:
            producer.commit_transaction()

        assert raised.value.__cause__ is not None
        assert isinstance(raised.value.__cause__.__cause__, BrokerError)


def test_group_metadata_on_old_brokers_fails_only_the_transaction() -> None:
    cluster = cluster_of(1)
    for broker in cluster.brokers.values():
        broker.versions[28] = (0, 2)
    with simulated(cluster=cluster, transactional_id="x") as simulation:
        producer = begun(simulation)
        with pytest.raises(
            AbortableTransactionError, match=r"needs brokers of 2\.5 or later; .* pass the group's id alone"
        ):
            producer.send_offsets_to_transaction({("in", 0): 1}, ConsumerGroupMetadata("g", 1, "m"))
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({("in", 0): 2}, "g")

        assert simulation.cluster.transactions.committed_offsets == {("g", "in", 0): 2}


# Epochs


def old_brokers(simulation: Simulated) -> None:
    """They cannot give a producer another epoch (before 2.5)."""
    for broker in simulation.cluster.brokers.values():
        broker.versions[22] = (0, 2)


def test_with_old_brokers_a_refused_batch_is_aborted_and_work_continues() -> None:
    cluster = cluster_of(0)
    with simulated(cluster=cluster, transactional_id="x", config=ONE_BY_ONE, know=False) as simulation:
        old_brokers(simulation)
        simulation.know("t")
        producer = begun(simulation)
        producer.send("t", b"first", partition=0)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        simulation.network.holding = True
        deliveries = [producer.send("t", value, partition=0) for value in (b"refused", b"behind")]
        simulation.run_until(lambda: all(delivery._batch.in_flight for delivery in deliveries), time_passes=False)
        simulation.network.holding = False
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"next", partition=0)

        assert committed(simulation) == [b"next"]


def test_with_old_brokers_a_maybe_written_batch_leaves_only_close() -> None:
    cluster = cluster_of(0)
    config = {"delivery.timeout.ms": 2_000, "request.timeout.ms": 1_900, "linger.ms": 0}
    with simulated(cluster=cluster, transactional_id="x", config=config, know=False) as simulation:
        old_brokers(simulation)
        simulation.know("t")
        producer = begun(simulation)
        abort_for_an_expired_record(simulation, producer)
        producer.begin_transaction()
        producer.send("t", b"next", partition=0)
        with pytest.raises(FatalTransactionError, match=r"another epoch, which brokers before 2\.5"):
            producer.commit_transaction()


# Two things at once


@pytest.mark.parametrize("ended", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_COORDINATOR])
def test_a_response_after_a_failed_transaction_changes_nothing(
    code: ErrorCode, ended: str, caplog: pytest.LogCaptureFixture
) -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=1)
        simulation.run_until_idle()
        simulation.cluster.brokers[2].codes.append(ErrorCode.INVALID_RECORD)
        refuse(simulation, "AddPartitionsToTxn", code)
        before = requests(simulation).count("AddPartitionsToTxn")
        simulation.network.held = {1}  # the coordinator
        producer.send("t", b"v", partition=0)
        simulation.run_until(lambda: requests(simulation).count("AddPartitionsToTxn") > before, time_passes=False)
        producer.send("t", b"refused", partition=1)
        simulation.run_until(lambda: manager(simulation).state is State.ABORTABLE_ERROR, time_passes=False)
        simulation.network.held = set()
        simulation.round(until=simulation.clock())
        if ended == "commit_transaction":
            with pytest.raises(AbortableTransactionError):
                producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"next", partition=0)

        assert committed(simulation) == [b"next"]
    assert not [line for line in caplog.messages if "completing" in line]


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TRANSACTION_ABORTABLE])
def test_a_response_during_an_abort_is_no_further_failure(code: ErrorCode) -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x", max_block_ms=0) as simulation:
        with pytest.raises(TransactionTimeoutError):
            simulation.producer.init_transactions()
        simulation.pass_time(1.0)
        producer = begun(simulation)
        refuse(simulation, "AddPartitionsToTxn", code)
        simulation.network.holding = True
        producer.send("t", b"v", partition=0)
        simulation.run_until(lambda: "AddPartitionsToTxn" in requests(simulation), time_passes=False)
        with pytest.raises(TransactionTimeoutError):
            producer.abort_transaction()
        simulation.network.holding = False
        simulation.pass_time(1.0)
        producer.abort_transaction()

        assert manager(simulation).state is State.READY


def test_a_response_after_close_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v", partition=1)
        simulation.run_until_idle()
        simulation.cluster.brokers[2].codes.append(ErrorCode.PRODUCER_FENCED)
        refuse(simulation, "AddPartitionsToTxn", ErrorCode.PRODUCER_FENCED)
        before = requests(simulation).count("AddPartitionsToTxn")
        simulation.network.held = {1}  # the coordinator
        producer.send("t", b"v", partition=0)
        simulation.run_until(lambda: requests(simulation).count("AddPartitionsToTxn") > before, time_passes=False)
        producer.send("t", b"fenced", partition=1)
        simulation.run_until(lambda: manager(simulation).state is State.FATAL_ERROR, time_passes=False)
        simulation.network.held = set()
        simulation.pass_time(1.0)
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    assert not [line for line in caplog.messages if "completing" in line]


@pytest.mark.parametrize(
    ("codes", "after"),
    [
        ((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), State.IN_TRANSACTION),
        ((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED), State.ABORTABLE_ERROR),
        ((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.OPERATION_NOT_ATTEMPTED), State.ABORTABLE_ERROR),
        ((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_EPOCH), State.FATAL_ERROR),
        ((ErrorCode.NONE,), State.ABORTABLE_ERROR),
    ],
)
def test_of_several_partitions_the_one_with_the_cause_decides(codes: tuple[ErrorCode, ...], after: State) -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x") as simulation:
        begun(simulation)
        partitions = [("t", 0), ("t", 1)]
        request = AddPartitionsToTxn("x", ProducerIdAndEpoch(id=1, epoch=0), partitions)
        results = [
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
            for number, code in enumerate(codes)
        ]
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
        requests_of(simulation).on_response(
            request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]), simulation.clock()
        )

        assert manager(simulation).state is after
        if after is State.ABORTABLE_ERROR and ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes:
            assert "TOPIC_AUTHORIZATION_FAILED" in str(manager(simulation).cause)


def test_after_a_failed_round_an_answered_request_is_not_sent_again() -> None:
    with simulated(cluster=cluster_of(1), transactional_id="x") as simulation:
        producer = begun(simulation)
        producer.send("t", b"v")
        simulation.run_until(lambda: simulation.log() or simulation.log(1))
        before = requests(simulation)

        simulation.sender.recover(RuntimeError("a fault"), simulation.clock())
        producer.commit_transaction()

        again = Counter(requests(simulation)) - Counter(before)
        assert again["EndTxn"] == 1
        assert again.keys().isdisjoint({"AddPartitionsToTxn", "FindCoordinator", "InitProducerId"})


def test_a_request_that_a_failed_round_has_not_sent_is_sent_again() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        client = simulation.sender._client
        send = client.send

        def fail(node: int, request: Request, now: float) -> None:
            raise ZeroDivisionError

        initialized = manager(simulation).initialize()
        client.send = fail  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError) as caught:
            simulation.run_until(lambda: initialized.ended)
        client.send = send  # type: ignore[method-assign]
        simulation.sender.recover(caught.value, simulation.clock())
        simulation.run_until(lambda: initialized.ended)

        assert initialized.error is None


def test_close_without_time_ends_a_wait_for_the_coordinator() -> None:
    with simulated(cluster=cluster_of(), transactional_id="x") as simulation:
        waiting = manager(simulation).initialize()
        simulation.producer.close(0)

        with pytest.raises(ProducerClosedError, match="the producer is closed"):
            waiting.claim()


def test_a_block_after_a_commit_that_failed_late_does_not_begin() -> None:
    """Its records would belong to no transaction."""
    with simulated(1, config={"transactional.id": "mine", "linger.ms": 1_000}) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"failed")
        simulation.network.holding = True
        with pytest.raises(TransactionTimeoutError):
            producer.commit_transaction(timeout=0)
        simulation.accumulator.fail_queued(OttlaError("failed by the test"))
        simulation.network.holding = False
        simulation.pass_time(0.1)
        with pytest.raises(AbortableTransactionError, match="failed by the test"), producer.transaction():
            pytest.fail("the block has begun")
        with producer.transaction():
            producer.send("t", b"committed")

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"]
