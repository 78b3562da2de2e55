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
def test_timestamps_are_read_by_index_by_iteration_and_in_slices(timestamps: list[int]) -> None:
    column = kept(timestamps)

    assert list(column) == [column[index] for index in range(len(column))] == timestamps
    assert [column[index] for index in range(-len(column), 0)] == timestamps
    assert column[1:-1] == timestamps[1:-1]
    assert list(Timestamps.of(timestamps)) == timestamps


@given(few)
def test_runs_of_equal_timestamps_cover_all_records(timestamps: list[int]) -> None:
    runs = list(kept(timestamps).runs())

    assert [moment for moment, count in runs for _ in range(count)] == timestamps
    assert len(runs) == len(kept(timestamps).moments)


@given(few, st.data())
def test_timestamps_of_selected_indexes_are_found(timestamps: list[int], data: st.DataObject) -> None:
    indexes = sorted(data.draw(st.lists(st.integers(0, len(timestamps) - 1), min_size=1)))
    found: dict[int, int] = {}
    for moment, first, last in kept(timestamps).cut(indexes):
        found |= dict.fromkeys(range(first, last), moment)

    assert [found[place] for place in range(len(indexes))] == [timestamps[index] for index in indexes]


def test_a_constant_column_is_a_sequence_of_one_number() -> None:
    column = Constant(7, 3)

    assert list(column) == [column[0], column[1], column[-1]] == [7, 7, 7]
    assert list(column[1:]) == [7, 7]
    assert len(column) == 3


@pytest.mark.parametrize("column", [Constant(7, 3), Timestamps([7], [0], 3)])
def test_an_index_after_the_end_is_an_error(column: Constant | Timestamps) -> None:
    with pytest.raises(IndexError):
        column[3]
