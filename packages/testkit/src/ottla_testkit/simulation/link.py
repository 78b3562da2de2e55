"""One connection of a simulated network: bytes in flight in both directions, on the test's clock.

The client's end is the transport layer below the core's own `Channel`, which assembles responses and keeps the rest of
partial writes. Bytes of one direction never overtake each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ottla.errors import ConnectionFailedError, OttlaError
from ottla.interfaces import Buffer, Interest
from ottla.network.selector.channel import Channel
from ottla_testkit.simulation.brokers import SimulatedBroker
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.login import HangUpError, Session
from ottla_testkit.simulation.schedule import Schedule
from ottla_testkit.simulation.trace import Trace

LARGEST_REQUEST: Final = 100 * 1024 * 1024
"""As a broker's `socket.request.max.bytes`."""

LARGEST_ANSWER: Final = 128 * 1024 * 1024


@attrs.frozen(kw_only=True)
class LinkConditions:
    """Conditions between the client and a broker. The default is a broker on this machine with an idle network."""

    round_trip: float = 0.0
    jitter: float = 0.0
    """Maximum additional seconds for each piece, in each direction."""
    setup: float = 0.0
    """Additional seconds until a connection is established."""
    buffer: int | None = None
    """Bytes that the socket's buffer takes; None: any number."""
    partly: float = 0.0
    """Probability that a write takes only a part of its bytes."""
    nothing: float = 0.0
    """Probability that a write takes nothing."""
    pieces: float = 0.0
    """Probability that a response arrives in several pieces."""


