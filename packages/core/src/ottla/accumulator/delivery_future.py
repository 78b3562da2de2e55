"""Futures of `concurrent.futures` for deliveries."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ottla.accumulator.error_reads import ErrorReads
from ottla.errors import DeliveryError
from ottla.results import RecordMetadata


class DeliveryFuture(Future[RecordMetadata]):
    """A future of one delivery, which is completed on the I/O thread.

    Who only waits for it, as `concurrent.futures.wait` does, has not retrieved an error: `flush` and `close` raise it.
    *outcome* returns the metadata or the error of the delivery once it is done, and *reads* the `ErrorReads` of a
    failed batch with the record's index.
    """

    def __init__(
        self,
        *,
        outcome: Callable[[], tuple[RecordMetadata | None, DeliveryError | None]],
        reads: Callable[[], tuple[ErrorReads, int]],
    ) -> None:
        super().__init__()
        self._outcome = outcome
        self._reads = reads
        self._has_callback = False
        self._expects = False  # the error, for its callbacks
        self._expectation = object()  # its own: a task that awaits the same delivery expects the error, too
        self.set_running_or_notify_cancel()  # so that `cancel` returns False

    def cancel(self) -> bool:
        """Cancel nothing and return False: a record that is sent cannot be called back.

        `asyncio.wrap_future` calls this if its own future was cancelled, which then ignores the outcome. So callbacks
        until now count no more as readers of an error, also if it is there already: the wait may be cancelled in the
        turn of the loop in which the record fails.
        """
        self._has_callback = False
        self._give_up()
        return super().cancel()

    def __del__(self) -> None:
        # A callback may have passed the error on to nothing, as that of `asyncio.wrap_future` does if its loop is
        # closed; then the program drops this future unread.
        self._give_up()

    def complete(self) -> None:
        """Set the outcome of the delivery, which has one."""
        metadata, error = self._outcome()
        if error is None:
            self.set_result(metadata)  # type: ignore[arg-type]  # there is one of the two
        else:
            if self._has_callback:  # which reads the error, on another thread perhaps, and later
                reads, index = self._reads()
                self._expects = True  # before: another thread may give it up now, and this one does so below
                reads.expect(index, by=self._expectation)
            self.set_exception(error)
            if not self._has_callback:  # it was cancelled on another thread in between
                self._give_up()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the metadata, as `Future.result` does. Raises DeliveryError if the record has failed."""
        try:
            return super().result(timeout)
        except DeliveryError:
            self._retrieve()
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the error, as `Future.exception` does."""
        error = super().exception(timeout)
        if error is not None:
            self._retrieve()
        return error

    def _retrieve(self) -> None:
        reads, index = self._reads()
        reads.read(index)

    def _give_up(self) -> None:
        if not self._expects:
            return
        reads, index = self._reads()
        reads.give_up(index, by=self._expectation)

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], Any]) -> None:
        """Call *fn* with this future when it is done, as `Future.add_done_callback` does."""
        self._has_callback = True
        super().add_done_callback(fn)
