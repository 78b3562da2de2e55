"""A Spark job that writes a frame without a data source: tasks send its rows, and the driver commits their results.

`mapInArrow` is in every PySpark that we support. It calls a function with a task's Arrow batches, as Spark calls a
data source's writer, and here that function returns one row: the task's result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, Self

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame

from ottla.protocol.binary_arrays import binary_array
from ottla_spark.errors import InvalidWriteError
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import VALUE, ColumnPositions, find_columns, other_columns
from ottla_spark.sink.formats import prepare_formats
from ottla_spark.sink.job_description import described
from ottla_spark.sink.running_tasks import RunningTasks
from ottla_spark.worker.traces import write_span

RESULT: Final = "message string"
"""Schema of a task's output, which is one row of JSON: the driver need not unpickle what executors return."""

PACKAGE_MISSING: Final = (
    "The Python that Spark starts for tasks lacks a package of Ottla. Install the packages for the executors, too, or "
    "set PYSPARK_PYTHON to a Python that has them. If Spark runs on this machine alone, set "
    'os.environ["PYSPARK_PYTHON"] = sys.executable before the session is made, or activate the environment'
)
"""Note on the error of such a task. Spark starts the first `python3` of `PATH` where PYSPARK_PYTHON is not set."""

OTHER_VERSION: Final = (
    "The Python that Spark starts for tasks has another version of Ottla than the driver. Install the same version of "
    "the packages on the driver and on all executors"
)
"""Note on the error of a task whose packages lack a module, or a class, of the driver's."""

ROWS_TOO_LARGE: Final = (
    "Spark 3.5 passes rows to Python in batches of spark.sql.execution.arrow.maxRecordsPerBatch rows (10,000), and a "
    "batch of these rows has more than the 2 GiB that one may have. Set it to 64 MB divided by the size of the largest "
    "rows, for example to 64 for rows of 1 MB. Later versions limit batches by their bytes, too"
)
"""Note on the error of Spark's JVM when the rows of an Arrow batch have more than 2 GiB."""


class Message(Protocol):
    """A task's result."""

    def to_values(self) -> Mapping[str, Any]:
        """Return the result as values that JSON can represent."""

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_values` was called on."""


class Writer(Protocol):
    """A batch writer: `write` runs in each task, the other methods on the driver. Tasks get it by pickle."""

    @property
    def message(self) -> type[Message]:
        """The class of the tasks' results."""

    @property
    def description(self) -> str:
        """The line about the write in Spark's UI."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Write a task's rows."""

    def commit(self, messages: Sequence[Any]) -> None:
        """Complete the write, from the results of all tasks."""

    def clean_up(self, tasks: RunningTasks) -> None:
        """Clean up after a failed job, of which these tasks may still run."""


@attrs.frozen(kw_only=True)
class JobInput:
    """The columns of a frame that its tasks need: their names, and among them the positions of ours."""

    frame: DataFrame
    names: tuple[str, ...]
    columns: ColumnPositions
    options: WriteOptions


def job_input(frame: DataFrame, options: WriteOptions, *, problems: Sequence[str] = ()) -> JobInput:
    """Choose the columns to send. Raises InvalidWriteError with their problems and those found before."""
    problems = list(problems)
    streaming = getattr(frame, "isStreaming", None)  # of both kinds of Spark's DataFrames, which share no class in 3.5
    if not isinstance(streaming, bool):
        raise InvalidWriteError([*problems, f"pass a DataFrame of Spark, not a {type(frame).__qualname__}"])
    if streaming:
        problems.append(
            "the rows are those of a stream; pass ottla_spark.foreach_batch(options) to its writeStream.foreachBatch"
        )
    found = find_columns(frame.schema, topic=options.topic, problems=problems, formats=options.formats)
    if not problems:
        options = prepare_formats(options, frame.schema, found, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    names = frame.columns
    needed = sorted({*found.values(), *(other_columns(names) if VALUE not in found else ())})
    # Spark finds columns by name here, which fails for names that occur twice or have a dot. Positions are unique.
    plain = [f"column_{position}" for position in range(len(names))]
    return JobInput(
        frame=frame.toDF(*plain).select([plain[position] for position in needed]),
        names=tuple(names[position] for position in needed),
        columns={name: needed.index(position) for name, position in found.items()},
        options=options,
    )


def run_job(given: JobInput, writer: Writer) -> Sequence[Message]:
    """Write the rows in one Spark job, commit the results of its tasks, and return them.

    If a task failed for good, this calls `clean_up` and raises Spark's error, with a note if the task's Python lacks
    one of our packages, or if the rows were too large for an Arrow batch. It also raises the errors of `commit`.
    """
    task = WriteToKafka(write=writer.write, names=given.names)
    session = given.frame.sparkSession
    tasks = RunningTasks(session)
    try:
        with described(session, writer.description), tasks:
            rows = given.frame.mapInArrow(task, RESULT).collect()
    except BaseException as error:
        writer.clean_up(tasks)
        for note in _notes(error):
            error.add_note(note)
        raise
    messages = [writer.message.from_values(json.loads(row.message)) for row in rows]
    messages = messages or [writer.write(iter(()))]  # Spark runs no task for a frame without partitions
    writer.commit(messages)
    return messages


def _notes(error: BaseException) -> Sequence[str]:
    """Return what helps against the reason of a failed job."""
    with suppress(Exception):  # the text of py4j's errors comes from the JVM, which may be gone
        text = str(error)
        return [note for words, note in _HELP.items() if words.search(text)]
    return ()


_HELP: Final = {
    re.compile(r"No module named 'ottla\w*'"): PACKAGE_MISSING,
    re.compile(r"No module named 'ottla\w*\.|Can't get attribute '\w+' on <module 'ottla"): OTHER_VERSION,
    re.compile("OversizedAllocationException"): ROWS_TOO_LARGE,
}


@contextmanager
def traced(options: WriteOptions, *, batch: int | None = None) -> Iterator[WriteOptions]:
    """Make the span of a write, where the program uses OpenTelemetry; return the options that name it to the tasks."""
    with write_span(options.trace, topic=options.topic, batch=batch) as trace:
        yield attrs.evolve(options, trace=trace)


@attrs.frozen(kw_only=True)
class WriteToKafka:
    """The function of `mapInArrow`; Spark's UI shows its name. Spark sends it to the executors by pickle."""

    write: Callable[[Iterator[pa.RecordBatch]], Message]
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a task's rows, then yield its result."""
        message = self.write(pa.RecordBatch.from_arrays(batch.columns, names=self.names) for batch in batches)
        row = binary_array([json.dumps(message.to_values()).encode()]).cast(pa.string())
        yield pa.RecordBatch.from_arrays([row], ["message"])