@attrs.define(eq=False, kw_only=True)
class Link:
    """A connection with both of its ends. `take` passes a complete request to the broker and returns its response."""

    node: int
    broker: SimulatedBroker
    wire: LinkConditions
    schedule: Schedule
    now: Callable[[], float]
    chance: Chance
    take: Callable[[Link, bytes], bytes | None]
    held: Callable[[Link], bool]
    trace: Trace
    takes: deque[int]
    """Numbers of bytes that the next writes take, in turn, instead of random ones."""
    session: Session = attrs.field(factory=Session)
    established: bool = False
    ended: OttlaError | None = None  # raised by a read after all bytes that arrived before
    out_vanishes: bool = False  # the client's bytes arrive nowhere
    back_vanishes: bool = False
    channel: Channel = attrs.field(init=False)
    used_at: float = 0.0
    _frozen: bool = False  # the broker reads nothing; its system still buffers bytes
    _unread: list[bytes] = attrs.field(factory=list)
    _forgotten: bool = False  # the client has closed it, or it was cut
    _writable: bool = True
    _unacknowledged: int = 0
    _out_at: float = 0.0  # when the last byte in flight to the broker arrives
    _back_at: float = 0.0
    _at_broker: bytearray = attrs.field(factory=bytearray)
    _at_client: bytearray = attrs.field(factory=bytearray)

    def __attrs_post_init__(self) -> None:
        self.channel = Channel(self, peer=f"broker {self.broker.id}", max_response_size=LARGEST_ANSWER)

    @property
    def readable(self) -> bool:
        """Whether the system would report it as readable."""
        return not self.held(self) if self._at_client else self.ended is not None

    @property
    def writable(self) -> bool:
        """Whether the system would report it as writable for an unfinished write."""
        return self._writable and self.channel.sending

    # Actions of the test or the broker

    def answer(self, content: bytes, *, delay: float = 0.0) -> None:
        """Send a response to the client, in one piece or, at random, in several."""
        self.speak(len(content).to_bytes(4, "big") + content, delay=delay)

    def speak(self, data: bytes, *, delay: float = 0.0) -> None:
        """Send bytes to the client; later bytes arrive later."""
        self.trace.note(self.now(), self.node, "<", data)
        for piece in self._cut_up(data):
            self._back_at = max(self._back_at, self.now() + delay + self._way())
            self.schedule.at(self._back_at, lambda piece=piece: self._arrive_at_client(piece))  # type: ignore[misc]

    def hang_up(self, error: OttlaError | None = None) -> None:
        """Close the broker's end; the client notices after all bytes that were sent before."""
        response = error or ConnectionFailedError(f"broker {self.broker.id} closed the connection")
        self._back_at = max(self._back_at, self.now() + self._way())
        self.schedule.at(self._back_at, lambda: self._end(response))
        self.out_vanishes = True

    def reset(self) -> None:
        """Reset the connection at the broker: unread bytes of the client are lost, the broker's own still arrive."""
        self.hang_up(ConnectionFailedError(f"the connection to broker {self.broker.id} was lost: reset by the peer"))

    def cut(self, error: OttlaError) -> None:
        """Cut the connection now: bytes in flight in both directions are lost, and unread ones too."""
        self.out_vanishes = self.back_vanishes = True
        self._at_client.clear()
        self.ended = error

    def freeze(self) -> None:
        """Stop reading at the broker, as in a stopped process."""
        self._frozen = True

    def thaw(self) -> None:
        """Continue at the broker, with the bytes that were sent meanwhile."""
        self._frozen = False
        unread, self._unread = self._unread, []
        for data in unread:
            self._arrive_at_broker(data)

    def forget(self) -> None:
        """Close the client's end. Bytes that its system had taken still arrive at the broker."""
        self._forgotten = True

    # The transport layer of the client's channel

    def handshake(self) -> bool:
        return self.established

    def write(self, chunks: Sequence[Buffer]) -> int:
        if not self._writable:
            return 0
        data = b"".join(chunks)
        taken = self._room(len(data))
        if taken:
            self._depart(data[:taken])
        if taken < len(data):
            self._wait_for_room()
        return taken

    def flush(self) -> bool:
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        if self._at_client:
            if self.held(self):
                return None
            size = min(len(buffer), len(self._at_client))
            buffer[:size] = self._at_client[:size]
            del self._at_client[:size]
            return size
        if self.ended is not None:
            raise self.ended
        return None

    def interest(self) -> Interest:
        return Interest.NONE

    def may_read(self) -> bool:
        return False

    def close(self) -> None:
        self.forget()

    # Bytes in flight

    def _room(self, wanted: int) -> int:
        wire = self.wire
        free_bytes = wanted if wire.buffer is None else min(wanted, max(0, wire.buffer - self._unacknowledged))
        if self.takes:
            return min(free_bytes, self.takes.popleft())
        if self.chance.happens(wire.nothing):
            return 0
        if free_bytes > 1 and self.chance.happens(wire.partly):
            return self.chance.randint(1, free_bytes - 1)
        return free_bytes

    def _wait_for_room(self) -> None:
        self._writable = False
        if self.wire.buffer is None or self._unacknowledged < self.wire.buffer:
            self.schedule.later(self.wire.round_trip, self._make_writable)

    def _make_writable(self) -> None:
        self._writable = True

    def _depart(self, data: bytes) -> None:
        self.used_at = self.now()
        self._unacknowledged += len(data)
        self._out_at = max(self._out_at, self.now() + self._way())
        self.schedule.at(self._out_at, lambda: self._arrive_at_broker(data))

    def _arrive_at_broker(self, data: bytes) -> None:
        if self.out_vanishes or not self.broker.up:
            return
        if self._frozen:
            self._unread.append(data)
            return
        self._at_broker += data
        self.schedule.later(self.wire.round_trip / 2, lambda: self._acknowledge(len(data)))
        while not self.out_vanishes and len(self._at_broker) >= 4:
            size = int.from_bytes(self._at_broker[:4], "big", signed=True)
            if not 0 <= size <= LARGEST_REQUEST:
                self.hang_up()
                return
            if len(self._at_broker) < 4 + size:
                return
            frame = bytes(self._at_broker[4 : 4 + size])
            del self._at_broker[: 4 + size]
            self._ask(frame)

    def _ask(self, frame: bytes) -> None:
        self.used_at = self.now()
        self.trace.note(self.used_at, self.node, ">", frame)
        try:
            answer = self.take(self, frame)
        except HangUpError:
            self.hang_up()
            return
        if answer is not None:
            self.answer(answer)

    def _acknowledge(self, size: int) -> None:
        self._unacknowledged -= size
        self._writable = True

    def _arrive_at_client(self, data: bytes) -> None:
        self.used_at = self.now()
        if not (self._forgotten or self.back_vanishes):
            self._at_client += data

    def _end(self, error: OttlaError) -> None:
        if self.ended is None and not self.back_vanishes:
            self.ended = error

    def _way(self) -> float:
        """Return the time that the next piece takes in one direction."""
        jitter = self.wire.jitter
        return self.wire.round_trip / 2 + (self.chance.uniform(0, jitter) if jitter else 0.0)

    def _cut_up(self, data: bytes) -> Sequence[bytes]:
        if len(data) < 2 or not self.chance.happens(self.wire.pieces):
            return [data]
        cuts = sorted({self.chance.randint(1, len(data) - 1) for _ in range(3)})
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
