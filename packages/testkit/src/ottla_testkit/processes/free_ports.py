"""Which TCP ports of 127.0.0.1 a server may listen on.

Stays below the range from which systems give ports to outgoing connections, so that no client's connection
sits on a broker's port while that broker is down. Another server may still come first: callers try again.
"""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
CANDIDATES = range(15_000, 32_000)

# Not the module's own generator: tests that seed it alike would all choose the same ports.
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """So many different ports that were free a moment ago."""
    found: list[int] = []
    for port in _random.sample(CANDIDATES, len(CANDIDATES)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            found.append(port)
    return found
