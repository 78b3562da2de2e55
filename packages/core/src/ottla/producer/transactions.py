"""The transaction methods of a producer: each takes effect at once, and what it returns waits for the brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.concurrency import io_threads, signals
from ottla.concurrency.locks import Latch
from ottla.config.wait_limit import check_timeout
from ottla.errors import IllegalStateError, OttlaError, TransactionError, TransactionTimeoutError
from ottla.results import DeliveryReport
from ottla.results.stories.tries import CloseReason
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla.transactions.shared_transaction import SharedTransaction

if TYPE_CHECKING:
    from ottla.transactions.manager import TransactionManager

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TransactionCall(Generic[T]):
    """A call that has taken effect; a thread waits for its result in `wait`, a task of an event loop by `latch`.

    Until a caller gets the result, the same method, called again, has the same one.
    """

    pending: TransactionalRequestResult
    seconds: float
    """How long to wait for the result."""
    limit: str
    """The name of the limit that these seconds are from."""
    manager: TransactionManager
    result: Callable[[], T]
    """What the method returns after success."""
    obstacle: Callable[[], OttlaError | None]
    """Why no broker can be asked, or why records of the transaction have to be sent again."""
    if_failed: Callable[[], object] = lambda: None

    @property
    def ended(self) -> bool:
        """Return whether there is a result."""
        return self.pending.ended

    @property
    def latch(self) -> Latch:
        """The latch that is set once there is a result, on the I/O thread."""
        return self.pending.latch

    def wait(self) -> T:
        """Block until there is a result, and return it; raises the error of the call, or TransactionTimeoutError."""
        self.pending.wait_until_ended(self.seconds)
        return self.get()

    def stop_waiting(self) -> None:
        """Note that the caller waits no longer, and needs no result before it makes other calls."""
        self.pending.awaited = False
        self.pending.required = False

    def get(self) -> T:
        """Return the result; raises the error of the call, or TransactionTimeoutError if there is no result yet."""
        if not self.ended:
            self.pending.awaited = False
            error = self.manager.last_error or self.obstacle()
            below_zero = ", which does not wait; pass None to wait for max.block.ms" if self.seconds < 0 else ""
            raise TransactionTimeoutError(
                f"{self.pending.method} was not done within {self.seconds:g} s ({self.limit}{below_zero}): "
                f"{self.manager.describe(error)}; call it again to wait for the same outcome"
            ) from error
        try:
            self.pending.claim()
        except TransactionError:
            self.if_failed()
            raise
        return self.result()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Transactions:
    """The transactions of one producer, for its callers' threads.

    `max_block` bounds each wait, in seconds; `obstacle` is for the error of a call whose time runs out.
    """

    manager: TransactionManager
    accumulator: RecordAccumulator
    max_block: float
    wake: Callable[[], object]
    obstacle: Callable[[], OttlaError | None]

    def initialize(self, timeout: float | None, *, keep_prepared: bool) -> TransactionCall[PreparedTransaction | None]:
        """Request a producer id. The result is the prepared transaction that was kept, if there is one."""
        self._check("init_transactions", timeout)
        pending = self.manager.initialize(keep_prepared=keep_prepared)
        return self._call(pending, timeout, lambda: self.manager.prepared if keep_prepared else None)

    def begin(self) -> None:
        """Allow records to be queued."""
        self._check("begin_transaction")
        if self.manager.begin_transaction():
            self.accumulator.report()  # else a flush of this transaction would raise for records of the last one

    def send_offsets(self, offsets: object, group: object, timeout: float | None) -> TransactionCall[None]:
        """Add a group's offsets to the transaction; there is a result when the brokers have them."""
        self._check("send_offsets_to_transaction", timeout)
        return self._call(self.manager.send_offsets(OffsetsToSend.checked(offsets, group)), timeout, lambda: None)

    def end(self, timeout: float | None, *, commit: bool) -> TransactionCall[DeliveryReport]:
        """Refuse further records, and end the transaction. The result has the outcomes of its records."""
        self._check("commit_transaction" if commit else "abort_transaction", timeout)
        try:
            with signals.Deferred():  # the call that changes the state must also note that every record is queued
                pending = self.manager.end(commit=commit)
                self._queue_all_records()
        except TransactionError:  # it had failed before the call
            self._report_failure()
            raise
        return self._call(pending, timeout, self._report, if_failed=self._report_failure)

    def unawaited_end(self) -> TransactionCall[object] | None:
        """The end of the last transaction, if it goes on and no caller has to get its result."""
        pending = self.manager.unawaited_end
        if pending is None:
            return None
        # After an abort, failed records need no report; after a commit, the next report counts its records.
        result: Callable[[], object] = self._report if pending.method == "abort_transaction" else lambda: None
        return self._call(pending, None, result, if_failed=self._report_failure)

    def prepare(self, timeout: float | None) -> TransactionCall[PreparedTransaction]:
        """Leave the end of the transaction to another process; there is a result when every record is written."""
        self._check("prepare_transaction", timeout)
        with signals.Deferred():
            pending = self.manager.prepare()
            self._queue_all_records()

        def prepared() -> PreparedTransaction:
            found = self.manager.prepared
            assert found is not None, "its result is there"
            return found

        return self._call(pending, timeout, prepared)

    def join(self, shared: SharedTransaction) -> None:
        """Allow records to be queued for another process's transaction."""
        self._check("join_transaction")
        self.manager.join(shared)

    def leave(self, timeout: float | None) -> TransactionCall[DeliveryReport]:
        """Refuse further records; there is a result when every record is written. The transaction stays open."""
        self._check("leave_transaction", timeout)
        with signals.Deferred():
            pending = self.manager.leave()
            self._queue_all_records()
        return self._call(pending, timeout, self._report)

    def _report(self) -> DeliveryReport:
        report, _unretrieved, _error = self.accumulator.report()  # after an abort, failed records need no report
        return report

    def _report_failure(self) -> None:
        """The error reports the records, also those that fail after it was raised: `flush` and `close` need not."""
        self.manager.note_raised()
        self.accumulator.report()

    def _queue_all_records(self) -> None:
        """Close the open batches, so that the transaction contains the records that are queued now, and no others."""
        self.accumulator.close_open_batches(CloseReason.TRANSACTION)
        self.manager.all_records_queued()
        self.wake()

    def _call(
        self,
        pending: TransactionalRequestResult,
        timeout: float | None,
        result: Callable[[], T],
        *,
        if_failed: Callable[[], object] = lambda: None,
    ) -> TransactionCall[T]:
        pending.awaited = True  # again, if it is the result of a call whose time ran out
        self.wake()
        seconds, limit = (self.max_block, "max.block.ms") if timeout is None else (timeout, "timeout")
        return TransactionCall(
            pending=pending,
            seconds=seconds,
            limit=limit,
            manager=self.manager,
            result=result,
            obstacle=self.obstacle,
            if_failed=if_failed,
        )

    def _check(self, method: str, timeout: float | None = None) -> None:
        if timeout is not None:
            check_timeout(timeout)
        if io_threads.on_io_thread():
            raise IllegalStateError(
                f"{method} inside a delivery callback would wait for itself; call it from another thread"
            )
