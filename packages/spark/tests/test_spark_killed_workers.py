"""Tasks of `write` and `foreach_batch` whose Python workers are killed in their middle, on every PySpark."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

import ottla_spark
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from spark_cluster.cluster import python_workers
from spark_cluster.gated import WITHIN, gated, number_of
from spark_kit import local_spark
from transactions_kit import await_true, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.spark,
    # mapInArrow looks whether pandas is there, which it has no use for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

ROWS = 16_000  # half of them, less two batches that are on the way, are more than our writer sends at once


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark, which tries each task four times."""
    settings = {"spark_master": "local[2, 4]", "spark_sql_execution_arrow_maxRecordsPerBatch": "1000"}
    with local_spark(tmp_path_factory.mktemp("spark"), **settings) as session:
        yield session


@attrs.frozen(kw_only=True)
class KilledWrite:
    """Numbered rows, and a write of them whose Python workers are killed when the first of the rows are in Kafka."""

    spark: SparkSession
    kafka: KafkaCluster
    topic: str
    gate: Path

    def rows(self) -> DataFrame:
        """Rows of one task, which gives the second half of them after the kill."""
        return gated(self.spark, tasks=1, rows=ROWS, gate=self.gate)

    def run(self, write: Callable[[], object]) -> None:
        """Write, and kill meanwhile. The session is active in this thread only, so that another one kills."""
        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(self._kill)
            write()
            assert killed.result(WITHIN) > 0

    def arrived(self) -> Counter[int]:
        """How often a reader of committed records finds each number."""
        [values] = read(self.kafka.bootstrap_servers, self.topic)
        return Counter(map(number_of, values))

    def _kill(self) -> int:
        try:
            await_true(lambda: self.kafka.end_offset(self.topic) > 0, within=WITHIN)
            workers = python_workers(psutil.Process().children(recursive=True))
            for worker in workers:
                worker.kill()
            return len(workers)
        finally:
            self.gate.touch()


@pytest.fixture
def killed(spark: SparkSession, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> KilledWrite:
    return KilledWrite(spark=spark, kafka=kafka, topic=make_topic(), gate=tmp_path / "gate")


def test_a_write_with_killed_workers_loses_nothing(killed: KilledWrite) -> None:
    options = {"kafka.bootstrap.servers": killed.kafka.bootstrap_servers, "topic": killed.topic}

    killed.run(lambda: ottla_spark.write(killed.rows(), options))

    assert killed.arrived().keys() == set(range(ROWS))


def test_a_micro_batch_with_killed_workers_is_written_exactly_once(
    spark: SparkSession, killed: KilledWrite, tmp_path: Path
) -> None:
    sink = ottla_spark.foreach_batch(
        {
            "kafka.bootstrap.servers": killed.kafka.bootstrap_servers,
            "topic": killed.topic,
            "guarantee": "exactly-once",
            "transactional.id.prefix": f"p-{uuid.uuid4().hex[:8]}",
        }
    )
    writer = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().writeStream
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run() -> None:
        query = writer.foreachBatch(lambda _frame, batch: sink(killed.rows(), batch)).trigger(once=True).start()
        assert query.awaitTermination(int(WITHIN))

    killed.run(run)

    assert killed.arrived() == Counter(range(ROWS))
