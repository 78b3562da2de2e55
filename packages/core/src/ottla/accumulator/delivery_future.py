"""Futures of `concurrent.futures` for deliveries."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ottla.errors import DeliveryError
from ottla.results import RecordMetadata


class DeliveryFuture(Future[RecordMetadata]):
    """A future of one delivery, which is completed on the I/O thread.

    Who only waits for it, as `concurrent.futures.wait` does, has not retrieved an error: `flush` and `close` raise it.
    *outcome* returns the metadata or the error of the delivery once it is done, and *retrieve* retrieves the error.
    """

    def __init__(
        self,
        *,
        outcome: Callable[[], tuple[RecordMetadata | None, DeliveryError | None]],
        retrieve: Callable[[], object],
    ) -> None:
        super().__init__()
        self._outcome = outcome
        self._retrieve = retrieve
        self._has_callback = False
        self.set_running_or_notify_cancel()  # so that `cancel` returns False

    def cancel(self) -> bool:
        """Cancel nothing and return False: a record that is sent cannot be called back.

        `asyncio.wrap_future` calls this if its own future was cancelled, which then ignores the outcome. So callbacks
        until now count no more as readers of an error.
        """
        self._has_callback = False
        return super().cancel()

    def complete(self) -> None:
        """Set the outcome of the delivery, which has one."""
        metadata, error = self._outcome()
        if error is None:
            self.set_result(metadata)  # type: ignore[arg-type]  # there is one of the two
        else:
            if self._has_callback:  # which gets the error, on another thread perhaps
                self._retrieve()
            self.set_exception(error)

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

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], Any]) -> None:
        """Call *fn* with this future when it is done, as `Future.add_done_callback` does."""
        self._has_callback = True
        super().add_done_callback(fn)
