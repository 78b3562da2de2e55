"""All-or-nothing batches on three nodes, whose coordinators and leaders are killed at random: exact, and in order.

The driver's part and the tasks' are the real ones; Spark is left out, so that there are many batches in little time.
The long form only (OTTLA_SOAK): three nodes are slow to start.
"""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from long_forms import only_long
from spark_atomic_tasks_kit import Query

from ottla.errors import OttlaError
from ottla_spark.atomic.driver import BatchWritten
from ottla_spark.atomic.errors import BatchRefusedError
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_in_sync, chance, coordinator, read

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    only_long("three nodes"),
]

BATCHES = 60
PARTITIONS = 6
OWNERS = 3
ROWS = 30
SOON_MISSED = {"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}


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


def test_after_the_death_of_any_node_every_batch_is_there_once() -> None:
    rng = chance("nodes die")
    with KafkaCluster(nodes=3, config=SOON_MISSED) as kafka:
        topic = "batches"
        kafka.create_topic(topic, partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        query = Query.writing(
            topic,
            {"bootstrap.servers": kafka.bootstrap_servers},
            transactional_id="query",
            partitions=PARTITIONS,
            owners=OWNERS,
            rows=ROWS,
        )
        driver = query.driver()
        killer, reported, drivers, done = Killer(kafka, rng), list[BatchWritten](), 1, -1
        while done < BATCHES - 1:
            killer.return_all()
            if done >= 0 and (done + 1) % 3 == 0:
                await_in_sync(kafka, topic, "__transaction_state", "__consumer_offsets")
                killer.soon(rng.choice([coordinator(kafka, "query"), kafka.leader(topic, rng.randrange(PARTITIONS))]))
            try:
                reported.append(driver.write(done + 1, query.batch(done + 1)))
                done += 1
            except BatchRefusedError:
                raise
            except OttlaError as error:
                print(f"batch {done + 1}: the driver gives up: {error}")
                driver = query.driver()
                drivers += 1
                assert drivers < BATCHES, "it does not come to an end"
        killer.return_all()
        found = Counter(
            value for values in read(kafka.bootstrap_servers, topic, partitions=PARTITIONS) for value in values
        )

    print(f"{drivers} drivers, {sum(batch.attempts > 1 for batch in reported)} batches tried again")
    assert found == Counter(query.values(BATCHES))
