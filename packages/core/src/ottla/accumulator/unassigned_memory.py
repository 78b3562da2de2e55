"""The memory that an unassigned batch may use: granted in large increments, up to a limit."""

from __future__ import annotations

from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_memory import BatchMemory, MemoryGrant
from ottla.accumulator.partition_queue import TopicQueues
from ottla.recordbatch.record_limits import RECORD_OVERHEAD

UNASSIGNED_MEMORY: Final = 256 * 1024
"""Bytes that the records of every unassigned batch may occupy, about a thousand records of 100 bytes.

Hashing more keys in one call takes as much time for each key.
"""

UNASSIGNED_SHARE: Final = 8 * 1024
"""Bytes for each partition of the topic, if their total is more than `UNASSIGNED_MEMORY`.

Each partition costs as much time as ten records.
"""

MAX_UNASSIGNED_MEMORY: Final = 4 * 1024 * 1024
"""The maximum of that total: while an unassigned batch is partitioned, no other thread can queue records."""


def unassigned_memory(partitions: int, capacity: int) -> int:
    """The bytes that the records of an unassigned batch may occupy, out of the *capacity* for all queued records."""
    return max(UNASSIGNED_MEMORY, min(partitions * UNASSIGNED_SHARE, MAX_UNASSIGNED_MEMORY, capacity // 8))


class UnassignedMemory(BatchMemory):
    """Grants memory to unassigned batches."""

    def begin(self, batch: ProducerBatch, topic: TopicQueues, reserved: int) -> None:
        """Let a new batch use the memory that was reserved for its first record."""
        limit = self._limit(batch, topic)
        memory = batch.columns.memory()
        batch.held_bytes = reserved
        batch.full = limit <= memory
        batch.allow(min(reserved, limit, memory + self._largest_record()))

    def extend(self, batch: ProducerBatch, topic: TopicQueues, charge: int) -> MemoryGrant:
        """Let the open batch take a record that costs *charge*, and some more; without memory it is full."""
        memory, limit = batch.columns.memory(), self._limit(batch, topic)
        if memory + charge > limit:
            return MemoryGrant.FULL
        # In large increments: its records get partitions soon, and the memory that it has not used is free again.
        grant = self._grant(batch, charge, step=max(charge, 3 * memory), max_bytes=limit)
        if grant is MemoryGrant.SHORT:
            return MemoryGrant.FULL
        batch.allow(min(batch.held_bytes, limit, memory + max(self._largest_record(), charge)))
        return grant

    def _largest_record(self) -> int:
        """The room that an open batch may have: a record that finds room is queued before its size is checked."""
        return min(self.sizes.max_bytes, self.pool.capacity) - RECORD_OVERHEAD

    def _limit(self, batch: ProducerBatch, topic: TopicQueues) -> int:
        return max(unassigned_memory(len(topic.queues), self.pool.capacity), batch.columns.memory())
