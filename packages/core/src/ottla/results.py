"""Results of records and tables: metadata, counts, and the reports that `flush` and `close` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs


class RecordMetadata(NamedTuple):
    """Where a record went.

    `offset` is -1 when the broker gave none (`acks=0`); `timestamp_ms` is the time the log holds, in milliseconds since
    1970: the record's own (CreateTime) or the broker's (LogAppendTime). Sizes are in bytes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int


@attrs.frozen(kw_only=True)
class TopicReport:
    """Counts of records of one topic. `possibly_persisted`: so many of `failed` the broker may hold all the same."""

    acknowledged: int = 0
    failed: int = 0
    possibly_persisted: int = 0
    pending: int = 0


@attrs.frozen
class DeliveryReport:
    """What was settled since the report before this one, and what is pending now, by topic.

    Returned by `flush`, `close`, `commit_transaction` and `abort_transaction`; each begins to count anew.
    """

    topics: Mapping[str, TopicReport]

    @property
    def acknowledged(self) -> int:
        """Records that brokers confirmed, or, with `acks=0`, that were written to a socket."""
        return sum(topic.acknowledged for topic in self.topics.values())

    @property
    def failed(self) -> int:
        """Records that were given up."""
        return sum(topic.failed for topic in self.topics.values())

    @property
    def possibly_persisted(self) -> int:
        """Those of `failed` whose request had left and whose answer never came."""
        return sum(topic.possibly_persisted for topic in self.topics.values())

    @property
    def pending(self) -> int:
        """Records that are still on their way."""
        return sum(topic.pending for topic in self.topics.values())

    def __str__(self) -> str:
        counts = f"{self.acknowledged} acknowledged, {self.failed} failed, {self.pending} pending"
        if self.possibly_persisted:
            counts += f" ({self.possibly_persisted} of the failed possibly persisted)"
        return counts


@attrs.frozen(kw_only=True)
class PartitionResult:
    """The acknowledged rows of one partition. Offsets are -1 when the broker gave none (`acks=0`)."""

    rows: int
    first_offset: int
    last_offset: int


@attrs.frozen(kw_only=True)
class TableResult:
    """How many rows there were, and what became of them. `partitions` has those that took any."""

    rows: int
    acknowledged: int
    failed: int
    partitions: Mapping[int, PartitionResult]
