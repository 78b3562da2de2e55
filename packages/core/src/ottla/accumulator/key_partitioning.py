"""Partitioning of many keys in one call: records with keys wait in an unassigned batch until there are many of them.

In Python, hashing is fast only for many keys in one call: murmur2 of a thousand keys together takes a tenth of the time
that it takes one by one. An unassigned batch has no partition; its records are then forwarded to batches that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Forwarded, ForwardedRecords
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.partition_queue import PartitionQueue, TopicQueues
from ottla.accumulator.partitioner_calls import Partition, PartitionColumn, ask_partitioner, partition_of, partitions_of
from ottla.interfaces import Columns, TopicView

Begin: TypeAlias = Callable[[PartitionQueue, ProducerBatch], None]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class KeyPartitioner:
    """Partitions unassigned batches. Under the queues' lock, so that those of a topic keep their order."""

    partition: Partition
    partition_column: PartitionColumn
    appended: Callable[[str, int, int], object] | None
    sizes: BatchSizes
    columns: Callable[[int], Columns]

    def repartition(self, queues: TopicQueues, source: ProducerBatch, begin: Begin) -> Forwarded[ProducerBatch]:
        """Forward the records of *source*, a closed unassigned batch, to batches of their partitions.

        These are the open ones, or new ones, which are passed to *begin*. Raises InvalidPluginError, or an OttlaError
        of the partitioner; then nothing was forwarded. A failure leaves `maybe_written` set if a queued batch may have
        some of the records.
        """
        pieces: list[ForwardedRecords[ProducerBatch]] = []
        by_partition = self._by_partition(queues, source.columns)
        if source.outcome is not None:  # the producer was closed while the partitioner did not return
            return Forwarded(pieces=pieces)
        certain_memory = self.sizes.certain_memory(queues)
        for partition, indexes in by_partition:
            self._move_to(queues.queues[partition], source, indexes, begin, pieces, certain_memory=certain_memory)
        return Forwarded(pieces=pieces)

    def _by_partition(self, queues: TopicQueues, columns: Columns) -> Sequence[tuple[int, Sequence[int]]]:
        view = queues.view
        assert view is not None, "unassigned batches are begun with a view of their topic"
        partitions = self._partitions(queues.name, columns, view)
        indexes: list[list[int]] = [[] for _ in range(view.partitions)]
        for index, partition in enumerate(partitions):
            indexes[partition].append(index)
        return [(partition, chosen) for partition, chosen in enumerate(indexes) if chosen]

    def _partitions(self, topic: str, columns: Columns, view: TopicView) -> Sequence[int]:
        """The partition of each record; those without a key, which came after others with one, go to one partition."""
        keys = columns.keys()
        if None not in keys:
            return partitions_of(self.partition_column, topic, cast("Sequence[bytes]", keys), view)
        keyed = {index: key for index, key in enumerate(keys) if key is not None}
        sticky = partition_of(self.partition, topic, None, view)
        if self.appended is not None:
            size = columns.size_estimate() * (len(keys) - len(keyed)) // len(keys)
            ask_partitioner(self.appended, topic, sticky, size)
        partitions = [sticky] * len(keys)
        if keyed:
            column = partitions_of(self.partition_column, topic, [*keyed.values()], view)
            for index, partition in zip(keyed, column, strict=True):
                partitions[index] = partition
        return partitions

    def _move_to(
        self,
        queue: PartitionQueue,
        source: ProducerBatch,
        indexes: Sequence[int],
        begin: Begin,
        pieces: list[ForwardedRecords[ProducerBatch]],
        *,
        certain_memory: int,
    ) -> None:
        while indexes:
            batch = queue.open
            if batch is None:
                batch = ProducerBatch(
                    topic=source.topic,
                    partition=queue.partition,
                    columns=self.columns(0),
                    # A thread that waited for memory may have begun a batch here since the source was begun.
                    now=max(source.created_at, queue.newest),
                )
                start, taken = batch.take_from(source, indexes[:1], memory=0)  # before other threads can append to it
            else:
                source.maybe_written = True
                # With thousands of partitions, most moves are of a few records into a batch that is far from full, and
                # to compute what is free would take longer. The estimate has room for larger records than most are.
                likely = 2 * source.columns.memory() * len(indexes) // source.count
                probably_fit = batch.columns.memory() + likely <= certain_memory
                memory = certain_memory if probably_fit else self._free_bytes(batch.columns, queue.topic)
                start, taken = batch.take_from(source, indexes, memory=memory)
                if not taken and probably_fit:
                    start, taken = batch.take_from(source, indexes, memory=self._free_bytes(batch.columns, queue.topic))
            if not taken:
                queue.close()
                continue
            if batch is not queue.open:
                source.maybe_written = True
                begin(queue, batch)  # before it holds memory, which would be lost with a batch that is not queued
            pieces.append(ForwardedRecords(batch=batch, start=start, indexes=indexes[:taken]))
            indexes = indexes[taken:]
            self._carry_memory(batch, source, queue.topic, certain_memory=certain_memory)

    def _free_bytes(self, columns: Columns, topic: TopicQueues) -> int:
        return max(self.sizes.target_memory(columns, topic), self.sizes.max_memory(columns, topic))

    def _carry_memory(
        self, batch: ProducerBatch, source: ProducerBatch, topic: TopicQueues, *, certain_memory: int
    ) -> None:
        """Move the memory that the batch's records occupy from *source* to *batch*; marks *batch* as full if it is."""
        memory = batch.columns.memory()
        missing = min(max(memory - batch.held_bytes, 0), source.held_bytes)
        batch.held_bytes += missing
        source.held_bytes -= missing
        if not batch.full and memory >= certain_memory:
            batch.full = self.sizes.target_memory(batch.columns, topic) <= memory
        topic.count(batch, memory)
