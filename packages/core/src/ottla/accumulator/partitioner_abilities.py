"""The optional abilities of a partitioner, found once when the producer is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import attrs

from ottla.accumulator.batch import NewRecord
from ottla.accumulator.partitioner_calls import (
    Partition,
    PartitionColumn,
    PartitionRecord,
    partition_of,
    partition_of_record,
)
from ottla.errors.plugin_origin import note_methods
from ottla.interfaces import (
    Partitioner,
    RecordView,
    SupportsAppended,
    SupportsFinished,
    SupportsHashes,
    SupportsIgnoresKeys,
    SupportsOnNewBatch,
    SupportsPartitionColumn,
    SupportsPartitionRecord,
    SupportsSticky,
    TopicView,
    supports,
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartitionerAbilities:
    """A partitioner's methods and flags, as `ottla.interfaces` documents them, None for those that it lacks.

    `partition_record` is called for every record, so a partitioner with it has no ability that saves calls.
    """

    partition: Partition
    partition_record: PartitionRecord | None
    partition_column: PartitionColumn | None
    on_new_batch: Callable[[str, int, TopicView], object] | None
    appended: Callable[[str, int, int], object] | None
    finished: Callable[[str, int, int], object] | None
    sticky: bool
    ignores_keys: bool
    hashes: str | None

    @classmethod
    def of(cls, partitioner: Partitioner) -> Self:
        """The abilities of this partitioner."""
        appended = partitioner.appended if supports(partitioner, SupportsAppended) else None
        by_record = partitioner.partition_record if supports(partitioner, SupportsPartitionRecord) else None
        column = partitioner.partition_column if supports(partitioner, SupportsPartitionColumn) else None
        sticky = supports(partitioner, SupportsSticky) and bool(partitioner.sticky)
        ignores_keys = supports(partitioner, SupportsIgnoresKeys) and bool(partitioner.ignores_keys)
        hashes = partitioner.hashes if supports(partitioner, SupportsHashes) else None
        note_methods(partitioner, "partitioner", partitioner.partition, by_record, column, appended)
        return cls(
            partition=partitioner.partition,
            partition_record=by_record,
            partition_column=column if by_record is None else None,
            on_new_batch=partitioner.on_new_batch if supports(partitioner, SupportsOnNewBatch) else None,
            appended=appended,
            finished=partitioner.finished if supports(partitioner, SupportsFinished) else appended,
            sticky=sticky and by_record is None,
            ignores_keys=ignores_keys and by_record is None,
            hashes=hashes if by_record is None else None,
        )

    def choose(self, topic: str, record: NewRecord, view: TopicView) -> int:
        """The partition that the partitioner chooses for one record. Raises InvalidPluginError."""
        if self.partition_record is None:
            return partition_of(self.partition, topic, record[0], view)
        return partition_of_record(self.partition_record, record_view(topic, record), view)


def record_view(topic: str, record: NewRecord) -> RecordView:
    """The view of a record that `partition_record` gets."""
    key, value, headers, timestamp_ms, _on_delivery = record
    return RecordView(topic=topic, key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)
