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


@attrs.frozen(kw_only=True)
class Verification:
    """The first batches of a producer's transaction, until one is written: their epoch and lowest sequence number.

    A refused one may be sent again, so none with a higher number is written before it.
    """

    epoch: int
    lowest: int
    from_zero: bool


@attrs.define(eq=False)
class PartitionLog:
    """A log, and all that a broker derives from it. Two logs share an entry if it is the same object in both."""

    entries: list[Entry] = attrs.field(factory=list)
    records: list[Record] = attrs.field(factory=list)
    """All that were written, also the deleted ones before `start`."""
    start: int = 0
    """The offset of the first record that is not deleted."""
    producers: PartitionProducers = attrs.field(factory=PartitionProducers)
    open_transactions: dict[int, list[int]] = attrs.field(factory=dict)
    """The offsets of open transactions by producer id."""
    aborted: set[int] = attrs.field(factory=set)
    verifying: dict[int, Verification] = attrs.field(factory=dict)
    """Of producers whose transaction has nothing here yet."""
    _forgotten: int = 0  # entries whose producers are forgotten
    forgets_deleted: bool = False
    """Whether the state of producers goes with their records."""

    def verify(self, batch: RecordBatch, *, from_zero: bool) -> bool:
        """Return whether the coordinator has to be asked for a batch's transaction: it has nothing in this log yet.

        *from_zero*: a producer without state has to begin with the sequence number 0, as since KIP-890.
        """
        entry = self.producers.entries.get(batch.producer_id)
        if batch.producer_id in self.open_transactions and entry is not None and entry.epoch == batch.epoch:
            return False
        known = self.verifying.get(batch.producer_id)
        if known is None or batch.epoch > known.epoch:
            known = Verification(epoch=batch.epoch, lowest=batch.sequence, from_zero=from_zero)
        elif batch.epoch == known.epoch:
            known = attrs.evolve(known, lowest=min(known.lowest, batch.sequence))
        self.verifying[batch.producer_id] = known
        return True

    def append(self, batch: RecordBatch) -> tuple[ErrorCode, int]:
        """Append a batch unless its sequence number is refused; return the error code and the batch's base offset."""
        code, repeated = self.producers.check(batch)
        if code is not ErrorCode.NONE or repeated is not None:
            return code, -1 if repeated is None else repeated
        verification = self.verifying.get(batch.producer_id)
        if verification is not None and self._is_early(batch, verification):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if not batch.transactional and batch.producer_id in self.open_transactions:
            return ErrorCode.INVALID_TXN_STATE, -1
        base_offset = len(self.records)
        self.replicate([LoggedBatch(batch)])
        return ErrorCode.NONE, base_offset

    def _is_early(self, batch: RecordBatch, verification: Verification) -> bool:
        """Return whether another batch has to come first: one that was refused before, or the one with number 0."""
        if batch.epoch > verification.epoch:  # that was a late copy of a batch of an earlier transaction
            return False
        first = verification.from_zero and batch.producer_id not in self.producers.entries
        return batch.sequence > (0 if first else verification.lowest)

    def mark(self, producer_id: int, epoch: int, committed: bool) -> None:
        """Write the marker that ends a transaction."""
        self.replicate([Marker(producer_id, epoch, committed)])

    def judge_marker(self, producer_id: int, epoch: int, *, strict: bool) -> ErrorCode | None:
        """Return NONE if a marker is to be written, the code if it is refused, None if it was written before.

        *strict*: a marker that was not written yet has a new epoch (KIP-1228).
        """
        entry = self.producers.entries.get(producer_id)
        if entry is None or epoch > entry.epoch or (epoch == entry.epoch and not strict):
            return ErrorCode.NONE
        return ErrorCode.INVALID_PRODUCER_EPOCH if epoch < entry.epoch else None

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
            self.verifying.clear()
            forgotten, self._forgotten = min(self._forgotten, length), 0
            self.replicate(kept[:forgotten])
            if forgotten:
                self.forget_producers()
            self.replicate(kept[forgotten:])
            self.delete_records(self.start, forgets=self.forgets_deleted)
        return removed

    def delete_records(self, until: int, *, forgets: bool) -> None:
        """Delete the records before an offset, as retention and DeleteRecords do.

        *forgets*: a producer is forgotten with its records, as before Kafka 2.4.
        """
        self.start = max(self.start, min(until, len(self.records)))
        self.forgets_deleted = forgets
        if forgets:
            self.producers.forget_until(self.start)

    def forget_producers(self) -> None:
        """Lose the state of all producers, in the snapshot of the log, too."""
        self.producers.entries.clear()
        self._forgotten = len(self.entries)

    def length_before(self, offset: int) -> int:
        """Return how many entries there are whose records are all before this offset."""
        records = 0
        for number, entry in enumerate(self.entries):
            records += len(entry.batch.records) if isinstance(entry, LoggedBatch) else 0
            if records > offset:
                return number
        return len(self.entries)

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
            self.verifying.pop(entry.producer_id, None)
            return
        batch, base_offset = entry.batch, len(self.records)
        self.records.extend(batch.records)
        self.producers.append(batch, base_offset)
        if batch.transactional:
            self.verifying.pop(batch.producer_id, None)
            self.open_transactions.setdefault(batch.producer_id, []).extend(range(base_offset, len(self.records)))
