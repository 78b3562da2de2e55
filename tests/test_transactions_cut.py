"""Connections cut in the middle of transactions, and brokers that change how they speak of them."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise

import pytest
from long_forms import LONG

from ottla.errors import FlushTimeoutError, IllegalStateError, TransactionTimeoutError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from ottla_testkit.proxy import Cut, CuttingProxy
from transactions_kit import (
    WAIT,
    chance,
    committed,
    group_offsets,
    new_id,
    read,
    send,
    transactional,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TRANSACTIONS = 400 if LONG else 60
CUTS = 400 if LONG else 60
PARTITIONS = 3


@pytest.mark.parametrize("level", [2, pytest.param(0, marks=pytest.mark.thorough("the gate has version 2"))])
def test_randomly_cut_connections_leave_whole_transactions_as_reported(
    proxied_kafka: tuple[KafkaCluster, CuttingProxy], level: int
) -> None:
    """Also the connection that the end of a transaction is asked on, and its answer."""
    kafka, proxy = proxied_kafka
    random, group = chance(f"cuts at {level}"), new_id()
    plan = [
        Cut(after=random.randint(1, 300), from_target=True)
        if random.random() < 0.5
        else Cut(after=random.randint(1, 2_000))
        for _ in range(CUTS)
    ]
    kept: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    position = -1
    set_feature(kafka.address(1), TRANSACTION_VERSION, level)
    kafka.create_topic("t", partitions=PARTITIONS)
    soon = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 20, "retry_backoff_ms": 1}
    with transactional(kafka, batch_size=400, retry_backoff_max_ms=20, **soon) as producer:
        proxy.cut_by(plan)
        producer.init_transactions()
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            values = [b"%d.%d" % (number, record) for record in range(random.randint(1, 40))]
            send(producer, "t", values)
            if random.random() < 0.3:
                producer.flush(WAIT)
            if with_offsets := random.random() < 0.5:
                producer.send_offsets_to_transaction({("t", 0): number}, group)
            if random.random() < 0.2:
                producer.abort_transaction()
                continue
            producer.commit_transaction()
            position = number if with_offsets else position
            for partition in kept:
                partition += values
    proxy.cut_by([])
    found = read(kafka.bootstrap_servers, "t", partitions=PARTITIONS)
    [offset] = group_offsets(kafka.bootstrap_servers, group, "t")

    assert found == kept
    assert offset == position
    assert proxy.cuts > CUTS // 4


@pytest.mark.parametrize("level", [2, 0])
def test_an_abort_at_a_frozen_broker_leaves_a_producer_that_writes(kafka: KafkaCluster, level: int) -> None:
    """The broker begins the transaction when it goes on, after the producer has asked for the end of it."""
    topic = new_id()
    kafka.create_topic(topic, partitions=PARTITIONS)
    try:
        set_feature(kafka.address(1), TRANSACTION_VERSION, level)
        with transactional(kafka, request_timeout_ms=500, retry_backoff_max_ms=100, linger_ms=0) as producer:
            producer.init_transactions()
            with producer.transaction():
                send(producer, topic, [b"before"])
            time.sleep(1.0)  # else the coordinator refuses the next transaction, because it still ends this one
            kafka.pause(1)
            try:
                producer.begin_transaction()
                send(producer, topic, [b"aborted"])
                with pytest.raises(FlushTimeoutError):
                    producer.flush(1.0)  # the response to the first request does not come within its time-out
                with suppress(TransactionTimeoutError):
                    producer.abort_transaction(0.5)
            finally:
                kafka.resume(1)
            with suppress(IllegalStateError):  # it has ended
                producer.abort_transaction()
            with producer.transaction():
                send(producer, topic, [b"after"])
    finally:
        set_feature(kafka.address(1), TRANSACTION_VERSION, 2)

    assert committed(kafka, topic) == [[b"before", b"after"]] * PARTITIONS


def test_feature_changes_of_brokers_during_production_lose_nothing(kafka: KafkaCluster) -> None:
    """Raised within transactions too. Not lowered to 0 under a producer of the new kind: 4.3 loses an id to that.

    Its coordinator answers everybody CONCURRENT_TRANSACTIONS from then on, having met an error that it forgets.
    """
    topic, levels = new_id(), [0, 1, 2, 1, 2, 1, 1, 2]
    kafka.create_topic(topic, partitions=PARTITIONS)
    try:
        set_feature(kafka.address(1), TRANSACTION_VERSION, levels[0])
        with transactional(kafka) as producer:
            producer.init_transactions()
            for number, (level, next_level) in enumerate(pairwise(levels)):
                set_feature(kafka.address(1), TRANSACTION_VERSION, level)
                with producer.transaction():
                    send(producer, topic, [b"%d.0" % number])
                    producer.flush(WAIT)
                    if next_level > level:
                        set_feature(kafka.address(1), TRANSACTION_VERSION, next_level)
                    send(producer, topic, [b"%d.1" % number])
                with producer.transaction():
                    send(producer, topic, [b"%d.2" % number])
    finally:
        set_feature(kafka.address(1), TRANSACTION_VERSION, 2)

    expected = [b"%d.%d" % (number, part) for number in range(len(levels) - 1) for part in range(3)]
    assert committed(kafka, topic) == [expected] * PARTITIONS
