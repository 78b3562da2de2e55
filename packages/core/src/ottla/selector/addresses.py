"""From a broker's name to the addresses to try."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ottla.errors import NameResolutionFailed
from ottla.interfaces import Target


def resolve(host: str, port: int) -> Sequence[Target]:
    """Every address of a name, in the order the system prefers. Blocks while the system's resolver does."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as cause:
        raise NameResolutionFailed(
            f"the name {host!r} has no address: {cause}; check bootstrap.servers and the brokers' advertised.listeners"
        ) from cause
    return [Target(family, sockaddr) for family, _type, _protocol, _name, sockaddr in found]
