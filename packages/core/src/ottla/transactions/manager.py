"""A transactional producer's state and its next request to brokers; no I/O, and time is an argument.

Callers note what they ask for under a lock. The I/O thread derives the next request from the state. So a request that
was lost or got a retriable error is repeated without a queue.
"""

from __future__ import annotations

import logging
from typing import Any, assert_never

from ottla.accumulator.sequences import Sequences
from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    ErrorCode,
    IllegalStateError,
    OttlaError,
    ProtocolError,
    UnsupportedVersionError,
    error_code,
)
from ottla.network.backoff import Backoff
from ottla.recordbatch.stamp import ProducerId
from ottla.transactions import transactional_requests as errands
from ottla.transactions.coordinators import Coordinators, found, nobody
from ottla.transactions.error_actions import (
    FATAL_FOR_A_TRANSACTION,
    TRANSACTION_ERROR_ACTIONS,
    CoordinatorRequestKind,
    TransactionErrorAction,
    last_word,
)
from ottla.transactions.offsets import OffsetsToSend, TopicPartition
from ottla.transactions.pending_offsets import PendingOffsetCommit, PendingOffsetCommits
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.prepared import PreparedTransaction
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.requests import CoordinatorRequest, initialize
from ottla.transactions.shared import SharedTransaction
from ottla.transactions.states import State
from ottla.transactions.transaction_state import TransactionStateMachine

logger = logging.getLogger(__name__)

_UNUSED = -1

SECONDS_AFTER_ANOTHER = 0.02
"""The longest backoff for CONCURRENT_TRANSACTIONS: the coordinator ends the previous transaction in a moment."""

NEW_GENERATION = 2
"""The level of the feature `transaction.version` from which writing adds partitions to a transaction (KIP-890)."""


