"""The state of a transactional producer, which its callers and the I/O thread share.

All errors about a state are made here; each names the state, the cause, and what the caller may do next.
"""

from __future__ import annotations

import logging

import attrs

from ottla.accumulator.sequences import Sequences
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import LoggingLock
from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    DeliveryError,
    ErrorCode,
    FatalTransactionError,
    IllegalStateError,
    OttlaError,
    ProducerFencedError,
    TransactionError,
)
from ottla.errors.robust_logger import robust_logger
from ottla.network.cluster_ids import ClusterIds
from ottla.transactions.acl_hints import needed
from ottla.transactions.current_transaction import CurrentTransaction
from ottla.transactions.pending_offsets import PendingOffsetCommits
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.state_table import CAN_FAIL, NEXT_STEPS, TRANSITIONS, State
from ottla.transactions.transaction_error_actions import FATAL_FOR_A_TRANSACTION

logger = robust_logger(__name__)


@attrs.define(eq=False, kw_only=True)
class TransactionState:
    """The state of one producer and its transitions. Methods need `lock`.

    `cause` is the error that calls raise after a failure. `result` is the result of the last call that changed the
    state.
    `keep_prepared`: InitProducerId must keep a prepared transaction (KIP-939). `cluster_version` is the cluster's
    `transaction.version` now, for the next transaction. `cluster_id` is the id of the cluster that has given the
    producer id.
    """

    transactional_id: str
    client_id: str
    sequences: Sequences
    cluster_ids: ClusterIds = attrs.field(factory=ClusterIds)
    environment: Environment = SYSTEM
    lock: LoggingLock = attrs.field(init=False, default=attrs.Factory(lambda self: LoggingLock(self.environment), True))
    state: State = attrs.field(default=State.UNINITIALIZED, init=False)
    current: CurrentTransaction = attrs.field(factory=CurrentTransaction, init=False)
    offsets: PendingOffsetCommits = attrs.field(
        init=False, default=attrs.Factory(lambda self: PendingOffsetCommits(self.environment), True)
    )
    cause: OttlaError | None = attrs.field(default=None, init=False)
    cause_raised: bool = attrs.field(default=False, init=False)
    """Whether a call that ends the transaction, or the last one, has raised its `cause`."""
    last_error: OttlaError | None = attrs.field(default=None, init=False)
    """Of a request that is repeated, until one that is not for a coordinator's address succeeds."""
    result: TransactionalRequestResult | None = attrs.field(default=None, init=False)
    keep_prepared: bool = attrs.field(default=False, init=False)
    cluster_version: int = attrs.field(default=0, init=False)
    cluster_id: str | None = attrs.field(default=None, init=False)
    begun: int = attrs.field(default=0, init=False)
    """How many transactions were begun or joined."""

    # Methods for callers' threads

    def require(self, method: str, *allowed: State) -> None:
        """Raise unless the state is one of *allowed*: the error of the failure, or an IllegalStateError."""
        last = self.result
        if last is not None and last.unclaimed and last.required and last.ended and last.error is None:
            raise IllegalStateError(
                f"{method} cannot be called now: the caller of {last.method} has not got its outcome; if that call ran "
                "out of time, call it again first"
            )
        self.require_state(method, *allowed)

    def require_state(self, method: str, *allowed: State) -> None:
        """The same for a method that does not change the state, whatever calls have not got their outcome."""
        if self.state in allowed:
            return
        if self.cause is not None:
            raise _copy(self.cause)
        raise IllegalStateError(
            f"{method} cannot be called now: the producer with transactional.id {self.transactional_id!r} is "
            f"{self.state.value}; {NEXT_STEPS[self.state]}"
        )

    def forget_result(self) -> bool:
        """Forget a result that no caller has to get, and return whether it is that of an abort.

        The next call of its method is about another transaction. A successful abort has nothing to say.
        """
        result = self.result
        if result is None or not result.ended or not result.unclaimed or result.error is not None:
            return False
        aborted = result.method == "abort_transaction"
        if result.required and not aborted:
            return False
        result.unclaimed = False
        return aborted

    def begin_result(self, method: str) -> TransactionalRequestResult:
        """Create the result for the caller of *method*; the previous result ends."""
        self.end_result(
            IllegalStateError(
                f"the outcome of this call is unknown, because another thread called {method} before this call ended; "
                "use one thread for transactions"
            )
        )
        self.result = TransactionalRequestResult(method, self.environment)
        return self.result

    def repeated(self, method: str) -> TransactionalRequestResult | None:
        """The result of an earlier call of the same method that timed out; None if there is none."""
        result = self.result
        same = result is not None and result.unclaimed and result.method == method and result.error is None
        return result if same else None

    def end_result(self, error: OttlaError | None = None) -> None:
        """End the current result with success, or with *error*, which wakes the caller that waits for it."""
        if self.result is not None:
            self.result.end(error)

    def end_pending(self, error: OttlaError) -> None:
        """End the current result with *error*, because the producer has ended; what waits for a broker fails."""
        if self.state is State.COMMITTING and self.current.maybe_committed:
            certain, error = error, type(error)(f"{error}; the transaction may have been committed")
            error.__cause__ = certain.__cause__
        self.end_result(error)
        self.offsets.drop(error)

    # Transitions

    def begin(self, state: State) -> None:
        """Note a transaction that is begun, or joined."""
        self.transition_to(state)
        self.cause_raised = False
        self.begun += 1

    def transition_to(self, state: State) -> None:
        """Change the state."""
        assert state in TRANSITIONS[self.state], f"{self.state} cannot be followed by {state}"
        self.state = state

    def check_records(self) -> None:
        """Fail the transaction, or the producer, after a record failed."""
        failure = self.sequences.failure
        if failure is None or self.state not in CAN_FAIL:
            return
        cause = failure.__cause__
        if isinstance(cause, BrokerError) and cause.code in FATAL_FOR_A_TRANSACTION:
            self.transition_to_fatal(cause)
        else:
            self.transition_to_abortable(failure)

    def advance(self, *, all_complete: bool) -> None:
        """Make the transitions that need no request to a broker. *all_complete*: queued records have outcomes."""
        if not self.current.all_records_queued or not all_complete or self.offsets:
            return
        if self.state is State.PREPARED:
            self.end_result()
        elif self.state is State.LEAVING:
            self.current = CurrentTransaction()
            self.transition_to(State.UNINITIALIZED)
            self.end_result()
        elif self.state in (State.COMMITTING, State.ABORTING) and not self.current.needs_end:
            self.complete()

    def complete(self) -> None:
        """Make the producer ready for the next transaction."""
        self.current = self.current.complete(uncertain=self.sequences.uncertain)
        self.sequences.begin_transaction()
        self.cause = None
        self.transition_to(State.READY)
        self.end_result()

    def refuse(self, error: OttlaError) -> None:
        """Fail the initialization; the caller may try again."""
        refusal = TransactionError(
            f"the producer with transactional.id {self.transactional_id!r} could not be initialized: "
            f"{_reason(error, self.transactional_id)}; fix "
            "the cause, then call init_transactions again"
        )
        refusal.__cause__ = error
        self.transition_to(State.UNINITIALIZED)
        self.end_result(refusal)

    def transition_to_abortable(self, cause: OttlaError) -> None:
        """Fail the open transaction; it can only be aborted. A shared one is aborted by its owner."""
        if self.state in (State.JOINED, State.LEAVING):
            shared = AbortableTransactionError(
                f"the shared transaction of {self.transactional_id!r} cannot be committed: "
                f"{_reason(cause, self.transactional_id)}; its owner has to abort it; close this producer"
            )
            self._fail_for_good(shared, cause)
            return
        error = AbortableTransactionError(
            f"the transaction of {self.transactional_id!r} cannot be committed: "
            f"{_reason(cause, self.transactional_id)}; call abort_transaction, then begin another one"
        )
        error.__cause__ = cause
        self.cause = error
        self.transition_to(State.ABORTABLE_ERROR)
        self.lock.log(logger, logging.WARNING, "%s: a transaction failed: %s", self.client_id, error)
        self.end_result(error)
        self.drop(error)

    def transition_to_fenced(self, cause: OttlaError) -> None:
        """Fail the producer, because its transactional id was taken over."""
        maybe = "; the transaction may have been committed before" if self.current.maybe_committed else ""
        error = ProducerFencedError(
            f"another producer has taken over transactional.id {self.transactional_id!r}, or the coordinator fenced "
            f"this one, for example after transaction.timeout.ms: {cause}{maybe}; close this producer"
        )
        self._fail_for_good(error, cause)

    def transition_to_fatal(self, cause: OttlaError) -> None:
        """Fail the producer."""
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.PRODUCER_FENCED:
            self.transition_to_fenced(cause)
            return
        maybe = ". The transaction may have been committed before" if self.current.maybe_committed else ""
        error = FatalTransactionError(
            f"the producer with transactional.id {self.transactional_id!r} failed permanently: "
            f"{_reason(cause, self.transactional_id)}; it was {self.state.value}{maybe}. Close it and make a new one"
        )
        self._fail_for_good(error, cause)

    def drop(self, error: OttlaError) -> None:
        """Fail the offsets that wait for a failed transaction; after a fatal error, drop the producer id, too."""
        if self.state is State.FATAL_ERROR:
            self.sequences.producer_id_and_epoch = None
        self.offsets.drop(error)

    def recover(self) -> None:
        """Complete results that still wait although the state is final, after an exception in a round."""
        if self.state in (State.READY, State.FATAL_ERROR, State.ABORTABLE_ERROR):
            self.end_result(self.cause)
        if self.cause is not None:
            self.drop(self.cause)
        self.offsets.recover()

    def _fail_for_good(self, error: OttlaError, cause: OttlaError) -> None:
        error.__cause__ = cause
        self.cause = error
        self.transition_to(State.FATAL_ERROR)
        self.lock.log(logger, logging.ERROR, "%s: the producer failed permanently: %s", self.client_id, error)
        self.end_result(error)
        self.drop(error)


def _reason(cause: OttlaError, transactional_id: str) -> str:
    """The cause as a part of a sentence, with the right that is missing, or with what the code of a broker hides."""
    refusal = cause.__cause__ if isinstance(cause, DeliveryError) else cause
    hint = ""
    if isinstance(refusal, BrokerError):
        hint = needed(refusal.code, transactional_id=transactional_id)
        if refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # With KIP-890 the coordinator's own abort has this code, too.
            hint = (
                " The transaction may have been open for longer than transaction.timeout.ms, so that its coordinator "
                "has aborted it; or another producer has the transactional id"
            )
    text = str(cause).removesuffix(".")
    return f"{text}.{hint.removesuffix('.')}" if hint else text


def _copy(error: OttlaError) -> OttlaError:
    """A copy of the error to raise, so that the original's traceback does not grow."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
