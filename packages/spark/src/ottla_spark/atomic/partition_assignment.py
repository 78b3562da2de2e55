"""Assignment of Kafka partitions to tasks: one task for each partition, and every row goes to its partition's task.

Brokers number the batches of one epoch in one partition consecutively, so a second task that writes there could replace
the first task's records unnoticed. The first stage finds each row's partition with the producer's partitioner. The
shuffle moves the row to the partition's owner, which checks the partition again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import attrs


@attrs.frozen(kw_only=True)
class PartitionAssignment:
    """All partitions of the topics in one sequence, distributed over *owners* tasks.

    `topics` has their names and partition counts. A partition's index in the sequence is its *slot*.
    """

    topics: tuple[tuple[str, int], ...]
    owners: int

    @classmethod
    def of(cls, counts: Mapping[str, int], *, tasks: int) -> PartitionAssignment:
        """Create an assignment with at most *tasks* owners, and at most one for each partition."""
        return cls(topics=tuple(counts.items()), owners=max(1, min(tasks, sum(counts.values()))))

    def first_slots(self) -> Mapping[str, int]:
        """Return the slot of each topic's partition 0."""
        counts = [count for _name, count in self.topics]
        return dict(zip((name for name, _count in self.topics), accumulate(counts, initial=0), strict=False))

    def places(self, slots: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Yield the topic and partition of each slot. Raises IndexError for an invalid slot."""
        first_slots = self.first_slots()
        names, starts = list(first_slots), list(first_slots.values())
        end = sum(count for _name, count in self.topics)
        for slot in slots:
            if not 0 <= slot < end:
                raise IndexError(f"slot {slot} is not between 0 and {end - 1}")
            at = bisect_right(starts, slot) - 1
            yield names[at], slot - starts[at]

    def owned_by(self, owner: int) -> Mapping[str, Sequence[int]]:
        """Return the partitions of one owner."""
        found: dict[str, list[int]] = {}
        slot = 0
        for topic, count in self.topics:
            for partition in range(count):
                if slot % self.owners == owner:
                    found.setdefault(topic, []).append(partition)
                slot += 1
        return found
