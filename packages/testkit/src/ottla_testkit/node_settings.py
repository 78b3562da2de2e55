"""The properties of one node of a test cluster: combined broker and controller, PLAINTEXT on 127.0.0.1.

Chosen for small and quick: few internal partitions, no waiting for more group members, early elections.
What a producer's tests look at, such as `message.max.bytes`, stays at Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from ottla_testkit.free_ports import HOST

Setting = str | int | float


@attrs.frozen(kw_only=True)
class NodePorts:
    """The ports of a node's two listeners."""

    broker: int
    controller: int


def node_settings(number: int, *, ports: Mapping[int, NodePorts], data: Path) -> dict[str, Setting]:
    """The settings of node `number` among the nodes of `ports`, before the user's own."""
    mine, copies = ports[number], min(3, len(ports))
    return {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{p.controller}" for n, p in ports.items()),
        "listeners": f"PLAINTEXT://{HOST}:{mine.broker},CONTROLLER://{HOST}:{mine.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{mine.broker}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": 1,
        # How long a killed node stays a leader, and has to wait before it can join again.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
    }


def properties_text(settings: Mapping[str, Setting]) -> str:
    """The settings as a Java properties file."""
    return "".join(f"{key}={text(value)}\n" for key, value in settings.items())


def text(value: Setting) -> str:
    """A setting as Java reads it in a properties file: `true` for True, backslashes doubled."""
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\\", "\\\\")
