"""Many batches on real brokers with a fault in every third of them, driven without Spark, which makes them quick.

Drivers, workers and producers are given up where they stand, as by kill -9; what brokers have then is real.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

import attrs
import pytest
from long_forms import LONG, only_long

from ottla import Producer
from ottla.errors import OttlaError, UndeliveredError
from ottla.transactions import find_open_transactions
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.driver.plan import Plan, plan
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Step, next_step
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.exactly_once.transactional_ids import IdPool
from ottla_spark.options.options import read_options
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.proxy import Cut
from transactions_kit import WAIT, await_in_sync, broker_behind_a_proxy, chance, new_id, read, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BATCHES = int(os.environ.get("OTTLA_BATCHES") or (200 if LONG else 24))
PARTITIONS = 3
STEPS = ("open_transactions", "take_lease", "ledger", "statuses", "append", "end", "abort", "task")


class Killed(Exception):
    """The driver is gone."""


@attrs.frozen(kw_only=True)
class Fault:
    """At the nth time of a step, before or after it: `action`, or the driver is killed."""

    step: str
    nth: int
    after: bool
    action: Callable[[], None] | None = None

    @classmethod
    def some(cls, rng: random.Random) -> Fault:
        return cls(step=rng.choice(STEPS), nth=rng.randint(1, 3), after=rng.random() < 0.6)


class Watched:
    """A cluster whose driver dies at one of its steps."""

    def __init__(self, brokers: KafkaClusterClient, fault: Fault | None) -> None:
        self._brokers = brokers
        self._fault = fault
        self._seen: Counter[str] = Counter()

    def passing(self, step: str, *, after: bool) -> None:
        """Die, if it is time."""
        fault = self._fault
        if fault is None or fault.step != step or fault.after is not after:
            return
        self._seen[step] += 1
        if self._seen[step] == fault.nth:
            if fault.action is None:
                raise Killed(f"{fault}")
            fault.action()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._brokers, name)

        def watched(*arguments: Any, **named: Any) -> Any:
            self.passing(name, after=False)
            answer = method(*arguments, **named)
            self.passing(name, after=True)
            return answer

        return watched


@attrs.define
class Application:
    """A query that writes batches, its workers and their ids."""

    kafka: KafkaCluster
    settings: Settings
    topic: str
    rng: random.Random
    expected: Counter[bytes] = attrs.Factory(Counter)
    pools: list[IdPool] = attrs.Factory(list)
    deaths: int = 0

    def hire(self) -> None:
        """New worker processes, as after a restart of the application."""
        self.pools = [IdPool(name=self.settings.name, process=uuid.uuid4().hex) for _ in range(2)]

    def write(self, batch: int, fault: Fault | None, *, tasks: int | None = None) -> None:
        """Start drivers until one of them has written the batch; by chance it has no task."""
        tasks = self.rng.randint(0, 4) if tasks is None else tasks
        rows = [[f"{batch}.{task}.{row}".encode() for row in range(5)] for task in range(tasks)]
        self.expected.update(row for task in rows for row in task)
        for _ in range(5):
            driver = KafkaClusterClient(self.settings)
            try:
                self._drive(Watched(driver, fault), batch, rows)
            except (Killed, OttlaError) as error:
                print(f"batch {batch}: {error!r}")
                fault = None
                self.deaths += 1
                if self.rng.random() < 0.5:
                    self.hire()
            else:
                return
            finally:
                driver.close()
        raise AssertionError(f"batch {batch} was not written; again with the seed that is printed")

    def _drive(self, cluster: Watched, batch: int, rows: list[list[bytes]]) -> None:
        given = plan(cluster, self.settings.name)
        attempts = [self._task(cluster, given, batch, number, mine) for number, mine in enumerate(rows)]
        commit(cluster, attempts, batch=batch)

    def _task(self, cluster: Watched, given: Plan, batch: int, number: int, rows: list[bytes]) -> Attempt:
        step = next_step(given.last, name=self.settings.name, query="q", batch=batch)
        attempt = Attempt(lease=given.lease, query="q", batch=batch, partition=number, step=step, records=len(rows))
        if step is Step.SKIP:
            return attempt
        for _ in range(1 + (self.rng.random() < 0.1)):  # one attempt more than counts
            name = self.pools[number % len(self.pools)].take(given.lease)
            with transactional(self.kafka, name) as producer:
                producer.init_transactions()
                producer.begin_transaction()
                for row in rows:
                    producer.send(self.topic, row, partition=self.rng.randrange(PARTITIONS))
                cluster.passing("task", after=False)
                prepared = producer.prepare_transaction()
                cluster.passing("task", after=True)
        return attrs.evolve(attempt, prepared=prepared)


def application(kafka: KafkaCluster, topic: str, rng: random.Random) -> Application:
    """A query with a prefix of its own, and its ledger on every node."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "guarantee": "exactly-once"}
    replicas = {"ledger.replication.factor": str(len(kafka.nodes))}
    given = read_options({**options, **replicas, "transactional.id.prefix": new_id()}, problems=[])
    found = Application(kafka, read_settings(given), topic, rng)
    found.hire()
    return found


