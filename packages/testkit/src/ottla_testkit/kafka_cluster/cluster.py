"""A real Kafka cluster on 127.0.0.1 for the duration of a `with` block.

It decides which processes make up a cluster. `node` and `zookeeper` run them, `node_settings` has their settings,
`readiness` waits for them, and `admin_requests` has the requests. Not for use by several threads at the same time.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ottla_testkit.errors import ClusterError, PortInUseError
from ottla_testkit.java.class_archive import ClassArchive
from ottla_testkit.java.jars import KAFKA_VERSION, kafka_jars
from ottla_testkit.java.jvm import jvm_command
from ottla_testkit.java.release import needs_zookeeper, release
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import admin_requests
from ottla_testkit.kafka_cluster.distant_listeners import DistantListeners
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.node_settings import (
    Setting,
    beside_zookeeper,
    kraft_settings,
    properties_text,
    text,
    zookeeper_settings,
)
from ottla_testkit.kafka_cluster.readiness import (
    await_controller,
    await_in_sync,
    await_node,
    await_return,
    await_topic,
    await_zookeeper,
)
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.kafka_cluster.tools import dump_segments, format_nodes
from ottla_testkit.kafka_cluster.zookeeper import ZooKeeper
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.processes.interrupts import interrupts_deferred


class KafkaCluster:
    """`nodes` combined brokers and controllers with ids from 1; `config` adds to every broker's settings.

    With `sustained`, brokers are compiled as in production, which takes a minute of load and makes rates and latencies
    meaningful; otherwise they start quickly. `heap` is a broker's maximum heap, by default 1g with `sustained`, else
    256m. `security` adds listeners with TLS and SASL to a single node of 3.5 or later. `version` may be any from 0.10.2
    on; before 3.3 the nodes are brokers only, with a ZooKeeper.

    `round_trip` delays every broker by that many seconds: clients that use `bootstrap_servers` reach all nodes through
    delaying proxies. Nodes reach each other, and this class and the other listeners reach them, without a delay.

    Entering fetches missing jars and returns when every node serves; leaving ends every process and removes every file.
    Where Python is killed the processes end, too. Raises `KafkaUnavailableError` without Java or jars, else
    `ClusterError`.
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
    ) -> None:
        self.nodes = list(range(1, nodes + 1))
        self.version = version
        self._release = release(version)
        if security is not None and (nodes > 1 or self._release < (3, 5)):
            raise ClusterError("only a single node of Kafka 3.5 or later can have listeners with TLS and SASL")
        self._config = dict(config or {})
        self._heap = heap or ("1g" if sustained else "256m")
        self._sustained = sustained
        self._security = security
        self._distant = None if round_trip is None else DistantListeners(self.nodes, round_trip=round_trip)
        self._folder: Path | None = None
        self._archive: ClassArchive | None = None  # recorded by node 1
        self._java: list[str] = []
        self._zookeeper: ZooKeeper | None = None
        self._nodes: dict[int, Node] = {}
        self._controllers: dict[int, int] = {}  # a port for each node; unused with a ZooKeeper

    def __enter__(self) -> Self:
        java, jars = java_command(), kafka_jars(self.version)
        try:
            try:
                self._launch(java, jars=jars)
            except PortInUseError:  # a single failure is bad luck
                self.close()
                if self._security is not None:
                    self._security.choose_ports()
                if self._distant is not None:
                    self._distant.choose_ports()
                self._launch(java, jars=jars)
        except BaseException:
            self._archive = None
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._archive = None
        self.close()

    def close(self) -> None:
        """End every process and remove every file; leaving the `with` block does it.

        The first cluster of a version shuts down normally, which takes some seconds, and later ones start faster.
        """
        try:
            self._keep_classes()
        finally:
            self._end()

    @property
    def folder(self) -> Path:
        """The folder with every file of the cluster, while it exists."""
        if self._folder is None:
            raise ClusterError("the cluster is not running; it does so inside `with`")
        return self._folder

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...` of every node; with *round_trip* those of the proxies in front of them."""
        return self.near_servers if self._distant is None else self._distant.bootstrap_servers

    @property
    def near_servers(self) -> str:
        """`host:port,...` of every node without any delay."""
        return ",".join(f"{host}:{port}" for host, port in (node.address for node in self._nodes.values()))

    @property
    def round_trip(self) -> float:
        """Seconds of a round trip between clients and every broker. Can be set, given the argument *round_trip*."""
        return 0.0 if self._distant is None else self._distant.round_trip

    @round_trip.setter
    def round_trip(self, seconds: float) -> None:
        if self._distant is None:
            raise ClusterError("the cluster was made without round_trip=..., so clients connect to it directly")
        self._distant.round_trip = seconds

    @property
    def running(self) -> list[int]:
        """The nodes whose process runs; paused ones are included."""
        return [number for number, node in self._nodes.items() if node.running]

    def listener(self, name: str) -> str:
        """`host:port` of one of `security.LISTENERS`; only a cluster with *security* has them."""
        if self._security is None:
            raise ClusterError("the cluster was started without security")
        return f"{HOST}:{self._security.ports[name]}"

    def address(self, node: int) -> admin_requests.Address:
        """Host and port of a node."""
        return self._nodes[node].address

    def pid(self, node: int) -> int:
        """Return the process id of a node's latest start."""
        return self._nodes[node].pid

    def log(self, node: int) -> str:
        """Return the output of a node so far, over all its starts."""
        return self._nodes[node].log

    def data_folder(self, node: int) -> Path:
        """Return the folder with a node's partitions."""
        return self._nodes[node].data

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, Setting] | None = None,
    ) -> None:
        """Create a topic; returns when every answering node knows its leaders, and they serve it."""
        refusal = admin_requests.create_topic(
            self.address(self._controller()),
            name,
            api_version=2 if self._release >= (0, 11) else 1,
            partitions=partitions,
            replication=replication,
            config={key: text(value) for key, value in (config or {}).items()},
        )
        if refusal:
            raise ClusterError(f"cannot create topic {name!r}: error {refusal.code} {refusal.message}")
        for node in self._answering():
            await_topic(node, name, partitions=partitions)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition, according to any responding node; -1 while there is none."""
        return admin_requests.metadata(self._any_node().address, topic=topic).leaders.get(partition, -1)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the next offset of a partition, according to its leader."""
        leader = self.leader(topic, partition)
        if leader in self._nodes:
            offsets = admin_requests.end_offsets(self.address(leader), topic, [partition])
            if partition in offsets:
                return offsets[partition]
        raise ClusterError(f"{topic}-{partition} has no leader that serves it")

    def start(self, node: int, *, wait: bool = True) -> None:
        """Start a node again, with its ports and data; with `wait`, return when it serves."""
        if self._zookeeper is not None:
            await_zookeeper(self._zookeeper, without=node)
        self._nodes[node].start()
        if wait:
            self.wait_ready(node)

    def wait_ready(self, node: int) -> None:
        """Wait until a started node serves and knows every responding node; `ClusterError` after a minute."""
        await_node(self._nodes[node], others=[other.number for other in self._answering()])
        await_return(self._nodes[node])

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all responding nodes name the same leaders of a topic and have all its replicas in sync.

        A node that was just resumed may still take itself for the leader, and one just started lacks what it missed.
        `ClusterError` after a minute.
        """
        await_in_sync(self._answering(), topic)

    def move(self, node: int) -> None:
        """Give a stopped node another port, from its next start on."""
        moved = self._nodes[node]
        if moved.running:
            raise ClusterError(f"node {node} runs; stop it before it can move")
        moved.port = free_ports(1)[0]
        if self._distant is not None:
            self._distant.move(node)
        self._write_settings(moved)

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

    def dump_log(self, topic: str, partition: int = 0, *, node: int | None = None) -> str:
        """Return a partition's batches and records as Kafka's own DumpLogSegments prints them, in order.

        Reads the files of `node`, by default the leader's.
        """
        holder = self.leader(topic, partition) if node is None else node
        if holder not in self._nodes:
            raise ClusterError(f"{topic}-{partition} has no leader; name the node whose files to read")
        segments = sorted((self.data_folder(holder) / f"{topic}-{partition}").glob("*.log"))
        if not segments:
            raise ClusterError(f"node {holder} has no files of {topic}-{partition}")
        return dump_segments(self._java, segments, version=self.version)

    def _launch(self, java: str, *, jars: Path) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="ottla-kafka-"))
        archive = None if self._sustained else ClassArchive(java, jars=jars, scratch=folder)
        options = (
            *(() if self._security is None else self._security.jvm_options),
            *(() if archive is None else archive.options),
        )
        self._java = jvm_command(
            java,
            version=self.version,
            jars=jars,
            heap=self._heap,
            folder=folder,
            options=options,
            sustained=self._sustained,
        )
        count = len(self.nodes)
        found = free_ports(2 * count)
        for number, port in zip(self.nodes, found[:count], strict=True):
            recording = archive.recording if archive is not None and archive.wanted and number == 1 else ()
            command = [*self._java, *recording, "kafka.Kafka"]
            self._nodes[number] = Node(number, folder=folder, port=port, command=command)
        if needs_zookeeper(self.version):
            self._prepare_beside_zookeeper(folder, port=found[count])
        else:
            self._controllers = dict(zip(self.nodes, found[count:], strict=True))
            self._prepare_by_kraft()
        if self._distant is not None:
            self._distant.start()
        for number in self.nodes:
            self.start(number, wait=False)
        for number in self.nodes:
            self.wait_ready(number)
        self._archive = archive

    def _keep_classes(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None and archive.wanted and all(node.answering for node in self._nodes.values()):
            with contextlib.suppress(ClusterError):  # raised when it did not end in time; the next cluster tries again
                self._nodes[1].stop()
                archive.keep()

    def _end(self) -> None:
        with interrupts_deferred():
            for node in self._nodes.values():
                node.kill()
            self._nodes = {}
            if self._distant is not None:
                self._distant.close()
            if self._zookeeper is not None:
                self._zookeeper.kill()
                self._zookeeper = None
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _prepare_by_kraft(self) -> None:
        for node in self._nodes.values():
            self._write_settings(node)
        options = () if self._security is None else self._security.format_options
        format_nodes(self._java, [node.properties for node in self._nodes.values()], options=options)

    def _prepare_beside_zookeeper(self, folder: Path, *, port: int) -> None:
        self._zookeeper = zookeeper = ZooKeeper(folder=folder, port=port, java=self._java)
        zookeeper.properties.write_text(properties_text(zookeeper_settings(port=port, data=zookeeper.data)))
        for node in self._nodes.values():
            self._write_settings(node)
        zookeeper.start()

    def _write_settings(self, node: Node) -> None:
        if self._zookeeper is not None:
            settings = beside_zookeeper(
                node.number, port=node.port, zookeeper=self._zookeeper.port, nodes=len(self.nodes), data=node.data
            )
        else:
            settings = kraft_settings(node.number, port=node.port, controllers=self._controllers, data=node.data)
        if self._security is not None:
            settings = self._security.broker_settings(settings)
        if self._distant is not None:
            settings = self._distant.broker_settings(node.number, settings)
        node.properties.write_text(properties_text(settings | self._config))

    def _answering(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.answering]

    def _controller(self) -> int:
        return await_controller(self._any_node(), among=[node.number for node in self._answering()])

    def _any_node(self) -> Node:
        for node in self._answering():
            return node
        raise ClusterError(f"no node is there to answer (running: {self.running})")
