"""The memory that an open batch may use: granted in increments, until the batch has its target size.

Besides its bytes, a record costs what the encoder states as `record_cost`: `OBJECT_COST` of the built-in one.

A table's batch costs `BATCH_COST` besides its records, because a table with keys for thousands of partitions has
hundreds of thousands of batches with a dozen rows each. `send` has few batches for its memory: see `first`.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.partition_queue import TopicQueues

BATCH_COST: Final = 2_000
"""About how many bytes the objects of a table's batch take besides its records: 1,200 to 2,000 were measured."""

ROOM_TO_DOUBLE: Final = 16
"""While this many times its memory is free, a large batch doubles it at once; else it gets a quarter more.

Each increment needs a `send` in Python, which takes as long as a hundred records (`benchmarks/distance_pythons.py`).
Memory that the batch has not used is free again when it is sealed.
"""


class MemoryGrant(enum.Enum):
    """The result of a request for more memory."""

    GIVEN = "the batch may use more"
    FULL = "the batch has its size"
    SHORT = "there is no memory"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchMemory:
    """Grants memory of the pool to open batches, without waiting. Under the queues' lock."""

    sizes: BatchSizes
    pool: BufferPool

    def charge(self, size: int) -> int:
        """The part of `buffer.memory` that a record of *size* bytes takes until its batch is completed."""
        return size + self.sizes.record_cost

    def first(self, charge: int, partitions: int) -> int:
        """The memory to reserve for a new batch whose first record costs *charge*.

        *partitions*: the number of partitions with queues. One batch of each fits into half of the memory: with less,
        batches would leave with a record or two.
        """
        capacity, target = self.pool.capacity, self.sizes.target
        # Without `min` and `max`, which take a third of the time of a call: each batch needs this.
        first = capacity // (2 * partitions or 2)
        if first > target:
            first = target
        if first < charge:
            first = charge
        return first if first < capacity else capacity

    def begin(self, batch: ProducerBatch, topic: TopicQueues, reserved: int) -> None:
        """Let a new batch, whose columns were made for the *reserved* bytes, use the memory that it may."""
        memory = batch.columns.memory()
        batch.held_bytes = reserved
        if not memory < reserved < self.sizes.certain_memory(topic):  # else its columns were made for *reserved* bytes
            target_memory = self.sizes.target_memory(batch.columns, topic)
            batch.full = target_memory <= memory
            batch.allow(min(reserved, target_memory))
        topic.count(batch, memory)

    def extend(self, batch: ProducerBatch, topic: TopicQueues, charge: int) -> MemoryGrant:
        """Let the open batch take a record that costs *charge*, and some more.

        A batch that has reached its target is `full`: it may leave. Until it does, it may grow, in larger increments.
        """
        memory = batch.columns.memory()
        topic.count(batch, memory)
        allowed = self.sizes.target_memory(batch.columns, topic, charge)
        if memory + charge > allowed:
            batch.full = True
            allowed = self.sizes.max_memory(batch.columns, topic, charge)
            if memory + charge > allowed:
                return MemoryGrant.FULL
        doubled = min(memory, max(self.sizes.target, self.pool.free // ROOM_TO_DOUBLE))
        return self._grant(batch, charge, step=max(charge, doubled, memory // 4), max_bytes=allowed)

    def _grant(self, batch: ProducerBatch, charge: int, *, step: int, max_bytes: int) -> MemoryGrant:
        """Let a batch use *step* more bytes of memory. If less is free, it gets what is free, but at least *charge*."""
        memory = batch.columns.memory()
        if memory + step * 4 // 3 < max_bytes:  # else the rest at once, so that the last increment is not a small one
            max_bytes = max(memory + step, batch.held_bytes)
        if not self._hold(batch, min_bytes=memory + charge, max_bytes=max_bytes):
            return MemoryGrant.SHORT
        batch.allow(min(max_bytes, batch.held_bytes))
        return MemoryGrant.GIVEN

    def _hold(self, batch: ProducerBatch, *, min_bytes: int, max_bytes: int) -> bool:
        """Let a batch hold up to *max_bytes* bytes of the pool, and return whether it holds *min_bytes*."""
        held = batch.held_bytes
        if held < max_bytes:
            batch.held_bytes += self.pool.reserve_some(min_bytes=max(min_bytes - held, 0), max_bytes=max_bytes - held)
        return batch.held_bytes >= min_bytes
