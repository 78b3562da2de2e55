"""The test modules of this folder that start Spark, and those that a choice of markers leaves out as a whole.

pytest imports a module before `-m` deselects its tests. Three groups of `tox` choose among the same folder, so each
leaves out modules in which it would select nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent

WITHOUT_SPARK: Final = {
    "test_spark_atomic_coordinators",
    "test_spark_atomic_network",
    "test_spark_atomic_rights",
    "test_spark_atomic_survey",
    "test_spark_atomic_tasks",
    "test_spark_exactly_once_ledger",
    "test_spark_exactly_once_other_writers",
    "test_spark_exactly_once_rights",
    "test_spark_exactly_once_status",
    "test_spark_exactly_once_storms",
}
"""Modules that test parts of the Spark sink with brokers alone: they share those of the other tests with brokers."""

_SINGLE_TESTS: Final = "mark.spark"  # in the source of a module that marks some of its tests


def starts_spark(module: Path) -> bool:
    """Return whether all tests of a module start Spark: their path says so."""
    return "spark" in module.relative_to(FOLDER).as_posix() and module.stem not in WITHOUT_SPARK


def is_left_out(module: Path, markers: str) -> bool:
    """Return whether `-m` with these markers selects no test of the module. False if that is not certain."""
    if not module.match("test_*.py"):
        return False
    if markers == "spark":
        return not starts_spark(module) and _SINGLE_TESTS not in module.read_text("utf-8")
    conditions = markers.split(" and ")
    return " or " not in markers and "(" not in markers and "not spark" in conditions and starts_spark(module)
