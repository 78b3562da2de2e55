"""The objects that a Python worker keeps between tasks, as the collector and a running process report them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla_spark.worker import garbage_collection
from ottla_spark.worker.garbage_collection import DAEMON, imports_uncollected, reduce_collection

pytestmark = pytest.mark.spark


def running(module: str | None) -> ModuleType:
    """The program of a process that was started with `python -m` and this module; None: from a file."""
    program = ModuleType("__main__")
    program.__spec__ = None if module is None else ModuleSpec(module, None)
    return program


@pytest.fixture(autouse=True)
def _thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(garbage_collection, "_tasks_begun", {})
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.fixture
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", running(DAEMON))


@pytest.mark.usefixtures("_in_a_worker")
def test_objects_kept_after_the_first_task_are_not_scanned_again() -> None:
    reduce_collection()
    assert gc.get_freeze_count() == 0  # there was no collection yet
    reduce_collection()
    assert gc.get_freeze_count() > 10_000


@pytest.mark.usefixtures("_in_a_worker")
def test_garbage_of_a_later_task_is_still_collected() -> None:
    for _task in range(3):
        reduce_collection()
    frozen = gc.get_freeze_count()
    garbage: list[Any] = []
    garbage.append(garbage)
    del garbage
    reduce_collection()
    assert gc.get_freeze_count() <= frozen
    assert gc.collect() >= 1


@pytest.mark.parametrize("module", [None, "pytest", "pyspark.worker"])
def test_a_program_that_is_not_a_worker_is_not_changed(monkeypatch: pytest.MonkeyPatch, module: str | None) -> None:
    monkeypatch.setitem(sys.modules, "__main__", running(module))
    for _task in range(3):
        reduce_collection()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_is_as_before_after_an_import_also_one_that_fails(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with imports_uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ImportError), imports_uncollected():
            raise ImportError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_spark_workers_are_recognised(spark: SparkSession, tmp_path: Path) -> None:
    """No other test would fail if PySpark started them differently."""

    def frozen(rows: Iterable[int]) -> Iterator[int]:
        assert list(rows) == [0]  # a worker that has read all of its task is used again
        reduce_collection()
        yield gc.get_freeze_count()

    found = [spark.sparkContext.parallelize([0], 1).mapPartitions(frozen).collect()[0] for _task in range(4)]
    assert found[0] == 0
    assert max(found) > 0, found
