"""Free TCP ports of 127.0.0.1 for servers.

They are below the range of ephemeral ports, so that no client's connection uses a broker's port while that broker is
down. Another server may still use one first: callers try again.
"""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
CANDIDATES = range(15_000, 32_000)

# Not the module's own generator: tests with the same seed would all choose the same ports.
_random = random.SystemRandom()


def is_free(port: int) -> bool:
    """Whether no server listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as brokers: after a server's end it is free at once
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return *count* different ports that were free a moment ago."""
    found: list[int] = []
    for port in _random.sample(CANDIDATES, len(CANDIDATES)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            found.append(port)
    return found
