"""The handle that `send` returns: where one record's outcome will be."""

from __future__ import annotations

from collections.abc import Callable

from ottla.batch import Acknowledged, Failed, Outcome, ProducerBatch
from ottla.errors import DeliveryFailed
from ottla.records import RecordMetadata


class Delivery:
    """One record's outcome, now or later. Usable from any thread."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the outcome is known; never blocks."""
        return self._batch.outcome is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went, waiting at most *timeout* seconds for it.

        Raises TimeoutError when it is not known by then, and DeliveryFailed when the record was given up.
        """
        outcome = self._wait(timeout)
        if isinstance(outcome, Acknowledged):
            return self._batch.metadata(self._index, outcome)
        raise outcome.error_of(self._index).with_traceback(None)

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        """Why the record was given up, None when it was acknowledged; waits like `result`."""
        outcome = self._wait(timeout)
        return None if isinstance(outcome, Acknowledged) else outcome.error_of(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call *callback* with this delivery once it is done, on the I/O thread; at once when it is done already.

        An exception it raises is logged and stops nothing.
        """
        self._batch.call_when_settled(self._index, lambda _metadata, _error: callback(self))

    def _wait(self, timeout: float | None) -> Outcome:
        batch = self._batch
        if not batch.wait(timeout):
            raise TimeoutError(
                f"the record for topic {batch.topic!r}, partition {batch.partition} is still pending after {timeout} s"
            )
        outcome = batch.outcome
        assert outcome is not None
        if isinstance(outcome, Failed):
            batch.look_at(self._index)
        return outcome

    def __repr__(self) -> str:
        batch = self._batch
        match batch.outcome:
            case None:
                state = "pending"
            case Acknowledged(base_offset=base):
                state = f"at offset {base + self._index}" if base >= 0 else "acknowledged"
            case failed:
                state = f"failed: {failed.error_of(self._index)}"
        return f"<Delivery {batch.topic}-{batch.partition} {state}>"
