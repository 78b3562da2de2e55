"""Which task writes which Kafka partition: exactly one for each, and every row goes to the one of its partition.

Brokers take the batches of one epoch for one partition as a single numbered line, so two tasks that write there would
overwrite each other unnoticed. Each row's partition is found before the shuffle, as the producer's partitioner would,
and the shuffle brings it to the partition's owner, which looks once more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import attrs


@attrs.frozen(kw_only=True)
class PartitionAssignment:
    """All partitions of the topics in one line, dealt out to *owners* tasks.

    `topics` are their names and numbers of partitions. A partition's place in the line is its *slot*.
    """

    topics: tuple[tuple[str, int], ...]
    owners: int

    @classmethod
    def of(cls, counts: Mapping[str, int], *, tasks: int) -> PartitionAssignment:
        """At most *tasks* owners, and no more than there are partitions."""
        return cls(topics=tuple(counts.items()), owners=max(1, min(tasks, sum(counts.values()))))

    def first_slots(self) -> Mapping[str, int]:
        """The slot of each topic's partition 0."""
        counts = [count for _name, count in self.topics]
        return dict(zip((name for name, _count in self.topics), accumulate(counts, initial=0), strict=False))

    def places(self, slots: Sequence[int]) -> Iterator[tuple[str, int]]:
        """The topic and partition of each slot. Raises IndexError for one that is none."""
        first_slots = self.first_slots()
        names, firsts = list(first_slots), list(first_slots.values())
        end = sum(count for _name, count in self.topics)
        for slot in slots:
            if not 0 <= slot < end:
                raise IndexError(f"there are {end} slots, and slot {slot} is none of them")
            at = bisect_right(firsts, slot) - 1
            yield names[at], slot - firsts[at]

    def owned_by(self, owner: int) -> Mapping[str, Sequence[int]]:
        """The partitions of one owner."""
        found: dict[str, list[int]] = {}
        slot = 0
        for topic, count in self.topics:
            for partition in range(count):
                if slot % self.owners == owner:
                    found.setdefault(topic, []).append(partition)
                slot += 1
        return found
