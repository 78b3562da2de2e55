"""A second plain listener for each broker of a cluster, which clients reach only through a delaying proxy.

Brokers return the addresses of the listener that a client uses. So a client that starts with a proxy stays delayed
after metadata, and one that starts with the plain listener does not. Brokers use the plain listener among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.proxy.delaying_proxy import DelayingProxy

NAME = "DISTANT"


class DistantListeners:
    """The listeners and proxies of these nodes; proxies run from `start` to `close`."""

    def __init__(self, nodes: Sequence[int], *, round_trip: float) -> None:
        self._nodes = list(nodes)
        self._round_trip = round_trip
        self._ports: dict[int, int] = {}
        self._proxies: dict[int, DelayingProxy] = {}
        self.links: Mapping[int, DelayingProxy] = MappingProxyType(self._proxies)
        self.choose_ports()

    def choose_ports(self) -> None:
        """Choose ports that are free now, for listeners and proxies. Do not call it while proxies run."""
        self._ports = dict(zip(self._nodes, free_ports(len(self._nodes)), strict=True))
        self._proxies.update({node: self._proxy(node) for node in self._nodes})

    def start(self) -> None:
        """Start the proxies."""
        for proxy in self._proxies.values():
            proxy.__enter__()

    def close(self) -> None:
        """End every proxy."""
        for proxy in self._proxies.values():
            proxy.close()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...` of every proxy."""
        return ",".join(proxy.bootstrap_servers for proxy in self._proxies.values())

    @property
    def round_trip(self) -> float:
        """Seconds of the round trip, the same for every node."""
        return self._round_trip

    @round_trip.setter
    def round_trip(self, seconds: float) -> None:
        for proxy in self._proxies.values():
            proxy.round_trip = seconds
        self._round_trip = seconds

    def move(self, node: int) -> None:
        """Give a stopped node another port and another proxy."""
        self._proxies[node].close()
        self._ports[node] = free_ports(1)[0]
        self._proxies[node] = self._proxy(node).__enter__()

    def broker_settings(self, node: int, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Return a broker's settings with the distant listener added."""
        protocols = settings.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
        return {
            **settings,
            "listeners": f"{settings['listeners']},{NAME}://{HOST}:{self._ports[node]}",
            "advertised.listeners": f"{settings['advertised.listeners']},{NAME}://{self._proxies[node].bootstrap_servers}",
            "listener.security.protocol.map": f"{protocols},{NAME}:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _proxy(self, node: int) -> DelayingProxy:
        return DelayingProxy(HOST, self._ports[node], round_trip=self._round_trip)
