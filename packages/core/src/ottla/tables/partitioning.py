"""Partitioning of a table's rows, by whole columns where the partitioner has that ability.

A row with a partition goes there, a row with a key to the partition that the partitioner chooses for the key. Rows
without either go where `send` would put them. If a chunk has only such rows, they are left UNASSIGNED, and each batch
gets its own partition. A partitioner by records gets each row without a partition.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.partitioner_calls import (
    PartitionRecord,
    ask_partitioner,
    partition_of,
    partition_of_record,
    partitions_of,
)
from ottla.interfaces import RecordEncoder, TopicView
from ottla.protocol.binary_arrays import number
from ottla.tables.encoder_calls import partitions_of_keys
from ottla.tables.reading import Chunk
from ottla.tables.record_views import record_views


class RowPartitions:
    """The partitions of the rows of one topic's table, with the abilities of *partitioner* and *encoder*."""

    def __init__(self, topic: str, *, partitioner: PartitionerAbilities, encoder: RecordEncoder) -> None:
        self._topic = topic
        self._partition = partitioner.partition
        self._by_record = partitioner.partition_record
        self._ignores_keys = partitioner.ignores_keys
        self._sticky = partitioner.sticky
        self._column = partitioner.partition_column
        self._finished = partitioner.finished
        self._hashed_by = encoder if partitioner.hashes == "murmur2" else None

    def of(self, view: TopicView, chunk: Chunk, *, size: int) -> Any | None:
        """Return an int32 array without nulls, or None if all are UNASSIGNED. The chunk's own partitions are checked.

        *size* is about the size of all rows in bytes.
        """
        keys, given, count = chunk.keys, chunk.partitions, chunk.count
        if given is not None:
            given = given.cast(pa.int32())
            if not given.null_count:
                return given
        if self._by_record is not None:
            return self._record_by_record(self._by_record, chunk, given, view)
        rest = self._without_given(view, keys, given, count, size)
        if given is None:
            return rest
        if rest is None:  # their batches would overtake rows of the same partition, or be overtaken
            rest = pa.repeat(number(self.sticky_partition(view, size * given.null_count // count), pa.int32()), count)
        return pc.coalesce(given, rest)

    def sticky_partition(self, view: TopicView, size: int) -> int:
        """Choose the partition for *size* bytes of rows without a key."""
        chosen = partition_of(self._partition, self._topic, None, view)
        if self._finished is not None:
            ask_partitioner(self._finished, self._topic, chosen, size)
        return chosen

    def _without_given(self, view: TopicView, keys: Any | None, given: Any | None, count: int, size: int) -> Any | None:
        if self._ignores_keys or (keys is not None and keys.null_count == count):
            keys = None
        if keys is None:
            return None if self._sticky else self._one_by_one([None] * count, view)
        if not self._sticky and self._column is None:
            return self._one_by_one(keys.to_pylist(), view)
        unkeyed = keys.null_count
        keyed = self._keyed(keys.drop_null() if unkeyed else keys, view)
        if not unkeyed:
            return keyed
        sticky = number(self.sticky_partition(view, size * unkeyed // count), pa.int32())
        return pc.replace_with_mask(pa.repeat(sticky, count), keys.is_valid(), keyed)

    def _keyed(self, keys: Any, view: TopicView) -> Any:
        if self._hashed_by is not None:
            return partitions_of_keys(self._hashed_by, keys, view.partitions)
        if self._column is None:
            return self._one_by_one(keys.to_pylist(), view)
        chosen = partitions_of(self._column, self._topic, keys.to_pylist(), view)
        try:
            return pa.array(chosen, pa.int32())
        except pa.ArrowTypeError:  # of bool, for instance, which is an int everywhere else
            return pa.array(map(operator.index, chosen), pa.int32())

    def _record_by_record(self, ask: PartitionRecord, chunk: Chunk, given: Any | None, view: TopicView) -> Any:
        partitions = repeat(None) if given is None else given.to_pylist()
        return pa.array(
            [
                partition_of_record(ask, record, view) if partition is None else partition
                for record, partition in zip(record_views(self._topic, chunk), partitions, strict=False)
            ],
            pa.int32(),
        )

    def _one_by_one(self, keys: Sequence[bytes | None], view: TopicView) -> Any:
        return pa.array([partition_of(self._partition, self._topic, key, view) for key in keys], pa.int32())
