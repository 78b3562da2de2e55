"""The effects of responses on a producer's transaction: its state, sequences, offsets, coordinators and retries."""

from __future__ import annotations

import logging
from typing import Final, TypeGuard, assert_never

from ottla.errors import BrokerError, ErrorCode, OttlaError
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import ends_transaction
from ottla.transactions.confirmations import BELIEVED_AFTER
from ottla.transactions.coordinator_request import CoordinatorRequest, Target
from ottla.transactions.coordinators import Coordinators
from ottla.transactions.request_retries import RequestRetries
from ottla.transactions.response_actions import (
    CoordinatorFound,
    GroupAdded,
    OffsetsWritten,
    PartitionsAdded,
    ProducerIdAssigned,
    RequestFailed,
    ResponseAction,
    TransactionEnded,
)
from ottla.transactions.state_table import CAN_FAIL, State
from ottla.transactions.transaction_error_actions import (
    ADDING,
    MAYBE_WRITTEN,
    CoordinatorRequestKind,
    TransactionErrorAction,
)
from ottla.transactions.transaction_requests import EndTxn
from ottla.transactions.transaction_state import TransactionState

logger = robust_logger(__name__)

_OF_OUTDATED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE)

BUSY_BELIEVED_FOR: Final = 10.0
"""Seconds for which a coordinator is believed that it still ends the transaction before; then it is looked up again.

A leader that does not take the transaction's markers is replaced within `broker.session.timeout.ms`, 9 s.
"""


