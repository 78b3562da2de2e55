"""Exactly-once requests to real brokers: leases, the ledger, transactions that others began. No Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

import attrs
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]
from ledger_kit import PROCESS, attempts, entry, prepare, settings
from long_forms import only_long

from ottla import Producer
from ottla.errors import OttlaError, TransactionError, UnsupportedVersionError
from ottla.transactions import PreparedTransaction, find_open_transactions
from ottla.transactions.admin.descriptions import described
from ottla_spark.exactly_once import lease_checks, task
from ottla_spark.exactly_once.driver.cluster import TransactionOutcome
from ottla_spark.exactly_once.driver.commit import abort_left_open, commit
from ottla_spark.exactly_once.driver.plan import Plan, plan
from ottla_spark.exactly_once.errors import BatchNotCommittedError, DataLossError, LeaseLostError, LedgerMismatchError
from ottla_spark.exactly_once.kafka import cluster_client, timeout_limits
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger import partition
from ottla_spark.exactly_once.ledger.entry import Entry, Status
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.topic import LedgerTopic
from ottla_spark.exactly_once.task import BatchName, TaskPlan
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.known_defaults import BROKERS_MAX_TIMEOUT_MS
from ottla_spark.options.options import read_options
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import end_offset
from spark_kit import WITHIN, without_producers
from transactions_kit import COMMITTED, await_true, committed, consumer, new_id, read, send, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.generations("one", since="3.0")]
"""Brokers before 3.0 have one test; others run with today's, unless a generation of transactions matters to them."""

NO_TIMEOUT_MS = 2**31 - 1


@pytest.fixture
def name() -> str:
    return new_id()


class Drivers(Protocol):
    """Makes what a driver asks, each time with connections of its own."""

    def __call__(self, **changes: Any) -> KafkaClusterClient: ...


@pytest.fixture
def driver(broker: KafkaCluster, name: str) -> Iterator[Drivers]:
    made: list[KafkaClusterClient] = []

    def another(**changes: Any) -> KafkaClusterClient:
        made.append(KafkaClusterClient(attrs.evolve(settings(broker, name), **changes)))
        return made[-1]

    yield another
    for each in made:
        each.close()


@pytest.mark.generations(since="3.0")
def test_a_recorded_batch_is_visible_and_read_by_the_next_driver(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    given = plan(cluster, name)
    both = [prepare(broker, topic, name, number) for number in range(2)]
    before = read(broker.bootstrap_servers, topic, partitions=3, after_markers=False)
    commit(cluster, attempts(given, *both), batch=0)
    next_one = plan(driver(), name)

    assert given.last is None
    assert before == [[], [], []]
    assert [sorted(found) for found in committed(broker, topic)] == [[b"0", b"1"]] * 3
    assert next_one.last == entry(*both, status=Status.DONE)
    assert next_one.lease.newer_than(given.lease)


@pytest.mark.generations(since="3.0")
def test_lost_attempts_and_those_of_an_earlier_lease_are_aborted(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    prepare(broker, topic, name, 0)
    other = prepare(broker, topic, f"{name}/{PROCESS}", 0)  # of a longer name
    given = plan(cluster, name)
    after_planning = cluster.open_transactions(name)
    winner, _loser = (prepare(broker, topic, name, number) for number in (1, 2))
    commit(cluster, attempts(given, winner), batch=0)

    assert after_planning == cluster.open_transactions(name) == []
    assert cluster.statuses([other])[0].outcome is TransactionOutcome.OPEN
    cluster.end(other, commit=False)
    assert committed(broker, topic) == [[b"1"]] * 3


def test_transactions_of_a_failed_job_are_aborted_while_the_lease_is_held(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    first, second = driver(), driver()
    old = plan(first, name).lease
    prepare(broker, topic, name, 0)
    abort_left_open(first, old)
    after_the_failure = first.open_transactions(name)
    new = plan(second, name)
    winner = prepare(broker, topic, name, 1)
    abort_left_open(first, old)
    commit(second, attempts(new, winner), batch=0)

    assert after_the_failure == []
    assert committed(broker, topic) == [[b"1"]] * 3


@pytest.mark.generations(since="3.0")
@pytest.mark.parametrize("pauses", [False, True], ids=["at its end", "in its middle"])
def test_a_task_that_outlives_its_failed_job_aborts_its_own_transaction(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch, pauses: bool
) -> None:
    """The driver looks for open transactions before the task has begun its own."""
    cluster = driver()
    lease = plan(cluster, name).lease
    if pauses:
        monkeypatch.setattr(lease_checks, "EVERY", -1.0)
        monkeypatch.setattr(lease_checks, "LONGER", 0.0)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"never seen"]})
        abort_left_open(cluster, lease)
        yield pa.record_batch({"value": [bytes(500_000)] * 20})
        assert not pauses, "a task that goes on for long checks its lease meanwhile"

    problems: list[str] = []
    given = settings(broker, name)
    options = read_options({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}, problems=problems)
    with without_producers():
        attempt, _written = task.write_task(
            rows(),
            TaskPlan(plan=Plan(lease=lease, last=None), timeout_ms=60_000),
            of=BatchName(query="query", batch=0),
            settings=given,
            options=options,
            columns={"value": 0},
        )

    assert problems == []
    assert attempt.superseded
    assert attempt.prepared is None
    assert cluster.open_transactions(name) == []
    assert committed(broker, topic) == [[]] * 3


