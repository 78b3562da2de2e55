"""The optional abilities of a partitioner, found once when the producer is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import attrs

from ottla.accumulator.partitioner_calls import Partition, PartitionColumn
from ottla.interfaces import (
    Partitioner,
    SupportsAppended,
    SupportsFinished,
    SupportsHashes,
    SupportsIgnoresKeys,
    SupportsOnNewBatch,
    SupportsPartitionColumn,
    SupportsSticky,
    TopicView,
    supports,
)


@attrs.frozen(kw_only=True)
class PartitionerAbilities:
    """A partitioner's methods and flags, as the protocols of `ottla.interfaces` document them; None: it lacks one."""

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
        appended = partitioner.appended if supports(partitioner, SupportsAppended) else None
        return cls(
            partition=partitioner.partition,
            partition_column=partitioner.partition_column if supports(partitioner, SupportsPartitionColumn) else None,
            on_new_batch=partitioner.on_new_batch if supports(partitioner, SupportsOnNewBatch) else None,
            appended=appended,
            finished=partitioner.finished if supports(partitioner, SupportsFinished) else appended,
            sticky=supports(partitioner, SupportsSticky) and bool(partitioner.sticky),
            ignores_keys=supports(partitioner, SupportsIgnoresKeys) and bool(partitioner.ignores_keys),
            hashes=partitioner.hashes if supports(partitioner, SupportsHashes) else None,
        )
