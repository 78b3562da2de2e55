"""The partitioner's calls for rows without a key in tables: their batches are finished."""

from __future__ import annotations

import pytest

from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.interfaces import TopicView
from ottla.recordbatch.objects import ObjectEncoder
from ottla.tables.partitioning import RowPartitions

VIEW = TopicView(partitions=3, available=range(3), queued_bytes=[0] * 3)


class Sticky:
    """Stays with one partition, and records its calls."""

    sticky = True

    def __init__(self) -> None:
        self.reported: list[tuple[str, int]] = []

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return 1

    def appended(self, topic: str, partition: int, size: int) -> None:
        self.reported.append(("appended", size))


class StickyForTables(Sticky):
    """Distinguishes tables from single records."""

    def finished(self, topic: str, partition: int, size: int) -> None:
        self.reported.append(("finished", size))


@pytest.mark.parametrize(("partitioner", "reported"), [(Sticky(), "appended"), (StickyForTables(), "finished")])
def test_rows_of_tables_are_counted_if_the_partitioner_wants_it(partitioner: Sticky, reported: str) -> None:
    partitions = RowPartitions("t", partitioner=PartitionerAbilities.of(partitioner), encoder=ObjectEncoder())

    assert partitions.sticky_partition(VIEW, 7) == 1
    assert partitioner.reported == [(reported, 7)]