@pytest.mark.generations(since="3.0")
def test_only_its_holder_renews_a_lease(name: str, driver: Drivers, broker: KafkaCluster, topic: str) -> None:
    first, second = driver(), driver()
    old = plan(first, name).lease
    before = first.superseded(old, within=WITHIN)
    renewed = first.renew_lease(old)
    again = second.renew_lease(old)  # as if the response had been lost
    after = second.superseded(old, within=WITHIN)
    new = plan(second, name).lease

    assert (before, after) == (False, True)
    assert renewed is not None
    assert renewed.newer_than(old)
    assert again == renewed
    assert first.renew_lease(renewed) is first.renew_lease(old) is None
    assert second.holds(new)


@pytest.mark.generations(since="3.0")
def test_a_driver_whose_lease_was_taken_cannot_write_the_ledger(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    zombie, successor = driver(), driver()
    old = plan(zombie, name)
    written = prepare(broker, topic, name, 0)
    new = plan(successor, name)
    again = prepare(broker, topic, name, 1)
    with pytest.raises((LeaseLostError, BatchNotCommittedError)):
        commit(zombie, attempts(old, written), batch=0)
    with pytest.raises(LeaseLostError, match="another driver"):
        zombie.append(old.lease, entry(written))
    commit(successor, attempts(new, again), batch=0)

    assert successor.ledger(name).last == entry(again, status=Status.DONE)
    assert committed(broker, topic) == [[b"1"]] * 3


def test_a_recorded_batch_is_finished_by_the_next_planning_driver(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    given = plan(cluster, name)
    both = [prepare(broker, topic, name, number) for number in range(2)]
    cluster.append(given.lease, entry(*both))
    cluster.end(both[0], commit=True)
    last = plan(driver(), name).last

    assert last == entry(*both, status=Status.DONE)
    assert [sorted(found) for found in committed(broker, topic)] == [[b"0", b"1"]] * 3


@pytest.mark.generations(since="3.0")
def test_a_recorded_batch_that_timed_out_is_void(broker: KafkaCluster, topic: str, name: str, driver: Drivers) -> None:
    cluster = driver()
    given = plan(cluster, name)
    late, open_still = prepare(broker, topic, name, 0, timeout_ms=1_000), prepare(broker, topic, name, 1)
    cluster.append(given.lease, entry(late, open_still))
    await_true(lambda: cluster.statuses([late])[0].outcome is TransactionOutcome.ABORTED)
    last = plan(cluster, name).last

    assert last == entry(late, open_still, status=Status.VOID)
    assert committed(broker, topic) == [[], [], []]


def test_a_partly_visible_batch_is_reported_at_every_start(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    given = plan(cluster, name)
    late, in_time = prepare(broker, topic, name, 0, timeout_ms=1_000), prepare(broker, topic, name, 1)
    cluster.append(given.lease, entry(late, in_time))
    cluster.end(in_time, commit=True)
    await_true(lambda: cluster.statuses([late])[0].outcome is TransactionOutcome.ABORTED)
    for _ in range(2):
        with pytest.raises(DataLossError, match=f"{name}/{PROCESS}/0.*3 records.* is aborted"):
            plan(cluster, name)


def test_a_transaction_with_little_remaining_time_is_not_recorded(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    given = plan(cluster, name)
    late, in_time = prepare(broker, topic, name, 0, timeout_ms=2_000), prepare(broker, topic, name, 1)
    await_true(lambda: cluster.statuses([late])[0].age > 1.0)
    with pytest.raises(BatchNotCommittedError, match="None of its rows is visible"):
        commit(cluster, attempts(given, late, in_time), batch=0)

    assert cluster.ledger(name).last is None
    assert committed(broker, topic) == [[], [], []]


@pytest.mark.generations(since="3.0")
def test_readers_see_all_of_a_commit_whose_markers_were_awaited(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    """Without the wait, many of them see less: brokers write the markers after their answer."""
    cluster = driver()
    seen = []
    with consumer(broker.bootstrap_servers, isolation=COMMITTED) as reader:
        for number in range(20):
            prepared = prepare(broker, topic, name, number)
            cluster.end(prepared, commit=True)
            late = cluster.await_markers([prepared], within=WITHIN)
            ends = [end_offset(reader, TopicPartition(topic, partition)) for partition in range(3)]
            seen.append((late, ends))

    assert seen == [(0, [2 * (number + 1)] * 3) for number in range(20)]  # a record and a marker each
    assert cluster.await_markers([], within=WITHIN) == 0


@pytest.mark.generations(since="3.0")
def test_the_outcomes_of_many_transactions_are_reported_in_order(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    still_open, done, gone = (prepare(broker, topic, name, number) for number in range(3))
    unknown = attrs.evolve(done, transactional_id=task_id(name, process=PROCESS, number=9))
    cluster.end(done, commit=True)
    cluster.end(gone, commit=False)
    outcomes = [each.outcome for each in cluster.statuses([done, unknown, still_open, gone])]

    assert outcomes == [
        TransactionOutcome.COMMITTED,
        TransactionOutcome.UNKNOWN,
        TransactionOutcome.OPEN,
        TransactionOutcome.ABORTED,
    ]


def test_entries_of_aborted_transactions_are_not_read(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    cluster = driver()
    given = plan(cluster, name)
    cluster.append(given.lease, entry(batch=1, status=Status.DONE))
    ledger = cluster._settings.topic
    with transactional(broker, given.lease.transactional_id) as dying:
        dying.init_transactions()
        dying.begin_transaction()
        for partition in range(ledger.partitions):
            dying.send(ledger.name, entry(batch=2).to_bytes(), name.encode(), partition=partition)
        dying.prepare_transaction()
    last = plan(driver(), name).last

    assert last == entry(batch=1, status=Status.DONE)


def test_a_ledger_topic_that_deletes_entries_is_refused(broker: KafkaCluster, name: str, driver: Drivers) -> None:
    ledger = new_id()
    broker.create_topic(ledger, config={"cleanup.policy": "delete"})
    forgetful = LedgerTopic(name=ledger, partitions=1, replication=-1)

    with pytest.raises(LedgerMismatchError, match=r"cleanup\.policy=delete"):
        plan(driver(topic=forgetful), name)


def many_tasks(name: str, count: int) -> Entry:
    """An entry of a batch whose tasks ran in many workers: their ids are random, so it is hardly compressible."""
    chance = random.Random(0)
    workers = [chance.randbytes(16).hex() for _ in range(1000)]
    return entry(
        *(
            PreparedTransaction(
                transactional_id=task_id(name, process=chance.choice(workers), number=number),
                producer_id=chance.randrange(2**40),
                epoch=0,
                level=2,
            )
            for number in range(count)
        ),
        status=Status.DONE,
    )


def test_an_entry_of_forty_thousand_tasks_fits_into_a_created_topic(name: str, driver: Drivers) -> None:
    """Brokers take a megabyte by default, compressed."""
    cluster, many = driver(), many_tasks(name, 40_000)
    cluster.append(plan(cluster, name).lease, many)

    assert plan(driver(), name).last == many


def test_an_entry_that_is_too_large_for_its_topic_names_the_remedies(
    broker: KafkaCluster, name: str, driver: Drivers
) -> None:
    ledger = new_id()
    broker.create_topic(ledger, config={"cleanup.policy": "compact", "max.message.bytes": "10000"})
    cluster = driver(topic=LedgerTopic(name=ledger, partitions=1, replication=-1))
    lease = plan(cluster, name).lease

    with pytest.raises(TransactionError, match=r"MESSAGE_TOO_LARGE.*fewer tasks.*, or raise .*, up to 4194304"):
        cluster.append(lease, many_tasks(name, 1000))


def test_a_timeout_above_the_broker_limit_is_refused_before_any_task(name: str, driver: Drivers) -> None:
    with pytest.raises(LedgerMismatchError, match=r"transaction\.max\.timeout\.ms is 900000"):
        driver(timeout_ms=900_001).timeout_ms()
    assert driver().timeout_ms() == 900_000


def test_a_lease_outlasts_all_attempts_to_write_an_entry(name: str, driver: Drivers) -> None:
    cluster = driver(timeout_ms=20_000)
    cluster.take_lease(name)
    found = described(cluster._blocking_client(), lease_id(name))

    assert found is not None
    assert found.transaction_timeout_ms / 1000 > cluster_client.RESPONSE_TIMEOUT


def test_a_limit_of_the_brokers_that_changes_is_obeyed_later(
    name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = driver()
    monkeypatch.setattr(timeout_limits, "longest_timeout_ms", lambda _client, _node: 900_000)
    before = cluster.timeout_ms()
    monkeypatch.setattr(timeout_limits, "longest_timeout_ms", lambda _client, _node: 100_000)
    kept = cluster.timeout_ms()
    monkeypatch.setattr(cluster._limits, "_limit", attrs.evolve(cluster._limits._limit, valid_until=0.0))

    assert (before, kept, cluster.timeout_ms()) == (900_000, 900_000, 100_000)


def test_a_limit_that_brokers_do_not_say_is_asked_for_once(
    name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time, a warning says that it cannot be read."""
    asked: list[int] = []
    monkeypatch.setattr(timeout_limits, "longest_timeout_ms", lambda _client, node: asked.append(node))
    monkeypatch.setattr(timeout_limits, "LIMITS_VALID", 0.0)
    cluster = driver()

    assert [cluster.timeout_ms() for _ in range(3)] == [BROKERS_MAX_TIMEOUT_MS] * 3
    assert len(asked) == 1


def test_a_timeout_above_an_unknown_limit_is_named_before_any_task(
    name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeout_limits, "longest_timeout_ms", lambda _client, _node: None)
    monkeypatch.setattr(timeout_limits, "BROKERS_MAX_TIMEOUT_MS", 900_001)  # of brokers whose limit is 900,000
    with pytest.raises(
        TransactionError, match=r"900001 ms was assumed.*set kafka\.transaction\.timeout\.ms to at most"
    ):
        plan(driver(), name)

    assert plan(driver(timeout_ms=100_000), name).last is None


def test_a_ledger_topic_that_was_deleted_is_named(
    broker: KafkaCluster, name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "MISSING_FOR", 1.0)
    cluster = driver()
    plan(cluster, name)
    topic = settings(broker, name).topic.name
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    [deleted] = admin.delete_topics([topic]).values()
    deleted.result(60)
    with pytest.raises(TransactionError, match=rf"ledger topic '{topic}' does not exist.* creates an empty one"):
        plan(cluster, name)

    assert plan(driver(), name).last is None


@pytest.mark.parametrize(("setting", "value"), [("cleanup.policy", "delete"), ("compression.type", "zstd")])
def test_a_ledger_topic_that_is_changed_later_is_refused(
    setting: str, value: str, broker: KafkaCluster, name: str, driver: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that brokers compress would be unreadable, also after the setting is restored."""
    monkeypatch.setattr(cluster_client, "LIMITS_VALID", 0.0)
    cluster = driver()
    plan(cluster, name)
    topic = settings(broker, name).topic.name
    change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    [changed] = admin.incremental_alter_configs([resource]).values()
    changed.result(60)

    with pytest.raises(LedgerMismatchError, match=f"'{topic}' has {setting}={value}"):
        plan(cluster, name)


def test_two_phase_commit_without_broker_support_is_refused(name: str, driver: Drivers) -> None:
    with pytest.raises(LedgerMismatchError, match=r"two\.phase\.commit=true needs .*KIP-939.* leave the option out"):
        driver(two_phase=True).timeout_ms()


def test_a_ledger_topic_that_cannot_be_created_is_reported_with_why(driver: Drivers, name: str) -> None:
    topic = LedgerTopic(name=new_id(), partitions=1, replication=3)

    with pytest.raises(OttlaError, match=r"INVALID_REPLICATION_FACTOR.*ledger\.replication\.factor"):
        plan(driver(topic=topic), name)


@pytest.mark.generations(before="3.0")
def test_brokers_that_cannot_describe_transactions_are_refused(driver: Drivers, name: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"needs Kafka 3\.0 or later"):
        plan(driver(), name)


@only_long("takes minutes")
def test_with_two_phase_commit_a_prepared_transaction_has_no_timeout(name: str, broker: KafkaCluster) -> None:
    """Brokers of 4.3 offer it when they are set to offer unstable features."""
    unstable = {"unstable.api.versions.enable": True, "transaction.two.phase.commit.enable": True}
    with KafkaCluster(config=unstable) as kafka:
        kafka.create_topic("t", partitions=3)
        given = attrs.evolve(settings(kafka, name), two_phase=True)
        cluster = KafkaClusterClient(given)
        planned = plan(cluster, name)
        own = given.for_task(task_id(name, process=PROCESS, number=0), timeout_ms=cluster.timeout_ms())
        with Producer(own) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            send(producer, "t", [b"0"])
            prepared = producer.prepare_transaction()
        [found] = find_open_transactions({"bootstrap.servers": kafka.bootstrap_servers}, name)
        commit(cluster, attempts(planned, prepared), batch=0)
        cluster.close()

        assert found.timeout_ms == NO_TIMEOUT_MS
        assert committed(kafka, "t") == [[b"0"]] * 3
