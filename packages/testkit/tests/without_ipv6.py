"""A host without IPv6, as most containers are, on which a name has addresses of both families."""

from __future__ import annotations

import errno
import socket
from typing import Any


class WithoutIPv6(socket.socket):
    """A socket on a host without IPv6."""

    def __init__(self, family: int = -1, *arguments: Any, **keywords: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        super().__init__(family, *arguments, **keywords)


def addresses(port: int, *families: socket.AddressFamily) -> list[tuple[Any, ...]]:
    """An address of this machine for each family, as `getaddrinfo` returns them."""
    hosts = {socket.AF_INET: ("127.0.0.1", port), socket.AF_INET6: ("::1", port, 0, 0)}
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", hosts[family]) for family in families]
