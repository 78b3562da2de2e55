"""The partitions of a ledger topic in which a name's entries may be. No broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.exactly_once.ledger.places import partition_of, partitions_of

names = st.text(min_size=1, max_size=20)


@given(names, st.integers(1, 60), st.integers(0, 60))
def test_the_partitions_of_a_name_include_those_of_every_smaller_topic(name: str, count: int, more: int) -> None:
    found = partitions_of(name, count + more)

    assert set(partitions_of(name, count)) <= set(found)
    assert found[0] == partition_of(name, count + more)
    assert len(set(found)) == len(found) <= count + more


@given(names)
def test_a_topic_of_one_partition_has_one_place(name: str) -> None:
    assert partitions_of(name, 1) == [0]