class TransactionManager(TransactionStateMachine):
    """The transactions of one producer. Methods for callers work on any thread, the others on the I/O thread."""

    def __init__(
        self,
        *,
        transactional_id: str,
        timeout_ms: int,
        two_phase: bool,
        sequences: Sequences,
        backoff: Backoff,
        client_id: str,
    ) -> None:
        super().__init__(transactional_id=transactional_id, client_id=client_id)
        self.two_phase = two_phase
        self._timeout_ms = timeout_ms
        self._sequences = sequences
        self._backoff = backoff
        self._keep_prepared = False
        self._may_end = False
        self._sendings = PendingOffsetCommits()
        self._coordinators = Coordinators(transactional_id)
        self._under_way = False
        self._failures = 0
        self._retry_at = float("-inf")
        self._last_error: OttlaError | None = None
        self._started = False
        self._perhaps_started = False  # an answer was lost
        self._level = _UNUSED  # of the feature transaction.version, in the current epoch
        self._level_now = 0
        self._due_at = float("inf")
        self._needs_new_epoch = False
        self._was_prepared = False

    # Methods for callers

    def check_open(self) -> None:
        """Raise unless records may be queued now."""
        if self.state not in _SENDING:
            with self._lock:
                self._require("send", *_SENDING)

    def initialize(self, *, keep_prepared: bool = False) -> TransactionalRequestResult:
        """Request a producer id, which fences the previous producer of the transactional id."""
        with self._lock:
            if (same := self._same("init_transactions")) is not None:
                return same
            self._require("init_transactions", State.UNINITIALIZED)
            self._keep_prepared = keep_prepared
            self._transition_to(State.INITIALIZING)
            return self._promise("init_transactions")

    def begin_transaction(self) -> None:
        """Allow records to be queued."""
        with self._lock:
            self._require("begin_transaction", State.READY)
            self._transition_to(State.IN_TRANSACTION)

    def send_offsets(self, sending: OffsetsToSend) -> TransactionalRequestResult:
        """Add a group's offsets to the transaction."""
        with self._lock:
            self._require("send_offsets_to_transaction", State.IN_TRANSACTION)
            return self._sendings.add(sending)

    def end(self, *, commit: bool) -> TransactionalRequestResult:
        """Refuse further records, and end the transaction after `all_records_queued`."""
        what, moving = ("commit_transaction", State.COMMITTING) if commit else ("abort_transaction", State.ABORTING)
        with self._lock:
            if (same := self._same(what)) is not None:
                return same
            allowed = [State.IN_TRANSACTION, State.PREPARED]
            self._require(what, *allowed, *(() if commit else (State.ABORTABLE_ERROR,)))
            self._may_end = False
            self._transition_to(moving)
            if not commit:
                self._sendings.drop(AbortableTransactionError("the transaction was aborted"))
            return self._promise(what)

    def prepare(self) -> TransactionalRequestResult:
        """Refuse further records, and wait until all are written; another process ends the transaction."""
        with self._lock:
            if (same := self._same("prepare_transaction")) is not None:
                return same
            self._require("prepare_transaction", State.IN_TRANSACTION)
            self._may_end = False
            self._was_prepared = True
            self._transition_to(State.PREPARED)
            return self._promise("prepare_transaction")

    def join(self, shared: SharedTransaction) -> None:
        """Allow records to be queued for a transaction that its owner opened, and will end."""
        with self._lock:
            self._require("join_transaction", State.UNINITIALIZED)
            if shared.transactional_id != self.transactional_id:
                raise IllegalStateError(
                    f"join_transaction: the transaction is of transactional.id {shared.transactional_id!r}, and the "
                    f"producer of {self.transactional_id!r}; make the producer with that id"
                )
            self._sequences.begin_transaction()
            self._sequences.begin_epoch(ProducerId(id=shared.producer_id, epoch=shared.epoch))
            self._level = shared.level
            self._started = True
            self._transition_to(State.JOINED)

    def leave(self) -> TransactionalRequestResult:
        """Refuse further records for the joined transaction, and wait until all are written."""
        with self._lock:
            if (same := self._same("leave_transaction")) is not None:
                return same
            self._require("leave_transaction", State.JOINED)
            self._may_end = False
            self._transition_to(State.LEAVING)
            return self._promise("leave_transaction")

    def all_records_queued(self) -> None:
        """Note that every record of the transaction is queued by now."""
        self._may_end = True

    def where(self) -> str:
        """The state and the last error, for the message of a timeout."""
        with self._lock:
            last = f"; last error: {self._last_error}" if self._last_error is not None else ""
            return f"the producer with transactional.id {self.transactional_id!r} is {self.state.value}{last}"

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction, for the process that will end it; None if there is none."""
        owner = self._sequences.owner
        if self.state is not State.PREPARED or owner is None:
            return None
        return PreparedTransaction(
            transactional_id=self.transactional_id,
            producer_id=owner.id,
            epoch=owner.epoch,
            level=max(self._level, 0),
            written=self._started,
        )

    @property
    def uses_txn_v2(self) -> bool:
        """Return whether the open transaction uses the protocol of KIP-890."""
        return self._level >= NEW_GENERATION

    # Methods of RequestSource

    @property
    def queued_batches(self) -> QueuedBatches:
        """Queued batches are sent until their transaction cannot be committed any more."""
        match self.state:
            case State.FATAL_ERROR:
                return QueuedBatches.FAIL
            case State.ABORTABLE_ERROR | State.ABORTING:
                return QueuedBatches.ABORT
            case _:
                return QueuedBatches.SEND

    @property
    def obstacle(self) -> OttlaError | None:
        """The error because of which the last request has to be repeated."""
        return self._last_error

    @property
    def idle(self) -> bool:
        """Return whether no transaction is being ended."""
        return self.state not in (State.COMMITTING, State.ABORTING)

    def note_level(self, level: int) -> None:
        """Note the cluster's `transaction.version`; it takes effect with the next transaction."""
        self._level_now = level

    def next_request(self, now: float, *, settled: bool) -> CoordinatorRequest | None:
        """The request to send now, or None."""
        with self._lock:
            self._look_at_failures()
            self._due_at = float("inf")
            if self._under_way:
                return None
            self._end_without_asking(settled=settled)
            request = self._wanted(settled=settled)
            if request is None:
                return None
            if now < self._retry_at:
                self._due_at = self._retry_at
                return None
            return self._coordinators.before(request)

    def due_at(self) -> float:
        """The time of the next attempt; infinite unless a backoff is running or batches have just become sendable."""
        return self._due_at

    def node(self, request: CoordinatorRequest) -> int | None:
        """The coordinator that a request is for."""
        return self._coordinators.node(request)

    def begin(self, request: CoordinatorRequest) -> None:
        """Note that a request is in flight."""
        self._under_way = True

    def on_response(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        """Handle a response."""
        with self._lock:
            self._under_way = False
            if self.state is State.FATAL_ERROR:
                return
            match request.kind:
                case CoordinatorRequestKind.INITIALIZE:
                    if self._on_error_code(request, answer.error_code, now):
                        self._on_producer_id(answer, now)
                case CoordinatorRequestKind.FIND_COORDINATOR | CoordinatorRequestKind.FIND_GROUP:
                    self._on_coordinator(request, answer, now)
                case CoordinatorRequestKind.ADD_PARTITIONS:
                    self._on_partitions_added(request, answer, now)
                case CoordinatorRequestKind.ADD_OFFSETS:
                    if self._on_error_code(request, answer.error_code, now) and self._sendings:
                        self._started = self._sendings.first.announced = True
                case CoordinatorRequestKind.COMMIT_OFFSETS:
                    self._on_offsets_committed(request, answer, now)
                case CoordinatorRequestKind.END:
                    if self._on_error_code(request, answer.error_code, now):
                        if answer.producer_id >= 0:
                            owner = ProducerId(id=answer.producer_id, epoch=answer.producer_epoch)
                            self._sequences.begin_epoch(owner)
                        elif self.uses_txn_v2:
                            self._needs_new_epoch = True
                        # The transaction is over from here on, also if an exception follows: it must not be ended
                        # twice.
                        self._started = self._perhaps_started = False
                        self._complete()
                case _:
                    assert_never(request.kind)

    def on_disconnect(self, request: CoordinatorRequest, error: OttlaError, now: float) -> None:
        """Forget the coordinator, and repeat the request after a backoff."""
        with self._lock:
            self._under_way = False
            if self.state is State.FATAL_ERROR:
                return
            self._coordinators.forget(request)
            self._perhaps_started |= request.kind in (
                CoordinatorRequestKind.ADD_PARTITIONS,
                CoordinatorRequestKind.ADD_OFFSETS,
            )
            self._try_again(error, now)

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Fail, because a broker is too old for the request."""
        with self._lock:
            self._under_way = False
            if self.state is State.FATAL_ERROR:
                return
            newest = self.two_phase or self._keep_prepared
            if request.kind is CoordinatorRequestKind.INITIALIZE and self.state is State.INITIALIZING and newest:
                what = "transaction.two.phase.commit.enable=true" if self.two_phase else "keep_prepared=True"
                why = f"{what} needs brokers that offer InitProducerId 6 (KIP-939)"
                self._refuse(UnsupportedVersionError(f"{why}: {error}"))
            elif request.kind is CoordinatorRequestKind.INITIALIZE and self.state is State.INITIALIZING:
                self._refuse(UnsupportedVersionError(f"transactions need brokers of 0.11 or later: {error}"))
            elif request.kind is CoordinatorRequestKind.INITIALIZE:
                why = "it needs another epoch now, which brokers before 2.5 give to a new producer only"
                self._transition_to_fatal(UnsupportedVersionError(f"{why}: {error}"))
            else:
                self._transition_to_fatal(error)

    def fail_fatally(self, error: OttlaError) -> None:
        """Fail `init_transactions` if it waits; after initialization an outage does not fail the producer."""
        with self._lock:
            if self.state is State.INITIALIZING:
                self._refuse(error)

    def recover(self) -> None:
        """Complete results that still wait although the state is final, after an exception in a round."""
        with self._lock:
            if self.state in (State.READY, State.FATAL_ERROR, State.ABORTABLE_ERROR):
                self._end_pending(self.cause)
            if self.cause is not None:
                self._let_go(self.cause)
            self._sendings.recover()

    def close(self) -> None:
        """Abort an open transaction; a prepared one stays, as intended. For any thread."""
        with self._lock:
            if self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                self._transition_to(State.ABORTING)
                self._sendings.drop(AbortableTransactionError("the producer was closed"))
                self._promise("close")
            if self.state in (State.COMMITTING, State.ABORTING):
                self._may_end = True

    def abort_pending(self, error: OttlaError) -> None:
        """Fail all waiting callers; no further requests are sent."""
        with self._lock:
            if not self.idle:
                self._lock.log(
                    logger,
                    logging.WARNING,
                    "%s: the producer was closed while transactional.id %r was %s",
                    self._client_id,
                    self.transactional_id,
                    self.state.value,
                )
            self._end_pending(error)
            self._sendings.drop(error)

    # Choosing the next request

    def _look_at_failures(self) -> None:
        """Fail the transaction, or the producer, after a record failed."""
        failure = self._sequences.failure
        if failure is None or self.state not in _SPOILABLE:
            return
        cause = failure.__cause__
        if isinstance(cause, BrokerError) and cause.code in FATAL_FOR_A_TRANSACTION:
            self._transition_to_fatal(cause)
        else:
            self._transition_to_abortable(failure)

    def _end_without_asking(self, *, settled: bool) -> None:
        """End what needs no request to a broker."""
        if not self._may_end or not settled or self._sendings:
            return
        if self.state is State.PREPARED:
            self._end_pending()
        elif self.state is State.LEAVING:
            self._started = False
            self._level = _UNUSED
            self._transition_to(State.UNINITIALIZED)
            self._end_pending()
        elif self.state in (State.COMMITTING, State.ABORTING) and not self._started:
            self._complete()

    def _wanted(self, *, settled: bool) -> CoordinatorRequest | None:
        """The next request; its coordinator may still have to be found."""
        owner, sequences = self._sequences.owner, self._sequences
        match self.state:
            case State.INITIALIZING:
                return self._initialize()
            case State.IN_TRANSACTION | State.COMMITTING | State.PREPARED:
                assert owner is not None, "a transaction begins after an id was given"
                if (sequences.wanted or self._sendings) and not self._begun():
                    return self._initialize(current=owner)
                if sequences.wanted and (partitions := self._members_to_be()):
                    return errands.add_partitions(self.transactional_id, owner, partitions)
                if self._sendings:
                    return self._send_offsets(owner, self._sendings.first)
            case State.JOINED | State.LEAVING:
                assert owner is not None, "it came with the transaction"
                if sequences.wanted and (partitions := self._members_to_be()):
                    return errands.add_partitions(self.transactional_id, owner, partitions)
                return None
            case State.ABORTING:
                pass
            case _:
                return None
        if self.state in (State.COMMITTING, State.ABORTING) and self._may_end and settled:
            assert owner is not None, "a transaction begins after an id was given"
            return errands.end(
                self.transactional_id, owner, commit=self.state is State.COMMITTING, txn_v2=self.uses_txn_v2
            )
        return None

    def _initialize(self, *, current: ProducerId | None = None) -> CoordinatorRequest:
        return initialize(
            transactional_id=self.transactional_id,
            timeout_ms=self._timeout_ms,
            current=current,
            two_phase=self.two_phase,
            keep_prepared=self._keep_prepared and current is None,
        )

    def _begun(self) -> bool:
        """Begin the transaction for the brokers; False if it needs another epoch first."""
        if self._started:
            return True
        if self._level_now >= NEW_GENERATION > self._level != _UNUSED:
            self._needs_new_epoch = True  # requests of the old protocol may still be in flight in this epoch
        if self._needs_new_epoch:
            return False
        self._level = self._level_now
        return True

    def _members_to_be(self) -> list[TopicPartition]:
        """Partitions to add at the coordinator; with KIP-890 writing adds them."""
        sequences = self._sequences
        if not self.uses_txn_v2:
            return list(sequences.wanted)
        sequences.members.update(sequences.wanted)
        sequences.wanted.clear()
        self._started = sequences.joining = True
        self._due_at = float("-inf")  # their batches may be sent now
        return []

    def _send_offsets(self, owner: ProducerId, sending: PendingOffsetCommit) -> CoordinatorRequest:
        if not self.uses_txn_v2 and not sending.announced:
            return errands.add_offsets(self.transactional_id, owner, sending.sending.group.group_id)
        self._started = True
        return errands.commit_offsets(
            self.transactional_id, owner, sending.sending, sending.unwritten, txn_v2=self.uses_txn_v2
        )

    # Handling responses

    def _on_error_code(self, request: CoordinatorRequest, number: int, now: float) -> bool:
        """Do what an error code asks for; return True if there is no error."""
        code = error_code(number)
        action = TRANSACTION_ERROR_ACTIONS[request.kind][code]
        error = BrokerError(code)
        match action:
            case TransactionErrorAction.DONE:
                self._failures = 0
                self._last_error = self._sequences.obstacle = None
                return True
            case TransactionErrorAction.RETRY:
                self._try_again(error, now)
            case TransactionErrorAction.REFIND:
                self._coordinators.forget(request)
                self._try_again(error, now)
            case TransactionErrorAction.REFUSED if self.state is State.INITIALIZING:
                self._refuse(error)
            case TransactionErrorAction.ABORTABLE if self.state is State.INITIALIZING:
                self._refuse(error)
            case TransactionErrorAction.ABORTABLE if self.state in _SPOILABLE:
                self._transition_to_abortable(error)
            case TransactionErrorAction.ABORTABLE if request.kind is not CoordinatorRequestKind.END:
                pass  # it is being aborted, or can only be, already
            case TransactionErrorAction.FENCED:
                self._transition_to_fenced(error)
            case TransactionErrorAction.FATAL | TransactionErrorAction.REFUSED | TransactionErrorAction.ABORTABLE:
                self._transition_to_fatal(error)
            case _:
                assert_never(action)
        return False

    def _on_producer_id(self, answer: Any, now: float) -> None:
        if answer.producer_id < 0 or answer.producer_epoch < 0:
            self._try_again(ProtocolError("an answer to InitProducerId has no id"), now)
            return
        self._sequences.begin_epoch(ProducerId(id=answer.producer_id, epoch=answer.producer_epoch))
        self._needs_new_epoch = False
        self._level = _UNUSED
        if self.state is not State.INITIALIZING:
            return
        self._lock.log(
            logger, logging.DEBUG, "%s: %s for %r", self._client_id, self._sequences.owner, self.transactional_id
        )
        self._sequences.begin_transaction()
        if answer.ongoing_txn_producer_id >= 0:
            self._started = True
            self._level = self._level_now
            self._transition_to(State.PREPARED)
        else:
            self._transition_to(State.READY)
        self._end_pending()

    def _on_coordinator(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        coordinator = found(request, answer)
        if not coordinator.error_code and (error := nobody(coordinator)):
            self._try_again(error, now)
        elif self._on_error_code(request, coordinator.error_code, now):
            self._coordinators.learn(request, coordinator.node_id)

    def _on_partitions_added(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        results = {
            (topic.name, each.partition_index): error_code(each.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        codes = [results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in request.partitions]
        # OPERATION_NOT_ATTEMPTED only follows from the error of another partition.
        telling = [code for code in codes if code is not ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
        if self._on_error_code(request, last_word(request.kind, telling), now):
            sequences = self._sequences
            for partition in request.partitions:
                sequences.wanted.pop(partition, None)
                sequences.members.add(partition)
            self._started = True

    def _on_offsets_committed(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        if not self._sendings:
            return  # dropped in the meantime
        codes = self._sendings.on_response(request, answer)
        if self._on_error_code(request, last_word(request.kind, codes), now):
            self._sendings.done()

    def _try_again(self, error: OttlaError, now: float) -> None:
        delay = self._backoff.delay(self._failures)
        if isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            delay = min(delay, SECONDS_AFTER_ANOTHER)
        self._last_error = self._sequences.obstacle = error
        self._failures += 1
        self._retry_at = self._due_at = now + delay
        self._lock.log(
            logger, logging.DEBUG, "%s: will ask again for %r: %s", self._client_id, self.transactional_id, error
        )

    # Ending a transaction

    def _complete(self) -> None:
        """Make the producer ready for the next transaction."""
        if self._was_prepared and not self.uses_txn_v2:
            self._needs_new_epoch = True  # so that a repeated `complete` cannot end a later transaction
        self._was_prepared = False
        self._needs_new_epoch |= self._sequences.uncertain or (self._perhaps_started and not self._started)
        self._sequences.begin_transaction()
        self._started = self._perhaps_started = False
        self._transition_to(State.READY)
        self.cause = None
        self._end_pending()

    def _let_go(self, error: OttlaError) -> None:
        if self.state is State.FATAL_ERROR:
            self._sequences.owner = None
        self._sendings.drop(error)


_SENDING = (State.IN_TRANSACTION, State.JOINED)
"""The states in which records may be queued."""

_SPOILABLE = (State.IN_TRANSACTION, State.COMMITTING, State.PREPARED, State.JOINED, State.LEAVING)
"""The states in which a transaction can still fail."""
