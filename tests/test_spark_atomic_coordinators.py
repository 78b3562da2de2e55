"""All-or-nothing batches on three nodes, whose coordinators and leaders are killed at random: exact, and in order.

The driver's part and the tasks' are the real ones; Spark is left out, so that there are many batches in little time.
The long form only (OTTLA_SOAK): three nodes are slow to start.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator

import attrs
import pyarrow as pa
import pytest

from ottla.errors import OttlaError
from ottla.transactions import SharedTransaction
from ottla_spark.atomic.course import BatchWritten, Course
from ottla_spark.atomic.errors import BatchRefused
from ottla_spark.atomic.ownership import Ownership
from ottla_spark.atomic.owning import TransactionOwner
from ottla_spark.atomic.parcels import SLOT
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.options import WriteOptions, read_options
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import LONG, await_in_sync, chance, coordinator, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not LONG, reason="the long form, with OTTLA_SOAK=1"),
]

BATCHES = 60
PARTITIONS = 6
OWNERS = 3
ROWS = 30
SOON_MISSED = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}


@attrs.frozen(kw_only=True)
class Rows:
    """The rows of a batch, written by tasks one after the other."""

    batch: int
    topic: str
    options: WriteOptions

    def write(self, shared: SharedTransaction) -> int:
        ownership = Ownership.of({self.topic: PARTITIONS}, tasks=OWNERS)
        task = TaskWrite(shared=shared, ownership=ownership, options=self.options)
        return sum(task.write(self._rows(owner), owner=owner, attempt=0) for owner in range(ownership.owners))

    def drain(self) -> None:
        """There is no state."""

    def worth_another_try(self, error: Exception) -> bool:
        return True

    def _rows(self, owner: int) -> Iterator[pa.RecordBatch]:
        numbers = range(owner, ROWS, OWNERS)
        values = pa.array([f"{self.batch}-{number}" for number in numbers])
        slots = pa.array([number % PARTITIONS for number in numbers], pa.int32())
        yield pa.RecordBatch.from_arrays([values, slots], ["value", SLOT])


class Killer:
    """Kills a node some time in the next moments, on a thread of its own; then lets it return."""

    def __init__(self, kafka: KafkaCluster, rng: random.Random) -> None:
        self._kafka = kafka
        self._rng = rng
        self._thread: threading.Thread | None = None

    def soon(self, victim: int) -> None:
        self._thread = threading.Timer(self._rng.uniform(0, 0.3), self._kafka.kill, [victim])
        self._thread.start()

    def return_all(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for node in set(self._kafka.nodes) - set(self._kafka.running):
            self._kafka.start(node)


def test_whichever_node_dies_every_batch_is_there_once() -> None:
    rng = chance("nodes die")
    with KafkaCluster(nodes=3, config=SOON_MISSED) as kafka:
        topic = "batches"
        kafka.create_topic(topic, partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        problems: list[str] = []
        options = read_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic}, problems=problems)
        owner = TransactionOwner(
            settings=options.producer,
            transactional_id="query",
            transaction_timeout_ms=120_000,
            marker_topic=topic,
            timeout=60.0,
        )
        course = Course(owner, query="q", attempts=3)
        killer, told, drivers, done = Killer(kafka, rng), list[BatchWritten](), 1, -1
        while done < BATCHES - 1:
            killer.return_all()
            if done >= 0 and (done + 1) % 3 == 0:
                await_in_sync(kafka, topic, "__transaction_state", "__consumer_offsets")
                killer.soon(rng.choice([coordinator(kafka, "query"), kafka.leader(topic, rng.randrange(PARTITIONS))]))
            try:
                told.append(course.write(done + 1, Rows(batch=done + 1, topic=topic, options=options)))
                done += 1
            except BatchRefused:
                raise
            except OttlaError as error:
                print(f"batch {done + 1}: the driver gives up: {error}")
                course = Course(owner, query="q", attempts=3)
                drivers += 1
                assert drivers < BATCHES, "it does not come to an end"
        killer.return_all()
        found = Counter(
            value for values in read(kafka.bootstrap_servers, topic, partitions=PARTITIONS) for value in values
        )

    print(f"{drivers} drivers, {sum(batch.attempts > 1 for batch in told)} batches tried again")
    assert found == Counter(b"%d-%d" % (batch, number) for batch in range(BATCHES) for number in range(ROWS))
