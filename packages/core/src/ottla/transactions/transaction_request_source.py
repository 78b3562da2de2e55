"""The next request of a producer's transaction, derived from its state; no I/O, and time is an argument."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import AbortableTransactionError, OttlaError, TransactionError, UnsupportedVersionError
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import Backoff
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.confirmations import Confirmations
from ottla.transactions.coordinator_request import CoordinatorRequest, InitProducerId
from ottla.transactions.coordinators import Coordinators
from ottla.transactions.request_retries import RequestRetries
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.response_action_handler import ResponseActionHandler
from ottla.transactions.state_table import CAN_FAIL, State
from ottla.transactions.transaction_error_actions import CoordinatorRequestKind
from ottla.transactions.transaction_requests import AddOffsetsToTxn, AddPartitionsToTxn, EndTxn, TxnOffsetCommit
from ottla.transactions.transaction_state import TransactionState

logger = robust_logger(__name__)


class TransactionRequestSource:
    """The `RequestSource` of a transactional producer. For the I/O thread, except `close`."""

    nothing_due: Final = False
    """Any call of another thread may begin or end a transaction."""

    def __init__(
        self, state: TransactionState, *, timeout_ms: int, two_phase: bool, backoff: Backoff, delivery_timeout: float
    ) -> None:
        self._state = state
        self._delivery_timeout = delivery_timeout
        self._timeout_ms = timeout_ms
        self._two_phase = two_phase
        self._coordinators = Coordinators(state.transactional_id)
        self._retries = RequestRetries(backoff)
        self._action_handler = ResponseActionHandler(state, self._coordinators, self._retries)
        self._confirmations = Confirmations()
        self._in_flight: CoordinatorRequest | None = None
        self._closing = False
        self._due_at = float("inf")

    @property
    def queued_batches(self) -> QueuedBatches:
        """Queued batches are sent until their transaction cannot be committed any more."""
        match self._state.state:
            case State.FATAL_ERROR:
                return QueuedBatches.FAIL
            case State.ABORTABLE_ERROR | State.ABORTING:
                return QueuedBatches.ABORT
            case _:
                return QueuedBatches.SEND

    @property
    def cause(self) -> OttlaError | None:
        """The error with which batches that cannot be sent fail."""
        return self._state.cause

    @property
    def obstacle(self) -> OttlaError | None:
        """The error because of which the last request has to be repeated; None if there is none."""
        return self._state.sequences.obstacle

    @property
    def idle(self) -> bool:
        """Return whether no transaction is being ended, and none will be because the producer closes."""
        state = self._state.state
        if not self._closing or state in _ENDING:
            return state not in _ENDING
        # A commit may fail after `close` was called; `next_request`, which notices that, then aborts.
        return state is not State.ABORTABLE_ERROR and (state not in CAN_FAIL or self._state.sequences.failure is None)

    @property
    def at_rest(self) -> bool:
        """Return whether no call of another thread waits for a coordinator."""
        return self._state.state is not State.INITIALIZING and not self._state.offsets

    def note_level(self, level: int) -> None:
        """Note the cluster's `transaction.version`; it takes effect with the next transaction."""
        self._state.cluster_version = level

    def next_request(self, now: float, *, all_complete: Callable[[], bool]) -> CoordinatorRequest | None:
        """The request to send now, or None."""
        state = self._state
        with state.lock:
            state.check_records()
            self._expire_offsets(now)
            if self._closing:
                self._abort_failed()
            self._due_at = state.offsets.expire_at(self._delivery_timeout)
            if self._in_flight is not None:
                return None
            # Read after the state, under its lock. Otherwise another thread could send records and call `commit` in
            # between: the count would be without these records, and EndTxn would commit the transaction without them.
            complete = state.current.all_records_queued and all_complete()
            state.advance(all_complete=complete)
            request = self._wanted(all_complete=complete)
            if request is None:
                return None
            retry_at = self._retries.next_at(request.kind)
            if now < retry_at:
                self._due_at = min(retry_at, self._due_at)
                return None
            return self._coordinators.before(request)

    def due_at(self) -> float:
        """When to call `next_request` again: after a backoff, when offsets expire, or now that batches may be sent."""
        return self._due_at

    def node(self, request: CoordinatorRequest) -> int | None:
        """The coordinator that a request is for."""
        return self._coordinators.node(request)

    def begin(self, request: CoordinatorRequest) -> None:
        """Note that a request is in flight."""
        self._in_flight = request

    def on_response(self, request: CoordinatorRequest, response: Any, now: float) -> None:
        """Handle a response."""
        with self._state.lock:
            self._in_flight = None
            if self._state.state is not State.FATAL_ERROR:
                action = self._confirmations.note(
                    request, request.handle(response), self._coordinators.node(request), now
                )
                if action is None:
                    self._retries.succeed(request.kind)
                else:
                    self._action_handler.apply(action, request, now)

    def on_disconnect(
        self, request: CoordinatorRequest, error: OttlaError, now: float, *, written: bool = True
    ) -> None:
        """Forget the coordinator, and repeat the request after a backoff."""
        state = self._state
        with state.lock:
            self._in_flight = None
            if state.state is State.FATAL_ERROR:
                return
            self._coordinators.forget(request)
            if written:
                self._action_handler.note_maybe_written(request)
            self._action_handler.retry(request, error, now)
            self._due_at = min(self._retries.next_at(request.kind), state.offsets.expire_at(self._delivery_timeout))

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Handle a broker that is too old for the request.

        A waiting `init_transactions` raises; if another request needs the newer broker, the producer fails for good.
        """
        state = self._state
        with state.lock:
            self._in_flight = None
            if state.state is State.FATAL_ERROR:
                return
            initializing = state.state is State.INITIALIZING
            starts = request.kind is CoordinatorRequestKind.INITIALIZE
            if request.kind is CoordinatorRequestKind.COMMIT_OFFSETS and state.state in CAN_FAIL:
                what = "a consumer's group metadata needs brokers of 2.5 or later; with older ones pass the group's id"
                state.transition_to_abortable(UnsupportedVersionError(f"{what} alone: {error}"))
            elif initializing and starts and (self._two_phase or state.keep_prepared):
                what = "transaction.two.phase.commit.enable=true" if self._two_phase else "keep_prepared=True"
                why = f"{what} needs brokers that offer InitProducerId 6 (KIP-939)"
                state.refuse(UnsupportedVersionError(f"{why}: {error}"))
            elif initializing:
                state.refuse(UnsupportedVersionError(f"{_TOO_OLD}: {error}"))
            elif starts:
                why = "the producer needs another epoch, which brokers before 2.5 assign only to a new producer"
                state.transition_to_fatal(UnsupportedVersionError(f"{why}: {error}"))
            else:
                state.transition_to_fatal(error)

    def fail_fatally(self, error: OttlaError) -> None:
        """Fail a waiting `init_transactions`; after initialization, the producer goes on in spite of the error."""
        with self._state.lock:
            if self._state.state is State.INITIALIZING:
                self._state.refuse(error)

    def recover(self) -> None:
        """Complete results that still wait although the state is final, after an exception in a round."""
        with self._state.lock:
            self._state.recover()

    def close(self) -> None:
        """Abort an open transaction, or one that fails later; a prepared one stays, as intended. For any thread."""
        state = self._state
        with state.lock:
            self._closing = True
            # A prepared transaction stays, but not if its caller has stopped waiting for it: no program has it then.
            preparing = state.repeated("prepare_transaction") if state.state is State.PREPARED else None
            if state.state is State.IN_TRANSACTION or (preparing is not None and not preparing.awaited):
                self._abort()
            self._abort_failed()
            if state.state in _ENDING:
                state.current = state.current.queue_all_records()

    def abort_pending(self, error: OttlaError) -> None:
        """Fail all waiting callers; no further requests are sent."""
        state = self._state
        with state.lock:
            if not self.idle:
                state.lock.log(
                    logger,
                    logging.WARNING,
                    "%s: the producer was closed while transactional.id %r was %s",
                    state.client_id,
                    state.transactional_id,
                    state.state.value,
                )
            if self._in_flight is not None:  # the broker may have carried it out, and its response comes too late
                self._action_handler.note_maybe_written(self._in_flight)
            state.end_pending(error)

    # Offsets that cannot be written

    def _expire_offsets(self, now: float) -> None:
        """Fail a transaction whose offsets are not written within `delivery.timeout.ms`, as records fail it.

        Otherwise a commit with offsets of a topic that was deleted would never end.
        """
        offsets = self._state.offsets
        if now < offsets.expire_at(self._delivery_timeout):
            return
        what = f"offsets of group {offsets.first.sending.group.group_id!r} were not written within delivery.timeout.ms"
        why = offsets.first.last_error or self._state.sequences.obstacle or "no coordinator has answered"
        error = TransactionError(f"{what} ({self._delivery_timeout:g} s): {why}")
        error.__cause__ = offsets.first.last_error
        self._state.transition_to_abortable(error)

    # The end of a producer that closes

    def _abort_failed(self) -> None:
        if self._state.state is State.ABORTABLE_ERROR:
            self._abort()

    def _abort(self) -> None:
        state = self._state
        state.transition_to(State.ABORTING)
        state.current = state.current.queue_all_records()
        state.offsets.drop(AbortableTransactionError("the producer was closed"))
        state.begin_result("close").required = False

    # Choosing the next request

    def _wanted(self, *, all_complete: bool) -> CoordinatorRequest | None:
        """The next request; its coordinator may still have to be found."""
        state, producer_id_and_epoch = self._state, self._state.sequences.producer_id_and_epoch
        if state.state is State.INITIALIZING:
            return self._init_producer_id(None)
        if state.state not in CAN_FAIL and state.state is not State.ABORTING:
            return None
        assert producer_id_and_epoch is not None, "a transaction begins after an id was assigned"
        if state.state in _OWN and (state.sequences.transaction_partitions.wanted or state.offsets):
            state.current = state.current.begin(state.cluster_version)
            if not state.current.can_start:
                return self._init_producer_id(producer_id_and_epoch)
        request: CoordinatorRequest | None = None
        if state.state in CAN_FAIL and state.sequences.transaction_partitions.wanted:
            request = self._add_partitions(producer_id_and_epoch)
        if request is None and state.state in _OWN and state.offsets:
            request = self._send_offsets(producer_id_and_epoch)
        if request is None and state.state in _ENDING and state.current.all_records_queued and all_complete:
            end = EndTxn(
                transactional_id=state.transactional_id,
                producer_id_and_epoch=producer_id_and_epoch,
                commit=state.state is State.COMMITTING,
                txn_v2=state.current.uses_v2,
                maybe_open=not state.current.started,
            )
            # A prepared transaction is not added once more: another process may have ended it.
            node = None if state.current.prepared else self._coordinators.node(end)
            request = self._confirmations.before(end, node)
        return request

    def _init_producer_id(self, current: ProducerIdAndEpoch | None) -> CoordinatorRequest:
        return InitProducerId(
            transactional_id=self._state.transactional_id,
            timeout_ms=self._timeout_ms,
            current=current,
            two_phase=self._two_phase,
            keep_prepared=self._state.keep_prepared and current is None,
        )

    def _add_partitions(self, producer_id_and_epoch: ProducerIdAndEpoch) -> CoordinatorRequest | None:
        """The request that adds partitions; None with KIP-890, where writing adds them."""
        state, partitions = self._state, self._state.sequences.transaction_partitions
        if not state.current.uses_v2:
            return AddPartitionsToTxn(state.transactional_id, producer_id_and_epoch, list(partitions.wanted))
        partitions.add_by_writing()
        state.current = state.current.start()
        self._due_at = float("-inf")  # their batches may be sent now
        return None

    def _send_offsets(self, producer_id_and_epoch: ProducerIdAndEpoch) -> CoordinatorRequest:
        state, commit = self._state, self._state.offsets.first
        if not state.current.uses_v2 and not commit.group_added:
            return AddOffsetsToTxn(state.transactional_id, producer_id_and_epoch, commit.sending.group.group_id)
        state.current = state.current.start()
        return TxnOffsetCommit(
            transactional_id=state.transactional_id,
            producer_id_and_epoch=producer_id_and_epoch,
            sending=commit.sending,
            partitions=list(commit.unwritten),
            txn_v2=state.current.uses_v2,
        )


_TOO_OLD = "transactions need brokers of 0.11 or later"

_ENDING = (State.COMMITTING, State.ABORTING)
_OWN = (State.IN_TRANSACTION, State.COMMITTING, State.PREPARED)
"""The states in which this producer may start its own transaction, and add to it."""
