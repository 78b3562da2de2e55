"""A TCP proxy on 127.0.0.1 that delays bytes between clients and a server: a fixed round trip, half in each direction.

The delay does not limit the bandwidth: any number of bytes may be in flight, and they arrive in order. A new
connection's first bytes also wait for the round trip of the TCP handshake. On request the link becomes slow, works in
one direction only, or loses its connections. `forwarder` runs in a separate process, so a busy client does not make
the delay longer.
"""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import attrs

from ottla_testkit.errors import PortInUseError, ProxyError
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.processes.interrupts import interrupts_deferred
from ottla_testkit.proxy import forwarder
from ottla_testkit.proxy.cut_plan import Direction

END_WITHIN = 10.0  # seconds
_BACKLOG = 1024
_WAYS = {Direction.OUT: "out", Direction.BACK: "back"}


@attrs.frozen(kw_only=True)
class Traffic:
    """Connections, bytes from clients and bytes to clients so far."""

    connections: int
    bytes_out: int
    bytes_back: int


class DelayingProxy:
    """Forward between clients of `port` and a target, during a `with` block.

    *round_trip* is in seconds. *jitter* is the maximum that is added to it at random, from *seed*; each direction gets
    half of the sum. To cut connections at a given byte, point this proxy to a `CuttingProxy` or the reverse. For any
    thread.
    """

    def __init__(
        self, target_host: str, target_port: int, *, round_trip: float, jitter: float = 0.0, seed: int | None = None
    ) -> None:
        self.port = free_ports(1)[0]
        self._target = (target_host, target_port)
        self._round_trip = _seconds(round_trip)
        self._jitter = _seconds(jitter)
        self._seed = seed
        self._bytes_per_second: float | None = None
        self._held: frozenset[Direction] = frozenset()
        self._process: subprocess.Popen[bytes] | None = None
        self._ordering = threading.Lock()

    def __enter__(self) -> Self:
        with self._listener() as listener, interrupts_deferred():
            given = {
                "listener": listener.fileno(),
                "target": self._target,
                "round_trip": self._round_trip,
                "jitter": self._jitter,
                "seed": self._seed,
            }
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(forwarder.__file__)), json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # a terminal's signals are for the owner only
            )
        if self._bytes_per_second is not None or self._held:
            self._order(bytes_per_second=self._bytes_per_second, held=[_WAYS[way] for way in self._held])
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Reset every connection and end the process; leaving the `with` block does it."""
        with self._ordering:
            process, self._process = self._process, None
            if process is not None:
                self._end(process)

    def _listener(self) -> socket.socket:
        try:
            return socket.create_server((HOST, self.port), backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortInUseError(f"another process holds port {self.port}, which the proxy has chosen") from error

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with interrupts_deferred(), process:  # closes its pipes
            try:
                # The end of stdin has the same effect, but not while a forked child still holds it.
                process.stdin.write(json.dumps({"end": True}).encode() + b"\n")
                process.wait(END_WITHIN)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                process.kill()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the proxy."""
        return f"{HOST}:{self.port}"

    @property
    def round_trip(self) -> float:
        """Seconds from a request to the earliest response. A new value applies to bytes that are read from now on."""
        return self._round_trip

    @round_trip.setter
    def round_trip(self, seconds: float) -> None:
        self._round_trip = _seconds(seconds)
        self._order(round_trip=seconds)

    @property
    def jitter(self) -> float:
        """Maximum seconds that are added to a round trip at random. It can be set at any time, too."""
        return self._jitter

    @jitter.setter
    def jitter(self, seconds: float) -> None:
        self._jitter = _seconds(seconds)
        self._order(jitter=seconds)

    @property
    def bytes_per_second(self) -> float | None:
        """Rate of each direction of each connection; None for no limit. A new value applies to bytes that are read now.

        The proxy reads little more than it may deliver, so the sender has to wait as on a slow link.
        """
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float | None) -> None:
        if rate is not None and not 0 < rate < float("inf"):
            raise ValueError(f"a rate of {rate!r} bytes per second is impossible; None removes the limit")
        self._bytes_per_second = rate
        self._order(bytes_per_second=rate)

    def hold(self, *ways: Direction) -> None:
        """Deliver no more bytes in these directions, by default in both, until `release`.

        Connections stay, and new ones are accepted. With one direction this is a link that works one way.
        """
        self._held = frozenset(ways or Direction)
        self._order(held=[_WAYS[way] for way in self._held])

    def release(self) -> None:
        """Deliver the held bytes, and continue."""
        self._held = frozenset()
        self._order(held=[])

    def cut(self) -> None:
        """Reset every connection; bytes in flight are lost. New connections are accepted."""
        self._order(cut=True)

    @property
    def traffic(self) -> Traffic:
        """Connections and bytes so far; bytes count when the proxy has read them."""
        answer = self._order()
        return Traffic(connections=answer["accepted"], bytes_out=answer["out"], bytes_back=answer["back"])

    def point_to(self, target_host: str, target_port: int) -> None:
        """Connect new clients to another target; existing connections stay."""
        self._target = (target_host, target_port)
        self._order(target=self._target)

    def _order(self, **command: object) -> dict[str, int]:
        """Send a command to the process. Before its start this does nothing, because the start passes all settings."""
        # A test makes faults on another thread; and an interrupt would leave an answer behind for the next order.
        with self._ordering, interrupts_deferred():
            process = self._process
            if process is None:
                return {"accepted": 0, "out": 0, "back": 0}
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(command).encode() + b"\n")
                answer = process.stdout.readline()
            except BrokenPipeError:
                answer = b""
        if not answer:
            raise ProxyError(f"the process of the proxy on port {self.port} has ended; its error is on stderr")
        counts: dict[str, int] = json.loads(answer)
        return counts


def _seconds(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"a round trip of {value!r} s is impossible; write it in seconds, such as 0.03 for 30 ms")
    return value
