"""The properties of a test cluster's processes: PLAINTEXT on 127.0.0.1, with KRaft or with a ZooKeeper.

They keep clusters small and quick: few internal partitions, no waiting for more group members, early elections.
Settings that producer tests depend on, such as `message.max.bytes`, keep Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla_testkit.processes.free_ports import HOST

Setting = str | int | float

# How long a killed node stays the leader, and how long it must wait before it can join again.
SESSION_MS = 4000


def kraft_settings(number: int, *, port: int, controllers: Mapping[int, int], data: Path) -> dict[str, Setting]:
    """Return the settings of node `number`, broker and controller in one, before the user's own.

    `controllers` lists the port of every node's controller.
    """
    copies = _copies(len(controllers))
    return _broker_settings(number, port=port, copies=copies, data=data) | {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{p}" for n, p in controllers.items()),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[number]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": 1,
        "broker.session.timeout.ms": SESSION_MS,
        "broker.heartbeat.interval.ms": 500,
        # An idle controller writes a record every half second by default, a third of what an idle node computes.
        "metadata.max.idle.interval.ms": 5_000,
    }


def zookeeper_broker_settings(number: int, *, port: int, zookeeper: int, nodes: int, data: Path) -> dict[str, Setting]:
    """Return the settings of broker `number`, one of `nodes` with the ZooKeeper on port `zookeeper`."""
    return _broker_settings(number, port=port, copies=_copies(nodes), data=data) | {
        "broker.id": number,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "zookeeper.connect": f"{HOST}:{zookeeper}",
        "zookeeper.connection.timeout.ms": 30_000,
        "zookeeper.session.timeout.ms": SESSION_MS,
    }


def rack(number: int) -> str:
    """Return the rack of node `number`."""
    return f"rack-{number}"


def zookeeper_settings(*, port: int, data: Path) -> dict[str, Setting]:
    """Return the settings of a single ZooKeeper."""
    return {
        "clientPort": port,
        "clientPortAddress": HOST,
        "dataDir": str(data),
        "tickTime": SESSION_MS // 4,  # a session cannot be shorter than two ticks
        "admin.enableServer": "false",  # it would listen on every address
        "4lw.commands.whitelist": "dump",
        "forceSync": "no",  # no protection from power cuts
    }


def properties_text(settings: Mapping[str, Setting]) -> str:
    """Return the settings as a Java properties file."""
    return "".join(f"{key}={text(value)}\n" for key, value in settings.items())


def text(value: Setting) -> str:
    """Return a setting as Java reads it in a properties file: `true` for True, backslashes doubled, ASCII only."""
    if isinstance(value, bool):
        return str(value).lower()
    units = str(value).replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def _broker_settings(number: int, *, port: int, copies: int, data: Path) -> dict[str, Setting]:
    return {
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "broker.rack": rack(number),
        "log.dirs": str(data),
        # A broker judges age by the records' timestamps. Five minutes after its start it would delete what tests date
        # more than a week back.
        "log.retention.ms": -1,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": 1,
    }


def _copies(nodes: int) -> int:
    return min(3, nodes)
