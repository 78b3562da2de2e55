"""All-or-nothing batches through cut connections, and after so long a rest that brokers have forgotten about them.

Spark is left out: the driver's part and the tasks' are the real ones, and there are many batches in little time.
"""

from __future__ import annotations

from collections import Counter

import pytest
from long_forms import LONG, only_long
from spark_atomic_tasks_kit import Query

from ottla.errors import OttlaError, ProducerFencedError
from ottla.transactions import list_transactions
from ottla_spark.atomic.errors import BatchRefusedError
from ottla_spark.worker import producer_cache
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.proxy import Cut
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import await_true, broker_behind_a_proxy, chance, group_offsets, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4
BATCHES = 150 if LONG else 12
QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 1, "retry.backoff.max.ms": 20}


def query_to(kafka: KafkaCluster, *, rows: int = 40, **settings: object) -> Query:
    kafka.create_topic("rows", partitions=PARTITIONS)
    return Query.writing(
        "rows",
        {"bootstrap.servers": kafka.bootstrap_servers, **settings},
        transactional_id="query",
        partitions=PARTITIONS,
        owners=2,
        rows=rows,
        timeout=30.0,
    )


def committed(kafka: KafkaCluster) -> Counter[bytes]:
    found = read(kafka.bootstrap_servers, "rows", partitions=PARTITIONS)
    return Counter(value for values in found for value in values)


@pytest.mark.thorough("the gate cuts connections of transactions, and kills drivers")
@pytest.mark.parametrize("level", [2, pytest.param(0, marks=only_long("takes minutes"))])
def test_lost_responses_leave_every_batch_once(level: int) -> None:
    rng = chance(f"lost answers at {level}")
    plan = [
        Cut(after=rng.randint(1, 600), from_target=True) if rng.random() < 0.6 else Cut(after=rng.randint(1, 2_000))
        for _ in range(BATCHES * 6)
    ]
    with broker_behind_a_proxy() as (kafka, proxy):
        set_feature(kafka.address(1), TRANSACTION_VERSION, level)
        query = query_to(kafka, **QUICK)
        proxy.cut_by(plan)
        driver, drivers, batch = query.driver(), 1, 0
        while batch < BATCHES:
            try:
                driver.write(batch, query.batch(batch))
                batch += 1
            except BatchRefusedError:
                raise
            except OttlaError as error:
                print(f"batch {batch}: the driver gives up: {error}")
                driver, drivers = query.driver(), drivers + 1
                assert drivers < BATCHES, "it does not come to an end"
        print(f"{proxy.cuts} cuts, {drivers} drivers")
        proxy.cut_by([])
        producer_cache._cache_of_process().empty()
        found = committed(kafka)

    assert found == Counter(query.values(BATCHES))
    assert proxy.cuts > BATCHES


def test_a_query_whose_topic_was_changed_says_where_its_marker_is(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    first, second = make_topic(), make_topic()
    before, after = (
        Query.writing(
            topic,
            {"bootstrap.servers": kafka.bootstrap_servers},
            transactional_id=first,
            partitions=1,
            owners=1,
            rows=5,
        )
        for topic in (first, second)
    )
    before.driver().write(0, before.batch(0))
    with pytest.raises(BatchRefusedError, match=rf"for topic '{first}' is of batch 0, .* begins_with=1 skips"):
        after.driver().write(1, after.batch(1))
    written = after.driver(begins_with=1).write(1, after.batch(1))
    producer_cache._cache_of_process().empty()

    assert written.records == 5
    assert read(kafka.bootstrap_servers, second) == [[b"1-%d" % row for row in range(5)]]


@pytest.mark.thorough("needs a broker that forgets ids")
@only_long("a broker of its own")
def test_a_producer_id_that_brokers_forgot_is_replaced_by_the_next_driver() -> None:
    """They do after seven days without a batch; the next test covers the marker of the same age."""
    soon = {
        "transactional.id.expiration.ms": 500,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
        "producer.id.expiration.ms": 500,
        "producer.id.expiration.check.interval.ms": 200,
    }
    with KafkaCluster(config=soon) as kafka:
        query = query_to(kafka)
        config = {"bootstrap.servers": kafka.bootstrap_servers}
        driver = query.driver()
        driver.write(0, query.batch(0))
        await_true(lambda: not list_transactions(config, "query"))
        try:
            driver.write(1, query.batch(1))
        except ProducerFencedError as fenced:
            print(f"the driver: {fenced}")
            query.driver().write(1, query.batch(1))

        assert committed(kafka) == Counter(query.values(2))


@pytest.mark.thorough("needs a broker that forgets ids")
@only_long("a minute")
def test_an_expired_marker_needs_a_flag_before_anything_is_written() -> None:
    soon = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1_000}
    with KafkaCluster(config=soon) as kafka:
        query = query_to(kafka)
        query.driver().write(0, query.batch(0))
        await_true(lambda: group_offsets(kafka.bootstrap_servers, "query", "rows") == [-1])
        with pytest.raises(BatchRefusedError, match=r"there is no marker .* the marker expired .* set begins_with=1"):
            query.driver().write(1, query.batch(1))
        assert committed(kafka) == Counter(query.values(1))
        query.driver(begins_with=1).write(1, query.batch(1))

        assert committed(kafka) == Counter(query.values(2))
