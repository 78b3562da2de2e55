"""The test modules of this folder that start Spark as a whole; others may mark single tests."""

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
    "test_spark_exactly_once_stale_leader",
    "test_spark_exactly_once_status",
    "test_spark_exactly_once_faults",
    "test_spark_topics",
}
"""Modules that test parts of the Spark sink with brokers alone: they share those of the other tests with brokers."""


def starts_spark(module: Path) -> bool:
    """Return whether all tests of a module start Spark: their path says so."""
    return "spark" in module.relative_to(FOLDER).as_posix() and module.stem not in WITHOUT_SPARK
