"""The configuration of a test cluster: its nodes, their version, their Java options and the properties of each.

It starts nothing. `node_settings`, `security` and `distant_listeners` have the settings that it combines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from ottla_testkit.errors import ClusterError
from ottla_testkit.java.release import release
from ottla_testkit.kafka_cluster.distant_listeners import DistantListeners
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.node_settings import (
    Setting,
    kraft_settings,
    properties_text,
    zookeeper_broker_settings,
)
from ottla_testkit.kafka_cluster.security import Security

_FIRST_WITH_SECURITY = (3, 5)


@attrs.frozen(kw_only=True)
class ClusterConfig:
    """The arguments of `KafkaCluster`, with the numbers of its nodes."""

    nodes: Sequence[int]
    version: str
    properties: Mapping[str, Setting]
    """Settings of every broker, which replace those of the testkit."""
    heap: str
    sustained: bool
    security: Security | None
    distant: DistantListeners | None
    class_path: Sequence[Path] = ()
    """Places of classes besides the jars of Kafka."""
    port: int | None = None
    """The port of the first node; None: a free one."""

    def __attrs_post_init__(self) -> None:
        number = release(self.version)  # raises ClusterError for a version that is too old
        if self.security is not None and (len(self.nodes) > 1 or number < _FIRST_WITH_SECURITY):
            raise ClusterError(
                "the testkit starts listeners with TLS and SASL only on a single node of Kafka 3.5 or later"
            )

    @property
    def jvm_options(self) -> Sequence[str]:
        """Options of every process's Java."""
        return () if self.security is None else self.security.jvm_options

    @property
    def format_options(self) -> Sequence[str]:
        """Options for formatting the storage of nodes with KRaft."""
        return () if self.security is None else self.security.format_options

    def choose_ports(self) -> None:
        """Choose other ports for the listeners that are added to the plain one."""
        if self.security is not None:
            self.security.choose_ports()
        if self.distant is not None:
            self.distant.choose_ports()

    def write_properties(self, node: Node, *, controllers: Mapping[int, int], zookeeper: int | None) -> None:
        """Write a node's properties file, for the ports of all controllers, or for the port of a ZooKeeper."""
        if zookeeper is None:
            settings = kraft_settings(node.number, port=node.port, controllers=controllers, data=node.data)
        else:
            settings = zookeeper_broker_settings(
                node.number, port=node.port, zookeeper=zookeeper, nodes=len(self.nodes), data=node.data
            )
        if self.security is not None:
            settings = self.security.broker_settings(settings)
        if self.distant is not None:
            settings = self.distant.broker_settings(node.number, settings)
        node.properties.write_text(properties_text({**settings, **self.properties}))
