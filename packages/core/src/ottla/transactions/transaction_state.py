"""The state machine of a transactional producer: its state, its error, and the caller that waits for a change.

All errors about a state are made here; each names the state, the cause, and what the caller may do next.
"""

from __future__ import annotations

import logging

from ottla.concurrency.locks import LoggingLock
from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    ErrorCode,
    FatalTransactionError,
    IllegalStateError,
    OttlaError,
    ProducerFencedError,
    TransactionError,
)
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.states import MOVES, NEXT_STEPS, State

logger = logging.getLogger(__name__)


class TransactionStateMachine:
    """The state of one producer, and its transitions. `cause` is the error that calls raise after a failure."""

    def __init__(self, *, transactional_id: str, client_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.cause: OttlaError | None = None
        self._client_id = client_id
        self._lock = LoggingLock()
        self._pending: TransactionalRequestResult | None = None  # of the last requested change of state

    def _let_go(self, error: OttlaError) -> None:
        """Drop the rest of a failed transaction."""
        raise NotImplementedError

    def _transition_to(self, state: State) -> None:
        assert state in MOVES[self.state], f"{self.state} to {state} is no legal move"
        self.state = state

    def _require(self, what: str, *allowed: State) -> None:
        """Raise unless the state is one of *allowed*: the error of the failure, or an IllegalStateError."""
        last = self._pending
        if last is not None and last.unclaimed and last.ended and last.error is None and last.what != "close":
            raise IllegalStateError(
                f"{what} cannot be called now: {last.what} ran out of time; call it again first, to learn its outcome"
            )
        if self.state in allowed:
            return
        if self.cause is not None:
            raise _anew(self.cause)
        raise IllegalStateError(
            f"{what} cannot be called now: the producer with transactional.id {self.transactional_id!r} is "
            f"{self.state.value}; {NEXT_STEPS[self.state]}"
        )

    def _promise(self, what: str) -> TransactionalRequestResult:
        self._end_pending(IllegalStateError(f"{what} was called meanwhile"))
        self._pending = TransactionalRequestResult(what)
        return self._pending

    def _same(self, what: str) -> TransactionalRequestResult | None:
        """The pending result of an earlier call of the same method that timed out; None if there is none."""
        pending = self._pending
        same = pending is not None and pending.unclaimed and pending.what == what and pending.error is None
        return pending if same else None

    def _end_pending(self, error: OttlaError | None = None) -> None:
        if self._pending is not None:
            self._pending.end(error)

    def _refuse(self, error: OttlaError) -> None:
        """Fail the initialization; the caller may try again."""
        refusal = TransactionError(
            f"the producer with transactional.id {self.transactional_id!r} could not be initialized: {error}; mend "
            "the cause, then call init_transactions again"
        )
        refusal.__cause__ = error
        self._transition_to(State.UNINITIALIZED)
        self._end_pending(refusal)

    def _transition_to_abortable(self, cause: OttlaError) -> None:
        """Fail the open transaction; it can only be aborted."""
        if self.state in (State.JOINED, State.LEAVING):
            shared = AbortableTransactionError(
                f"the shared transaction of {self.transactional_id!r} cannot be committed: {cause}; have whoever "
                "opened it abort it, and close this producer"
            )
            self._end_for_good(shared, cause)
            return
        error = AbortableTransactionError(
            f"the transaction of {self.transactional_id!r} cannot be committed: {cause}; call abort_transaction, then "
            "begin another one"
        )
        error.__cause__ = cause
        self.cause = error
        self._transition_to(State.ABORTABLE_ERROR)
        self._lock.log(logger, logging.WARNING, "%s: a transaction failed: %s", self._client_id, error)
        self._end_pending(error)
        self._let_go(error)

    def _transition_to_fenced(self, cause: OttlaError) -> None:
        error = ProducerFencedError(
            f"another producer has taken transactional.id {self.transactional_id!r} over, or its coordinator gave this "
            f"one up: {cause}; close this producer"
        )
        self._end_for_good(error, cause)

    def _transition_to_fatal(self, cause: OttlaError) -> None:
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.PRODUCER_FENCED:
            self._transition_to_fenced(cause)
            return
        error = FatalTransactionError(
            f"the producer with transactional.id {self.transactional_id!r} cannot go on: {cause}; it was "
            f"{self.state.value}. Close it and make a new one"
        )
        self._end_for_good(error, cause)

    def _end_for_good(self, error: OttlaError, cause: OttlaError) -> None:
        error.__cause__ = cause
        self.cause = error
        self._transition_to(State.FATAL_ERROR)
        self._lock.log(logger, logging.ERROR, "%s: the producer failed for good: %s", self._client_id, error)
        self._end_pending(error)
        self._let_go(error)


def _anew(error: OttlaError) -> OttlaError:
    """A copy of the error to raise, so that the original's traceback does not grow."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
