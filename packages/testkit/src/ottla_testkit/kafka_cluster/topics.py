"""The topics of a running cluster: created, located, and read from the nodes' files.

This module decides which node gets a request. `admin_requests` sends it, and `readiness` waits for its effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla_testkit.errors import ClusterError
from ottla_testkit.java.release import release
from ottla_testkit.kafka_cluster import admin_requests
from ottla_testkit.kafka_cluster.node_settings import Setting, text
from ottla_testkit.kafka_cluster.nodes import Nodes
from ottla_testkit.kafka_cluster.readiness import await_controller, await_in_sync, await_topic
from ottla_testkit.kafka_cluster.tools import dump_segments


class Topics:
    """The topics on these nodes; *version* is the Kafka version that the nodes run."""

    def __init__(self, nodes: Nodes, *, version: str) -> None:
        self._nodes = nodes
        self._version = version

    def create(self, name: str, *, partitions: int, replication: int, config: Mapping[str, Setting]) -> None:
        """Create a topic; return when every answering node knows its leaders, and they serve it."""
        refusal = admin_requests.create_topic(
            self._nodes[self._controller()].address,
            name,
            api_version=2 if release(self._version) >= (0, 11) else 1,
            partitions=partitions,
            replication=replication,
            config={key: text(value) for key, value in config.items()},
        )
        if refusal:
            raise ClusterError(f"cannot create topic {name!r}: error {refusal.code} {refusal.message}")
        for node in self._nodes.answering:
            await_topic(node, name, partitions=partitions)

    def leader(self, topic: str, partition: int) -> int:
        """Return the leader of a partition, according to any answering node; -1 while there is none."""
        metadata = admin_requests.metadata(self._nodes.any_answering.address, topic=topic)
        return metadata.leaders.get(partition, -1)

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the next offset of a partition, according to its leader."""
        leader = self.leader(topic, partition)
        if leader in self._nodes:
            offsets = admin_requests.end_offsets(self._nodes[leader].address, topic, [partition])
            if partition in offsets:
                return offsets[partition]
        raise ClusterError(f"{topic}-{partition} has no leader that serves it")

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all answering nodes name the same leaders of a topic and have all its replicas in sync."""
        await_in_sync(self._nodes.answering, topic)

    def dump_log(self, topic: str, partition: int, *, node: int | None) -> str:
        """Return the batches and records in the files of a node, by default the leader's."""
        holder = self.leader(topic, partition) if node is None else node
        if holder not in self._nodes:
            raise ClusterError(f"{topic}-{partition} has no leader; name the node whose files to read")
        segments = sorted((self._nodes[holder].data / f"{topic}-{partition}").glob("*.log"))
        if not segments:
            raise ClusterError(f"node {holder} has no files of {topic}-{partition}")
        return dump_segments(self._nodes.java, segments, version=self._version)

    def _controller(self) -> int:
        among = [node.number for node in self._nodes.answering]
        return await_controller(self._nodes.any_answering, among=among)
