"""What each of Spark's Python processes imports: a fresh application starts four of them for its first write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from ottla_testkit.mock_cluster import MockCluster

WITHIN: Final = 120.0  # seconds

DRIVER: Final = """
from pyspark.sql.types import StringType, StructType
from ottla_spark.options.options import read_options
from ottla_spark.sink.writer import OttlaWriter

problems = []
options = read_options({"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "report": "true"}, problems=problems)
assert not problems
"""

PICKLED: Final = """
import pickle, subprocess, sys
from ottla_spark.sink.task_written import TaskWritten

print(pickle.dumps((OttlaWriter(options, {"value": 0}), TaskWritten(records=1))).hex())
"""

UNPICKLED: Final = "import pickle; writer, message = pickle.loads(bytes.fromhex(input()))"

LOOKUP: Final = "import pyspark_ottla; pyspark_ottla.DefaultSource.name()"
PLAN: Final = f"import pyspark_ottla, ottla_spark.planned_writers; {DRIVER}"
TASK: Final = f"{UNPICKLED}; writer.write(iter(()))"
COMMIT: Final = f"{UNPICKLED}; writer.commit([message])"

PROGRAM: Final = """
import sys, pyspark.worker, pyarrow, pyarrow.compute
before = {{*sys.modules}}
{work}
print(*{{*sys.modules}} - before)
"""

PRODUCER: Final = ("ottla.accumulator.accumulator", "ottla.producer.producer", "ottla.sender")
SETTINGS: Final = ("ottla.config.producer_config", "ottla.plugins", "pluggy", "ottla_spark.options.options")
NEVER: Final = ("ottla.doctor", "ottla.cli", "ottla_spark.calls", "ottla_spark.atomic", "ottla_spark.exactly_once")


@pytest.fixture(scope="module")
def pickled() -> str:
    """A writer and a task's result, as Spark sends them to its processes."""
    return _output(DRIVER + PICKLED)


@pytest.mark.parametrize(
    ("work", "used", "unused"),
    [
        pytest.param(LOOKUP, "ottla_spark.source", (*PRODUCER, *SETTINGS, "ottla_spark.sink"), id="lookup"),
        pytest.param(PLAN, "ottla.config.producer_config", (*PRODUCER, "ottla_spark.sink.task"), id="plan"),
        pytest.param(
            TASK,
            "ottla.producer.producer",
            ("ottla_spark.options.options", "ottla_spark.sink.topics", "ottla_spark.source", "difflib"),
            id="task",
        ),
        pytest.param(COMMIT, "ottla_spark.sink.report", (*PRODUCER, *SETTINGS, "ottla_spark.sink.task"), id="commit"),
    ],
)
def test_a_process_of_spark_imports_what_its_step_needs(
    work: str, used: str, unused: tuple[str, ...], pickled: str
) -> None:
    imported = set(_output(PROGRAM.format(work=work), pickled).splitlines()[-1].split())

    assert used in imported
    assert not {name for name in imported for each in (*unused, *NEVER) if name == each or name.startswith(f"{each}.")}


COLLECTED: Final = f"""
import gc, sys, pyspark.worker, pyarrow
{UNPICKLED}
during_imports = []

def note(phase, _info):
    if phase == "start" and not hasattr(sys.modules.get("ottla_spark.sink.task"), "write_rows"):
        during_imports.append(len(sys.modules))

gc.collect()
gc.callbacks.append(note)
writer.write(iter(()))
print(during_imports)
"""


WRITTEN: Final = """
import sys, pyspark.worker, pyarrow as pa
from array import array
from ottla_spark.options.options import read_options
from ottla_spark.sink.job import WriteToKafka
from ottla_spark.sink.writer import OttlaWriter

options = read_options({"kafka.bootstrap.servers": sys.argv[1], "topic": "orders"}, problems=[])
texts = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(array("i", [0, 1, 2])), pa.py_buffer(b"ab")])
rows = pa.RecordBatch.from_arrays([texts, texts], ["column_0", "column_1"])
task = WriteToKafka(write=OttlaWriter(options, {"key": 0, "value": 1}).write, names=("key", "value"))
[result] = task(iter([rows]))
assert '"records": 2' in result.column(0)[0].as_py()
print("pandas" in sys.modules)
"""


def test_a_task_does_not_import_pandas(mock_cluster: MockCluster) -> None:
    """`pyarrow.array` and `pyarrow.scalar` do, if it is installed: 0.2 s and 40 MiB in each Python worker.

    With `format`, PySpark itself calls `pyarrow.array` after the task.
    """
    pytest.importorskip("ottla_accel")
    mock_cluster.create_topic("orders", partitions=2)

    assert _output(WRITTEN, arguments=[mock_cluster.bootstrap_servers]) == "False"


def test_a_task_imports_its_modules_without_garbage_collections(pickled: str) -> None:
    assert _output(COLLECTED, pickled) == "[]"


def _output(program: str, given: str = "", *, arguments: Sequence[str] = ()) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
