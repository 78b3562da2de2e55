"""Fixtures: a session of the one Spark that modules without settings of their own share. A plugin of all tests.

A Spark costs its start and that of its Python workers, many times what a test's job costs. Modules that share it run
one after the other, because any other Spark of the process ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files of the shared Spark, which ends with the tests. Its folder `events` has its event log, with all plans."""
    yield tmp_path_factory.mktemp("shared-spark")
    from spark_kit import SHARED_SPARK

    SHARED_SPARK.end()


@pytest.fixture(scope="module")
def spark(spark_folder: Path) -> SparkSession:
    """A session of the module's own: what it sets and registers is not that of other modules."""
    from spark_kit import SHARED_SPARK

    return SHARED_SPARK.start(spark_folder).newSession()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share Spark run one after the other."""
    items[:] = sharing_together(items)


def sharing_together(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with those that share Spark one after the other; others keep their places."""
    sharing = [item for item in items if shares_spark(item)]
    if not sharing:
        return items
    first = items.index(sharing[0])
    return [*items[:first], *sharing, *(item for item in items[first:] if not shares_spark(item))]


def shares_spark(item: pytest.Item) -> bool:
    """Return whether a test uses the shared Spark; a block of the documentation asks for it while it runs."""
    names = getattr(item, "fixturenames", ())
    return "spark_folder" in names or ("surroundings" in names and item.get_closest_marker("spark") is not None)
