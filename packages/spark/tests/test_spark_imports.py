"""What each of Spark's Python processes imports: a fresh application starts four of them for its first write."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
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
import json, sys, pyspark.worker, pyarrow as pa
from ottla_spark.options.options import read_options
from ottla_spark.sink.job import WriteToKafka
from ottla_spark.sink.writer import OttlaWriter

rows = pa.ipc.open_stream(bytes.fromhex(input())).read_next_batch()
options = read_options({"kafka.bootstrap.servers": sys.argv[1], **json.loads(sys.argv[2])}, problems=[])
names = rows.schema.names
columns = {name: place for place, name in enumerate(names) if not name.startswith("other")}
task = WriteToKafka(write=OttlaWriter(options, columns).write, names=tuple(names))
[result] = task(iter([rows]))
assert f'"records": {sys.argv[3]}' in result.column(0)[0].as_py(), result.column(0)[0].as_py()
print("pandas" in sys.modules)
"""

PAIRS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KEYED: Final = {"key": pa.array(["a", "b"]), "value": pa.array(["x", "y"])}
OTHERS: Final = {
    "other_map": pa.array([{"a": 1.5}, None], pa.map_(pa.string(), pa.float64())),
    "other_list": pa.array([["a"], [None]], pa.list_(pa.string())),
    "other_bytes": pa.array([b"a", None], pa.binary()),
    "other_time": pa.array([0, 1], pa.timestamp("us", "UTC")),
}
EVERY: Final = {
    **KEYED,
    "topic": pa.array(["orders", "invoices"]),
    "partition": pa.array([0, None], pa.int32()),
    "headers": pa.array([[{"key": "trace", "value": b"1"}], None], PAIRS),
    "timestamp": pa.array([0, 1], pa.timestamp("us", "UTC")),
}
REFUSED: Final = {**KEYED, "headers": pa.array([[{"key": None, "value": b"1"}], []], PAIRS)}
LETTERS: Final = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}


@pytest.mark.parametrize(
    ("columns", "settings", "records"),
    [
        pytest.param(KEYED, {"topic": "orders"}, 2, id="keys"),
        pytest.param(EVERY, {}, 2, id="every column"),
        pytest.param(OTHERS, {"topic": "orders", "value.format": "json"}, 2, id="JSON"),
        pytest.param(
            OTHERS,
            {"topic": "orders", "value.format": "json", "kafka.record.encoder": "python"},
            2,
            id="JSON in pure Python",
        ),
        pytest.param(REFUSED, {"topic": "orders", **LETTERS}, 2, id="a refused row"),
    ],
)
def test_a_task_does_not_import_pandas(
    columns: Mapping[str, pa.Array], settings: Mapping[str, str], records: int, mock_cluster: MockCluster
) -> None:
    """`pyarrow.array` and `pyarrow.scalar` do, if it is installed: 0.2 s and 40 MiB in each Python worker.

    With `format`, PySpark itself calls `pyarrow.array` after the task.
    """
    pytest.importorskip("ottla_accel")
    for topic in ("orders", "invoices", "letters"):
        mock_cluster.create_topic(topic, partitions=2)
    rows = pa.record_batch(list(columns.values()), names=list(columns))
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as written:
        written.write_batch(rows)

    arguments = [mock_cluster.bootstrap_servers, json.dumps(settings), str(records)]
    assert _output(WRITTEN, stream.getvalue().to_pybytes().hex(), arguments=arguments) == "False"


SEALED: Final = """
import sys, pyarrow as pa
from ottla.recordbatch.sealed_records import SealedBatch, SealedRecords
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import _sealed_rows, sealed_batches

assignment = PartitionAssignment(topics=(("orders", 2),), owners=2)
sealed = SealedRecords(
    chunks=[b"abc"], count=1, first_timestamp=7, max_timestamp=8, magic=2, codec_id=0, plain_size=3, size=3
)
batch = SealedBatch(topic="orders", partition=1, sealed=sealed)
[back] = sealed_batches(_sealed_rows([batch], assignment), assignment)
assert (back.topic, back.partition, back.sealed.count) == ("orders", 1, 1)
print("pandas" in sys.modules)
"""


def test_sealed_rows_for_the_shuffle_import_no_pandas() -> None:
    assert _output(SEALED) == "False"


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
