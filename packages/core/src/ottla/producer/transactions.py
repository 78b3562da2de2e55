"""The transaction methods of a producer.

Ending a transaction changes the state, closes the open batches, and waits for a limited time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.concurrency import io_threads, signals
from ottla.config.wait_limit import check_timeout
from ottla.errors import IllegalStateError, TransactionError, TransactionTimeoutError
from ottla.results import DeliveryReport
from ottla.results.stories.tries import CloseReason
from ottla.transactions.offsets import OffsetsToSend
from ottla.transactions.pending_result import TransactionalRequestResult
from ottla.transactions.prepared_transaction import PreparedTransaction
from ottla.transactions.shared_transaction import SharedTransaction

if TYPE_CHECKING:
    from ottla.transactions.manager import TransactionManager


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Transactions:
    """The transactions of one producer, for its callers' threads. `max_block` bounds each wait, in seconds."""

    manager: TransactionManager
    accumulator: RecordAccumulator
    max_block: float
    wake: Callable[[], object]

    def initialize(self, timeout: float | None, *, keep_prepared: bool) -> PreparedTransaction | None:
        """Get a producer id, wait for it, and return the prepared transaction that was kept, if there is one."""
        self._check("init_transactions", timeout)
        self._wait(self.manager.initialize(keep_prepared=keep_prepared), timeout)
        return self.manager.prepared if keep_prepared else None

    def begin(self) -> None:
        """Allow records to be queued."""
        self._check("begin_transaction")
        self.manager.begin_transaction()

    def send_offsets(self, offsets: object, group: object, timeout: float | None) -> None:
        """Add a group's offsets to the transaction; blocks until the brokers have them."""
        self._check("send_offsets_to_transaction", timeout)
        self._wait(self.manager.send_offsets(OffsetsToSend.checked(offsets, group)), timeout)

    def end(self, timeout: float | None, *, commit: bool) -> DeliveryReport:
        """End the transaction; blocks until it has ended, and returns the outcomes of its records."""
        self._check("commit_transaction" if commit else "abort_transaction", timeout)
        with signals.Deferred():  # the call that changes the state must also note that every record is queued
            pending = self.manager.end(commit=commit)
            self._queue_all_records()
        try:
            self._wait(pending, timeout)
        except TransactionTimeoutError:
            raise  # the transaction may still end either way
        except TransactionError:
            self.accumulator.report()  # this error reports the failed records, so `flush` and `close` need not
            raise
        report, _unretrieved, _error = self.accumulator.report()  # after an abort, failed records need no report
        return report

    def prepare(self, timeout: float | None) -> PreparedTransaction:
        """Wait until every record is written, and leave the end of the transaction to another process."""
        self._check("prepare_transaction", timeout)
        with signals.Deferred():
            pending = self.manager.prepare()
            self._queue_all_records()
        self._wait(pending, timeout)
        prepared = self.manager.prepared
        assert prepared is not None, "its result is there"
        return prepared

    def join(self, shared: SharedTransaction) -> None:
        """Allow records to be queued for another process's transaction."""
        self._check("join_transaction")
        self.manager.join(shared)

    def leave(self, timeout: float | None) -> DeliveryReport:
        """Wait until every record is written, and report the outcomes; the transaction stays open."""
        self._check("leave_transaction", timeout)
        with signals.Deferred():
            pending = self.manager.leave()
            self._queue_all_records()
        self._wait(pending, timeout)
        report, _unretrieved, _error = self.accumulator.report()  # an error was raised above
        return report

    def _queue_all_records(self) -> None:
        """Close the open batches, so that the transaction contains the records that are queued now, and no others."""
        self.accumulator.close_open_batches(CloseReason.TRANSACTION)
        self.manager.all_records_queued()
        self.wake()

    def _wait(self, pending: TransactionalRequestResult, timeout: float | None) -> None:
        self.wake()
        seconds, limit = (self.max_block, "max.block.ms") if timeout is None else (timeout, "timeout")
        if not pending.wait(seconds):
            raise TransactionTimeoutError(
                f"{pending.method} was not done within {seconds:g} s ({limit}): "
                f"{self.manager.describe()}; call it again to wait for the same outcome"
            )

    def _check(self, method: str, timeout: float | None = None) -> None:
        if timeout is not None:
            check_timeout(timeout)
        if io_threads.on_io_thread():
            raise IllegalStateError(
                f"{method} inside a delivery callback would wait for itself; call it from another thread"
            )
