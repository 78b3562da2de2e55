"""What a Python worker of a real Spark imports while it runs our sink."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from ottla_testkit.mock_cluster import MockCluster
from spark_java import UNPACKED

pytestmark = [pytest.mark.slow, pytest.mark.spark]

WITHIN: Final = 300.0  # seconds

PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession
import ottla_spark

def modules(batches):
    import sys
    from array import array
    import pyarrow as pa
    for _ in batches:
        pass
    found = " ".join(each for each in ("ottla_spark.sink.task", "pandas") if each in sys.modules).encode()
    places = pa.py_buffer(array("i", [0, len(found)]))
    column = pa.Array.from_buffers(pa.string(), 1, [None, places, pa.py_buffer(found)])
    yield pa.RecordBatch.from_arrays([column], ["modules"])

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.sql(
    "select 'orders' topic, 'k' key, 'v' value, 0 partition, current_timestamp() timestamp, "
    "array(named_struct('key', 'h', 'value', binary('x'))) headers"
)
ottla_spark.write(rows, {"kafka.bootstrap.servers": sys.argv[1]})
print([row.modules for row in spark.range(0, 1, 1, 1).mapInArrow(modules, "modules string").collect()])
spark.stop()
"""


@pytest.mark.thorough("test_a_task_does_not_import_pandas runs a task without Spark")
def test_a_worker_of_spark_that_ran_our_sink_has_no_pandas(mock_cluster: MockCluster) -> None:
    """With pandas installed, which workers do not find in other tests. PySpark itself does without for `mapInArrow`."""
    pytest.importorskip("pandas")
    mock_cluster.create_topic("orders", partitions=2)
    folders = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", UNPACKED)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, mock_cluster.bootstrap_servers]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "['ottla_spark.sink.task']"
