"""A real Kafka cluster on 127.0.0.1 for the duration of a `with` block, and what a test may do to its nodes and topics.

`nodes` starts and ends its processes, and `topics` creates and reads its topics. It is not for use by several threads
at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ottla_testkit.errors import ClusterError, PortInUseError
from ottla_testkit.java.jars import KAFKA_VERSION, kafka_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster.admin_requests import Address
from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.distant_listeners import DistantListeners
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.kafka_cluster.nodes import Nodes
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.kafka_cluster.topics import Topics
from ottla_testkit.processes.free_ports import HOST
from ottla_testkit.proxy import DelayingProxy


class KafkaCluster:
    """`nodes` combined brokers and controllers with ids from 1; `config` adds to every broker's settings.
    Each node has its own rack, `rack-1` and so on.

    With `sustained`, brokers are compiled as in production, which takes a minute of load and makes rates and latencies
    meaningful; otherwise they start quickly. `heap` is a broker's maximum heap, by default 1g with `sustained`, else
    256m. `security` adds listeners with TLS and SASL to a single node of 3.5 or later. `version` may be any from 0.10.2
    on; before 3.3 the nodes are brokers only, with a ZooKeeper.

    `round_trip` delays every broker by that many seconds: clients that use `bootstrap_servers` reach all nodes through
    delaying proxies. Nodes reach each other, and this class and the other listeners reach them, without a delay.

    `port` is that of the first node; by default all nodes have ports that are free. `ClusterError` if it is in use.

    `class_path` has jars or folders with other classes for the brokers, such as a metrics reporter that `config` names.

    Entering downloads missing jars and returns when every node serves; leaving ends every process and removes every
    file. If Python is killed, the processes end, too. Raises `KafkaUnavailableError` without Java or jars, and
    `ClusterError` for other failures.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        version: str = KAFKA_VERSION,
        config: Mapping[str, Setting] | None = None,
        heap: str | None = None,
        security: Security | None = None,
        sustained: bool = False,
        round_trip: float | None = None,
        class_path: Sequence[Path] = (),
        port: int | None = None,
    ) -> None:
        self.nodes = list(range(1, nodes + 1))
        self.version = version
        self._security = security
        self._distant = None if round_trip is None else DistantListeners(self.nodes, round_trip=round_trip)
        self._config = ClusterConfig(
            nodes=self.nodes,
            version=version,
            properties=dict(config or {}),
            heap=heap or ("1g" if sustained else "256m"),
            sustained=sustained,
            security=security,
            distant=self._distant,
            class_path=class_path,
            port=port,
        )
        self.links: Mapping[int, DelayingProxy] = {} if self._distant is None else self._distant.links
        """The proxy between clients and each node, which can slow, hold and cut it; empty without *round_trip*."""
        self._nodes = Nodes(self._config)
        self._topics = Topics(self._nodes, version=version)

    def __enter__(self) -> Self:
        java, jars = java_command(), kafka_jars(self.version)
        try:
            try:
                self._nodes.launch(java, jars=jars)
            except PortInUseError:  # one retry: another process may have taken a port
                self._nodes.end()
                self._config.choose_ports()
                self._nodes.launch(java, jars=jars)
        except BaseException:
            self._nodes.drop_recording()
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._nodes.drop_recording()
        self.close()

    def close(self) -> None:
        """End every process and remove every file; leaving the `with` block does it.

        The first cluster of a version shuts down normally, which takes some seconds, and later ones start faster.
        """
        self._nodes.end()

    @property
    def folder(self) -> Path:
        """The folder with every file of the cluster, while it exists."""
        return self._nodes.folder

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...` of every node; with *round_trip* those of the proxies in front of them."""
        return self.near_servers if self._distant is None else self._distant.bootstrap_servers

    @property
    def near_servers(self) -> str:
        """`host:port,...` of every node without any delay."""
        return ",".join(f"{host}:{port}" for host, port in (node.address for node in self._nodes.all))

    @property
    def round_trip(self) -> float:
        """Seconds of a round trip between clients and every broker. Settable if the argument *round_trip* was given."""
        return 0.0 if self._distant is None else self._distant.round_trip

    @round_trip.setter
    def round_trip(self, seconds: float) -> None:
        if self._distant is None:
            raise ClusterError("the cluster was made without round_trip=..., so clients connect to it directly")
        self._distant.round_trip = seconds

    def listener(self, name: str) -> str:
        """`host:port` of one of `security.LISTENERS`; only a cluster with *security* has them."""
        if self._security is None:
            raise ClusterError("the cluster was started without security")
        return f"{HOST}:{self._security.ports[name]}"

    # Nodes

    @property
    def running(self) -> list[int]:
        """The nodes whose process runs; paused ones are included."""
        return self._nodes.running

    def address(self, node: int) -> Address:
        """Host and port of a node."""
        return self._nodes[node].address

    def pid(self, node: int) -> int:
        """Return the process id of a node's latest start."""
        return self._nodes[node].pid

    def log(self, node: int) -> str:
        """Return the output of a node so far, over all its starts."""
        return self._nodes[node].log

    def start(self, *nodes: int) -> None:
        """Start nodes again, with their ports and data; a node that runs is left alone.

        Returns when each of *nodes* serves and knows every responding node; `ClusterError` after a minute.
        """
        self._nodes.start(nodes)

    def kill(self, node: int) -> None:
        """Kill a node (SIGKILL)."""
        self._nodes[node].kill()

    def stop(self, node: int) -> None:
        """Shut a node down normally (SIGTERM)."""
        self._nodes[node].stop()

    def pause(self, node: int) -> None:
        """Freeze a node: it keeps its connections and responds to nothing."""
        self._nodes[node].pause()

    def resume(self, node: int) -> None:
        """Resume a paused node."""
        self._nodes[node].resume()

    def move(self, node: int) -> None:
        """Give a stopped node another port, which it uses from its next start on."""
        self._nodes.move(node)

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, Setting] | None = None,
    ) -> None:
        """Create a topic; returns when every node that answers knows the topic's leaders, and these serve it."""
        self._topics.create(name, partitions=partitions, replication=replication, config=config or {})

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition, according to any responding node; -1 while there is none."""
        return self._topics.leader(topic, partition)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the next offset of a partition, according to its leader."""
        return self._topics.end_offset(topic, partition)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all responding nodes name the same leaders of a topic and have all its replicas in sync.

        A node that was just resumed may still take itself for the leader, and one just started lacks what it missed.
        `ClusterError` after a minute.
        """
        self._topics.wait_in_sync(topic)

    def dump_log(self, topic: str, partition: int = 0, *, node: int | None = None) -> str:
        """Return a partition's batches and records as Kafka's own DumpLogSegments prints them, in order.

        The files are those of `node`, by default the leader.
        """
        return self._topics.dump_log(topic, partition, node=node)
