"""All-or-nothing batches of a program that has Spark Connect only: refused, with what to do. The long form.

It needs what `pip install pyspark[connect]` brings, and a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_forms import only_long

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")

pytestmark = [
    pytest.mark.slow,
    only_long("takes minutes"),
    pytest.mark.spark,
]

WITHIN = 600.0  # seconds

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from ottla_spark.atomic import atomically

settings = {
    "spark.driver.memory": "1g", "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}
builder = SparkSession.builder.remote("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
folder = sys.argv[1]
spark.range(0, 10, 1, 1).selectExpr("cast(id as string) as value").write.parquet(folder + "/in")
sink = atomically({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, transactional_id="x")
stream = spark.readStream.schema("value string").parquet(folder + "/in").writeStream.foreachBatch(sink)
query = stream.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
try:
    query.awaitTermination(300)
except Exception as error:
    print(error)
spark.stop()
print("through")
"""


def test_atomic_batches_through_spark_connect_are_refused_with_a_remedy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    ended = subprocess.run(
        [sys.executable, program, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=WITHIN,
        check=False,
        capture_output=True,
        text=True,
    )

    assert ended.stdout.endswith("through\n"), ended.stderr[-4000:]
    assert "which Spark Connect does not provide; run the query in the driver, or use format('ottla')" in ended.stdout
