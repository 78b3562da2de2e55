"""Three brokers of which clients reach each by a proxy: brokers talk to each other directly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from ottla_testkit.java.jars import KAFKA_VERSION
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.kafka_cluster.nodes import Nodes
from ottla_testkit.kafka_cluster.topics import Topics
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.proxy import CuttingProxy

NODES = 3


class ClusterBehindProxies(KafkaCluster):
    """The cluster. `proxies` are the ways of clients to each node; *proxy* makes one to a port.

    *protocol* is that of the clients' listener. *controllers*: by default each node is one.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, Setting],
        version: str = KAFKA_VERSION,
        protocol: str = "PLAINTEXT",
        controllers: Sequence[int] = (),
        proxy: Callable[[str, int], CuttingProxy] = CuttingProxy,
    ) -> None:
        super().__init__(nodes=NODES, version=version, config=config)
        self.proxies: dict[int, CuttingProxy] = {}
        self._proxy = proxy
        self._nodes = _NodesBehindProxies(self._config, self.proxies, protocol, controllers)
        self._topics = Topics(self._nodes, version=version)
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for node, port in zip(self.nodes, free_ports(len(self.nodes)), strict=True):
            self.proxies[node] = self._running.enter_context(self._proxy(HOST, port))
        return super().__enter__()

    def close(self) -> None:
        super().close()
        self._running.close()

    @property
    def client_servers(self) -> str:
        """`host:port` of each proxy."""
        return ",".join(proxy.bootstrap_servers for proxy in self.proxies.values())


class _NodesBehindProxies(Nodes):
    """The nodes: each has a listener more, which advertises its proxy."""

    def __init__(
        self, config: ClusterConfig, proxies: Mapping[int, CuttingProxy], protocol: str, controllers: Sequence[int]
    ) -> None:
        super().__init__(config)
        self._proxies = proxies
        self._protocol = protocol
        self._only_controllers = controllers

    def _write_properties(self, node: Node) -> None:
        super()._write_properties(node)
        proxy = self._proxies[node.number]
        inside = f"PLAINTEXT://{HOST}:{node.port}"
        listeners = [inside, f"CLIENTS://{HOST}:{proxy._target[1]}"]
        controls = not self._only_controllers or node.number in self._only_controllers
        if controls:
            listeners.append(f"CONTROLLER://{HOST}:{self._controllers[node.number]}")
        more = {
            "listeners": ",".join(listeners),
            "advertised.listeners": f"{inside},CLIENTS://{proxy.bootstrap_servers}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CLIENTS:{self._protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        if self._only_controllers:
            voters = (f"{number}@{HOST}:{self._controllers[number]}" for number in self._only_controllers)
            more["controller.quorum.voters"] = ",".join(voters)
            more["process.roles"] = "broker,controller" if controls else "broker"
        with node.properties.open("a", encoding="utf-8") as properties:
            properties.writelines(f"{key}={value}\n" for key, value in more.items())
