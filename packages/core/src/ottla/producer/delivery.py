"""The delivery that `send` returns: the future of one record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.errors import DeliveryError
from ottla.results import RecordMetadata


class Delivery:
    """The future of one record's outcome. Usable from any thread, also after the producer was closed."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Return whether the outcome is known; never blocks."""
        batch, _index = self._place()
        return batch.outcome is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait at most *timeout* seconds for the record's metadata, and return it; None: as long as it takes.

        Raises TimeoutError when the outcome is not known by then, and DeliveryError when the record was given up; its
        subclasses are DeliveryTimeoutError and, in a transaction, TransactionAbortedError. A wait does not make the
        record leave sooner: `flush` does. A thread that awaits one record after the other does their I/O itself.
        """
        batch, index, outcome = self._wait(timeout)
        if isinstance(outcome, Acknowledged):
            return batch.metadata(index, outcome)
        raise outcome.error_of(index).with_traceback(None)

    def exception(self, timeout: float | None = None) -> DeliveryError | None:
        """The error with which the record was given up, None when it was acknowledged; waits like `result`."""
        _batch, index, outcome = self._wait(timeout)
        return None if isinstance(outcome, Acknowledged) else outcome.error_of(index)

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call *callback* with this delivery once it is done, on the I/O thread; at once when it is done already.

        An exception it raises is logged and stops nothing.
        """
        self._batch.call_when_settled(self._index, lambda _metadata, _error: callback(self))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a delivery cannot be copied or pickled, for its outcome comes to this process: wait for its result() and "
            "send that"
        )

    def _place(self) -> tuple[ProducerBatch, int]:
        """The batch that the record is in now, and its index there."""
        batch, index = self._batch, self._index
        while isinstance(outcome := batch.outcome, Forwarded):
            batch, index = outcome.place(index)
        return batch, index

    def _wait(self, timeout: float | None) -> tuple[ProducerBatch, int, Acknowledged | Failed]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            batch, index = self._place()
            awaited = batch.awaited  # None as soon as there is an outcome
            if batch.outcome is None and awaited is not None:
                awaited(batch, None if deadline is None else deadline - time.monotonic())
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not batch.wait(remaining):
                raise TimeoutError(f"the record for {batch} is still pending after {timeout} s")
            match batch.outcome:
                case Failed() as failed:
                    batch.mark_error_retrieved(index)
                    return batch, index, failed
                case Acknowledged() as acknowledged:
                    return batch, index, acknowledged
                # After the wait there is an outcome. If it is Forwarded, the loop waits for the batch that has the
                # record now.

    def __repr__(self) -> str:
        batch, index = self._place()
        match batch.outcome:
            case Acknowledged(base_offset=base):
                state = f"at offset {base + index}" if base >= 0 else "acknowledged"
            case Failed() as failed:
                state = f"failed: {failed.error_of(index)}"
            case _:
                state = "pending"
        return f"<Delivery for {batch}: {state}>"
