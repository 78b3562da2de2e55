"""Scan for the last entry of one name among batches that other users may have written. It sends no requests.

Brokers check batch headers but nothing after them. An entry counts if it is committed, in the first batch of its
transaction, and of a producer id that the name's lease has had. In a ledger topic of the name's own, any producer id
counts, because the topic's ACLs decide who may write there. Other batches with the name's key are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ottla.errors import CorruptBatchError, InvalidRecordError
from ottla.recordbatch.parsed_batches import ControlMarker
from ottla_spark.exactly_once.ledger.batches import LedgerBatch
from ottla_spark.exactly_once.ledger.entry import Entry, read_value


@attrs.frozen(kw_only=True)
class ForeignEntry:
    """A committed entry under the name, of a producer id that its lease is not known to have had."""

    producer_id: int
    offset: int


@attrs.define
class Skipped:
    """The number of skipped batches since `take`, and the first of them with its reason."""

    count: int = 0
    first: str = ""

    def note(self, batch: LedgerBatch, why: str) -> None:
        """Count a batch; keep *why* it is skipped if it is the first one since `take`."""
        self.count += 1
        self.first = self.first or f"the one at offset {batch.first_offset} {why}"

    def take(self) -> tuple[int, str]:
        """Return the count and the first skipped batch, and reset both."""
        found = self.count, self.first
        self.count, self.first = 0, ""
        return found


@attrs.frozen(kw_only=True)
class _Candidate:
    """The entry of an open transaction, the last one once it is committed; `problem`: why it cannot be read."""

    epoch: int
    sequence: int
    offset: int
    entry: Entry | None = None
    problem: str = ""


@attrs.define
class LedgerScan:
    """A scan of the batches of one partition, in the order of their offsets, for the last committed entry of a name.

    `answered`: whether such an entry was found; a tombstone counts. If so, `last` is its content, None for a tombstone,
    and `written_by` and `epoch` are of its batch. If it cannot be read, `problem` says why.
    """

    name: str
    _of_lease: Callable[[int], bool]
    last: Entry | None = attrs.field(default=None, init=False)
    written_by: int = attrs.field(default=-1, init=False)
    epoch: int = attrs.field(default=-1, init=False)
    answered: bool = attrs.field(default=False, init=False)
    problem: str = attrs.field(default="", init=False)
    foreign_entry: ForeignEntry | None = attrs.field(default=None, init=False)
    skipped: Skipped = attrs.field(factory=Skipped, init=False)
    _key: bytes = attrs.field(init=False)
    _open: dict[int, _Candidate] = attrs.field(factory=dict, init=False)
    _open_foreign: dict[int, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._key = self.name.encode()

    @property
    def has_open_entry(self) -> bool:
        """Whether an entry of the name was read without the marker that ends its transaction."""
        return bool(self._open)

    @property
    def has_entry(self) -> bool:
        """Whether the last one is an entry, readable or not, and no deletion."""
        return self.last is not None or bool(self.problem)

    def take(self, batch: LedgerBatch) -> None:
        """Add the next batch of the log."""
        if batch.control:
            self._end(batch)
        elif not batch.transactional:
            if self._is_ours(batch):
                self.skipped.note(batch, "has the key of this name but belongs to no transaction")
        elif self._of_lease(batch.producer_id):
            self._take_written(batch)
        elif self._is_ours(batch):
            self._open_foreign[batch.producer_id] = batch.first_offset

    def _take_written(self, batch: LedgerBatch) -> None:
        """Add a batch of a producer id that may write entries of this name."""
        try:
            if not batch.has_key(self._key):
                return
        except CorruptBatchError as error:
            self._open_as(batch, problem=str(error))
            return
        before = self._open.get(batch.producer_id)
        if before is not None and before.epoch == batch.epoch:
            # Brokers verify the owner of a producer id for the first batch of a transaction in a partition, and accept
            # any further ones from any client (KIP-890; UnifiedLog.maybeStartTransactionVerification).
            self.skipped.note(batch, "is not the first of its transaction")
            return
        try:
            self._open_as(batch, entry=read_value(batch.entry().value, name=self.name))
        except (CorruptBatchError, InvalidRecordError) as error:
            self._open_as(batch, problem=str(error))

    def _open_as(self, batch: LedgerBatch, *, entry: Entry | None = None, problem: str = "") -> None:
        self._open[batch.producer_id] = _Candidate(
            epoch=batch.epoch, sequence=batch.sequence, offset=batch.first_offset, entry=entry, problem=problem
        )

    def _is_ours(self, batch: LedgerBatch) -> bool:
        try:
            return batch.has_key(self._key)
        except CorruptBatchError as error:
            self.skipped.note(batch, f"cannot be read ({error})")
            return False

    def _end(self, marker: LedgerBatch) -> None:
        """End a transaction; markers of transactions without an entry of this name have no effect."""
        producer_id = marker.producer_id
        candidate = self._open.pop(producer_id, None)
        offset = self._open_foreign.pop(producer_id, None)
        if (candidate is None and offset is None) or marker.marker() is not ControlMarker.COMMIT:
            return
        if offset is not None:
            self.foreign_entry = ForeignEntry(producer_id=producer_id, offset=offset)
            self.skipped.note(
                marker, f"commits an entry of producer id {producer_id}, which is not known to have been the lease's"
            )
        if candidate is not None:
            self.last, self.problem = candidate.entry, candidate.problem
            self.written_by, self.epoch, self.answered = producer_id, candidate.epoch, True
            # From transaction.version 2 on, each transaction has its own epoch, and its marker has the next one
            # (KIP-890); its first batch has sequence 0. Another sequence means that compaction removed our entry:
            # another client wrote a batch with our key into our open transaction, and that batch replaced it.
            if marker.epoch != candidate.epoch and candidate.sequence != _FIRST:
                self.last = None
                self.problem = f"another client's batch at offset {candidate.offset} has replaced it"


_FIRST: Final = 0
