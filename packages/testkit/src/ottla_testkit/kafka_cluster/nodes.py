"""The processes of a cluster: its nodes, and the ZooKeeper of old versions, from their launch to their end.

This module decides which processes a cluster has, and when each has started. `node` and `zookeeper` run them,
`cluster_config` has their settings, and `readiness` waits for them.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.errors import ClusterError
from ottla_testkit.java.class_archive import ClassArchive
from ottla_testkit.java.jvm import jvm_command
from ottla_testkit.java.release import needs_zookeeper
from ottla_testkit.kafka_cluster.cluster_config import ClusterConfig
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.node_settings import properties_text, zookeeper_settings
from ottla_testkit.kafka_cluster.readiness import await_node, await_return, await_zookeeper
from ottla_testkit.kafka_cluster.storage import format_storage
from ottla_testkit.kafka_cluster.zookeeper import ZooKeeper
from ottla_testkit.processes.free_ports import HOST, free_ports, is_free
from ottla_testkit.processes.interrupts import interrupts_deferred


class Nodes:
    """The nodes of a cluster by number; there are none before `launch` and after `end`."""

    def __init__(self, config: ClusterConfig) -> None:
        self.java: Sequence[str] = ()
        """The command of the nodes' Java, without a main class."""
        self._config = config
        self._folder: Path | None = None
        self._archive: ClassArchive | None = None  # recorded by node 1
        self._zookeeper: ZooKeeper | None = None
        self._nodes: dict[int, Node] = {}
        self._controllers: dict[int, int] = {}  # a port for each node; unused with a ZooKeeper

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number]

    def __contains__(self, number: int) -> bool:
        return number in self._nodes

    @property
    def folder(self) -> Path:
        """The folder with every file of the processes, while it exists."""
        if self._folder is None:
            raise ClusterError("the cluster is not running; it runs only inside its `with` block")
        return self._folder

    @property
    def all(self) -> Sequence[Node]:
        """Every node, whether it runs or not."""
        return list(self._nodes.values())

    @property
    def running(self) -> list[int]:
        """The nodes whose process runs; paused ones are included."""
        return [number for number, node in self._nodes.items() if node.running]

    @property
    def answering(self) -> Sequence[Node]:
        """The nodes that run and are not paused."""
        return [node for node in self._nodes.values() if node.answering]

    @property
    def any_answering(self) -> Node:
        """A node that runs and is not paused; `ClusterError` if there is none."""
        for node in self.answering:
            return node
        raise ClusterError(f"every node is stopped or paused (running: {self.running})")

    def launch(self, java: str, *, jars: Path) -> None:
        """Start every process, on ports that are free now; return when every node serves."""
        if self._config.port is not None and not is_free(self._config.port):
            raise ClusterError(f"another server uses port {self._config.port} of {HOST}; choose another one")
        self._folder = folder = Path(tempfile.mkdtemp(prefix="ottla-kafka-"))
        archive = None if self._config.sustained else ClassArchive(java, jars=jars, scratch=folder)
        self.java = jvm_command(
            java,
            version=self._config.version,
            jars=jars,
            heap=self._config.heap,
            folder=folder,
            options=(*self._config.jvm_options, *(() if archive is None else archive.options)),
            sustained=self._config.sustained,
            class_path=self._config.class_path,
        )
        numbers = self._config.nodes
        ports = free_ports(2 * len(numbers))
        if self._config.port is not None:
            ports[0] = self._config.port
        for number, port in zip(numbers, ports[: len(numbers)], strict=True):
            # An archive belongs to exactly the classes that it was recorded with; Java can only add to them.
            records = archive is not None and archive.wanted and number == 1 and not self._config.class_path
            recording = archive.recording if archive is not None and records else ()
            command = [*self.java, *recording, "kafka.Kafka"]
            self._nodes[number] = Node(number, folder=folder, port=port, command=command)
        if needs_zookeeper(self._config.version):
            self._prepare_zookeeper_broker(folder, port=ports[len(numbers)])
        else:
            self._controllers = dict(zip(numbers, ports[len(numbers) :], strict=True))
            self._prepare_by_kraft()
        if self._config.distant is not None:
            self._config.distant.start()
        self.start(numbers)
        self._archive = None if self._config.class_path else archive

    def start(self, numbers: Sequence[int]) -> None:
        """Start those of the nodes that do not run; return when all of them serve and know every node that answers."""
        started = [self._nodes[number] for number in numbers]
        for node in started:
            if node.running:
                continue
            if self._zookeeper is not None:
                await_zookeeper(self._zookeeper, without=node.number)
            node.start()
        for node in started:
            await_node(node, others=[other.number for other in self.answering])
            await_return(node)

    def move(self, number: int) -> None:
        """Give a stopped node another port, which it uses from its next start on."""
        moved = self._nodes[number]
        if moved.running:
            raise ClusterError(f"node {number} is running; stop it before you move it")
        moved.port = free_ports(1)[0]
        if self._config.distant is not None:
            self._config.distant.move(number)
        self._write_properties(moved)

    def end(self) -> None:
        """End every process and remove every file.

        The first cluster of a version shuts down normally and stores the recorded archive of its classes.
        """
        try:
            self._keep_classes()
        finally:
            with interrupts_deferred():
                self._kill_all()

    def drop_recording(self) -> None:
        """Store no archive at the end, because the nodes may not have run as usual."""
        self._archive = None

    def _kill_all(self) -> None:
        for node in self._nodes.values():
            node.kill()
        self._nodes = {}
        if self._config.distant is not None:
            self._config.distant.close()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _keep_classes(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None and archive.wanted and all(node.answering for node in self._nodes.values()):
            with contextlib.suppress(ClusterError):  # it did not end in time; the next cluster tries again to record
                self._nodes[1].stop()
                archive.keep()

    def _prepare_by_kraft(self) -> None:
        for node in self._nodes.values():
            self._write_properties(node)
        format_storage(self.all, java=self.java, config=self._config)

    def _prepare_zookeeper_broker(self, folder: Path, *, port: int) -> None:
        self._zookeeper = zookeeper = ZooKeeper(folder=folder, port=port, java=self.java)
        zookeeper.properties.write_text(properties_text(zookeeper_settings(port=port, data=zookeeper.data)))
        for node in self._nodes.values():
            self._write_properties(node)
        zookeeper.start()

    def _write_properties(self, node: Node) -> None:
        zookeeper = None if self._zookeeper is None else self._zookeeper.port
        self._config.write_properties(node, controllers=self._controllers, zookeeper=zookeeper)
