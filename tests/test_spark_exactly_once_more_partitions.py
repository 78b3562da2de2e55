"""Ledger topics that get more partitions, after which the hash of a name leads to another one than before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from ledger_kit import attempts, entry, prepare, settings

from ottla_spark.exactly_once import adopt, forget
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.driver.plan import plan
from ottla_spark.exactly_once.errors import BatchNotCommittedError, LeaseLostError, LedgerMismatchError
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import MOVED, Entry, Status
from ottla_spark.exactly_once.ledger.places import partition_of
from ottla_spark.exactly_once.ledger.topic import CONFIG, LedgerTopic, own_topic
from ottla_spark.exactly_once.settings import Settings
from ottla_spark.exactly_once.status import ledger_status
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import end_offset
from transactions_kit import COMMITTED, WAIT, await_markers, await_true, committed, consumer, new_id, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.generations("one", since="3.0")]

MORE = 4


@pytest.fixture
def name() -> str:
    """A name that leaves partition 0 when the topic gets more partitions."""
    return next(each for each in iter(new_id, "") if partition_of(each, MORE) not in (0, partition_of(each, 3)))


@pytest.fixture
def topic(broker: KafkaCluster) -> str:
    topic = new_id()
    broker.create_topic(topic, partitions=3)
    return topic


@pytest.fixture
def driver(broker: KafkaCluster) -> Iterator[Callable[[Settings], KafkaClusterClient]]:
    """Another driver, each time with connections of its own."""
    made: list[KafkaClusterClient] = []

    def another(given: Settings) -> KafkaClusterClient:
        made.append(KafkaClusterClient(given))
        return made[-1]

    yield another
    for each in made:
        each.close()


Drivers = Callable[[Settings], KafkaClusterClient]


def add_partitions(broker: KafkaCluster, topic: str, count: int = MORE) -> None:
    """Until every broker knows them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for added in admin.create_partitions([NewPartitions(topic, count)]).values():
        added.result(WAIT)
    await_true(lambda: len(admin.list_topics(topic, timeout=WAIT).topics[topic].partitions) == count)


def written(driver: Drivers, broker: KafkaCluster, given: Settings, topic: str, *, batch: int = 0) -> Entry:
    """One batch, planned and committed by two processes, as for a data source of Spark."""
    planned = plan(driver(given), given.name)
    prepared = prepare(broker, topic, given.name, batch)
    commit(driver(given), attempts(planned, prepared, batch=batch), batch=batch)
    return entry(prepared, batch=batch, status=Status.DONE)


def in_partition(cluster: KafkaClusterClient, name: str, partition: int, content: Entry) -> None:
    """As an earlier version wrote it, which looked only into the partition that the hash named."""
    cluster.append(attrs.evolve(cluster.take_lease(name), partition=partition), content)


def by_another_producer_id(broker: KafkaCluster, name: str, content: Entry) -> None:
    """As after a break in which brokers forgot the id of the lease, in the partition that was added."""
    with transactional(broker) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(own_topic(name), content.to_bytes(), name.encode(), partition=partition_of(name, MORE))


def last_values(broker: KafkaCluster, ledger: str) -> list[bytes | None]:
    """The last committed record of each partition; None for a deletion, b"" for an empty partition."""
    await_markers(broker.bootstrap_servers, ledger, partitions=MORE)
    found: list[bytes | None] = [b""] * MORE
    with consumer(broker.bootstrap_servers, isolation=COMMITTED) as reader:
        places = [TopicPartition(ledger, partition, 0) for partition in range(MORE)]
        unread = {place.partition for place in places if end_offset(reader, place)}
        reader.assign(places)
        while unread:
            [message] = reader.consume(1, timeout=WAIT)
            error, partition = message.error(), message.partition() or 0
            if error is None:
                found[partition] = message.value()
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                unread.discard(partition)
    return found


def options(broker: KafkaCluster, name: str, **more: str) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "transactional.id.prefix": name, **more}


