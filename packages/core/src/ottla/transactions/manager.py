"""The transactions of a producer, for its callers: each method changes the state, and the I/O thread does the rest.

Callers note what they ask for under a lock. The I/O thread derives the next request from the state. So a request that
was lost or got a retriable error is repeated without a queue.
"""

from __future__ import annotations

import attrs

from ottla.errors import AbortableTransactionError, IllegalStateError, NetworkError, OttlaError, TransactionError
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.current_transaction import CurrentTransaction
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.other_cluster import other_cluster
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla.transactions.shared_transaction import SharedTransaction
from ottla.transactions.state_table import CAN_SEND, HAS_RECORDS, State
from ottla.transactions.transaction_state import TransactionState


class TransactionManager:
    """The transactions of one producer. For any thread."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    @property
    def transactional_id(self) -> str:
        """The `transactional.id`; a producer with the same id fences this one."""
        return self._state.transactional_id

    @property
    def state(self) -> State:
        """The state of the producer."""
        return self._state.state

    @property
    def cause(self) -> OttlaError | None:
        """The error that calls raise after a failure."""
        return self._state.cause

    def check_open(self, begun: int | None = None) -> None:
        """Raise unless records may be queued now, and in the transaction of the number *begun* if there is one."""
        if self._state.state not in CAN_SEND:
            with self._state.lock:
                self._state.require_state("send", *CAN_SEND)
        if begun is not None and begun != self._state.begun:
            raise IllegalStateError(
                "the call waited until its transaction had ended; what it had not queued by then is in no transaction"
            )

    def has_ended(self, begun: int) -> bool:
        """Return whether the end of the transaction of the number *begun* has begun, or it is over."""
        return begun != self._state.begun or self._state.state not in HAS_RECORDS

    def fail_in_other_cluster(self) -> None:
        """Fail a producer with an id, because brokers belong to another cluster now. For the I/O thread.

        That cluster may have given the same ids to another producer of the same transactional id. It would end that
        one's transaction, or take a commit for the repetition of one, and acknowledge it.
        """
        with self._state.lock:
            if self._state.state not in (State.UNINITIALIZED, State.FATAL_ERROR):
                why = "the brokers are those of another cluster now, which does not have its transaction"
                ids = self._state.cluster_ids
                if self._state.state in (State.JOINED, State.LEAVING) and ids.joined and ids.current:
                    why = other_cluster(self.transactional_id, wanted=ids.joined, found=ids.current)
                self._state.transition_to_fatal(NetworkError(why))

    def abort_with_other_topics(self) -> None:
        """Let the open transaction only be aborted, because all topics in use were created again. For the I/O thread.

        Its records are gone, as far as brokers had them. The next transaction has another epoch: if it is the cluster
        that was set up again, another producer of the same transactional id may use this one there.
        """
        state = self._state
        why = "its topics were deleted and created again meanwhile, perhaps with their whole cluster"
        with state.lock:
            state.sequences.end_with_other_topics()
            if state.state in CAN_SEND | {State.PREPARED}:
                state.transition_to_abortable(NetworkError(why))
            elif state.state in (State.COMMITTING, State.LEAVING):  # perhaps the first cluster has committed it already
                state.transition_to_fatal(NetworkError(f"{why}, so its outcome is unknown"))
            elif state.state is State.READY:
                state.current = attrs.evolve(state.current, needs_new_epoch=True)

    def initialize(self, *, keep_prepared: bool = False) -> TransactionalRequestResult:
        """Request a producer id, which fences the previous producer of the transactional id. Does not block."""
        state = self._state
        with state.lock:
            if (repeated := state.repeated("init_transactions")) is not None:
                return repeated
            state.require("init_transactions", State.UNINITIALIZED)
            state.keep_prepared = keep_prepared
            state.cluster_ids.joined = None
            state.transition_to(State.INITIALIZING)
            return state.begin_result("init_transactions")

    @property
    def begun(self) -> int:
        """How many transactions were begun or joined: equal numbers are the same transaction."""
        return self._state.begun

    def begin_transaction(self) -> bool:
        """Allow records to be queued. Return whether the last one was aborted, and no caller got the result."""
        with self._state.lock:
            forgotten = self._state.state is State.READY and self._state.forget_result()
            self._state.require("begin_transaction", State.READY)
            self._state.begin(State.IN_TRANSACTION)
            return forgotten

    def send_offsets(self, sending: OffsetsToSend) -> TransactionalRequestResult:
        """Queue a group's offsets for the transaction. The result ends once the I/O thread has sent them."""
        with self._state.lock:
            self._state.require("send_offsets_to_transaction", State.IN_TRANSACTION)
            return self._state.offsets.add(sending)

    def end(self, *, commit: bool) -> TransactionalRequestResult:
        """Refuse further records, and end the transaction after `all_records_queued`."""
        state = self._state
        method, ending = ("commit_transaction", State.COMMITTING) if commit else ("abort_transaction", State.ABORTING)
        allowed = (State.IN_TRANSACTION, State.PREPARED, *(() if commit else (State.ABORTABLE_ERROR,)))
        with state.lock:
            if (repeated := state.repeated(method)) is not None:
                return repeated
            state.require(method, *allowed)
            state.current = state.current.end_later()
            state.transition_to(ending)
            if not commit:
                state.offsets.drop(AbortableTransactionError("the transaction was aborted"))
            return state.begin_result(method)

    @property
    def unawaited_end(self) -> TransactionalRequestResult | None:
        """The result of the call that ends the transaction now, if no caller has to get it."""
        result = self._state.result
        if result is None or self._state.state not in (State.COMMITTING, State.ABORTING):
            return None
        return None if result.required and self._state.state is State.COMMITTING else result

    def note_raised(self) -> None:
        """Note that a call that ends the transaction has raised its failure, which is that of its records, too."""
        with self._state.lock:
            if self._state.cause is not None:
                self._state.cause_raised = True

    @property
    def failure_raised(self) -> bool:
        """Whether this transaction or the last one, or the producer, failed, and a call that ends it raised that."""
        return self._state.cause_raised

    @property
    def left_abort(self) -> bool:
        """Whether the last call was an abort that did not fail, and whose result no caller has got yet."""
        return self._state.repeated("abort_transaction") is not None

    def prepare(self) -> TransactionalRequestResult:
        """Refuse further records. Does not block: the result ends once all records are written.

        Another process ends the transaction.
        """
        state = self._state
        with state.lock:
            if (repeated := state.repeated("prepare_transaction")) is not None:
                return repeated
            state.require("prepare_transaction", State.IN_TRANSACTION)
            state.current = state.current.end_later(prepare=True)
            state.transition_to(State.PREPARED)
            return state.begin_result("prepare_transaction")

    def join(self, shared: SharedTransaction) -> None:
        """Allow records to be queued for a transaction that its owner opened, and will end."""
        state = self._state
        with state.lock:
            state.require("join_transaction", State.UNINITIALIZED)
            if shared.transactional_id != state.transactional_id:
                raise IllegalStateError(
                    f"join_transaction: the transaction has transactional.id {shared.transactional_id!r}, but this "
                    f"producer has {state.transactional_id!r}; create the producer with the transaction's id"
                )
            if not state.cluster_ids.join(shared.cluster_id):
                wanted, found = shared.cluster_id or "", state.cluster_ids.current or ""
                raise TransactionError(
                    f"join_transaction: {other_cluster(shared.transactional_id, wanted=wanted, found=found)}"
                )
            state.sequences.begin_transaction()
            state.sequences.take_producer_id(ProducerIdAndEpoch(id=shared.producer_id, epoch=shared.epoch))
            state.current = CurrentTransaction(version=shared.level, started=True)
            state.begin(State.JOINED)

    def leave(self) -> TransactionalRequestResult:
        """Refuse further records for the joined transaction. Does not block: the result ends once all are written."""
        state = self._state
        with state.lock:
            if (repeated := state.repeated("leave_transaction")) is not None:
                return repeated
            state.require("leave_transaction", State.JOINED)
            state.current = state.current.end_later()
            state.transition_to(State.LEAVING)
            return state.begin_result("leave_transaction")

    def all_records_queued(self) -> None:
        """Note that every record of the transaction is queued by now."""
        with self._state.lock:
            self._state.current = self._state.current.queue_all_records()

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction, for the process that will end it; None if there is none."""
        producer_id_and_epoch, current = self._state.sequences.producer_id_and_epoch, self._state.current
        if self.state is not State.PREPARED or producer_id_and_epoch is None:
            return None
        return PreparedTransaction(
            transactional_id=self.transactional_id,
            producer_id=producer_id_and_epoch.id,
            epoch=producer_id_and_epoch.epoch,
            level=current.version or 0,
            written=current.started,
            cluster_id=self._state.cluster_id,
        )

    @property
    def uses_txn_v2(self) -> bool:
        """Return whether the open transaction uses the protocol of KIP-890."""
        return self._state.current.uses_v2

    @property
    def last_error(self) -> OttlaError | None:
        """The error for which a request to a coordinator has to be repeated now."""
        return self._state.last_error

    def describe(self, error: OttlaError | None) -> str:
        """The state and the last *error*, for the message of a timeout."""
        last = f"; last error: {error}" if error is not None else ""
        # What runs out of time in that state is `prepare_transaction`, which waits for records.
        state = "preparing a transaction" if self.state is State.PREPARED else self.state.value
        return f"the producer with transactional.id {self.transactional_id!r} is {state}{last}"
