"""Writes of a program that reaches Spark by Spark Connect only. The long form: a server takes a minute to start.

It needs what `pip install pyspark[connect]` brings, and a process of its own: a program is of one kind or the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_kit import arrived, values

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="the long form; set OTTLA_SOAK=1"),
]

WITHIN = 600.0  # seconds

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession
import ottla_spark

servers, topic, folder = sys.argv[1:]
settings = {
    "spark.driver.memory": "1g", "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}
builder = SparkSession.builder.remote("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert isinstance(spark, ConnectSession)
options = {"kafka.bootstrap.servers": servers, "topic": topic}

frame = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) as value")
frame.write.format("ottla").options(**options).mode("append").save()
ottla_spark.register(spark)
frame.write.parquet(folder + "/in")
stream = spark.readStream.schema("value string").parquet(folder + "/in").writeStream.format("ottla")
query = stream.options(**options).option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
assert query.start().awaitTermination(300)
try:
    frame.write.format("ottla").options(**options, nonsense="1").mode("append").save()
except Exception as error:
    assert "option 'nonsense' is not known" in str(error), error
else:
    raise AssertionError("a wrong option was taken")
spark.stop()
print("through")
"""


def test_batches_and_streams_are_written_through_spark_connect(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    ended = subprocess.run(
        [sys.executable, program, kafka.bootstrap_servers, topic, str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=WITHIN,
        check=False,
        capture_output=True,
        text=True,
    )

    assert ended.stdout.endswith("through\n"), ended.stderr[-4000:]
    assert values(arrived(kafka, topic)) == [str(number).encode() for number in [*range(10), *range(10)]]
