"""Several transports in a row, each through the connection of the one before: the value of `connection.via` as a list.

The first link is nearest to us. Each link connects to where the next one wants to go, the last one to the broker; the
transport of `security.protocol` is on top.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TypeAlias

from ottla.errors import NameResolutionError, quoted
from ottla.interfaces import HostTarget, Target, Transport, TransportLayer
from ottla.plugins.transports.opening import open_layer
from ottla.plugins.transports.socket_layer import SocketLayer

_Destination: TypeAlias = tuple[str, int]


class UnchangedBytes:
    """The inner transport of each link in a chain: what is inside comes later."""

    def targets(self, host: str, port: int) -> None:
        """Return None: names are resolved as usual."""

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Return a layer that changes nothing."""
        return SocketLayer(sock)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Return *lower* itself."""
        return lower


class TransportChain:
    """Transports in a row. All but the first must have `SupportsOpenOver`."""

    def __init__(self, links: Sequence[Transport]) -> None:
        self.links = links

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget] | None:
        """The targets of the first link, on the way to the second one's."""
        destination = self._destinations(host, port)[0]
        targets = self.links[0].targets(*destination)
        return [HostTarget(*destination)] if targets is None else targets

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Open the layers of all links, each over the one before."""
        return self.open_over(SocketLayer(sock), host, port)

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Open the layers of all links, the first one over *lower*."""
        for link, destination in zip(self.links, self._destinations(host, port), strict=True):
            lower = open_layer(link, lower, *destination)
        return lower

    def _destinations(self, host: str, port: int) -> Sequence[_Destination]:
        """The host and port for each link, found from the broker backwards."""
        found: list[_Destination] = [(host, port)]
        for link in reversed(self.links[1:]):
            found.append(_way_to(link, *found[-1]))
        return found[::-1]


def _way_to(link: Transport, host: str, port: int) -> _Destination:
    """The host and port that this link connects to for a destination: of several targets the first."""
    targets = link.targets(host, port)
    if targets is None:
        return host, port
    match targets[0] if targets else None:
        case HostTarget(host=own_host, port=own_port):
            return own_host, own_port
        case Target(family=socket.AF_INET | socket.AF_INET6, sockaddr=(str() as address, int() as own_port, *_)):
            return address, own_port
        case other:
            raise NameResolutionError(
                f"the way to {quoted(host)} leads to {quoted(str(other))}, which a transport before it cannot reach; "
                "only the first transport of connection.via may connect to something without host and port"
            )
