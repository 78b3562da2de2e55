"""The client's end of a simulated connection: a socket and its buffers, with the methods of a transport layer.

The core's own `Channel` is above it, which assembles responses and keeps the rest of partial writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from ottla.errors import OttlaError
from ottla.interfaces import Buffer, Interest
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.schedule import Schedule


@attrs.define(eq=False, kw_only=True)
class ClientEnd:
    """The client's socket. `depart` takes the bytes that leave it."""

    wire: LinkConditions
    schedule: Schedule
    chance: Chance
    takes: deque[int]
    """Numbers of bytes that the next writes take, in turn, instead of random ones."""
    held: Callable[[], bool]
    """Whether received bytes are held back."""
    depart: Callable[[bytes], object]
    established: bool = False
    ended: OttlaError | None = None  # raised by a read after all bytes that arrived before
    closed: bool = False
    writable: bool = True
    received: bytearray = attrs.field(factory=bytearray)
    """Bytes that the client has not read."""
    _unacknowledged: int = 0

    @property
    def readable(self) -> bool:
        """Whether a selector would report the socket as readable."""
        return not self.held() if self.received else self.ended is not None

    def acknowledge(self, size: int) -> None:
        """Free this number of bytes in the buffer: the broker's system has them."""
        self._unacknowledged -= size
        self.writable = True

    # The transport layer

    def handshake(self) -> bool:
        return self.established

    def write(self, chunks: Sequence[Buffer]) -> int:
        if not self.writable:
            return 0
        data = b"".join(chunks)
        taken = self._accepted_bytes(len(data))
        if taken:
            self._unacknowledged += taken
            self.depart(data[:taken])
        if taken < len(data):
            self._wait_for_space()
        return taken

    def flush(self) -> bool:
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        if self.received:
            if self.held():
                return None
            size = min(len(buffer), len(self.received))
            buffer[:size] = self.received[:size]
            del self.received[:size]
            return size
        if self.ended is not None:
            raise self.ended
        return None

    def interest(self) -> Interest:
        return Interest.NONE

    def may_read(self) -> bool:
        return False

    def close(self) -> None:
        """Close the socket. Bytes that its system had taken still arrive at the broker."""
        self.closed = True

    # The buffer of bytes that leave

    def _accepted_bytes(self, wanted: int) -> int:
        wire = self.wire
        free_bytes = wanted if wire.buffer is None else min(wanted, max(0, wire.buffer - self._unacknowledged))
        if self.takes:
            return min(free_bytes, self.takes.popleft())
        if self.chance.happens(wire.nothing):
            return 0
        if free_bytes > 1 and self.chance.happens(wire.partial_writes):
            return self.chance.randint(1, free_bytes - 1)
        return free_bytes

    def _wait_for_space(self) -> None:
        self.writable = False
        if self.wire.buffer is None or self._unacknowledged < self.wire.buffer:
            self.schedule.later(self.wire.round_trip, self._make_writable)

    def _make_writable(self) -> None:
        self.writable = True
