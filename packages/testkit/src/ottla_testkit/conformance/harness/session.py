"""A layer and its peer in one thread: the suite calls the layer as the selector does, and only when the selector would.

So a layer that waits for the wrong event, or hides bytes from the selector, is stuck here too, and the test reports it.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.errors import OttlaError
from ottla.interfaces import Buffer, Interest, TransportLayer
from ottla_testkit.conformance.harness.checked_layer import CheckedLayer, check, fail
from ottla_testkit.conformance.harness.concurrent_calls import within
from ottla_testkit.conformance.harness.peer import Peer
from ottla_testkit.conformance.harness.wire import PIECE, Wire

_NEVER_FULL: Final = 64 * 1024 * 1024
_MAX_WRITES: Final = 100
"""Maximum calls of `write` in one turn: a layer that takes one byte at a time must not make a test endless."""


class LayerSession:
    """One connection. `received` holds the bytes that the layer read; after its error `failure` it is only closed."""

    def __init__(self, *, layer: TransportLayer, wire: Wire, peer: Peer, timeout: float) -> None:
        self.layer = CheckedLayer(layer, timeout=timeout, release=wire.release)
        self.wire = wire
        self.peer = peer
        self.ready = False
        self.ended = False
        self.failure: Exception | None = None
        self.received = bytearray()
        self.sent = 0
        self.piece = PIECE
        self.read_size = PIECE
        self._timeout = timeout
        self._begun = False
        self._stalled = False
        self._waiting: deque[Buffer] = deque()
        self._sending = False

    def send(self, *chunks: Buffer) -> None:
        """Write these chunks as fast as the layer takes them."""
        self._waiting.extend(chunk for chunk in chunks if len(chunk))
        self.sent += sum(len(chunk) for chunk in chunks)
        self._sending = True

    @property
    def over(self) -> bool:
        """Whether the layer has reported the end of the connection."""
        return self.ended or self.failure is not None

    @property
    def all_taken(self) -> bool:
        """Whether the layer has taken everything and reports nothing pending."""
        return not self._sending

    @property
    def events(self) -> Interest:
        """The ready events of the socket among those that the selector would watch."""
        wanted = self.layer.interest()
        if self.ready:
            wanted |= Interest.READ
            if self._sending:
                wanted |= Interest.WRITE
        sock = self.wire.layer_end
        readable, writable, _ = select.select(
            [sock] if wanted & Interest.READ else [], [sock] if wanted & Interest.WRITE else [], [], 0
        )
        return (Interest.READ if readable else Interest.NONE) | (Interest.WRITE if writable else Interest.NONE)

    def open(self) -> None:
        """Complete the handshake."""
        self.until(lambda: self.ready, "the handshake is not done")

    def exchange(self, ours: bytes, theirs: bytes) -> None:
        """Send bytes both ways, and compare them."""
        before, had = len(self.peer.received), len(self.received)
        self.peer.write(theirs)
        self.send(ours)
        self.until(
            lambda: (
                self.all_taken
                and len(self.peer.received) - before >= len(ours)
                and len(self.received) - had >= len(theirs)
            ),
            f"{len(ours)} bytes to the far end and {len(theirs)} from it have not all come",
        )
        compare(bytes(self.peer.received[before:]), ours, "what the far end got is not what was written")
        compare(bytes(self.received[had:]), theirs, "what was read is not what the far end sent")

    def until(self, done: Callable[[], bool], message: str, *, ends: bool = False) -> None:
        """Take turns until *done* returns true. Fail at a time-out, or if the connection ends first, unless *ends*."""
        deadline = time.monotonic() + self._timeout
        while not done():
            if self.over and not ends:
                fail(f"{message}: {self._end()}", self.failure)
            if time.monotonic() > deadline:
                fail(f"{message}, and nothing goes on: {self._where()}")
            self.turn()

    def until_over(self, message: str) -> None:
        """Take turns until the layer has reported the end."""
        self.until(lambda: self.over, message, ends=True)

    def run_out(self, what: str) -> None:
        """Let the layer process its input; when the peer then closes the connection, the layer must report the end."""
        for _ in range(20):
            self.turn()
        self.wire.hang_up()
        self.until_over(f"{what} and hung up, and the layer does not report it")

    def fill(self) -> int:
        """Write until the layer takes no more, while the peer reads nothing; return the number of bytes."""
        piece, taken = bytes(100_000), 0
        while took := self.layer.write([piece]):
            taken += took
            check(
                taken < _NEVER_FULL,
                f"{taken} bytes were taken that the peer does not read: write() never says that it is full",
            )
        return taken

    def arrives_alone(self, written: int) -> None:
        """Check that bytes which the layer reports as sent arrive without another call."""
        if not self.comes_alone(lambda: len(self.peer.received) >= written):
            fail(
                f"flush() said that everything has left, and {written - len(self.peer.received)} of {written} "
                "bytes are still in the layer"
            )

    def comes_alone(self, done: Callable[[], bool]) -> bool:
        """Return whether *done* becomes true without further calls of the layer."""
        deadline = time.monotonic() + self._timeout
        while not done() and time.monotonic() < deadline:
            self.turn_of_the_wire()
        return done()

    def turn(self) -> None:
        """Take one turn of wire, peer and layer."""
        self.turn_of_the_wire()
        self.turn_of_the_layer()

    def turn_of_the_wire(self) -> None:
        """Take a turn of wire and peer, without the layer."""
        self.wire.carry(self.piece)
        self.peer.advance()
        self.wire.carry(self.piece)

    def turn_of_the_layer(self) -> None:
        """Take a turn of the layer, without wire and peer."""
        if not self.over:
            try:
                self._advance()
            except (OSError, OttlaError) as error:
                self.failure = error

    def read(self, free_bytes: int) -> bytes | None:
        """Read at most *free_bytes* once, outside the turns.

        Return None if nothing arrived yet, empty if the peer closed.
        """
        buffer = bytearray(free_bytes)
        got = self.layer.read_into(memoryview(buffer))
        return None if got is None else bytes(buffer[:got])

    def abandon(self) -> None:
        """Close the wire alone, because a call of the layer has not returned."""
        self.layer.dismiss()
        self.wire.close()

    def close(self) -> None:
        """Close the layer and the wire."""
        try:
            within(2 * self._timeout, "close()", self.layer.close, remedy="no method may wait")
        finally:
            self.layer.dismiss()
            self.wire.close()

    def _advance(self) -> None:
        """Call the layer as the selector does: when its socket is ready, or when the layer may read."""
        events = self.events if self._begun else Interest.WRITE
        has_bytes = self.ready and not self._stalled and self.layer.may_read()
        if not events and not has_bytes:
            return
        self._begun = True
        if not self.ready:
            self.ready = self.layer.handshake()
        if self.ready:
            if events & Interest.READ or (not self._stalled and self.layer.may_read()):
                self._read()
            if self._sending:
                self._write()

    def _read(self) -> None:
        got = self.read(self.read_size)
        self._stalled = got is None
        self.ended = got == b""
        self.received += got or b""

    def _write(self) -> None:
        for _ in range(_MAX_WRITES):
            if not self._waiting:
                break
            taken = self.layer.write(list(self._waiting))
            if not taken:
                return
            while taken >= len(self._waiting[0]):
                taken -= len(self._waiting.popleft())
                if not self._waiting:
                    break
            if taken:
                self._waiting[0] = memoryview(self._waiting[0])[taken:]
        if not self._waiting:
            self._sending = not self.layer.flush()

    def _end(self) -> str:
        return f"the layer raised {self.failure!r}" if self.failure else "read_into() returned 0, as if it were closed"

    def _where(self) -> str:
        unwritten = sum(len(chunk) for chunk in self._waiting)
        more = self.ready and self.layer.may_read()
        reading = not self.ready and not self.over and bool(self.layer.interest() & Interest.READ)
        stuck = (
            "; the layer still waits for bytes, although the peer has sent all that it has: a TunnelLayer waits for "
            "the `receive` of its last Exchange, which may be too large"
            if reading
            else ""
        )
        arrived = self._sending and not unwritten and len(self.peer.received) >= self.sent
        unflushed = "flush() returns False although every byte has arrived: " if arrived else ""
        return (
            f"{unflushed}after {self._timeout:g} s, {self.sent - unwritten} of {self.sent} bytes were taken by "
            f"write(), {len(self.peer.received)} came to the far end, {len(self.received)} were read; "
            f"interest() is {self.layer.interest()!r}, may_read() is {more}{stuck}"
        )


def compare(got: bytes, expected: bytes, message: str) -> None:
    """Fail with the first position where the bytes differ."""
    if got == expected:
        return
    parted = next(
        (at for at, (one, other) in enumerate(zip(got, expected, strict=False)) if one != other),
        min(len(got), len(expected)),
    )
    fail(
        f"{message}: {len(got)} bytes for {len(expected)}, different from byte {parted} on "
        f"({got[parted : parted + 16]!r} for {expected[parted : parted + 16]!r}); none may be lost, repeated or moved"
    )
