"""When a node can be said to serve, and the waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ottla_testkit import wire
from ottla_testkit.errors import ClusterError, PortTaken, tail
from ottla_testkit.node import Node

READY_WITHIN = 60.0  # seconds
_LOOK_AGAIN = 0.05
_PROBE_WITHIN = 2.0


def await_node(node: Node, *, others: Collection[int]) -> None:
    """Until a started node serves and knows the others; else an error with the tail of its log."""
    _wait(node, "is not ready", lambda: _serves(node, others))


def await_topic(node: Node, topic: str, *, partitions: int) -> None:
    """Until a node knows a leader of every partition, and serves those that it leads itself."""
    _wait(node, f"does not serve the new topic {topic}", lambda: _serves_topic(node, topic, partitions))


def _serves(node: Node, others: Collection[int]) -> bool:
    return node.started and set(others) <= wire.metadata(node.address, timeout=_PROBE_WITHIN).brokers


def _serves_topic(node: Node, topic: str, partitions: int) -> bool:
    leaders = wire.metadata(node.address, topic=topic, timeout=_PROBE_WITHIN).leaders
    if sum(leader >= 0 for leader in leaders.values()) < partitions:
        return False
    # A broker names itself a leader some milliseconds before it is one.
    own = sorted(partition for partition, leader in leaders.items() if leader == node.number)
    return own == sorted(wire.end_offsets(node.address, topic, own, timeout=_PROBE_WITHIN))


def _wait(node: Node, trouble: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and node.running:
        try:
            if done():
                return
        except OSError:
            pass  # not listening yet, or ending
        time.sleep(_LOOK_AGAIN)
    kind = PortTaken if node.port_taken else ClusterError
    raise kind(f"node {node.number} {trouble} (exit code {node.exit_code}); it printed:\n{tail(node.log)}")
