"""Modules that a group of tests does not import, because `-m` would select nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from modules_left_out import is_left_out
from spark_modules import FOLDER, WITHOUT_SPARK, starts_spark

BY_PATH = FOLDER / "test_spark_atomic.py"
IN_A_FOLDER = FOLDER / "spark_cluster" / "test_writes_on_a_cluster.py"
WITH_BROKERS_ALONE = FOLDER / "test_spark_atomic_rights.py"
BY_MARKER = FOLDER / "test_documentation.py"
NO_SPARK = FOLDER / "test_low_traffic.py"
DISTURBING = FOLDER / "test_rolling_restart.py"

THE_GROUPS = ["spark", "disturbing and not spark", "not disturbing and not spark"]


@pytest.mark.parametrize("module", [BY_PATH, IN_A_FOLDER])
def test_a_module_of_spark_is_only_imported_for_tests_with_spark(module: Path) -> None:
    assert [is_left_out(module, group) for group in THE_GROUPS] == [False, True, True]


@pytest.mark.parametrize("module", [WITH_BROKERS_ALONE, NO_SPARK])
def test_a_module_without_spark_is_only_imported_for_the_other_tests(module: Path) -> None:
    assert [is_left_out(module, group) for group in THE_GROUPS] == [True, True, False]


def test_a_module_with_shared_clusters_is_imported_for_both_halves() -> None:
    assert [is_left_out(DISTURBING, group) for group in THE_GROUPS] == [True, False, False]


def test_a_module_that_marks_single_tests_is_imported_for_its_marker() -> None:
    assert [is_left_out(BY_MARKER, group) for group in THE_GROUPS] == [False, True, False]


@pytest.mark.parametrize(
    "markers",
    ["", "kafka", "not kafka", "not spark or kafka", "kafka or rule and not spark", "not (spark)"],
)
def test_other_choices_of_markers_import_every_module(markers: str) -> None:
    modules = [BY_PATH, IN_A_FOLDER, WITH_BROKERS_ALONE, BY_MARKER, NO_SPARK]

    assert not any(is_left_out(module, markers) for module in modules)


def test_each_condition_of_a_choice_leaves_modules_out() -> None:
    assert is_left_out(NO_SPARK, "spark and kafka")
    assert not is_left_out(BY_PATH, "spark and kafka")
    assert not is_left_out(BY_MARKER, "spark and kafka")


def test_files_that_are_no_test_modules_are_not_left_out() -> None:
    assert not any(is_left_out(FOLDER / "spark_cluster" / name, "not spark") for name in ("conftest.py", "cluster.py"))


def test_the_modules_without_spark_exist_and_would_count_by_their_path() -> None:
    for name in WITHOUT_SPARK:
        module = FOLDER / f"{name}.py"
        assert module.is_file()
        assert starts_spark(module.with_stem(f"{name}_too"))