@pytest.mark.generations(since="3.0")
def test_entries_are_found_after_the_ledger_topic_got_more_partitions(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    given = settings(broker, name)
    first = written(driver, broker, given, topic)
    add_partitions(broker, own_topic(name))
    found = plan(driver(given), name).last
    second = written(driver, broker, given, topic, batch=1)
    add_partitions(broker, own_topic(name), MORE + 3)

    assert found == first
    assert plan(driver(given), name).last == ledger_status(options(broker, name)).entry == second
    assert committed(broker, topic) == [[b"0", b"1"]] * 3
    assert last_values(broker, own_topic(name)) == [second.to_bytes(), b"", b"", b""]


def test_a_recorded_batch_is_finished_after_more_partitions(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    given = settings(broker, name)
    cluster = driver(given)
    planned = plan(cluster, name)
    prepared = prepare(broker, topic, name, 0)
    cluster.append(planned.lease, entry(prepared))
    add_partitions(broker, own_topic(name))

    assert plan(driver(given), name).last == entry(prepared, status=Status.DONE)
    assert committed(broker, topic) == [[b"0"]] * 3


@pytest.mark.generations(since="3.0")
def test_a_driver_sees_entries_in_partitions_that_it_did_not_know(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    given = settings(broker, name)
    older = driver(given)
    old = plan(older, name)
    too_late = prepare(broker, topic, name, 7)
    add_partitions(broker, own_topic(name))
    newer = written(driver, broker, given, topic)
    with pytest.raises((LeaseLostError, BatchNotCommittedError)):
        commit(older, attempts(old, too_late), batch=0)
    with pytest.raises(LeaseLostError):
        older.append(old.lease, entry(too_late))
    again = plan(older, name)

    assert again.last == newer
    assert (old.lease.partition, again.lease.partition) == (0, partition_of(name, MORE))
    assert again.lease.newer_than(old.lease)
    assert committed(broker, topic) == [[b"0"]] * 3


@pytest.mark.generations(since="3.0")
@pytest.mark.parametrize("newest_in", ["old", "added"])
def test_the_newest_of_two_entries_counts_and_the_other_is_deleted(
    broker: KafkaCluster, name: str, driver: Drivers, newest_in: str
) -> None:
    """Earlier versions left two: they did not find the first one after more partitions."""
    given = settings(broker, name)
    cluster = driver(given)
    plan(cluster, name)
    add_partitions(broker, own_topic(name))
    places = [0, partition_of(name, MORE)]
    order = places if newest_in == "added" else places[::-1]
    for batch, partition in enumerate(order):
        in_partition(driver(given), name, partition, entry(batch=batch, status=Status.DONE))
    last = plan(driver(given), name).last
    left = last_values(broker, own_topic(name))
    forgotten = forget(options(broker, name))

    assert last == forgotten == entry(batch=1, status=Status.DONE)
    assert (left[order[0]], left[order[1]]) == (None, entry(batch=1, status=Status.DONE).to_bytes())
    assert plan(driver(given), name).last is None


def test_entries_of_two_producer_ids_need_a_decision(broker: KafkaCluster, name: str, driver: Drivers) -> None:
    """Which of them is the last is unknown: producer ids have no order."""
    given = settings(broker, name)
    first = driver(given)
    plan(first, name)
    add_partitions(broker, own_topic(name))
    in_partition(driver(given), name, 0, entry(batch=3, status=Status.DONE))
    by_another_producer_id(broker, name, entry(batch=4, status=Status.DONE))
    for _ in range(2):
        with pytest.raises(
            LedgerMismatchError, match=r"partition 0 has batch 3 \(done\); partition . has batch 4 .*forget"
        ):
            plan(driver(given), name)
    with pytest.raises(LedgerMismatchError, match="unknown which one is the last"):
        adopt(options(broker, name))
    forget(options(broker, name))

    assert plan(driver(given), name).last is None


def test_a_finished_job_with_two_equal_entries_needs_no_decision(
    broker: KafkaCluster, name: str, driver: Drivers
) -> None:
    given = settings(broker, name)
    plan(driver(given), name)
    add_partitions(broker, own_topic(name))
    done = entry(status=Status.DONE)
    in_partition(driver(given), name, 0, done)
    by_another_producer_id(broker, name, done)

    assert plan(driver(given), name).last == plan(driver(given), name).last == done


def test_an_entry_of_a_shared_topic_is_found_after_more_partitions(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    shared = f"shared-{new_id()}"
    broker.create_topic(shared, partitions=3, config=CONFIG)
    given = settings(broker, name, ledger_topic=shared)
    first = written(driver, broker, given, topic)
    add_partitions(broker, shared)
    found = plan(driver(given), name)

    assert found.last == first
    assert found.lease.partition == partition_of(name, 3) != partition_of(name, MORE)


def test_an_entry_of_an_earlier_version_is_found_after_more_partitions(
    broker: KafkaCluster, topic: str, name: str, driver: Drivers
) -> None:
    shared = f"earlier-{new_id()}"
    broker.create_topic(shared, partitions=3, config=CONFIG)
    one_topic = LedgerTopic(name=shared, partitions=3, replication=-1)
    mine = written(driver, broker, attrs.evolve(settings(broker, name), topic=one_topic, earlier=""), topic)
    add_partitions(broker, shared)
    given = settings(broker, name, ledger_earlier_topic=shared)

    assert plan(driver(given), name).last == mine
    assert last_values(broker, shared)[partition_of(name, 3)] == MOVED
    assert plan(driver(settings(broker, name, ledger_earlier_topic="")), name).last == mine
