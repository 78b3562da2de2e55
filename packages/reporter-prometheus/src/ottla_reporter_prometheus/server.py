"""A server for Prometheus, for programs that have none. Producers with the same address share it."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from functools import partial
from typing import Any, Final

import attrs
from prometheus_client import CollectorRegistry, start_http_server

Address = tuple[str, int]

_REMEDY: Final = (
    "; another process serves there, so give each process its own prometheus.listen, or leave it out in a program that "
    "serves Prometheus itself"
)


@attrs.define
class _Server:
    httpd: Any
    thread: threading.Thread
    registry: CollectorRegistry
    users: int = 0


_servers: Final[dict[Address, _Server]] = {}
_lock = threading.Lock()


def open_at(address: Address, registry: CollectorRegistry) -> None:
    """Serve the registry at this address, unless this program does already.

    Raises OSError if the address is not available, and ValueError if the program serves another registry there.
    """
    with _lock:
        server = _servers.get(address)
        if server is None:
            try:
                httpd, thread = start_http_server(address[1], addr=address[0], registry=registry)
            except OSError as error:
                remedy = _REMEDY if error.errno == errno.EADDRINUSE else ""
                raise OSError(error.errno, f"{address[0]}:{address[1]}: {error.strerror}{remedy}") from error
            server = _servers[address] = _Server(httpd, thread, registry)
        elif server.registry is not registry:
            raise ValueError(
                f"another producer of this program serves other metrics at {address[0]}:{address[1]}; give both the "
                "same prometheus.registry, or another prometheus.listen"
            )
        server.users += 1


def close_at(address: Address) -> None:
    """End the server, unless another producer uses it."""
    with _lock:
        server = _servers[address]
        server.users -= 1
        if server.users:
            return
        del _servers[address]
        _end(server)


def _end(server: _Server) -> None:
    """End a server. Its thread notices `shutdown` every half second, and after a connection, which is made here."""
    httpd = server.httpd
    httpd.verify_request = lambda _request, _client: False
    httpd.service_actions = partial(time.sleep, 0.05)  # after the connection: until `shutdown` is called below
    with contextlib.suppress(OSError):
        socket.create_connection(httpd.server_address[:2], timeout=1.0).close()
    httpd.shutdown()
    server.thread.join()
    httpd.server_close()


def forget_in_child() -> None:
    """Leave the parent's servers to it: a forked child has their sockets, but not their threads.

    A child that kept the sockets would accept connections after the parent's end, and answer none.
    """
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        server.httpd.socket.close()
    _servers.clear()
