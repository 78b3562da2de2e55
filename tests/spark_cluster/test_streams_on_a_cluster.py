"""Streams on executors that are processes of their own: many micro-batches, brokers that go away.

`OTTLA_SOAK=1` adds ten minutes (`OTTLA_SOAK_SECONDS` names others) with a micro-batch each second; the test prints
what the Python workers held meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from long_forms import LONG, only_long
from pyspark.sql import SparkSession

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_cluster.cluster import SparkCluster
from spark_cluster.streams import PARTITIONS, Held, NumberedStream, held_by

SECONDS = float(os.environ.get("OTTLA_SOAK_SECONDS", "600"))
GROWTH = 16 * 2**20  # bytes of all Python workers together: allocators keep some

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough(
        "executors of their own; packages/spark/tests has micro-batches in test_spark_streams.py, producers that are "
        "kept in test_spark_producer_cache.py, and tests/test_broken_clusters.py has a killed broker"
    ),
]


@pytest.fixture(scope="module")
def spark(spark_cluster: SparkCluster) -> Iterator[SparkSession]:
    with spark_cluster.session() as session:
        yield session


def test_many_small_micro_batches_arrive_once_and_keep_no_resources(
    spark: SparkSession, spark_cluster: SparkCluster, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    stream = NumberedStream(spark, kafka, make_topic(partitions=PARTITIONS), folder=tmp_path)
    with stream:
        stream.wait_for(4)
        early = held_by(spark_cluster.python_workers())
        batches = stream.wait_for(20 if LONG else 10)
        late = held_by(spark_cluster.python_workers())

    assert stream.arrived(batches) == stream.expected(batches)
    assert early.processes
    assert late.sockets <= early.sockets
    assert late.threads <= early.threads


def test_a_stream_continues_without_loss_after_a_broker_outage(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster() as kafka:
        kafka.create_topic("numbers", partitions=PARTITIONS)
        stream = NumberedStream(spark, kafka, "numbers", folder=tmp_path)
        with stream:
            before = stream.wait_for(3)
            kafka.kill(1)
            kafka.start(1)
            batches = stream.wait_for(before + 3)

        assert stream.arrived(batches).keys() == stream.expected(batches).keys()


@only_long("ten minutes")
def test_a_long_stream_keeps_its_resource_usage_through_two_restarts(
    spark: SparkSession, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    looks: list[Held] = []
    restarts = [SECONDS / 3, SECONDS * 2 / 3]
    with KafkaCluster() as kafka:
        kafka.create_topic("numbers", partitions=PARTITIONS)
        stream = NumberedStream(spark, kafka, "numbers", folder=tmp_path, rows=1000, pause="1")
        with stream:
            stream.wait_for(5)
            began = time.monotonic()
            while (passed := time.monotonic() - began) < SECONDS:
                if restarts and passed > restarts[0]:
                    restarts.pop(0)
                    kafka.kill(1)
                    kafka.start(1)
                stream.wait_for(stream.batches + 5)
                looks.append(held_by(spark_cluster.python_workers()))
                print(f"{passed:.0f} s, {stream.batches} micro-batches: {looks[-1]}", flush=True)
            batches = stream.wait_for(stream.batches + 1)

        assert stream.arrived(batches).keys() == stream.expected(batches).keys()
    quarter = len(looks) // 4
    early, late = looks[quarter : 2 * quarter], looks[-quarter:]
    assert max(look.sockets for look in late) <= max(look.sockets for look in early)
    assert max(look.threads for look in late) <= max(look.threads for look in early)
    assert median(look.memory for look in late) <= median(look.memory for look in early) + GROWTH
