"""Drivers on three brokers of which the leader of the ledger is paused for so long that another one takes its place."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import attrs
import pytest
from ledger_kit import attempts, entry, prepare, settings

from ottla.config import as_written
from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.driver.commit import commit
from ottla_spark.exactly_once.driver.plan import Plan, leased, plan
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Status
from ottla_spark.exactly_once.ledger.lease import lease_id
from ottla_spark.exactly_once.ledger.topic import own_topic
from ottla_spark.exactly_once.settings import Settings
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import metadata
from spark_kit import WITHIN
from transactions_kit import await_true, coordinator, new_id

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IN_ITS_SOCKET = 1.0
"""Seconds for the request of a driver to reach the paused broker; that may also be too few, and the test passes."""


@pytest.fixture
def driver(three_kafkas: KafkaCluster) -> Iterator[KafkaClusterClient]:
    """A driver that knows the leader of its ledger, which does not coordinate its lease."""
    for _ in range(100):
        name = new_id()
        made = KafkaClusterClient(settings(three_kafkas, name, ledger_replication_factor="3"))
        plan(made, name)
        if three_kafkas.leader(own_topic(name)) != coordinator(three_kafkas, lease_id(name)):
            break
        made.close()
    yield made
    made.close()


def test_a_driver_reads_no_ledger_of_a_leader_that_was_replaced(
    three_kafkas: KafkaCluster, driver: KafkaClusterClient
) -> None:
    """The broker that was paused answers what has waited in its socket before it learns that it leads no more."""
    name = driver._settings.name
    topic, ledger = "t", own_topic(name)
    three_kafkas.create_topic(topic, partitions=3, replication=3)
    three_kafkas.wait_in_sync(ledger)
    commit(driver, attempts(plan(driver, name), prepare(three_kafkas, topic, name, 0)), batch=0)
    late = prepare(three_kafkas, topic, name, 1)
    paused = three_kafkas.leader(ledger)
    [near, *_] = [node for node in three_kafkas.nodes if node != paused]
    three_kafkas.pause(paused)
    await_true(lambda: metadata(three_kafkas.address(near), topic=ledger).leaders[0] not in (-1, paused))
    _record(three_kafkas, late, driver._settings, near=near)
    found: list[Plan] = []
    planning = threading.Thread(target=lambda: found.append(plan(driver, name)), daemon=True)
    planning.start()
    planning.join(IN_ITS_SOCKET)
    three_kafkas.resume(paused)
    planning.join(WITHIN)

    assert [each.last for each in found] == [entry(late, batch=1, status=Status.DONE)]


def _record(kafka: KafkaCluster, late: PreparedTransaction, of: Settings, *, near: int) -> None:
    """Record the next batch, as another driver does that then dies. It knows only the broker that is *near*."""
    host, port = kafka.address(near)
    producer = as_written({**of.producer, "bootstrap.servers": f"{host}:{port}"})
    other = KafkaClusterClient(attrs.evolve(of, producer=producer))
    try:
        lease, _ledger = leased(other, of.name)
        other.append(lease, entry(late, batch=1))
    finally:
        other.close()
