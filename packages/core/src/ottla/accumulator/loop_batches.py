"""The batches whose records tasks and callbacks of one event loop wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.loop_callbacks import LoopCallback, WaitedDelivery, Waiting, give_up_errors
from ottla.results import RecordMetadata


class NotifyingBatch(Protocol):
    """The part of a batch's interface that waits on a loop use."""

    @property
    def outcome(self) -> Any:
        """The outcome of the batch, or None until it is completed."""

    @property
    def count(self) -> int:
        """The number of records in the batch."""

    def all_metadata(self) -> Sequence[RecordMetadata]:
        """The metadata of every record of an acknowledged batch."""

    def add_latch(self, latch: BatchWaiter | AwaitedErrors) -> bool:
        """Have *latch* set once there is an outcome. Returns False if there is one already."""


class Inbox(Protocol):
    """The part of a loop's inbox that its batches use."""

    def is_closed(self) -> bool:
        """Return whether the loop will have no turn any more."""

    def put(self, arrived: BatchWaiter) -> None:
        """Take a completed batch, on any thread."""


class AwaitedErrors:
    """Errors of records of one batch that count as retrieved when it fails, because tasks or callbacks will get them.

    A flush or close would raise these errors, too, if it counted the batch before the loop has its turn. In a closed
    loop nothing gets them: there they are left for flush, close and the log.
    """

    __slots__ = ("_batch", "_inbox", "_records")

    def __init__(self, inbox: Inbox, batch: NotifyingBatch, records: list[tuple[WaitedDelivery, Waiting]]) -> None:
        self._inbox = inbox
        self._batch = batch
        self._records = records

    def set(self) -> None:
        """Retrieve the errors, or do so when the batches that have the records now fail."""
        if self._inbox.is_closed():
            return
        outcome = self._batch.outcome
        if isinstance(outcome, Failed):
            for delivery, waiting in list(self._records):
                if isinstance(waiting, LoopCallback) or waiting.pending:
                    batch, index = delivery._place()
                    batch.failed_reads.expect(index)
        elif isinstance(outcome, Forwarded):
            # The loop waits for those only after its turn, and until then they may fail.
            moved: dict[NotifyingBatch, list[tuple[WaitedDelivery, Waiting]]] = {}
            for delivery, waiting in list(self._records):
                batch, _index = delivery._place()
                moved.setdefault(batch, []).append((delivery, waiting))
            for batch, records in moved.items():
                errors = AwaitedErrors(self._inbox, batch, records)
                if not batch.add_latch(errors):
                    errors.set()


class BatchWaiter:
    """The records of one batch that tasks and callbacks of one loop wait for."""

    __slots__ = ("_inbox", "batch", "is_set", "records")

    def __init__(self, inbox: Inbox, batch: NotifyingBatch) -> None:
        self._inbox = inbox
        self.batch = batch
        self.records: list[tuple[WaitedDelivery, Waiting]] = []
        self.is_set = False

    def set(self) -> None:
        """Have the loop complete the records. Called once, on the thread that has set the outcome."""
        self.is_set = True
        AwaitedErrors(self._inbox, self.batch, self.records).set()  # before the batch is counted
        self._inbox.put(self)

    def give_up(self) -> int:
        """Leave the errors to others, since the loop is closed. Returns the number of callbacks that it does not call.

        Takes no lock: finalizers call this.
        """
        return give_up_errors(self.records)

    def metadata(self, waited_for: int) -> Sequence[RecordMetadata] | None:
        """The metadata of the batch's records, if it was acknowledged and many of its records are waited for.

        For all records together they take a third of the time that they take one by one.
        """
        if not isinstance(self.batch.outcome, Acknowledged) or waited_for == 1 or 2 * waited_for < self.batch.count:
            return None
        return self.batch.all_metadata()
