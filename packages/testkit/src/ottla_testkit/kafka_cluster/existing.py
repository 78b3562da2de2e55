"""A running cluster that tests use but have not started: they create topics, and change none of its brokers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any, Final, Self

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster import admin_requests
from ottla_testkit.kafka_cluster.admin_requests import Address, Metadata
from ottla_testkit.kafka_cluster.node_settings import Setting, text

READY_WITHIN: Final = 60.0  # seconds
_ASK_AGAIN: Final = 0.05
_MAX_REPLICAS: Final = 3
_CREATE_TOPICS_VERSION: Final = 2


class ExistingKafka:
    """A running cluster of Kafka 0.11 or later with a listener that needs neither TLS nor a login.

    It offers the part of `KafkaCluster` that is about topics. Leaving the `with` block deletes the topics that were
    created here. `ClusterError` says that no broker can be reached, or that one refused a request.
    """

    round_trip = 0.0

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = self.near_servers = bootstrap_servers
        self._created: list[str] = []

    def __enter__(self) -> Self:
        self._metadata()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the topics that were created here; a topic that cannot be deleted is a warning."""
        created, self._created = self._created, []
        if not created:
            return
        try:
            refused = admin_requests.delete_topics(self._controller(), created)
        except (ClusterError, OSError) as error:
            warnings.warn(f"the topics {', '.join(created)} were not deleted: {error}", stacklevel=2)
            return
        for topic, code in refused.items():
            warnings.warn(f"the topic {topic!r} was not deleted: error {code}", stacklevel=2)

    @property
    def nodes(self) -> list[int]:
        """The ids of the brokers."""
        return sorted(self._metadata().brokers)

    def address(self, node: int) -> Address:
        """Host and port of a broker."""
        return self._metadata().addresses[node]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, Setting] | None = None,
    ) -> None:
        """Create a topic, and return when its leaders serve it. By default it has three replicas, or one per broker."""
        refusal = admin_requests.create_topic(
            self._controller(),
            name,
            api_version=_CREATE_TOPICS_VERSION,
            partitions=partitions,
            replication=replication or min(_MAX_REPLICAS, len(self._metadata().brokers)),
            config={key: text(value) for key, value in (config or {}).items()},
        )
        if refusal:
            raise ClusterError(f"cannot create topic {name!r}: error {refusal.code} {refusal.message}")
        self._created.append(name)
        deadline = time.monotonic() + READY_WITHIN
        while not self._serves(name, partitions):
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.bootstrap_servers} does not serve the new topic {name!r}")
            time.sleep(_ASK_AGAIN)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition; -1 while there is none."""
        return self._metadata(topic).leaders.get(partition, -1)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the next offset of a partition, according to its leader."""
        known = self._metadata(topic)
        address = known.addresses.get(known.leaders.get(partition, -1))
        offsets = {} if address is None else admin_requests.end_offsets(address, topic, [partition])
        if partition not in offsets:
            raise ClusterError(f"{topic}-{partition} has no leader that serves it")
        return offsets[partition]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the existing cluster {self.bootstrap_servers} has no {name!r}, which needs brokers that the test has "
            "started; make a KafkaCluster in the test",
            name=name,
            obj=self,
        )

    def _serves(self, topic: str, partitions: int) -> bool:
        """Whether every broker knows all leaders, and each of them serves its partitions."""
        try:
            everywhere = [
                admin_requests.metadata(address, topic=topic) for address in self._metadata().addresses.values()
            ]
            if any(sum(leader >= 0 for leader in known.leaders.values()) < partitions for known in everywhere):
                return False
            for partition in range(partitions):
                self.end_offset(topic, partition)
        except (ClusterError, OSError):
            return False
        return True

    def _controller(self) -> Address:
        known = self._metadata()
        # With KRaft, brokers name one of themselves, which forwards the request.
        return known.addresses.get(known.controller) or next(iter(known.addresses.values()))

    def _metadata(self, topic: str | None = None) -> Metadata:
        causes: list[str] = []
        for server in self.bootstrap_servers.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                known = admin_requests.metadata((host.strip("[]"), int(port)), topic=topic)
            except (OSError, ValueError) as error:
                causes.append(f"{server.strip()}: {error}")
                continue
            if known.addresses:
                return known
            causes.append(f"{server.strip()} knows no broker")
        raise ClusterError(f"no broker of the existing cluster can be reached: {'; '.join(causes)}")
