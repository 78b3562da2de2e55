"""A local Spark for tests, a way to write with it, and confluent-kafka to read what arrived."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from ottla_spark.worker import producer_cache
from ottla_spark.worker.producer_cache import ProducerCache
from ottla_testkit.kafka_cluster import KafkaCluster
from spark_java import start_spark_quickly

WITHIN = 60.0  # seconds


@attrs.frozen(kw_only=True)
class Arrived:
    """A record as another client reads it."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1


class Write(Protocol):
    """Writes a DataFrame to a Kafka; `_` in an option stands for `.`."""

    def __call__(self, frame: DataFrame, **options: str) -> None: ...


@contextmanager
def local_spark(folder: Path, **settings: str) -> Iterator[SparkSession]:
    """Two cores of Spark, with the Python of these tests; the data source is not registered. `_` stands for `.`."""
    SHARED_SPARK.end()
    start_spark_quickly()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder))
        )
        for name, value in dotted(settings).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        assert session._jvm is not None
        for name in dotted(settings):
            # The first session starts a JVM, which has its settings as system properties: later sessions would, too.
            session._jvm.java.lang.System.clearProperty(name)
        try:
            yield session
        finally:
            session.stop()


class _SharedSpark:
    """The Spark that modules share; `local_spark` ends it, because a process has one Spark at a time."""

    running: ExitStack | None = None
    session: SparkSession | None = None
    events: Path

    def start(self, folder: Path) -> SparkSession:
        """Return its first session, and start it if it does not run, or if a test stopped it."""
        if self.session is not None and self.session.sparkContext._jsc is None:
            self.end()
        if self.running is None or self.session is None:
            self.events = folder / "events"
            self.events.mkdir(exist_ok=True)
            settings = {
                "spark_eventLog_enabled": "true",
                "spark_eventLog_compress": "false",
                "spark_eventLog_dir": str(self.events),
            }
            stack = ExitStack()
            self.session = stack.enter_context(local_spark(folder / "warehouse", **settings))
            self.running = stack
        return self.session

    def end(self) -> None:
        """End it if it runs."""
        running, self.running, self.session = self.running, None, None
        if running is not None:
            running.close()


SHARED_SPARK: Final = _SharedSpark()


@contextmanager
def without_producers() -> Iterator[None]:
    """Begin without producers that are kept for other tasks, and close those that are left at the end."""
    kept: dict[int, ProducerCache] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_cache, "_caches", kept)
        yield
    for cache in kept.values():
        cache.empty()


def dotted(options: dict[str, str]) -> dict[str, str]:
    """Options as they are written, from those of a call."""
    return {key.replace("_", "."): value for key, value in options.items()}


def writing_to(kafka: KafkaCluster) -> Write:
    """Batch writes to this cluster."""

    def write(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("ottla").mode("append")
        writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).options(**dotted(options)).save()

    return write


def arrived(kafka: KafkaCluster, topic: str) -> list[Arrived]:
    """Everything in a topic, partition by partition, in order."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "reader", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=WITHIN).topics[topic].partitions
        return [record for partition in sorted(partitions) for record in _read(consumer, topic, partition)]
    finally:
        consumer.close()


def _read(consumer: Any, topic: str, partition: int) -> list[Arrived]:
    place = TopicPartition(topic, partition, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=WITHIN)
    consumer.assign([place])
    found = consumer.consume(end, timeout=WITHIN) if end else []

    assert len(found) == end
    assert [message.error() for message in found] == [None] * end
    return [
        Arrived(
            value=message.value(),
            key=message.key(),
            partition=partition,
            headers=tuple(message.headers() or ()),
            timestamp_ms=message.timestamp()[1],
        )
        for message in found
    ]


def values(records: Sequence[Arrived]) -> list[bytes | None]:
    """Their values alone."""
    return [record.value for record in records]
