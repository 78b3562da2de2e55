"""Benchmarks with Spark compare the figures of one round, and leave out what is invalid."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("spark_figures")


@pytest.fixture
def aims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("spark_aims")


SECONDS = {"sink": {1: 2.0, 3: 8.0}, "ottla": {1: 1.0, 2: 100.0, 3: 2.0}}
"""The sink's run of round 2 was invalid."""


def test_a_ratio_is_that_of_a_round(figures: ModuleType) -> None:
    assert figures.ratios(SECONDS, "sink", "ottla") == [2.0, 4.0]
    assert figures.with_spread(figures.ratios(SECONDS, "sink", "ottla")) == "3.00 (2.00 - 4.00)"


def test_the_table_compares_with_the_baseline_of_the_same_round(figures: ModuleType) -> None:
    case = figures.Case(name="rows", records=100, seconds=SECONDS, cpu=SECONDS)

    lines = figures.markdown([case], "sink")

    assert lines[-1] == "| rows | ottla | 2.000 | 50 | 3.00 (2.00 - 4.00) | 2.00 | 3.00 (2.00 - 4.00) |"
    assert figures.incomplete([case], 3)
    assert not figures.incomplete([case], 2)


def test_an_aim_is_that_of_a_round(aims: ModuleType) -> None:
    aim = aims.Aim(name="rows", way="ottla", baseline="sink", times=2.5)
    other = aims.Aim(name="rows", way="nothing", baseline="sink", times=2.5)

    assert aim.line(SECONDS) == "| rows | ottla against sink | 3.00 x (2.00 x - 4.00 x) | at least 2.50 x | yes |"
    assert other.line(SECONDS) is None
