"""Each Kafka partition has one owner, and one slot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.atomic.partition_assignment import PartitionAssignment

COUNTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 20), min_size=1, max_size=4)


@given(counts=COUNTS, tasks=st.integers(1, 12))
def test_every_partition_has_one_owner_and_every_owner_a_partition(counts: dict[str, int], tasks: int) -> None:
    assignment = PartitionAssignment.of(counts, tasks=tasks)
    owned = [assignment.owned_by(owner) for owner in range(assignment.owners)]
    assigned = [(topic, partition) for each in owned for topic, numbers in each.items() for partition in numbers]

    assert sorted(assigned) == sorted(
        (topic, partition) for topic, count in counts.items() for partition in range(count)
    )
    assert all(owned)
    assert assignment.owners <= tasks


@given(counts=COUNTS, tasks=st.integers(1, 12))
def test_a_slot_and_its_owner_belong_to_the_same_partition(counts: dict[str, int], tasks: int) -> None:
    assignment = PartitionAssignment.of(counts, tasks=tasks)
    for topic, count in counts.items():
        for partition in range(count):
            slot = assignment.first_slots()[topic] + partition
            assert partition in assignment.owned_by(slot % assignment.owners)[topic]
            assert list(assignment.places([slot])) == [(topic, partition)]


def test_there_is_no_slot_after_the_last_partition() -> None:
    with pytest.raises(IndexError, match="slot 3 is not between 0 and 2"):
        list(PartitionAssignment.of({"a": 1, "b": 2}, tasks=1).places([0, 3]))
