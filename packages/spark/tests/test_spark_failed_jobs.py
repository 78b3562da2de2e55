"""Notes on errors of Spark that end a job of `write`, `foreach_batch` or `write_once`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from spark_task_kit import options

from ottla_spark.sink.job import OTHER_VERSION, PACKAGE_MISSING, ROWS_TOO_LARGE, JobInput, run_job
from ottla_spark.sink.writer import OttlaWriter

OF_SPARK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 472, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named '{}'
"""


class UnreadableError(Exception):
    """An error whose text is in a JVM that has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


def notes(error: BaseException) -> list[str]:
    """Notes of the error that `run_job` raises where a job fails with *error*."""

    def fail() -> NoReturn:
        raise error

    frame: Any = SimpleNamespace(
        sparkSession=SimpleNamespace(), mapInArrow=lambda _task, _schema: SimpleNamespace(collect=fail)
    )
    given = options("t")
    rows = JobInput(frame=frame, names=("value",), columns={"value": 0}, options=given)
    with pytest.raises(type(error)) as failed:
        run_job(rows, OttlaWriter(given, rows.columns))
    assert failed.value is error
    return getattr(error, "__notes__", [])


@pytest.mark.parametrize("name", ["ottla_spark", "ottla"])
def test_an_error_of_tasks_without_our_packages_names_the_python_to_set(name: str) -> None:
    assert notes(RuntimeError(OF_SPARK.format(name))) == [PACKAGE_MISSING]
    assert 'os.environ["PYSPARK_PYTHON"] = sys.executable' in PACKAGE_MISSING


@pytest.mark.parametrize(
    "said",
    [
        OF_SPARK.format("ottla_spark.options.write_options"),
        "AttributeError: Can't get attribute 'Later' on <module 'ottla_spark.sink.job' from '/opt/job.py'>",
    ],
)
def test_an_error_of_tasks_that_lack_a_part_of_ours_names_the_version(said: str) -> None:
    """The task's ottla-spark is older than the driver's; PYSPARK_PYTHON is right."""
    assert notes(RuntimeError(said)) == [OTHER_VERSION]


def test_rows_that_are_too_large_for_an_arrow_batch_name_the_setting() -> None:
    of_spark = (
        "An error occurred while calling o59.collectToPython.\n: org.apache.spark.SparkException: Job aborted\n"
        "Caused by: org.apache.arrow.vector.util.OversizedAllocationException: Memory required for vector is "
        "(2147483648), which is overflow or more than max allowed (2147483647)."
    )

    assert notes(RuntimeError(of_spark)) == [ROWS_TOO_LARGE]
    assert "spark.sql.execution.arrow.maxRecordsPerBatch" in ROWS_TOO_LARGE


@pytest.mark.parametrize(
    "make",
    [lambda: RuntimeError(OF_SPARK.format("numpy")), lambda: RuntimeError("a row"), KeyboardInterrupt, UnreadableError],
)
def test_other_errors_of_a_job_are_raised_unchanged(make: Callable[[], BaseException]) -> None:
    assert notes(make()) == []
