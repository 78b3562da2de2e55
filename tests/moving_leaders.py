"""Three brokers of which clients reach each by a proxy, and whose leaders a test moves between append and answer.

Node 1 is the only controller, so no other one is missed: node 2 may be out of the client's reach, and node 3 frozen.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import call, metadata
from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.kafka_cluster.nodes import Nodes
from ottla_testkit.kafka_cluster.topics import Topics
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.proxy import CuttingProxy

FROM, TO, LAGGING = 1, 2, 3
"""The leader when the record is sent, the leader afterwards, and the broker that delays the acknowledgement."""

WITHIN = 60.0
ELECT_LEADERS = 43
SETTINGS: dict[str, Setting] = {
    "broker.session.timeout.ms": 30_000,  # Kafka 4.3 registers a node that returns only once its last session has ended
    "replica.lag.time.max.ms": 60_000,
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.enable": "false",
}


class MovingLeaders(KafkaCluster):
    """The cluster. `proxies` are the ways of clients to each node."""

    def __init__(self, *, version: str) -> None:
        super().__init__(nodes=3, version=version, config=SETTINGS)
        self.proxies: dict[int, CuttingProxy] = {}
        self._nodes = NodesBehindProxies(self._config, self.proxies)
        self._topics = Topics(self._nodes, version=version)
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        ports = free_ports(len(self.nodes))
        self.proxies.update((node, CuttingProxy(HOST, port)) for node, port in zip(self.nodes, ports, strict=True))
        for proxy in self.proxies.values():
            self._running.enter_context(proxy)
        return super().__enter__()

    def close(self) -> None:
        super().close()
        self._running.close()

    @property
    def client_servers(self) -> str:
        """`host:port` of node 1's proxy."""
        return self.proxies[FROM].bootstrap_servers

    def create_topics(self, names: list[str]) -> None:
        """Topics of one partition each, which node 1 leads, although node 2 is the one that is preferred."""
        admin = AdminClient({"bootstrap.servers": self.near_servers})
        config = {"min.insync.replicas": "2"}
        asked = admin.create_topics(
            [
                NewTopic(name, num_partitions=1, replica_assignment=[[TO, FROM, LAGGING]], config=config)
                for name in names
            ]
        )
        for created in asked.values():
            created.result(WITHIN)
        until(lambda: all(self.leader(name) == TO for name in names))
        self.stop(TO)
        until(lambda: all(self.leader(name) == FROM for name in names))
        self.start(TO)
        for name in names:
            self.wait_in_sync(name)

    def size(self, topic: str, node: int) -> int:
        """The bytes that a node's log of a topic has."""
        return sum(log.stat().st_size for log in (self._nodes[node].data / f"{topic}-0").glob("*.log"))

    @contextlib.contextmanager
    def lagging(self) -> Iterator[None]:
        """Nothing is acknowledged, for a replica in sync does not copy it; and the client reaches node 1 only."""
        for node in (TO, LAGGING):
            self.proxies[node].refuse()
            self.proxies[node].cut()
        self.pause(LAGGING)
        try:
            yield
        finally:
            self.resume(LAGGING)
            for node in (TO, LAGGING):
                self.proxies[node].accept()

    def move_leader(self, topic: str) -> None:
        """Have the preferred leader lead."""
        name = topic.encode()
        wanted = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, 0, 20_000)
        call(self.address(FROM), ELECT_LEADERS, 0, wanted, WITHIN)
        until(lambda: metadata(self.address(FROM), topic=topic).leaders[0] == TO)


class NodesBehindProxies(Nodes):
    """The nodes: each has a listener that advertises its proxy, and only the first one is a controller."""

    def __init__(self, config: ClusterConfig, proxies: Mapping[int, CuttingProxy]) -> None:
        super().__init__(config)
        self._proxies = proxies

    def _write_properties(self, node: Node) -> None:
        super()._write_properties(node)
        proxy = self._proxies[node.number]
        inside = f"PLAINTEXT://{HOST}:{node.port}"
        outside = proxy._target[1]
        controller = f",CONTROLLER://{HOST}:{self._controllers[FROM]}" if node.number == FROM else ""
        more = {
            "process.roles": "broker,controller" if node.number == FROM else "broker",
            "controller.quorum.voters": f"{FROM}@{HOST}:{self._controllers[FROM]}",
            "listeners": f"{inside},CLIENTS://{HOST}:{outside}{controller}",
            "advertised.listeners": f"{inside},CLIENTS://{proxy.bootstrap_servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        with node.properties.open("a", encoding="utf-8") as properties:
            properties.writelines(f"{key}={value}\n" for key, value in more.items())


def until(happened: Callable[[], object]) -> None:
    """Wait for what a broker does."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, KeyError):
            if happened():
                return
        time.sleep(0.05)
    raise AssertionError("a minute, and it has not happened")
