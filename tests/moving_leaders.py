"""Three brokers of which clients reach each by a proxy, and whose leaders a test moves between append and answer.

Node 1 is the only controller, so no other one is missed: node 2 may be out of the client's reach, and node 3 frozen.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

from cluster_behind_proxies import ClusterBehindProxies
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ottla_testkit.kafka_cluster.admin_requests import call, metadata
from ottla_testkit.kafka_cluster.node_settings import Setting

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


class MovingLeaders(ClusterBehindProxies):
    """The cluster. Its clients begin with node 1."""

    def __init__(self, *, version: str) -> None:
        super().__init__(version=version, config=SETTINGS, controllers=[FROM])

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


def until(happened: Callable[[], object]) -> None:
    """Wait for what a broker does."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, KeyError):
            if happened():
                return
        time.sleep(0.05)
    raise AssertionError("a minute, and it has not happened")
