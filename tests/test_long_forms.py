"""How the parameters of a test are shared between `tox` and `tox run -e thorough`."""

from __future__ import annotations

import pytest
from long_forms import share


def in_the_gate(values: list[object], gate: int) -> list[object]:
    return [
        parameter.values[0]
        for parameter in share(values, gate=gate, why="more of the same")
        if not any(mark.name == "thorough" for mark in parameter.marks)
    ]


@pytest.mark.parametrize(
    ("count", "gate", "expected"),
    [
        (5, 1, [2]),
        (6, 2, [1, 4]),
        (9, 3, [1, 4, 7]),
        (3, 3, [0, 1, 2]),
        (2, 3, [0, 1]),
        (1, 1, [0]),
        (0, 1, []),
    ],
)
def test_the_gate_has_its_share_evenly_spread(count: int, gate: int, expected: list[object]) -> None:
    assert in_the_gate(list(range(count)), gate) == expected


@pytest.mark.parametrize("count", range(1, 40))
def test_the_gate_has_as_many_parameters_as_it_is_given(count: int) -> None:
    assert all(len(in_the_gate(list(range(count)), gate)) == gate for gate in range(1, count + 1))


def test_no_parameter_is_lost_or_changed() -> None:
    values = [pytest.param(1, 2, id="a", marks=pytest.mark.slow), pytest.param(3, 4, id="b"), pytest.param(5, 6)]

    shared = share(values, gate=1, why="more of the same")

    assert [parameter.values for parameter in shared] == [(1, 2), (3, 4), (5, 6)]
    assert [parameter.id for parameter in shared] == ["a", "b", None]
    assert [[mark.name for mark in parameter.marks] for parameter in shared] == [["slow", "thorough"], [], ["thorough"]]


def test_the_reason_is_in_the_marker() -> None:
    marks = [mark for parameter in share(["a", "b"], gate=1, why="more of the same") for mark in parameter.marks]

    assert [mark.args for mark in marks] == [("more of the same",)]
