"""The hosts of simulated brokers: how they respond to a new connection, and when they close an idle one."""

from __future__ import annotations

from ottla.errors import ConnectionFailedError, OttlaError, ProtocolMismatchError
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.schedule import Schedule


class SimulatedHosts:
    """The hosts of a cluster: `broker-1` and so on, and any other name for the cluster's seed."""

    def __init__(self, cluster: SimulatedCluster, schedule: Schedule, clock: ManualClock) -> None:
        self.refusing: set[str] = set()
        """Hosts that refuse connections."""
        self.black_holes: set[str] = set()
        """Hosts that never answer a connection's first packet."""
        self.other_protocol: set[str] = set()
        """Hosts that answer with a TLS alert."""
        self.untrusted: dict[str, OttlaError] = {}
        """Hosts with a certificate that the client does not trust, and the error of the handshake."""
        self.frozen: set[int] = set()
        """Brokers that read nothing. Their systems still accept connections."""
        self.foreign: dict[int, SimulatedBroker] = {}
        """Brokers of other clusters, to which the addresses of these brokers lead."""
        self.broker_idle = float("inf")
        """Seconds after which brokers close unused connections."""
        self._cluster = cluster
        self._schedule = schedule
        self._clock = clock

    def broker_at(self, host: str) -> SimulatedBroker:
        """Return the broker behind a name."""
        brokers = self._cluster.brokers
        node_id = int(host.removeprefix("broker-")) if host.startswith("broker-") else self._cluster.seed
        if node_id in self.foreign:
            return self.foreign[node_id]
        return next(iter(brokers.values())) if node_id is None else brokers[node_id]

    def connect(self, link: Link, host: str, port: int) -> None:
        """Send a connection's first packet to a host, which answers it after a round trip."""
        if host not in self.black_holes:
            self._schedule.later(link.wire.round_trip + link.wire.setup, lambda: self._establish(link, host, port))

    def _establish(self, link: Link, host: str, port: int) -> None:
        if host in self.untrusted:
            link.client.ended = self.untrusted[host]
        elif host in self.other_protocol:
            link.client.ended = ProtocolMismatchError(f"{host}:{port} answered with a TLS alert")
        elif link.broker.up and host not in self.refusing:
            link.establish()
            if link.broker.id in self.frozen:
                link.freeze()
            self._watch_idle(link)
        else:
            link.client.ended = ConnectionFailedError(f"could not connect to {host}:{port}: ECONNREFUSED")

    def _watch_idle(self, link: Link) -> None:
        if self.broker_idle == float("inf") or link.client.ended is not None:
            return
        remaining = link.used_at + self.broker_idle - self._clock()
        if remaining > 0:
            self._schedule.later(remaining, lambda: self._watch_idle(link))
        else:
            link.hang_up()
