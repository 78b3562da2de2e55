"""Sizes of batches: the target, and the limit of their growth while they wait to be sent.

A size is the number of bytes of encoded records, before compression. What limits an open batch is the memory that its
records occupy until they are encoded. A record never occupies less memory than its size. So a batch never exceeds its
limit on the wire, whatever its records are like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ottla.accumulator.partition_queue import TopicQueues
from ottla.interfaces import Columns
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.record_limits import OBJECT_COST

RECORD_FRAME: Final = 20
"""Bytes of a record on the wire besides key, value and headers.

A record takes more only if it is very large, or if its timestamp is far from those of the others.
"""

MOST_MEMORY: Final = 4
"""A batch grows until its records occupy this multiple of its maximum size on the wire.

Only tiny records in Python objects reach it. Encoding takes as much memory again, which `buffer.memory` does not count.
"""


def _no_compression(_topic: str) -> float:
    return 1.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchSizes:
    """Limits of batches, in bytes.

    `target` is `batch.size`, `max_bytes` the size of one request; `ratio` estimates how far a topic compresses.
    `record_cost`: the memory that a record occupies besides its own bytes, as the encoder states it.
    `growing`: a batch that has reached its target takes more records while it waits.
    """

    target: int
    max_bytes: int
    growing: bool = True
    ratio: Callable[[str], float] = _no_compression
    record_cost: int = OBJECT_COST

    def target_memory(self, columns: Columns, topic: TopicQueues, charge: int = 0) -> int:
        """The memory that the records may occupy until the batch has its target size, if all are of similar size.

        *charge* is the memory of the next record, which is taken if it fits on the wire. A batch that must not grow
        never exceeds its target, even if the sizes of records vary; that takes more calls.
        """
        max_bytes = self._max_bytes(topic)
        target = min(int((self.target - HEADER_SIZE) / self.ratio(topic.name)), max_bytes)
        size, memory = columns.size_estimate(), columns.memory()
        remaining = target - size
        if remaining <= 0:
            return memory
        within = self._memory_within((max_bytes if self.growing else target) - size, charge)
        return memory + max(min(remaining * memory // size, within), self._memory_within(remaining, charge))

    def certain_memory(self, topic: TopicQueues) -> int:
        """The memory that the records may occupy while the batch is certainly below its target, whatever they are."""
        ratio, certain, max_bytes = self.ratio(topic.name), self.target - HEADER_SIZE, self._max_bytes(topic)
        if ratio > 1.0:
            certain = int(certain / ratio)
        return certain if certain < max_bytes else max_bytes

    def max_memory(self, columns: Columns, topic: TopicQueues, charge: int = 0) -> int:
        """The memory that the records may occupy at most."""
        if not self.growing:
            return columns.memory()
        memory, max_bytes = columns.memory(), self._max_bytes(topic)
        grown = memory + self._memory_within(max(max_bytes - columns.size_estimate(), 0), charge)
        return min(grown, max(memory, MOST_MEMORY * max_bytes))

    def _max_bytes(self, topic: TopicQueues) -> int:
        return self.max_bytes - HEADER_SIZE if topic.max_bytes is None else topic.max_bytes

    def _memory_within(self, wire: int, charge: int) -> int:
        """The memory that records may occupy so that they certainly take at most *wire* bytes on the wire.

        A byte on the wire occupies at least one byte of memory; *charge* is the memory of the next record.
        """
        return max(wire, charge) if charge - self.record_cost + RECORD_FRAME <= wire else wire
