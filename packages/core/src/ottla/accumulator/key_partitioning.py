"""Records with keys wait in a run until there are many of them; then all find their partitions at once.

One look at many keys is what makes a hash fast in Python: murmur2 of a thousand keys together takes a tenth of what
it takes one by one. A run is a batch without a partition, and dealing it hands its records over to batches that have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Forwarded, ForwardedRecords
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.partition_queue import PartitionQueue, TopicQueues
from ottla.accumulator.partitioner_calls import Partition, PartitionColumn, ask_partitioner, partition_of, partitions_of
from ottla.interfaces import Columns, TopicView

Begin: TypeAlias = Callable[[PartitionQueue, ProducerBatch], None]

UNASSIGNED_MEMORY: Final = 256 * 1024
"""What the records of any run may occupy: about a thousand of 100 bytes. More together are not hashed faster."""

UNASSIGNED_SHARE: Final = 8 * 1024
"""Where that is more, a run may have so much for each partition, which costs the dealer as much as ten records do."""

MAX_UNASSIGNED_MEMORY: Final = 2 * 1024 * 1024
"""But no more than this: while a run is dealt nobody else queues anything."""


def unassigned_memory(partitions: int, capacity: int) -> int:
    """What the records of a run may occupy, where all that are queued may occupy *capacity*."""
    return max(UNASSIGNED_MEMORY, min(partitions * UNASSIGNED_SHARE, MAX_UNASSIGNED_MEMORY, capacity // 16))


@attrs.frozen(kw_only=True)
class KeyPartitioner:
    """Deals runs. Under the backlog's lock, so that runs of a topic are dealt in their order."""

    partition: Partition
    partition_column: PartitionColumn
    appended: Callable[[str, int, int], object] | None
    sizes: BatchSizes
    columns: Callable[[int], Columns]

    def repartition(
        self, queues: TopicQueues, run: ProducerBatch, begin: Callable[[PartitionQueue, ProducerBatch], None]
    ) -> Forwarded[ProducerBatch]:
        """Hand the records of a closed run to the open batches of their partitions, and to new ones, which *begin*.

        Raises InvalidPluginError, or an error of ours that the partitioner raises; then nothing was dealt. Whatever
        fails after that leaves the run in doubt: some of its records are on their way.
        """
        pieces: list[ForwardedRecords[ProducerBatch]] = []
        by_partition = self._by_partition(queues, run.columns)
        run.maybe_written = True
        for partition, indexes in by_partition:
            self._move_to(queues.queues[partition], run, indexes, begin, pieces)
        return Forwarded(pieces=pieces)

    def _by_partition(self, queues: TopicQueues, columns: Columns) -> Sequence[tuple[int, Sequence[int]]]:
        view = queues.view
        assert view is not None, "a run is begun with a view of its topic"
        partitions = self._partitions(queues.name, columns, view)
        indexes: list[list[int]] = [[] for _ in range(view.partitions)]
        for index, partition in enumerate(partitions):
            indexes[partition].append(index)
        return [(partition, chosen) for partition, chosen in enumerate(indexes) if chosen]

    def _partitions(self, topic: str, columns: Columns, view: TopicView) -> Sequence[int]:
        """The partition of each record; those without a key, which came behind others with one, go to one place."""
        keys = columns.keys()
        if None not in keys:
            return partitions_of(self.partition_column, topic, keys, view)
        keyed = [index for index, key in enumerate(keys) if key is not None]
        stay = partition_of(self.partition, topic, None, view)
        if self.appended is not None:
            size = columns.size_estimate() * (len(keys) - len(keyed)) // len(keys)
            ask_partitioner(self.appended, topic, stay, size)
        partitions = [stay] * len(keys)
        if keyed:
            column = partitions_of(self.partition_column, topic, [keys[index] for index in keyed], view)
            for index, partition in zip(keyed, column, strict=True):
                partitions[index] = partition
        return partitions

    def _move_to(
        self,
        queue: PartitionQueue,
        run: ProducerBatch,
        indexes: Sequence[int],
        begin: Begin,
        pieces: list[ForwardedRecords[ProducerBatch]],
    ) -> None:
        while indexes:
            batch = queue.open
            if batch is None:
                batch = ProducerBatch(
                    topic=run.topic, partition=queue.partition, columns=self.columns(0), now=run.created_at
                )
                start, taken = batch.take_from(run, indexes[:1], memory=0)  # before anybody else can put a record there
            else:
                start, taken = batch.take_from(run, indexes, memory=self._free_bytes(batch.columns, queue.topic))
            if not taken:
                queue.close()
                continue
            if batch is not queue.open:
                begin(queue, batch)  # before it holds memory, which would be lost with a batch that nobody knows
            pieces.append(ForwardedRecords(batch=batch, start=start, indexes=indexes[:taken]))
            indexes = indexes[taken:]
            self._carry_memory(batch, run, queue.topic)

    def _free_bytes(self, columns: Columns, topic: TopicQueues) -> int:
        return max(self.sizes.comfortable(columns, topic), self.sizes.grown(columns, topic))

    def _carry_memory(self, batch: ProducerBatch, run: ProducerBatch, topic: TopicQueues) -> None:
        """Let the batch hold what its records occupy, out of what the run holds."""
        memory = batch.columns.memory()
        missing = min(max(memory - batch.held_bytes, 0), run.held_bytes)
        batch.held_bytes += missing
        run.held_bytes -= missing
        batch.full = batch.full or self.sizes.comfortable(batch.columns, topic) <= memory
        topic.count(batch, memory)
