"""How large batches are to be: what they aim at, and how far they may grow while they wait for their turn.

Sizes of batches are of the wire, before compression; limits are of the memory that records occupy until they are
encoded, which is more: a batch never grows past its size on the wire, whatever its records are like.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ottla.interfaces import Columns
from ottla.queues import TopicQueues
from ottla.recordbatch.v2 import HEADER_SIZE


def _no_compression(_topic: str) -> float:
    return 1.0


@attrs.frozen(kw_only=True)
class BatchSizes:
    """`target` is `batch.size`, `most` what one request may carry; `ratio` estimates how far a topic compresses.

    `growing`: a batch that has its target size and still waits goes on taking records.
    """

    target: int
    most: int
    growing: bool = True
    ratio: Callable[[str], float] = _no_compression

    def comfortable(self, columns: Columns, topic: TopicQueues) -> int:
        """The memory that the records may occupy until the batch has its target size, if all are alike.

        A batch that must not grow keeps to its target whatever they are like, at the price of more looks at it.
        """
        most = self._most(topic)
        target = min(int((self.target - HEADER_SIZE) / self.ratio(topic.name)), most)
        size, memory = columns.size_estimate(), columns.memory()
        left = target - size
        return memory + min(left * memory // size, (most if self.growing else target) - size) if left > 0 else memory

    def grown(self, columns: Columns, topic: TopicQueues) -> int:
        """The memory that the records may occupy at the very most: a byte on the wire is a byte in memory or more."""
        if not self.growing:
            return columns.memory()
        return columns.memory() + max(self._most(topic) - columns.size_estimate(), 0)

    def _most(self, topic: TopicQueues) -> int:
        return self.most - HEADER_SIZE if topic.most is None else topic.most
