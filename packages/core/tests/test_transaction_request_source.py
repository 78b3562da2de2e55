"""A producer's transactions request by request, without a network: what follows each call and each response."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.accumulator.sequences import Sequences
from ottla.errors import (
    AbortableTransactionError,
    ConnectionFailedError,
    ErrorCode,
    FatalTransactionError,
    IllegalStateError,
    TransactionError,
)
from ottla.network.backoff import Backoff
from ottla.producer.transactions import Transactions
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.confirmations import BELIEVED_AFTER
from ottla.transactions.coordinator_request import CoordinatorRequest, InitProducerId
from ottla.transactions.manager import TransactionManager
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.response_action_handler import BUSY_BELIEVED_FOR
from ottla.transactions.shared_transaction import SharedTransaction
from ottla.transactions.state_table import State
from ottla.transactions.transaction_request_source import TransactionRequestSource
from ottla.transactions.transaction_requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    TxnOffsetCommit,
)
from ottla.transactions.transaction_state import TransactionState

PARTITION = ("t", 0)
LOST = ConnectionFailedError("lost")
OFFSETS = OffsetsToSend.checked({("in", 0): 7}, "g")
SAID_BY_OUTDATED = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE]


class Setup:
    """A manager and its requests; the test answers them."""

    def __init__(self, version: int = 2) -> None:
        self.sequences = Sequences(transactional=True, required=True)
        self.state = TransactionState(transactional_id="x", client_id="c", sequences=self.sequences)
        self.manager = TransactionManager(self.state)
        self.requests = TransactionRequestSource(
            self.state,
            timeout_ms=1_000,
            two_phase=False,
            backoff=Backoff(initial=0.1, maximum=1.0),
            delivery_timeout=float("inf"),
        )
        self.requests.note_level(version)
        self.now = 0.0
        self.pause = 10.0
        self.coordinator = 1

    def next(self, *, all_complete: bool = True) -> CoordinatorRequest | None:
        """The next request, which is in flight from now on; coordinators are found on the way."""
        self.now += self.pause
        while (request := self.requests.next_request(self.now, all_complete=lambda: all_complete)) is not None:
            self.requests.begin(request)
            if not isinstance(request, FindCoordinator):
                return request
            self.requests.on_response(request, FindCoordinatorResponse(node_id=self.coordinator), self.now)
        return None

    def answer(self, request: CoordinatorRequest | None, response: object) -> None:
        assert request is not None
        self.requests.on_response(request, response, self.now)

    def initialize(self) -> None:
        self.manager.initialize()
        self.answer(self.next(), InitProducerIdResponse(producer_id=5, producer_epoch=0))
        self.claim()

    def claim(self) -> None:
        """Take the result of the last call, as its caller does."""
        result = self.state.result
        assert result is not None
        assert result.ended
        result.claim()

    def begin(self) -> None:
        """Begin a transaction with records of a partition."""
        self.manager.begin_transaction()
        self.sequences.transaction_partitions.admits(PARTITION)

    def end(self, *, commit: bool) -> None:
        self.manager.end(commit=commit)
        self.manager.all_records_queued()


def initialized(version: int = 2) -> Setup:
    setup = Setup(version)
    setup.initialize()
    return setup


def test_an_end_is_not_requested_before_every_record_is_queued() -> None:
    setup = initialized()
    setup.begin()
    assert setup.next() is None
    setup.manager.end(commit=True)
    assert setup.next(all_complete=True) is None
    setup.manager.all_records_queued()
    assert setup.next(all_complete=False) is None

    assert isinstance(setup.next(all_complete=True), EndTxn)


def test_the_last_error_is_named_until_the_coordinator_itself_answers() -> None:
    setup = Setup()
    setup.manager.initialize()
    setup.answer(setup.next(), InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR))
    request = setup.next()  # the coordinator was found again meanwhile
    assert "; last error: NOT_COORDINATOR" in setup.manager.describe(setup.manager.last_error)
    setup.answer(request, InitProducerIdResponse(producer_id=5, producer_epoch=0))

    assert "last error" not in setup.manager.describe(setup.manager.last_error)


def test_records_are_counted_while_no_thread_can_commit() -> None:
    setup = initialized()
    setup.begin()
    setup.manager.end(commit=True)
    setup.manager.all_records_queued()
    locked = []

    def all_complete() -> bool:
        locked.append(setup.state.lock.raw._is_owned())
        return False

    assert setup.requests.next_request(setup.now, all_complete=all_complete) is None
    assert locked == [True]


def abort_after_a_lost_response(setup: Setup, code: ErrorCode = ErrorCode.INVALID_TXN_STATE) -> None:
    """Begin a transaction, and abort it without knowing whether brokers have it; they answer with *code*."""
    setup.begin()
    lost = setup.next()
    assert isinstance(lost, AddPartitionsToTxn)
    setup.requests.on_disconnect(lost, LOST, setup.now)
    setup.end(commit=False)
    end = setup.next()
    assert isinstance(end, EndTxn)
    assert not end.commit
    setup.answer(end, EndTxnResponse(error_code=code.value))
    if code is ErrorCode.INVALID_TXN_STATE:  # the first one may be a coordinator that was replaced
        assert setup.next() == end
        setup.answer(end, EndTxnResponse(error_code=code.value))
    assert setup.next() is None
    setup.claim()


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
def test_after_a_lost_response_the_next_transaction_has_a_new_epoch(code: ErrorCode) -> None:
    """Also if brokers do not have the transaction: the request that begins it may arrive later."""
    setup = initialized(version=1)
    abort_after_a_lost_response(setup, code)
    setup.begin()
    bump = setup.next()

    assert isinstance(bump, InitProducerId)
    assert bump.current == ProducerIdAndEpoch(id=5, epoch=0)
    setup.answer(bump, InitProducerIdResponse(producer_id=5, producer_epoch=1))
    following = setup.next()
    assert isinstance(following, AddPartitionsToTxn)
    assert following.producer_id_and_epoch == ProducerIdAndEpoch(id=5, epoch=1)


def test_a_response_that_names_no_coordinator_is_asked_for_again() -> None:
    setup = Setup()
    setup.manager.initialize()
    find = setup.requests.next_request(setup.now, all_complete=lambda: True)
    assert isinstance(find, FindCoordinator)
    setup.requests.begin(find)
    setup.answer(find, FindCoordinatorResponse(node_id=-1))

    assert isinstance(setup.next(), InitProducerId)


def test_an_empty_transaction_requests_nothing_even_without_an_epoch() -> None:
    setup = initialized(version=1)
    abort_after_a_lost_response(setup)

    setup.manager.begin_transaction()
    assert setup.next() is None
    setup.end(commit=True)

    assert setup.next() is None
    setup.claim()


def test_an_abort_drops_the_offsets_of_its_transaction() -> None:
    setup = initialized()
    setup.manager.begin_transaction()
    sent = setup.manager.send_offsets(OFFSETS)
    assert isinstance(setup.next(), TxnOffsetCommit)
    setup.end(commit=False)

    with pytest.raises(AbortableTransactionError):
        sent.claim()
    assert not setup.state.offsets


def test_expired_offsets_have_the_error_of_their_own_last_request() -> None:
    """Other requests were answered since: those that look for the coordinator, for instance."""
    setup = initialized()
    setup.requests._delivery_timeout = 25.0
    setup.manager.begin_transaction()
    setup.manager.send_offsets(OFFSETS)
    setup.state.offsets.first.created_at = setup.now
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.NOT_COORDINATOR)
    topic = TxnOffsetCommitResponseTopic(name="in", partitions=[partition])
    setup.answer(setup.next(), TxnOffsetCommitResponse(topics=[topic]))
    setup.next()  # a coordinator is found; it gets the offsets, and does not answer
    setup.next()  # too late

    assert "(25 s): NOT_COORDINATOR" in str(setup.manager.cause)


def test_only_a_prepared_transaction_is_given_to_another_process() -> None:
    setup = initialized()
    assert setup.manager.prepared is None
    setup.begin()
    assert setup.manager.prepared is None

    setup.manager.prepare()
    setup.manager.all_records_queued()
    setup.next()

    prepared = setup.manager.prepared
    assert prepared is not None
    assert (prepared.transactional_id, prepared.producer_id) == ("x", 5)


def test_a_failure_that_was_interrupted_fails_the_offsets_later() -> None:
    """Between the note of the failure and the end of the offsets."""
    setup = initialized()
    setup.manager.begin_transaction()
    sent = setup.manager.send_offsets(OFFSETS)
    setup.state.cause = AbortableTransactionError("a record has failed")
    setup.state.transition_to(State.ABORTABLE_ERROR)
    assert not sent.ended

    setup.state.recover()

    with pytest.raises(AbortableTransactionError, match="a record has failed"):
        sent.claim()


def test_close_drops_the_offsets_of_the_open_transaction() -> None:
    setup = initialized()
    setup.manager.begin_transaction()
    sent = setup.manager.send_offsets(OFFSETS)
    setup.requests.close()

    with pytest.raises(AbortableTransactionError, match="the producer was closed"):
        sent.claim()


@pytest.mark.parametrize("end", ["abort", "close"])
def test_a_transaction_that_dropped_offsets_began_is_ended(end: str) -> None:
    """Its time-out would fence the producer a minute later."""
    setup = initialized(version=1)
    setup.manager.begin_transaction()
    setup.manager.send_offsets(OFFSETS)
    adding = setup.next()
    assert isinstance(adding, AddOffsetsToTxn)
    if end == "abort":
        setup.end(commit=False)
    else:
        setup.requests.close()
    setup.answer(adding, AddOffsetsToTxnResponse())

    assert isinstance(setup.next(), EndTxn)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("offsets", [False, True])
def test_a_transaction_that_may_have_begun_is_ended(code: ErrorCode, offsets: bool) -> None:
    """The next coordinator may read in its log what this one could not confirm."""
    setup = initialized(version=1)
    if offsets:
        setup.manager.begin_transaction()
        setup.manager.send_offsets(OFFSETS)
        setup.answer(setup.next(), AddOffsetsToTxnResponse(error_code=code))
    else:
        setup.begin()
        partition = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[partition])
        setup.answer(setup.next(), AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    setup.end(commit=False)

    assert isinstance(setup.next(), EndTxn)


def test_an_empty_transaction_needs_no_end_after_its_coordinator_moved() -> None:
    """Brokers would answer INVALID_TXN_STATE, which the producer could not survive."""
    setup = Setup(version=1)
    setup.manager.initialize()
    for _ in range(2):
        setup.answer(setup.next(), InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR))
    setup.answer(setup.next(), InitProducerIdResponse(producer_id=5, producer_epoch=0))
    setup.claim()
    setup.manager.begin_transaction()
    setup.end(commit=True)

    assert setup.next() is None
    assert setup.manager.state is State.READY


@pytest.mark.parametrize("awaited", [True, False])
def test_close_keeps_a_prepared_transaction_for_a_caller_that_waits(awaited: bool) -> None:
    """It may not have run since the result came: a task of a busy loop, for example."""
    setup = initialized()
    setup.begin()
    preparing = setup.manager.prepare()
    setup.manager.all_records_queued()
    assert setup.next() is None
    assert preparing.ended
    preparing.awaited = awaited
    setup.requests.close()

    assert setup.manager.state is (State.PREPARED if awaited else State.ABORTING)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION])
def test_a_response_for_dropped_offsets_changes_nothing(code: ErrorCode) -> None:
    setup = initialized()
    setup.manager.begin_transaction()
    setup.manager.send_offsets(OFFSETS)
    commit = setup.next()
    setup.end(commit=False)
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = TxnOffsetCommitResponseTopic(name="in", partitions=[partition])
    setup.answer(commit, TxnOffsetCommitResponse(topics=[topic]))

    assert setup.manager.state is State.ABORTING
    assert isinstance(setup.next(), EndTxn)


def ending(*, commit: bool) -> Setup:
    """A transaction that a call ends; its request for that comes next."""
    setup = initialized()
    setup.begin()
    assert setup.next() is None
    setup.end(commit=commit)
    return setup


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE]
)
def test_an_abort_that_cannot_be_aborted_fails_the_producer(code: ErrorCode) -> None:
    setup = ending(commit=False)
    setup.answer(setup.next(), EndTxnResponse(error_code=code))
    if code is ErrorCode.INVALID_TXN_STATE:  # the first one may be a coordinator that was replaced
        assert setup.manager.cause is None
        setup.answer(setup.next(), EndTxnResponse(error_code=code))

    assert isinstance(setup.manager.cause, FatalTransactionError)
    assert "transaction.timeout.ms" not in str(setup.manager.cause)  # an abort by the coordinator is no reason


def test_after_the_abort_of_the_coordinator_the_producer_can_go_on() -> None:
    """With KIP-890 the abort after transaction.timeout.ms does not fence the producer."""
    setup = ending(commit=True)
    for _ in range(2):  # the first one may be a coordinator that was replaced
        assert setup.manager.cause is None
        setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE))

    assert isinstance(setup.manager.cause, AbortableTransactionError)
    assert "open for longer than transaction.timeout.ms, or another program or an admin" in str(setup.manager.cause)
    setup.end(commit=False)
    setup.answer(setup.next(), EndTxnResponse(producer_id=7, producer_epoch=1))
    assert setup.manager.state is State.READY
    assert setup.sequences.producer_id_and_epoch == ProducerIdAndEpoch(id=7, epoch=1)


def test_before_kip_890_a_commit_in_a_wrong_state_fails_the_producer() -> None:
    setup = initialized(version=1)
    setup.begin()
    done = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=ErrorCode.NONE)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
    setup.answer(setup.next(), AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    setup.end(commit=True)
    for _ in range(2):  # the first one may be a coordinator that was replaced
        assert setup.manager.cause is None
        setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE))

    assert setup.manager.state is State.FATAL_ERROR


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED])
def test_a_producer_that_failed_for_good_has_no_producer_id(code: ErrorCode) -> None:
    setup = ending(commit=True)
    while (request := setup.next()) is not None:
        setup.answer(request, EndTxnResponse(error_code=code))

    assert setup.manager.state is State.FATAL_ERROR
    assert setup.sequences.producer_id_and_epoch is None
    assert setup.next() is None


@pytest.mark.parametrize("code", SAID_BY_OUTDATED)
def test_an_initialization_that_is_refused_is_asked_once_more(code: ErrorCode) -> None:
    setup = Setup()
    setup.manager.initialize()
    setup.answer(setup.next(), InitProducerIdResponse(error_code=code))
    assert setup.manager.cause is None
    setup.answer(setup.next(), InitProducerIdResponse(error_code=code))

    assert setup.manager.state is State.FATAL_ERROR


@pytest.mark.parametrize("code", SAID_BY_OUTDATED)
def test_a_request_in_a_new_epoch_is_asked_once_more_as_well(code: ErrorCode) -> None:
    """Whatever was refused before the epoch was assigned."""
    setup = initialized(version=1)
    abort_after_a_lost_response(setup)
    setup.begin()
    setup.answer(setup.next(), InitProducerIdResponse(error_code=code))
    setup.answer(setup.next(), InitProducerIdResponse(producer_id=5, producer_epoch=1))
    for _ in range(2):
        assert setup.manager.state is State.IN_TRANSACTION
        adding = setup.next()
        assert isinstance(adding, AddPartitionsToTxn)
        setup.answer(adding, added(code))

    assert setup.manager.state is State.FATAL_ERROR


@pytest.mark.parametrize("code", SAID_BY_OUTDATED)
def test_a_request_of_the_next_transaction_is_asked_once_more_as_well(code: ErrorCode) -> None:
    setup = initialized(version=1)
    for refusal in [code, code]:
        setup.begin()
        setup.answer(setup.next(), added(refusal))
        setup.answer(setup.next(), added(ErrorCode.NONE))
        setup.end(commit=True)
        setup.answer(setup.next(), EndTxnResponse())
        setup.claim()

    assert setup.manager.state is State.READY


@pytest.mark.parametrize("started", [False, True])
def test_after_an_abort_without_an_id_another_one_is_requested(*, started: bool) -> None:
    setup = initialized(version=1)
    setup.begin()
    if started:
        setup.answer(setup.next(), added(ErrorCode.NONE))
    else:
        lost = setup.next()
        assert lost is not None
        setup.requests.on_disconnect(lost, LOST, setup.now)
    setup.end(commit=False)
    for _ in range(2):
        end = setup.next()
        assert isinstance(end, EndTxn)
        setup.answer(end, EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    setup.claim()
    setup.begin()

    assert isinstance(setup.next(), InitProducerId)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_a_partition_of_a_lost_commit_is_added_again_for_a_while(code: ErrorCode) -> None:
    """Before KIP-890, before the commit is repeated: otherwise a program would write again what is committed."""
    setup = initialized(version=1)
    setup.begin()
    setup.answer(setup.next(), added(ErrorCode.NONE))
    setup.end(commit=True)
    end = setup.next()
    assert end is not None
    setup.requests.on_disconnect(end, LOST, setup.now)
    setup.coordinator = 2
    setup.pause = BELIEVED_AFTER / 3
    for _ in range(4):
        assert setup.manager.state is State.COMMITTING
        adding = setup.next()
        assert isinstance(adding, AddPartitionsToTxn)
        setup.answer(adding, added(code))

    assert setup.manager.state is State.FATAL_ERROR


def test_a_busy_coordinator_is_looked_up_again_after_a_while() -> None:
    """It may have been replaced while it ended the transaction before, and not know it."""
    setup = Setup()
    setup.manager.initialize()
    busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    found = []
    for answers in (busy, busy, busy, InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), busy):
        setup.now += BUSY_BELIEVED_FOR * 0.6
        request = setup.requests.next_request(setup.now, all_complete=lambda: True)
        assert request is not None
        setup.requests.begin(request)
        found.append(request)
        if isinstance(request, FindCoordinator):
            setup.answer(request, FindCoordinatorResponse(node_id=1))
            request = setup.requests.next_request(setup.now, all_complete=lambda: True)
            assert request is not None
            setup.requests.begin(request)
        setup.answer(request, answers)

    finds = [isinstance(request, FindCoordinator) for request in found]
    assert finds == [True, False, False, True, False]
    assert isinstance(found[3], FindCoordinator)
    assert found[3].doubted == 1


def added(code: ErrorCode) -> AddPartitionsToTxnResponse:
    done = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def called_fenced(version: int) -> Setup:
    """A commit to which a broker says CONCURRENT_TRANSACTIONS, then PRODUCER_FENCED, as one that was frozen does."""
    setup = initialized(version)
    setup.begin()
    request = setup.next()
    if version < 2:
        done = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=ErrorCode.NONE)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[done])
        setup.answer(request, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    setup.end(commit=True)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS))
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    return setup


def test_a_former_coordinator_that_calls_a_commit_fenced_is_not_believed() -> None:
    setup = called_fenced(version=2)
    setup.now += 10.0
    find = setup.requests.next_request(setup.now, all_complete=lambda: True)
    assert isinstance(find, FindCoordinator)
    setup.requests.begin(find)
    setup.answer(find, FindCoordinatorResponse(node_id=2))
    setup.answer(setup.next(), EndTxnResponse(producer_id=5, producer_epoch=1))

    assert setup.manager.state is State.READY
    assert setup.sequences.producer_id_and_epoch == ProducerIdAndEpoch(id=5, epoch=1)


def test_a_commit_that_is_called_fenced_again_fails_the_producer() -> None:
    setup = called_fenced(version=2)
    again = setup.next()
    assert isinstance(again, EndTxn)
    setup.answer(again, EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    assert setup.manager.state is State.FATAL_ERROR


def test_a_commit_that_is_called_fenced_is_asked_once_more_and_no_more() -> None:
    setup = called_fenced(version=2)
    setup.now += 10.0
    find = setup.requests.next_request(setup.now, all_complete=lambda: True)
    assert isinstance(find, FindCoordinator)
    setup.requests.begin(find)
    setup.answer(find, FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    again = setup.next()
    assert isinstance(again, EndTxn)
    setup.answer(again, EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    assert setup.manager.state is State.FATAL_ERROR


def test_a_later_commit_that_is_called_fenced_is_asked_once_more_too() -> None:
    setup = called_fenced(version=2)
    setup.answer(setup.next(), EndTxnResponse(producer_id=5, producer_epoch=1))
    setup.claim()
    setup.begin()
    assert setup.next() is None
    setup.end(commit=True)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    setup.answer(setup.next(), EndTxnResponse(producer_id=5, producer_epoch=2))

    assert setup.manager.state is State.READY


def test_before_kip_890_a_commit_called_fenced_is_asked_once_more() -> None:
    """The producer may have begun its epoch at the coordinator that has taken the place of this one."""
    setup = called_fenced(version=1)
    assert setup.manager.cause is None
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    assert setup.manager.state is State.FATAL_ERROR


def test_an_abort_that_is_called_fenced_twice_fails_the_producer() -> None:
    setup = ending(commit=False)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    assert setup.manager.cause is None
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    assert setup.manager.state is State.FATAL_ERROR


def test_an_abort_after_refused_commits_is_asked_once_more_as_well() -> None:
    setup = ending(commit=True)
    for _ in range(2):
        setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE))
    setup.end(commit=False)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))
    setup.answer(setup.next(), EndTxnResponse(producer_id=7, producer_epoch=1))

    assert setup.manager.state is State.READY


def test_no_end_with_an_epoch_that_is_invalid_is_asked_again() -> None:
    """Coordinators have this code only for requests of before 2.7."""
    setup = ending(commit=True)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH))

    assert setup.manager.state is State.FATAL_ERROR


@pytest.mark.parametrize("commit", [True, False])
def test_only_a_commit_whose_response_was_lost_may_have_committed(commit: bool) -> None:
    setup = ending(commit=commit)
    request = setup.next()
    assert isinstance(request, EndTxn)
    setup.requests.on_disconnect(request, LOST, setup.now)

    assert setup.state.current.maybe_committed == commit


@pytest.mark.parametrize("lost", [True, False])
def test_the_error_of_a_failed_producer_says_if_it_may_have_committed(lost: bool) -> None:
    setup = ending(commit=True)
    if lost:
        request = setup.next()
        assert request is not None
        setup.requests.on_disconnect(request, LOST, setup.now)
    setup.answer(setup.next(), EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    assert isinstance(setup.manager.cause, FatalTransactionError)
    assert ("The transaction may have been committed before. Close it" in str(setup.manager.cause)) == lost


def test_a_commit_that_was_not_written_has_not_committed() -> None:
    setup = ending(commit=True)
    request = setup.next()
    assert isinstance(request, EndTxn)
    setup.requests.on_disconnect(request, LOST, setup.now, written=False)

    assert not setup.state.current.maybe_committed


def test_after_an_abort_the_error_of_the_transaction_is_raised_no_more() -> None:
    setup = initialized(version=1)
    setup.begin()
    refused = AddPartitionsToTxnPartitionResult(
        partition_index=0, partition_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[refused])
    setup.answer(setup.next(), AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    with pytest.raises(AbortableTransactionError):
        setup.manager.end(commit=True)
    setup.end(commit=False)
    assert setup.next() is None
    setup.claim()

    assert setup.manager.cause is None
    with pytest.raises(IllegalStateError, match="ready, no transaction open"):
        setup.manager.end(commit=True)


def test_a_prepared_transaction_that_was_kept_is_ended_by_a_request() -> None:
    setup = Setup()
    setup.manager.initialize(keep_prepared=True)
    kept = InitProducerIdResponse(
        producer_id=5, producer_epoch=1, ongoing_txn_producer_id=5, ongoing_txn_producer_epoch=0
    )
    setup.answer(setup.next(), kept)
    setup.claim()
    prepared = setup.manager.prepared
    assert prepared is not None
    assert (prepared.written, prepared.level, prepared.epoch) == (True, 2, 1)
    setup.end(commit=True)
    end = setup.next()

    assert isinstance(end, EndTxn)
    assert (end.commit, end.txn_v2) == (True, True)


@pytest.mark.rule("producer.transactions.end-confirmed")
@pytest.mark.parametrize("prepared", [True, False])
def test_a_prepared_transaction_is_not_added_once_more(prepared: bool) -> None:
    """Another process may have ended it: it would be a new one."""
    setup = initialized(version=1)
    setup.begin()
    setup.answer(
        setup.next(),
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name="t", results_by_partition=[AddPartitionsToTxnPartitionResult(partition_index=0)]
                )
            ]
        ),
    )
    if prepared:
        setup.manager.prepare()
        setup.manager.all_records_queued()
        assert setup.next() is None
        setup.claim()
    setup.end(commit=True)
    end = setup.next()
    setup.coordinator = 2
    setup.answer(end, EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR))

    assert isinstance(setup.next(), EndTxn if prepared else AddPartitionsToTxn)


@pytest.mark.parametrize("keep_prepared", [True, False])
def test_init_transactions_returns_a_transaction_that_was_kept(keep_prepared: bool) -> None:
    setup = Setup()
    nothing: Any = None  # no record is sent
    calls = Transactions(
        manager=setup.manager, accumulator=nothing, max_block=20.0, wake=lambda: None, obstacle=lambda: None
    )
    call = calls.initialize(None, keep_prepared=keep_prepared)
    open_one = {"ongoing_txn_producer_id": 5, "ongoing_txn_producer_epoch": 0} if keep_prepared else {}
    setup.answer(setup.next(), InitProducerIdResponse(producer_id=5, producer_epoch=1, **open_one))
    kept = call.wait()

    assert (kept is not None) == keep_prepared
    assert kept is None or (kept.transactional_id, kept.producer_id, kept.epoch) == ("x", 5, 1)


def test_an_initialization_that_was_refused_after_a_timeout_begins_again() -> None:
    setup = Setup()
    late = setup.manager.initialize()
    refused = InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    setup.answer(setup.next(), refused)
    assert isinstance(late.error, TransactionError)
    setup.initialize()

    assert setup.manager.state is State.READY


def test_only_the_first_producer_id_request_keeps_a_prepared_transaction() -> None:
    setup = Setup(version=1)
    setup.manager.initialize(keep_prepared=True)
    first = setup.next()
    setup.answer(first, InitProducerIdResponse(producer_id=5, producer_epoch=0))
    setup.claim()
    setup.requests.note_level(1)
    abort_after_a_lost_response(setup)
    setup.begin()
    bump = setup.next()

    assert isinstance(first, InitProducerId)
    assert isinstance(bump, InitProducerId)
    assert (first.keep_prepared, first.floor) == (True, 6)
    assert (bump.keep_prepared, bump.floor, bump.ceiling) == (False, 3, 5)


@pytest.mark.parametrize("leaving", [True, False])
def test_a_record_that_fails_in_a_shared_transaction_fails_the_producer(leaving: bool) -> None:
    setup = Setup()
    setup.manager.join(SharedTransaction(transactional_id="x", producer_id=5, epoch=0, level=2))
    if leaving:
        setup.manager.leave()
    setup.sequences.failure = LOST
    assert setup.next() is None

    assert setup.manager.state is State.FATAL_ERROR
    assert isinstance(setup.manager.cause, AbortableTransactionError)
    assert "its owner has to abort it" in str(setup.manager.cause)


def test_partitions_are_added_before_the_offsets_of_a_transaction() -> None:
    setup = initialized(version=1)
    setup.begin()
    setup.manager.send_offsets(OFFSETS)

    assert isinstance(setup.next(), AddPartitionsToTxn)  # its batches wait for that


def test_after_a_success_the_pauses_between_repeats_are_short_again() -> None:
    setup = initialized(version=1)
    setup.begin()
    pauses = []

    def lose(request: CoordinatorRequest | None) -> None:
        assert request is not None
        setup.requests.on_disconnect(request, LOST, setup.now)
        pauses.append(setup.requests.due_at() - setup.now)

    for _ in range(3):
        lose(setup.next())
    added = AddPartitionsToTxnTopicResult(
        name="t",
        results_by_partition=[AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=0)],
    )
    setup.answer(setup.next(), AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[added]))
    setup.sequences.transaction_partitions.admits(("t", 1))
    lose(setup.next())

    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.1], rel=0.21)  # 20 % are chance
