"""Addresses of host names, resolved within a deadline.

`getaddrinfo` waits for each name server, usually 5 s, and cannot be interrupted. So it runs on a separate thread,
which may keep running after the deadline. Each name has at most `single_flight.MAX_RUNNING` such threads,
and a name that hangs delays no other name.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ottla.concurrency.single_flight import SingleFlight
from ottla_authenticator_sasl.deadline import Deadline

SocketAddress: TypeAlias = tuple[int, int, int, str, Any]
"""A result of `socket.getaddrinfo`."""

_MAX_NAMES: Final = 8
"""Maximum number of names: the token endpoint and a proxy, which the environment may change."""


class HostNames:
    """Look-ups for one token endpoint; thread-safe. After *limit* seconds of a look-up, another one may start."""

    def __init__(self, *, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._flights: dict[tuple[str, int], SingleFlight[Sequence[SocketAddress]]] = {}

    def look_up(self, host: str, port: int, deadline: Deadline) -> Sequence[SocketAddress]:
        """Return the addresses. Raises OSError, or ConnectionFailedError while earlier look-ups hang."""
        with contextlib.suppress(socket.gaierror):  # an IP address needs no look-up
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        joined = self._flight_of(host, port).join(needless=lambda: False)
        assert joined is not None, "a look-up is never needless"
        flight, _ = joined
        if not flight.wait(deadline.remaining_or_zero()):
            raise TimeoutError(f"the host name {host} could not be resolved in time")
        return flight.result()

    def _flight_of(self, host: str, port: int) -> SingleFlight[Sequence[SocketAddress]]:
        with self._lock:
            known = self._flights.get((host, port))
            if known is None:
                if len(self._flights) >= _MAX_NAMES:
                    del self._flights[next(iter(self._flights))]
                known = self._flights[host, port] = SingleFlight(
                    partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM),
                    name="ottla-token-lookup",
                    source="the name service",
                    limit=self._limit,
                    wanted=f"the address of {host}",
                )
            return known
