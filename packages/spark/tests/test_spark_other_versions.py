"""Tasks whose Python has another version of the packages than the driver: they are refused before a row is read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import attrs
import pyarrow as pa
import pytest
from spark_task_kit import options

from ottla import __version__
from ottla_spark import WriteError
from ottla_spark.atomic.sealed_rows import RowSealing
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.exactly_once.task import BatchName, write_task
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.task import write_rows

COLUMNS: Final = {"value": 0}
UNUSED: Final[Any] = SimpleNamespace()
"""What a task needs later, if its packages are those of the driver."""

TASKS: Final[dict[str, Callable[[WriteOptions, Iterator[pa.RecordBatch]], object]]] = {
    "at least once": lambda given, rows: write_rows(rows, options=given, columns=COLUMNS),
    "exactly once": lambda given, rows: write_task(
        rows, UNUSED, of=BatchName(query="q", batch=0), settings=UNUSED, options=given, columns=COLUMNS
    ),
    "all or nothing, rows are sealed": lambda given, rows: RowSealing(
        settings=frozenset(), assignment=UNUSED, options=given, columns=COLUMNS, max_bytes=1
    )(rows),
    "all or nothing, rows are sent": lambda given, rows: next(
        TaskWrite(shared=UNUSED, assignment=UNUSED, options=given)(rows)
    ),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("of_driver", ["0.0.1", None])
def test_a_task_of_another_version_is_refused_before_it_reads(
    task: Callable[[WriteOptions, Iterator[pa.RecordBatch]], object], of_driver: str | None
) -> None:
    rows = iter([pa.record_batch({"value": ["a"]})])
    given = attrs.evolve(options("t"), version=of_driver or "")
    if of_driver is None:  # the driver's version has no such field
        object.__delattr__(given, "version")

    with pytest.raises(
        WriteError, match=rf"the driver has Ottla {of_driver or 'of an earlier version'}, but"
    ) as refused:
        task(given, rows)

    assert f"has {__version__}: install the same version" in str(refused.value)
    assert next(rows).num_rows == 1


def test_the_version_of_the_driver_arrives_with_the_options() -> None:
    arrived = pickle.loads(pickle.dumps(attrs.evolve(options("t"), version="0.0.1")))

    assert arrived.version == "0.0.1"
    pickle.loads(pickle.dumps(options("t"))).check_version()
