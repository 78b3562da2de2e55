"""The optional abilities of a partitioner, found once when the producer is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import attrs

from ottla.accumulator.partitioner_calls import Partition, PartitionColumn
from ottla.interfaces import Partitioner, TopicView


@attrs.frozen(kw_only=True)
class PartitionerAbilities:
    """A partitioner's methods and flags, as `ottla.interfaces.Partitioner` documents them; None: it has no such method.

    `hashes` is the name of the hash that it applies to keys, if encoders may apply it in its place.
    """

    partition: Partition
    partition_column: PartitionColumn | None
    on_new_batch: Callable[[str, int, TopicView], object] | None
    appended: Callable[[str, int, int], object] | None
    finished: Callable[[str, int, int], object] | None
    sticky: bool
    ignores_keys: bool
    hashes: str | None

    @classmethod
    def of(cls, partitioner: Partitioner) -> Self:
        """The abilities of this partitioner."""
        appended = getattr(partitioner, "appended", None)
        return cls(
            partition=partitioner.partition,
            partition_column=getattr(partitioner, "partition_column", None),
            on_new_batch=getattr(partitioner, "on_new_batch", None),
            appended=appended,
            finished=getattr(partitioner, "finished", appended),
            sticky=bool(getattr(partitioner, "sticky", False)),
            ignores_keys=bool(getattr(partitioner, "ignores_keys", False)),
            hashes=getattr(partitioner, "hashes", None),
        )