class ResponseActionHandler:
    """Applies the actions of responses to the transaction. For the I/O thread; the caller holds the state's lock."""

    def __init__(self, state: TransactionState, coordinators: Coordinators, retries: RequestRetries) -> None:
        self._state = state
        self._coordinators = coordinators
        self._retries = retries
        self._busy_since: float | None = None

    def apply(self, action: ResponseAction, request: CoordinatorRequest, now: float) -> None:
        """Apply the action of a response to a request."""
        state, sequences = self._state, self._state.sequences
        if isinstance(action, OffsetsWritten):
            if not state.offsets:
                return  # dropped in the meantime
            state.offsets.note_written(action.partitions)
            if action.failure is not None:
                action = action.failure
        refusal = action.refusal if isinstance(action, TransactionEnded) else None
        if refusal is not None and self._may_be_outdated(request, refusal, now):
            action = RequestFailed(TransactionErrorAction.REFIND, refusal)
        if isinstance(action, RequestFailed):
            self._fail(action, request, now)
            return
        self._retries.succeed(request.kind)
        if request.target is Target.COORDINATOR:
            self._busy_since = None
        sequences.obstacle = None
        if not isinstance(action, CoordinatorFound):  # which may not answer the request itself
            state.last_error = None
        match action:
            case CoordinatorFound():
                self._coordinators.learn(request, action.node)
            case ProducerIdAssigned():
                self._take_producer_id(action)
            case PartitionsAdded():
                sequences.transaction_partitions.add(action.partitions)
                state.current = state.current.start()
            case GroupAdded():
                state.current = state.current.start()  # also if an abort has dropped the offsets meanwhile
                if state.offsets:
                    state.offsets.first.group_added = True
            case OffsetsWritten():
                state.offsets.complete_first()
            case TransactionEnded():
                self._end(action)
            case _:
                assert_never(action)

    def _take_producer_id(self, action: ProducerIdAssigned) -> None:
        state, sequences = self._state, self._state.sequences
        sequences.take_producer_id(action.producer_id_and_epoch)
        state.cluster_id = state.cluster_ids.current
        state.current = state.current.take_epoch()
        if state.state is not State.INITIALIZING:
            return
        state.lock.log(
            logger,
            logging.DEBUG,
            "%s: %s for %r",
            state.client_id,
            action.producer_id_and_epoch,
            state.transactional_id,
        )
        sequences.begin_transaction()
        if action.transaction_open:
            state.current = state.current.begin(state.cluster_version).start()
            state.transition_to(State.PREPARED)
        else:
            state.transition_to(State.READY)
        state.end_result()

    def _end(self, action: TransactionEnded) -> None:
        # In this order, whatever exception follows: once the next epoch is in use, the transaction is over, or it would
        # be ended again, in an epoch that has none.
        state, next_epoch = self._state, action.next_producer_id_and_epoch
        ended = state.current.end(next_epoch_assigned=next_epoch is not None)
        if next_epoch is not None:
            state.sequences.take_producer_id(next_epoch)
        self._coordinators.end_doubt()
        if action.refusal is not None and action.refusal.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            state.sequences.end_with_other_topics()
        state.current = ended
        state.complete()

    def _fail(self, failure: RequestFailed, request: CoordinatorRequest, now: float) -> None:
        """Apply the action for an error."""
        state, action, error = self._state, failure.action, failure.error
        initializing = state.state is State.INITIALIZING
        if self._is_forgotten_in_abort(request, error):
            state.sequences.end_with_other_topics()
            return
        if self._may_be_outdated(request, error, now):
            current = state.current
            state.current = (
                current.after_refused_commit(now) if self._is_for_commit(request) else current.after_refusal()
            )
            action = TransactionErrorAction.REFIND
        elif self._is_busy_for_long(request, error, now):
            action = TransactionErrorAction.REFIND
        assert action is not TransactionErrorAction.DONE, "a failure has an error"
        if isinstance(error, BrokerError) and error.code in MAYBE_WRITTEN:
            self.note_maybe_written(request)
        match action:
            case TransactionErrorAction.RETRY:
                self.retry(request, error, now)
            case TransactionErrorAction.REFIND:
                self._coordinators.doubt(request)  # it would name itself, if it does not know who has replaced it
                self._coordinators.forget(request)
                self.retry(request, error, now)
            case TransactionErrorAction.REFUSED | TransactionErrorAction.ABORTABLE if initializing:
                state.refuse(error)
            case TransactionErrorAction.ABORTABLE if state.state in CAN_FAIL:
                state.transition_to_abortable(error)
            case TransactionErrorAction.ABORTABLE if request.kind is not CoordinatorRequestKind.END:
                pass  # it is already being aborted, or can only be aborted
            case TransactionErrorAction.FENCED:
                state.transition_to_fenced(error)
            case TransactionErrorAction.FATAL | TransactionErrorAction.REFUSED | TransactionErrorAction.ABORTABLE:
                state.transition_to_fatal(error)
            case _:
                assert_never(action)

    def _may_be_outdated(self, request: CoordinatorRequest, error: OttlaError, now: float) -> bool:
        """Return whether a broker that is not the coordinator any more may have refused a request.

        A broker that was frozen, or that controllers cannot reach, and has not noticed yet that another one is the
        coordinator, may only know an epoch of before (PRODUCER_FENCED; with KIP-890 each commit and abort begins an
        epoch), or the producer id of before, or none (INVALID_PRODUCER_ID_MAPPING). Or it knows the epoch, but not the
        transaction, or takes it for ended (INVALID_TXN_STATE; `TransactionCoordinator.endTransaction` of Kafka 4.3).

        So the coordinator is looked up and asked once more: at another broker, because the outdated one names itself.
        It says the same if the producer is fenced, or its transaction was aborted; a repetition changes nothing then.
        If the response to a commit was lost, it is asked for a while: a program writes again what it takes for aborted.
        """
        current = self._state.current
        if request.target is not Target.COORDINATOR:
            return False
        if not (isinstance(error, BrokerError) and error.code in _OF_OUTDATED):
            return False
        if not self._is_for_commit(request):
            return not current.refused
        since = current.commit_refused_at
        return since is None or (current.maybe_committed and now < since + BELIEVED_AFTER)

    def _is_for_commit(self, request: CoordinatorRequest) -> bool:
        """Return whether a request commits, or repeats at another coordinator what a lost commit was for."""
        return _commits(request) or (self._state.current.maybe_committed and self._state.state is State.COMMITTING)

    def _is_busy_for_long(self, request: CoordinatorRequest, error: OttlaError, now: float) -> bool:
        """Return whether a coordinator has said for long that it still ends the transaction before.

        One that was replaced while it did so, and has not noticed it, would say so for as long as that lasts.
        """
        if request.target is not Target.COORDINATOR:
            return False
        if not ends_transaction(error):
            self._busy_since = None
            return False
        if self._busy_since is None:
            self._busy_since = now
        if now < self._busy_since + BUSY_BELIEVED_FOR:
            return False
        self._busy_since = None
        return True

    def _is_forgotten_in_abort(self, request: CoordinatorRequest, error: OttlaError) -> bool:
        """Return whether a request that adds to the transaction came to a coordinator without its id during an abort.

        Nothing was added, and the abort goes on. As after an EndTxn with this code, the next transaction has a new id.
        """
        unknown = isinstance(error, BrokerError) and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return unknown and self._state.state is State.ABORTING and request.kind in ADDING

    def note_maybe_written(self, request: CoordinatorRequest) -> None:
        """Note that a coordinator may have carried out a request, although no response says so."""
        state = self._state
        if request.kind in ADDING:
            state.current = state.current.after_lost_response()
        elif _commits(request):
            state.current = state.current.after_lost_commit()

    def retry(self, request: CoordinatorRequest, error: OttlaError, now: float) -> None:
        """Have a request repeated after a backoff."""
        state = self._state
        self._retries.fail(request.kind, error, now)
        state.sequences.obstacle = state.last_error = error
        if state.offsets and request.kind in (
            CoordinatorRequestKind.ADD_OFFSETS,
            CoordinatorRequestKind.COMMIT_OFFSETS,
        ):
            state.offsets.first.last_error = error
        state.lock.log(
            logger, logging.DEBUG, "%s: will send again for %r: %s", state.client_id, state.transactional_id, error
        )


def _commits(request: CoordinatorRequest) -> TypeGuard[EndTxn]:
    return isinstance(request, EndTxn) and request.commit
