"""Functions that wait until nodes and topics are ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from ottla_testkit.errors import ClusterError, PortInUseError, tail
from ottla_testkit.kafka_cluster import admin_requests
from ottla_testkit.kafka_cluster.node import Node
from ottla_testkit.kafka_cluster.zookeeper import ZooKeeper
from ottla_testkit.processes.process import Process

READY_WITHIN = 60.0  # seconds
_LOOK_AGAIN = 0.05
_PROBE_WITHIN = 2.0

Found = TypeVar("Found")


def await_zookeeper(zookeeper: ZooKeeper, *, without: int) -> None:
    """Wait until ZooKeeper serves and has ended a node's old session: until then it refuses the node's new one."""
    _wait(zookeeper, f"does not serve, or still knows node {without}", lambda: without not in zookeeper.registered())


def await_node(node: Node, *, others: Collection[int]) -> None:
    """Wait until a started node serves and knows the others; else raise an error with the end of its log."""
    _wait(node, "is not ready", lambda: _serves(node, others))


def await_controller(node: Node, *, among: Collection[int]) -> int:
    """Wait for a controller among these nodes and return it, according to this node."""

    def controller() -> int:
        known = admin_requests.metadata(node.address, timeout=_PROBE_WITHIN).controller
        return known if known in among else 0

    return _wait(node, "knows no controller that answers", controller)


def await_topic(node: Node, topic: str, *, partitions: int) -> None:
    """Wait until a node knows a leader of every partition, and serves those that it leads itself."""
    _wait(node, f"does not serve the new topic {topic}", lambda: _serves_topic(node, topic, partitions))


def await_return(node: Node) -> None:
    """Wait until a started node leads its partitions again. With ZooKeeper, it answers requests some time before."""
    _wait(node, "does not lead its partitions again", lambda: _leads_again(node))


def await_in_sync(nodes: Sequence[Node], topic: str) -> None:
    """Wait until these nodes name the same leaders of a topic, and every replica is in sync."""
    _wait(nodes[0], f"and the others do not agree that {topic} is in sync", lambda: _in_sync(nodes, topic))


def _in_sync(nodes: Sequence[Node], topic: str) -> bool:
    first, *others = [
        admin_requests.metadata(node.address, topic=topic, timeout=_PROBE_WITHIN).partitions for node in nodes
    ]
    whole = all(one.leader >= 0 and one.in_sync == one.replicas for one in first.values())
    return bool(first) and whole and all(other == first for other in others)


def _serves(node: Node, others: Collection[int]) -> bool:
    return node.started and set(others) <= admin_requests.metadata(node.address, timeout=_PROBE_WITHIN).brokers


def _serves_topic(node: Node, topic: str, partitions: int) -> bool:
    known = admin_requests.metadata(node.address, topic=topic, timeout=_PROBE_WITHIN)
    led = sum(leader >= 0 for leader in known.leaders.values())
    return led == partitions and _serves_own(node, topic, known)


def _leads_again(node: Node) -> bool:
    return all(_serves_again(node, topic, kept) for topic, kept in node.kept_partitions.items())


def _serves_again(node: Node, topic: str, kept: Collection[int]) -> bool:
    known = admin_requests.metadata(node.address, topic=topic, timeout=_PROBE_WITHIN)
    waiting = [p for p in known.partitions.values() if p.leader < 0 and node.number in p.in_sync]
    return set(kept) <= known.partitions.keys() and not waiting and _serves_own(node, topic, known)


def _serves_own(node: Node, topic: str, known: admin_requests.Metadata) -> bool:
    # A broker reports itself as leader some milliseconds before it serves the partition.
    own = sorted(partition for partition, leader in known.leaders.items() if leader == node.number)
    return own == sorted(admin_requests.end_offsets(node.address, topic, own, timeout=_PROBE_WITHIN))


def _wait(process: Process, problem: str, look: Callable[[], Found]) -> Found:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.running:
        try:
            if found := look():
                return found
        except OSError:
            pass  # not listening yet, or ending
        time.sleep(_LOOK_AGAIN)
    kind = PortInUseError if process.port_taken else ClusterError
    raise kind(f"{process.name} {problem} (exit code {process.exit_code}); it printed:\n{tail(process.log)}")
