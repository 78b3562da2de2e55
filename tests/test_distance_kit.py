"""Which generations of brokers a test runs with, by its marker and its name."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import distance_kit
from distance_kit import GATES_OTHERS, OLD, TODAYS, Generation, generations, in_the_gate

EVERY = [*TODAYS, *OLD]


def a_test(name: str, *arguments: str, **limits: str) -> Any:
    """A test with this name, marked with these arguments if there are any."""
    mark = pytest.mark.generations(*arguments, **limits).mark if arguments or limits else None
    find: Callable[[str], Any] = lambda _name: mark  # noqa: E731
    return SimpleNamespace(name=name, get_closest_marker=find)


def chosen(name: str, *arguments: str, **limits: str) -> list[Generation]:
    """The generations of a test with this name, marked with these arguments if there are any."""
    return list(generations(a_test(name, *arguments, **limits)))


@pytest.fixture(autouse=True)
def short_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance_kit, "LONG", False)


def test_a_test_runs_with_todays_generation_and_with_the_same_other() -> None:
    first, other = chosen("test_a")

    assert first == TODAYS[0]
    assert other in EVERY[1:]
    assert chosen("test_a") == [first, other]


def test_every_generation_has_its_share_of_the_tests() -> None:
    shares = [sum(each in chosen(f"test_{number}") for number in range(400)) for each in EVERY]

    assert shares[0] == 400
    assert min(shares) > 400 / len(EVERY) / 2


def test_the_marker_asks_for_all_or_one_and_names_limits() -> None:
    assert chosen("test_a", "all") == EVERY
    assert chosen("test_a", "one") == EVERY[:1]
    assert chosen("test_a", "all", since="3.0") == [each for each in EVERY if each.version != "2.8.2"]
    assert chosen("test_a", before="3.0") == [Generation("2.8.2")]


def test_the_gate_has_todays_generation_and_one_other_for_tests_of_all() -> None:
    first, other = in_the_gate(a_test("test_a", "all"), EVERY)

    assert in_the_gate(a_test("test_a"), chosen("test_a")) == [first] == TODAYS[:1]
    assert other in GATES_OTHERS
    assert in_the_gate(a_test("test_a", before="3.0"), OLD[1:]) == OLD[1:2]
    assert in_the_gate(a_test("test_a", "all", before="3.0"), OLD[1:]) == OLD[1:2]


def test_each_generation_that_the_gate_has_is_used_by_some_test() -> None:
    others = {in_the_gate(a_test(f"test_{number}", "all"), EVERY)[1] for number in range(40)}

    assert others == set(GATES_OTHERS)


def test_the_long_form_runs_with_all_that_the_limits_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance_kit, "LONG", True)

    assert chosen("test_a") == chosen("test_a", "one") == EVERY
    assert Generation("2.8.2") not in chosen("test_a", "one", since="3.0")
