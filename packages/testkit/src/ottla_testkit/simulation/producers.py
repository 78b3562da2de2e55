"""The producer state of a simulated partition: each producer's last batches, to detect repeats and gaps (KIP-98).

Like a real broker, it accepts any first sequence of a producer without state, remembers five batches, and requires a
new epoch to begin at 0.
"""

from __future__ import annotations

from collections import deque

import attrs

from ottla.errors import ErrorCode
from ottla.recordbatch.parse import RecordBatch

REMEMBERED = 5
SEQUENCES = 1 << 31


@attrs.frozen
class WrittenBatch:
    """A batch that is remembered: its first and last sequence number, base offset and newest timestamp."""

    first: int
    last: int
    offset: int
    timestamp_ms: int

    @property
    def last_offset(self) -> int:
        return self.offset + (self.last - self.first) % SEQUENCES


@attrs.define
class ProducerEntry:
    """One producer's last batches."""

    epoch: int
    batches: deque[WrittenBatch] = attrs.field(factory=lambda: deque(maxlen=REMEMBERED))


@attrs.define
class PartitionProducers:
    """The producers of one partition, by id."""

    entries: dict[int, ProducerEntry] = attrs.field(factory=dict)

    def check(self, batch: RecordBatch) -> tuple[ErrorCode, int | None]:
        """Return an error code if the batch may not be appended, and its base offset if it was appended before."""
        entry = self.entries.get(batch.producer_id)
        if batch.producer_id < 0 or entry is None:
            return ErrorCode.NONE, None
        if self.fences(batch):
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if batch.epoch > entry.epoch:
            return (ErrorCode.NONE if batch.sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
        written = self.written(batch)
        if written is not None:
            return ErrorCode.NONE, written.offset
        expected = (entry.batches[-1].last + 1) % SEQUENCES if entry.batches else 0
        return (ErrorCode.NONE if batch.sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None

    def fences(self, batch: RecordBatch) -> bool:
        """Return whether a later epoch of the batch's producer is known: its own one has ended."""
        entry = self.entries.get(batch.producer_id)
        return entry is not None and batch.epoch < entry.epoch

    def written(self, batch: RecordBatch) -> WrittenBatch | None:
        """Return the batch that this one repeats, None if it is new or no longer remembered."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.epoch:
            return None
        wanted = batch.sequence, _last(batch)
        return next((each for each in entry.batches if (each.first, each.last) == wanted), None)

    def append(self, batch: RecordBatch, base_offset: int) -> None:
        """Remember an appended batch."""
        if batch.producer_id < 0:
            return
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.epoch:
            entry = self.entries[batch.producer_id] = ProducerEntry(batch.epoch)
        entry.batches.append(WrittenBatch(batch.sequence, _last(batch), base_offset, batch.max_timestamp))

    def lacks(self, batch: RecordBatch) -> bool:
        """Return whether the number before this batch is not known, and has to be: its own one is not the first."""
        entry = self.entries.get(batch.producer_id)
        known = entry is not None and (bool(entry.batches) or entry.epoch != batch.epoch)
        return batch.producer_id >= 0 and batch.sequence != 0 and not known

    def forget_until(self, offset: int) -> None:
        """Lose the producers whose last batch is before this offset."""
        for producer_id, entry in list(self.entries.items()):
            if not entry.batches or entry.batches[-1].last_offset < offset:
                del self.entries[producer_id]

    def mark(self, producer_id: int, epoch: int) -> None:
        """Record a transaction's marker, which fences older epochs."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.epoch < epoch:
            self.entries[producer_id] = ProducerEntry(epoch)


def _last(batch: RecordBatch) -> int:
    return (batch.sequence + len(batch.records) - 1) % SEQUENCES
