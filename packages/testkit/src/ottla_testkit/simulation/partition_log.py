"""One broker's log of a simulated partition: records, the state of producers, and open and aborted transactions."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ottla.errors import ErrorCode
from ottla.recordbatch.parse import Record, RecordBatch
from ottla_testkit.simulation.producers import PartitionProducers


@attrs.frozen(eq=False)
class Marker:
    """The end of a transaction, as an entry of a log. It takes no offset here."""

    producer_id: int
    epoch: int
    committed: bool


@attrs.frozen(eq=False)
class LoggedBatch:
    """A batch, as an entry of a log."""

    batch: RecordBatch


Entry = LoggedBatch | Marker


@attrs.define(eq=False)
class PartitionLog:
    """A log, and all that a broker derives from it. Two logs share an entry if it is the same object in both."""

    entries: list[Entry] = attrs.field(factory=list)
    records: list[Record] = attrs.field(factory=list)
    producers: PartitionProducers = attrs.field(factory=PartitionProducers)
    open_transactions: dict[int, list[int]] = attrs.field(factory=dict)
    """The offsets of open transactions by producer id."""
    aborted: set[int] = attrs.field(factory=set)
    _forgotten: int = 0  # entries whose producers are forgotten

    def append(self, batch: RecordBatch) -> tuple[ErrorCode, int]:
        """Append a batch unless its sequence number is refused; return the error code and the batch's base offset."""
        code, repeated = self.producers.judge(batch)
        if code is not ErrorCode.NONE or repeated is not None:
            return code, -1 if repeated is None else repeated
        base_offset = len(self.records)
        self.replicate([LoggedBatch(batch)])
        return ErrorCode.NONE, base_offset

    def mark(self, producer_id: int, epoch: int, committed: bool) -> None:
        """Write the marker that ends a transaction."""
        self.replicate([Marker(producer_id, epoch, committed)])

    def replicate(self, entries: Sequence[Entry]) -> None:
        """Append entries as they are, as a follower does with those of its leader."""
        for entry in entries:
            self.entries.append(entry)
            self._apply(entry)

    def truncate(self, length: int) -> Sequence[Entry]:
        """Remove all entries from this one on and return them; the state of producers is built again from the rest."""
        removed = self.entries[length:]
        if removed:
            kept = self.entries[:length]
            for part in (self.entries, self.records, self.open_transactions, self.aborted, self.producers.entries):
                part.clear()
            forgotten, self._forgotten = min(self._forgotten, length), 0
            self.replicate(kept[:forgotten])
            if forgotten:
                self.forget_producers()
            self.replicate(kept[forgotten:])
        return removed

    def forget_producers(self) -> None:
        """Lose the state of all producers, in the snapshot of the log, too."""
        self.producers.entries.clear()
        self._forgotten = len(self.entries)

    def length_until(self, offset: int) -> int:
        """Return how many entries there are up to the batch with this base offset, it included."""
        end = 0
        for number, entry in enumerate(self.entries, 1):
            if isinstance(entry, LoggedBatch):
                end += len(entry.batch.records)
                if end > offset:
                    return number
        return len(self.entries)

    def common_length(self, other: PartitionLog) -> int:
        """Return how many entries two logs have in common, from their beginning."""
        for number, (own, others) in enumerate(zip(self.entries, other.entries, strict=False)):
            if own is not others:
                return number
        return min(len(self.entries), len(other.entries))

    def _apply(self, entry: Entry) -> None:
        if isinstance(entry, Marker):
            places = self.open_transactions.pop(entry.producer_id, [])
            if not entry.committed:
                self.aborted.update(places)
            self.producers.mark(entry.producer_id, entry.epoch)
            return
        batch, base_offset = entry.batch, len(self.records)
        self.records.extend(batch.records)
        self.producers.append(batch, base_offset)
        if batch.transactional:
            self.open_transactions.setdefault(batch.producer_id, []).extend(range(base_offset, len(self.records)))
