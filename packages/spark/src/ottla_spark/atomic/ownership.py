"""Which task writes which Kafka partition: exactly one for each, and every row goes to the one of its partition.

Brokers take the batches of one epoch for one partition as a single numbered line, so two tasks that write there would
overwrite each other unnoticed. Each row's partition is found before the shuffle, as the producer's partitioner would,
and the shuffle brings it to the partition's owner, which looks once more.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.config import ConfigDraft
from ottla.interfaces import TopicView
from ottla.plugin_choice import choose
from ottla.registry import Registry
from ottla.tables.partitioning import RowPartitions
from ottla_spark.errors import WriteFailed

Settings = frozenset[tuple[str, Any]]


@attrs.frozen(kw_only=True)
class Ownership:
    """All partitions of the topics in one line, dealt out to *owners* tasks.

    `topics` are their names and numbers of partitions. A partition's place in the line is its *slot*.
    """

    topics: tuple[tuple[str, int], ...]
    owners: int

    @classmethod
    def of(cls, counts: Mapping[str, int], *, tasks: int) -> Ownership:
        """At most *tasks* owners, and no more than there are partitions."""
        return cls(topics=tuple(counts.items()), owners=max(1, min(tasks, sum(counts.values()))))

    def first_slot(self, topic: str) -> int:
        """The slot of a topic's partition 0. Raises KeyError for one that is not written to."""
        slot = 0
        for name, count in self.topics:
            if name == topic:
                return slot
            slot += count
        raise KeyError(topic)

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


@attrs.frozen(kw_only=True)
class Placement:
    """Finds the slots of rows, with the partitioner of a producer with these settings."""

    settings: Settings
    ownership: Ownership

    def slots(self, *, keys: Any | None, given: Any | None, topics: Any) -> Any:
        """The slot of each row, int32; *topics* is an array, or the one topic of all rows. Raises WriteFailed."""
        if isinstance(topics, str):
            return self._slots_in(topics, keys, given, _length(keys, given))
        names = topics.dictionary_encode()
        if names.null_count:
            raise WriteFailed("column 'topic' is null in a row; give it a topic, or set option 'topic'")
        slots = pa.nulls(len(topics), pa.int32())
        for code, name in enumerate(names.dictionary.to_pylist()):
            mask = pc.equal(names.indices, code)
            found = self._slots_in(name, _filtered(keys, mask), _filtered(given, mask), pc.sum(mask).as_py())
            slots = pc.replace_with_mask(slots, mask, found)
        return slots

    def _slots_in(self, topic: str, keys: Any | None, given: Any | None, count: int) -> Any:
        try:
            first = self.ownership.first_slot(topic)
        except KeyError:
            known = ", ".join(repr(name) for name, _count in self.ownership.topics)
            raise WriteFailed(
                f"a row names topic {topic!r}, and {known} were said to be written; name all of them in topics="
            ) from None
        partitions = dict(self.ownership.topics)[topic]
        if given is not None and len(given) > given.null_count:
            low, high = pc.min(given).as_py(), pc.max(given).as_py()
            if low < 0 or high >= partitions:
                wrong = low if low < 0 else high
                raise WriteFailed(f"column 'partition' has {wrong}, and topic {topic!r} has {partitions} partitions")
        chooser = _chooser(self.settings, topic)
        view = TopicView(partitions=partitions, available=range(partitions), queued_bytes=[0] * partitions)
        size = count * _BYTES_OF_A_ROW
        if given is not None and given.null_count == len(given):
            given = None
        found = chooser.of(view, keys=keys, given=given, count=count, size=size)
        if found is None:
            found = pa.repeat(pa.scalar(chooser.stay(view, size), pa.int32()), count)
        return pc.add(found.cast(pa.int32()), pa.scalar(first, pa.int32()))


_BYTES_OF_A_ROW: Final = 100
"""A guess, for partitioners that count how much went where."""


@functools.lru_cache(maxsize=64)
def _chooser(settings: Settings, topic: str) -> RowPartitions:
    _config, plugins = choose(ConfigDraft.read(dict(settings), {}), Registry())
    return RowPartitions(topic, partitioner=plugins.partitioner, encoder=plugins.encoder)


def _length(*columns: Any | None) -> int:
    return next(len(column) for column in columns if column is not None)


def _filtered(column: Any | None, mask: Any) -> Any | None:
    return None if column is None else column.filter(mask)