def check(application: Application) -> None:
    """Committed readers find what was written, and are not kept waiting."""
    servers = application.kafka.bootstrap_servers
    found = read(servers, application.topic, partitions=PARTITIONS)

    assert Counter(value for values in found for value in values) == application.expected
    assert find_open_transactions({"bootstrap.servers": servers}, application.settings.name) == []


def test_batches_with_a_fault_in_every_third_of_them_are_exact(kafka: KafkaCluster) -> None:
    rng, topic = chance("exactly once"), new_id()
    kafka.create_topic(topic, partitions=PARTITIONS)
    query = application(kafka, topic, rng)
    certain = Fault(step="append", nth=1, after=True)  # some of the others are at a step that their batch does not take
    query.write(0, certain, tasks=1)
    for batch in range(1, BATCHES):
        query.write(batch, Fault.some(rng) if batch % 3 == 2 else None)

    assert query.deaths > 0
    check(query)


@only_long("takes minutes")
def test_batches_with_killed_brokers_and_coordinators_are_exact() -> None:
    """Each node in turn, at a random step; it comes back while the next batches are written."""
    rng, topic = chance("coordinators"), new_id()
    with KafkaCluster(
        nodes=3, config={"broker.session.timeout.ms": 2_500, "broker.heartbeat.interval.ms": 250}
    ) as kafka:
        kafka.create_topic(topic, partitions=PARTITIONS, replication=3, config={"min.insync.replicas": 2})
        query = application(kafka, topic, rng)
        query.write(0, None)
        for batch in range(1, BATCHES // 4):
            node = kafka.nodes[batch % 3]
            query.write(batch, attrs.evolve(Fault.some(rng), nth=1, action=partial(kafka.kill, node)))
            if node not in kafka.running:
                kafka.start(node)
                await_in_sync(kafka, topic, query.settings.topic.name, "__transaction_state")
        query.write(BATCHES, None)  # with every broker there, nothing is overlooked
        check(query)


@only_long("takes minutes")
@pytest.mark.parametrize("level", [2, 0])
def test_batches_with_cut_connections_are_exact(level: int) -> None:
    """Requests and answers of driver and tasks are lost on the way, and every sixth driver dies as well."""
    rng = chance(f"cuts at {level}")
    cuts = [Cut(after=rng.randint(1, 3_000), from_target=rng.random() < 0.5) for _ in range(50 * BATCHES)]
    with broker_behind_a_proxy() as (kafka, proxy):
        set_feature(kafka.address(1), TRANSACTION_VERSION, level)
        kafka.create_topic("t", partitions=PARTITIONS)
        query = application(kafka, "t", rng)
        proxy.cut_by(cuts)
        for batch in range(BATCHES // 2):
            query.write(batch, Fault.some(rng) if batch % 6 == 5 else None)
        print(f"{proxy.cuts} cuts, {query.deaths} deaths")
        assert proxy.cuts > BATCHES
        proxy.cut_by([])
        check(query)


def test_a_worker_that_gives_up_its_rows_ends_at_once(kafka: KafkaCluster) -> None:
    topic = new_id()
    kafka.create_topic(topic, partitions=PARTITIONS)
    for _ in range(10):
        producer = transactional(kafka)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"given up", partition=0)
        closing = Thread(target=close, args=(producer,), daemon=True)
        closing.start()
        closing.join(WAIT)

        assert not closing.is_alive(), "`close` waits for as long as records may be on their way, which is longer"


def close(producer: Producer) -> None:
    """Close it, whatever it had."""
    with suppress(UndeliveredError):
        producer.close()
