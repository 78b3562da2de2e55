"""The last entry of one name, found among batches that anybody may have written. Knows nothing of requests.

Brokers check headers, and nothing behind them. What counts is committed, the first batch of its transaction, and of a
producer id that the name's lease has had; in a ledger topic of the name's own, of any producer id, because its access
list says who may write there. What else has the key of the name is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ottla.errors import CorruptBatchError, InvalidRecordError
from ottla.recordbatch.stored import ControlMarker
from ottla_spark.exactly_once.ledger.batches import LedgerBatch
from ottla_spark.exactly_once.ledger.entry import Entry, read_value


@attrs.frozen(kw_only=True)
class Stranger:
    """A committed entry under the name, of a producer id that is not known to have been its lease's."""

    producer_id: int
    offset: int


@attrs.define
class Skipped:
    """How many batches did not count since `take`, and the first of them with its reason."""

    count: int = 0
    first: str = ""

    def note(self, batch: LedgerBatch, why: str) -> None:
        """Count a batch."""
        self.count += 1
        self.first = self.first or f"the one at offset {batch.first_offset} {why}"

    def take(self) -> tuple[int, str]:
        """The count and the first one; counting begins again."""
        found = self.count, self.first
        self.count, self.first = 0, ""
        return found


@attrs.frozen(kw_only=True)
class _Candidate:
    """What becomes the last entry once its transaction is committed; `problem`: it cannot be read."""

    epoch: int
    sequence: int
    offset: int
    entry: Entry | None = None
    problem: str = ""


@attrs.define
class LedgerScan:
    """Takes the batches of a partition in their order.

    `answered` is whether an entry of the name was found, or that it was forgotten; then `last` is what the newest one
    says, `problem` why it cannot be read, and `written_by` its producer id.
    """

    name: str
    _of_lease: Callable[[int], bool]
    last: Entry | None = attrs.field(default=None, init=False)
    written_by: int = attrs.field(default=-1, init=False)
    answered: bool = attrs.field(default=False, init=False)
    problem: str = attrs.field(default="", init=False)
    stranger: Stranger | None = attrs.field(default=None, init=False)
    skipped: Skipped = attrs.field(factory=Skipped, init=False)
    _key: bytes = attrs.field(init=False)
    _open: dict[int, _Candidate] = attrs.field(factory=dict, init=False)
    _open_strangers: dict[int, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._key = self.name.encode()

    @property
    def unsettled(self) -> bool:
        """Whether an entry of the name has been read without the marker that ends its transaction."""
        return bool(self._open)

    def take(self, batch: LedgerBatch) -> None:
        """The next batch of the log."""
        if batch.control:
            self._end(batch)
        elif not batch.transactional:
            if self._is_ours(batch):
                self.skipped.note(batch, "has the key of this name and is in no transaction")
        elif self._of_lease(batch.producer_id):
            self._take_written(batch)
        elif self._is_ours(batch):
            self._open_strangers[batch.producer_id] = batch.first_offset

    def _take_written(self, batch: LedgerBatch) -> None:
        """Of a producer id that may write entries of this name."""
        try:
            if not batch.has_key(self._key):
                return
        except CorruptBatchError as error:
            self._open_as(batch, problem=str(error))
            return
        before = self._open.get(batch.producer_id)
        if before is not None and before.epoch == batch.epoch:
            # Brokers verify the owner of a producer id for the first batch of a transaction in a partition, and take
            # any further ones from anybody (KIP-890; UnifiedLog.maybeStartTransactionVerification).
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
        """The end of a transaction; the markers of transactions without an entry of this name say nothing here."""
        producer_id = marker.producer_id
        candidate = self._open.pop(producer_id, None)
        offset = self._open_strangers.pop(producer_id, None)
        if (candidate is None and offset is None) or marker.marker() is not ControlMarker.COMMIT:
            return
        if offset is not None:
            self.stranger = Stranger(producer_id=producer_id, offset=offset)
            self.skipped.note(
                marker, f"commits an entry of producer id {producer_id}, which is not known to have been the lease's"
            )
        if candidate is not None:
            self.last, self.problem = candidate.entry, candidate.problem
            self.written_by, self.answered = producer_id, True
            # From transaction.version 2 on the marker has the next epoch (KIP-890), and a transaction the epoch before
            # to itself: its first batch has number 0. Where another one is the first that is left, compaction took a
            # stranger's batch with our key, written into our open transaction, for what replaces our entry.
            if marker.epoch != candidate.epoch and candidate.sequence != _FIRST:
                self.last, self.problem = None, f"the one at offset {candidate.offset} has replaced it, a stranger's"


_FIRST: Final = 0
