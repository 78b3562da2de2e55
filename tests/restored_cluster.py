"""A real cluster as it was when it started: every node up and in sync, no topics, and no settings of its own.

What a test did to it is undone, and the nodes are checked: each knows all others and serves a new topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)  # fmt: skip

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import metadata
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature
from transactions_kit import await_true

WITHIN: Final = 30.0
NEWEST_TRANSACTIONS: Final = 2


def restore(kafka: KafkaCluster) -> None:
    """Undo what a test did to a cluster of today's version; an error is raised where that fails."""
    for node in kafka.nodes:
        if node in kafka.running:
            kafka.resume(node)
    kafka.start(*kafka.nodes)
    set_feature(kafka.address(1), TRANSACTION_VERSION, NEWEST_TRANSACTIONS)
    admin = AdminClient({"bootstrap.servers": kafka.near_servers, "log_level": 0})
    for node in kafka.nodes:
        _reset_settings(admin, node)
    _check(kafka)
    topics = admin.list_topics(timeout=WITHIN).topics
    internal = {name: topic.partitions for name, topic in topics.items() if name.startswith("__")}
    for name in internal:
        kafka.wait_in_sync(name)
    _prefer_leaders(admin, [TopicPartition(name, number) for name, parts in internal.items() for number in parts])
    _delete(kafka, admin, topics.keys() - internal.keys())


def _reset_settings(admin: AdminClient, node: int) -> None:
    """Delete the settings of one node that were changed while it ran."""
    broker = ConfigResource.Type.BROKER
    [described] = admin.describe_configs([ConfigResource(broker, str(node))]).values()
    changed = [
        ConfigEntry(entry.name, None, incremental_operation=AlterConfigOpType.DELETE)
        for entry in described.result(WITHIN).values()
        if entry.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    ]
    if changed:
        resource = ConfigResource(broker, str(node), incremental_configs=changed)
        [done] = admin.incremental_alter_configs([resource]).values()
        done.result(WITHIN)


def _check(kafka: KafkaCluster) -> None:
    """Create a topic that every node leads a partition of and follows the others of, and wait until all do."""
    probe = f"probe-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(probe, partitions=len(kafka.nodes), replication=len(kafka.nodes))
    kafka.wait_in_sync(probe)
    for partition in range(len(kafka.nodes)):
        assert kafka.end_offset(probe, partition) == 0


def _prefer_leaders(admin: AdminClient, partitions: list[TopicPartition]) -> None:
    """Give partitions their first replica as leader, as in a cluster that has just started."""
    if partitions:
        for error in admin.elect_leaders(ElectionType.PREFERRED, partitions).result(WITHIN).values():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise KafkaException(error)


def _delete(kafka: KafkaCluster, admin: AdminClient, topics: Iterable[str]) -> None:
    """Delete topics; return when no node knows them."""
    names = list(topics)
    for done in admin.delete_topics(names, operation_timeout=WITHIN).values():
        done.result(WITHIN)
    for node in kafka.nodes:
        await_true(
            lambda: not any(metadata(kafka.address(node), topic=name).partitions for name in names),  # noqa: B023
            within=WITHIN,
        )
