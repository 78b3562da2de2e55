"""Numbers in little space are the numbers that were put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.recordbatch.number_columns import Constant, Timestamps

few = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def kept(timestamps: list[int]) -> Timestamps:
    starts = [index for index, moment in enumerate(timestamps) if not index or moment != timestamps[index - 1]]
    return Timestamps([timestamps[start] for start in starts], starts, len(timestamps))


@given(few)
def test_timestamps_are_there_by_index_one_after_the_other_and_in_slices(timestamps: list[int]) -> None:
    column = kept(timestamps)

    assert list(column) == [column[index] for index in range(len(column))] == timestamps
    assert [column[index] for index in range(-len(column), 0)] == timestamps
    assert column[1:-1] == timestamps[1:-1]
    assert list(Timestamps.of(timestamps)) == timestamps


@given(few)
def test_the_runs_are_as_long_as_the_records(timestamps: list[int]) -> None:
    runs = list(kept(timestamps).runs())

    assert [moment for moment, count in runs for _ in range(count)] == timestamps
    assert len(runs) == len(kept(timestamps).moments)


@given(few, st.data())
def test_each_moment_is_found_among_the_indexes_that_are_chosen(timestamps: list[int], data: st.DataObject) -> None:
    indexes = sorted(data.draw(st.lists(st.integers(0, len(timestamps) - 1), min_size=1)))
    found: dict[int, int] = {}
    for moment, first, last in kept(timestamps).cut(indexes):
        found |= dict.fromkeys(range(first, last), moment)

    assert [found[place] for place in range(len(indexes))] == [timestamps[index] for index in indexes]


def test_a_constant_is_a_sequence_of_one_number() -> None:
    column = Constant(7, 3)

    assert list(column) == [column[0], column[1], column[-1]] == [7, 7, 7]
    assert list(column[1:]) == [7, 7]
    assert len(column) == 3


@pytest.mark.parametrize("column", [Constant(7, 3), Timestamps([7], [0], 3)])
def test_behind_the_last_there_is_none(column: Constant | Timestamps) -> None:
    with pytest.raises(IndexError):
        column[3]
