"""Results of records and tables: metadata, counts, and the reports that `flush` and `close` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

import attrs

from ottla.results import html
from ottla.results.call_hints import METADATA_HINTS, with_call_hints
from ottla.results.value_methods import ValueMethods


@with_call_hints(METADATA_HINTS)
class RecordMetadata(NamedTuple):
    """Topic, partition, offset, timestamp and sizes of an acknowledged record.

    `offset` is -1 when the broker gave none (`acks=0`); `timestamp_ms` is the time in the log, in milliseconds since
    1970: the record's own (CreateTime) or the broker's (LogAppendTime). Sizes are in bytes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TopicReport(ValueMethods):
    """Counts of records of one topic. `possibly_persisted`: how many of `failed` the broker may nevertheless hold."""

    acknowledged: int = 0
    failed: int = 0
    possibly_persisted: int = 0
    pending: int = 0


@attrs.frozen(eq=False, repr=False)
class DeliveryReport(ValueMethods):
    """Counts of records acknowledged or failed since the previous report, and pending now, by topic.

    Returned by `flush`, `close`, `commit_transaction`, `abort_transaction` and `leave_transaction`; each resets the
    counts. It is true while records are pending.
    """

    topics: Mapping[str, TopicReport]

    @property
    def acknowledged(self) -> int:
        """Records that brokers confirmed, or, with `acks=0`, that were written to a socket."""
        return sum(topic.acknowledged for topic in self.topics.values())

    @property
    def failed(self) -> int:
        """Records that failed."""
        return sum(topic.failed for topic in self.topics.values())

    @property
    def possibly_persisted(self) -> int:
        """Failed records that the broker may nevertheless hold: no response came, or one that does not rule it out."""
        return sum(topic.possibly_persisted for topic in self.topics.values())

    @property
    def pending(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return sum(topic.pending for topic in self.topics.values())

    def __bool__(self) -> bool:
        """Return whether records are pending: `if remaining:` of a program for confluent-kafka means that."""
        return self.pending > 0

    def __index__(self) -> NoReturn:
        raise _no_number()

    def __lt__(self, other: object) -> NoReturn:
        raise _no_number()

    __gt__ = __le__ = __ge__ = __lt__

    def __str__(self) -> str:
        counts = f"{self.acknowledged} acknowledged, {self.failed} failed, {self.pending} pending"
        if self.possibly_persisted:
            counts += f" ({self.possibly_persisted} of the failed possibly persisted)"
        return counts

    def _repr_html_(self) -> str:
        """The counts of each topic, for notebooks."""
        rows = (
            (topic, counts.acknowledged, counts.failed, counts.possibly_persisted, counts.pending)
            for topic, counts in self.topics.items()
        )
        columns = ("topic", "acknowledged", "failed", "possibly persisted", "pending")
        return html.table(str(self), columns, rows, more="topics")


def _no_number() -> TypeError:
    return TypeError(
        "a DeliveryReport is not a number, as confluent-kafka's flush returns; read its pending, acknowledged or failed"
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartitionResult(ValueMethods):
    """The acknowledged rows of one partition. Offsets are -1 when the broker gave none (`acks=0`)."""

    rows: int
    first_offset: int
    last_offset: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TableResult(ValueMethods):
    """Counts of a table's rows, and the partitions that took any of them: by topic in `topics` if a column named the
    topics, otherwise in `partitions`.
    """

    rows: int
    acknowledged: int
    failed: int
    partitions: Mapping[int, PartitionResult]
    topics: Mapping[str, Mapping[int, PartitionResult]] = attrs.field(factory=dict)

    def _repr_html_(self) -> str:
        """The counts and the rows of each partition, for notebooks."""
        title = f"rows: {self.rows}, of which {self.acknowledged} acknowledged and {self.failed} failed"
        by_topic = self.topics or {"": self.partitions}
        rows = [
            (topic, partition, found.rows, *(None if at < 0 else at for at in (found.first_offset, found.last_offset)))
            for topic, partitions in by_topic.items()
            for partition, found in partitions.items()
        ]
        columns = ("topic", "partition", "rows", "first offset", "last offset")
        if self.topics:
            return html.table(title, columns, rows, more="partitions")
        return html.table(title, columns[1:], [row[1:] for row in rows], more="partitions")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TableProgress(ValueMethods):
    """Counts of a table's rows so far: those that were read, and those of them that have their outcome."""

    rows: int
    acknowledged: int
    failed: int

    @property
    def pending(self) -> int:
        """Rows that were read, and are neither acknowledged nor failed."""
        return self.rows - self.acknowledged - self.failed

    def __str__(self) -> str:
        outcomes = f"{self.acknowledged} acknowledged, {self.failed} failed, {self.pending} pending"
        return f"rows: {self.rows}, of which {outcomes}"
