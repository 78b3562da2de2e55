"""Faults that tests put into tasks lose no rows of other tasks: otherwise the sink would seem to lose them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from exactly_once_program import Fault, FaultError, halved

ROWS = [f"{row}" for row in range(7)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run's faults."""
    monkeypatch.setenv("EXACTLY_ONCE_FOLDER", str(tmp_path))
    return tmp_path


def test_a_fault_of_one_attempt_leaves_the_other_all_its_rows(folder: Path) -> None:
    """Spark runs a task twice at once (speculation), and both attempts see the fault before it befalls one."""
    fault = Fault(action="fail", step="write", after=False)
    fault.save(folder)
    faulty, other = halved(batches(), fault), halved(batches(), fault)
    begun = [next(faulty), next(other)][1]

    with pytest.raises(FaultError):
        next(faulty)
    assert values([begun, *other]) == ROWS


def test_a_slow_task_returns_all_its_rows(folder: Path) -> None:
    """If they were counted in addition to those of the attempt that overtook it, a check would find them twice."""
    fault = Fault(action="slow", step="write", after=False)
    fault.save(folder)
    over = folder / "checkpoint" / "commits" / "0"
    over.parent.mkdir(parents=True)
    over.touch()

    assert values(halved(batches(), fault)) == ROWS


def batches() -> Iterator[pa.RecordBatch]:
    """The rows of a task, as Spark gives them."""
    yield from pa.table({"value": ROWS}).to_batches(max_chunksize=4)


def values(given: Iterable[pa.RecordBatch]) -> list[str]:
    """All that was given, in its order."""
    return [value for batch in given for value in batch.column("value").to_pylist()]
