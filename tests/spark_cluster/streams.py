"""A stream of numbered rows on the cluster, and what its Python workers hold while it runs."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import attrs
import psutil
from pyspark.sql import SparkSession

from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

WITHIN: Final = 120.0  # seconds
ROWS: Final = 10  # of a micro-batch
PARTITIONS: Final = 3


class NumberedStream:
    """Rows 0, 1, 2 .. as text, so many in each micro-batch, into a topic of their own."""

    def __init__(
        self, spark: SparkSession, kafka: KafkaCluster, topic: str, *, folder: Path, rows: int = ROWS, pause: str = "0"
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._rows = rows
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
        self._writer = (
            source.load()
            .selectExpr("cast(value as string) as value", "cast(value as string) as key")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
            .option("topic", topic)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime=f"{pause} seconds")
        )
        self._query: Any = None

    def __enter__(self) -> Self:
        self._query = self._writer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._query.stop()

    @property
    def batches(self) -> int:
        """The number of committed batches. Raises the error that ended the query."""
        if not self._query.isActive and (trouble := self._query.exception()):
            raise trouble
        progress = self._query.lastProgress
        return progress["batchId"] + 1 if progress else 0

    def wait_for(self, batches: int) -> int:
        """Until so many are committed; returns how many are. Each may take its time."""
        seen, since = self.batches, time.monotonic()
        while (found := self.batches) < batches:
            if found > seen:
                seen, since = found, time.monotonic()
            if time.monotonic() - since > WITHIN:
                raise TimeoutError(f"no micro-batch was committed in {WITHIN:.0f} s, {found} before")
            time.sleep(0.05)
        return found

    def arrived(self, batches: int) -> Counter[int]:
        """Counts of each row of the first micro-batches."""
        found = read_back(self._kafka.bootstrap_servers, self._topic, partitions=PARTITIONS)
        numbers = Counter(int(record.value or b"") for record in found)
        return Counter({number: times for number, times in numbers.items() if number < batches * self._rows})

    def expected(self, batches: int) -> Counter[int]:
        """Each row once."""
        return Counter(range(batches * self._rows))


@attrs.frozen(kw_only=True)
class Held:
    """The memory of some processes, in total."""

    memory: int
    sockets: int
    threads: int
    processes: int


def held_by(processes: Iterable[psutil.Process]) -> Held:
    """Of those that are alive."""
    memory = sockets = threads = count = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            memory += process.memory_info().rss
            sockets += len(process.net_connections())
            threads += process.num_threads()
            count += 1
    return Held(memory=memory, sockets=sockets, threads=threads, processes=count)
