"""One connection of a simulated network: bytes in flight in both directions, on the test's clock.

Bytes of one direction never overtake each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from ottla.errors import ConnectionFailedError, OttlaError
from ottla.network.selector.channel import Channel
from ottla_testkit.simulation.broker_end import BrokerEnd
from ottla_testkit.simulation.brokers import SimulatedBroker
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.client_end import ClientEnd
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.login import HangUpError, Session
from ottla_testkit.simulation.pending_response import KnownResponse, Response, when_known
from ottla_testkit.simulation.schedule import Schedule
from ottla_testkit.simulation.trace import Trace

LARGEST_ANSWER: Final = 128 * 1024 * 1024

PRODUCE_AT_ONCE: Final = 6
"""From this version of Produce on, a throttling broker responds at once, and delays what it reads next (KIP-219)."""


@attrs.define(eq=False, kw_only=True)
class Link:
    """A connection with both of its ends. `take` passes a complete request to the broker and returns its response."""

    node: int
    broker: SimulatedBroker
    wire: LinkConditions
    schedule: Schedule
    now: Callable[[], float]
    chance: Chance
    take: Callable[[Link, bytes], Response]
    held: Callable[[Link], bool]
    trace: Trace
    takes: deque[int]
    """Numbers of bytes that the next writes take, in turn, instead of random ones."""
    session: Session = attrs.field(factory=Session)
    out_lost: bool = False
    """Whether the client's bytes are lost."""
    back_lost: bool = False
    """Whether the broker's bytes are lost."""
    used_at: float = 0.0
    """When bytes left or arrived last."""
    requests: int = 0
    """Requests that have arrived at the broker."""
    responses: int = 0
    """Responses that the client has read."""
    busy: bool = False
    """Whether the broker reads nothing before it has answered, as Kafka's do."""
    client: ClientEnd = attrs.field(init=False)
    channel: Channel = attrs.field(init=False)
    _mutes: int = 0
    _reading: bool = False
    _broker_end: BrokerEnd = attrs.field(factory=BrokerEnd)
    _out_at: float = 0.0
    """When the last byte in flight to the broker arrives."""
    _back_at: float = 0.0
    """When the last byte in flight to the client arrives."""

    def __attrs_post_init__(self) -> None:
        self.client = ClientEnd(
            wire=self.wire,
            schedule=self.schedule,
            chance=self.chance,
            takes=self.takes,
            held=lambda: self.held(self),
            depart=self._depart,
        )
        self.channel = Channel(self.client, peer=f"broker {self.broker.id}", max_response_size=LARGEST_ANSWER)

    # Actions of the test or the broker

    def establish(self) -> None:
        """Complete the client's handshake successfully."""
        self.client.established, self.used_at = True, self.now()

    def answer(self, content: bytes, *, delay: float = 0.0) -> None:
        """Send a response to the client, in one piece or, at random, in several."""
        self.speak(len(content).to_bytes(4, "big") + content, delay=delay)

    def speak(self, data: bytes, *, delay: float = 0.0) -> None:
        """Send bytes to the client; later bytes arrive later."""
        self.trace.note(self.now(), self.node, "<", data)
        for piece in self._cut_up(data):
            self._back_at = max(self._back_at, self.now() + delay + self._way()) + self._transfer(piece)
            self.schedule.at(self._back_at, lambda piece=piece: self._arrive_at_client(piece))  # type: ignore[misc]

    def hang_up(self, error: OttlaError | None = None) -> None:
        """Close the broker's end; the client notices after all bytes that were sent before."""
        response = error or ConnectionFailedError(f"broker {self.broker.id} closed the connection")
        self._back_at = max(self._back_at, self.now() + self._way())
        self.schedule.at(self._back_at, lambda: self._end(response))
        self.out_lost = True

    def reset(self) -> None:
        """Reset the connection at the broker: unread bytes of the client are lost, the broker's own still arrive."""
        self.hang_up(ConnectionFailedError(f"the connection to broker {self.broker.id} was lost: reset by the peer"))

    def cut(self, error: OttlaError) -> None:
        """Cut the connection now: bytes in flight in both directions are lost, and unread ones too."""
        self.out_lost = self.back_lost = True
        self.client.received.clear()
        self.client.ended = error

    def mute(self, seconds: float) -> None:
        """Read nothing at the broker for some seconds: it throttles this client."""
        if seconds:
            self._mutes += 1
            self.broker.muted_until = max(self.broker.muted_until, self.now() + seconds)
            self.schedule.later(seconds, self._unmute)

    def freeze(self) -> None:
        """Stop reading at the broker, as in a stopped process."""
        self._broker_end.frozen = True

    def thaw(self) -> None:
        """Continue at the broker, with the bytes that were sent meanwhile."""
        self._broker_end.frozen = False
        for data in self._broker_end.take_unread():
            self._arrive_at_broker(data)

    # Bytes in flight

    def _depart(self, data: bytes) -> None:
        self.used_at = self.now()
        self._out_at = max(self._out_at, self.now() + self._way()) + self._transfer(data)
        self.schedule.at(self._out_at, lambda: self._arrive_at_broker(data))

    def _arrive_at_broker(self, data: bytes) -> None:
        if self.out_lost or not self.broker.up or not self._broker_end.arrive(data):
            return
        self.schedule.later(self.wire.round_trip / 2, lambda: self.client.acknowledge(len(data)))
        self._read_on()

    def _read_on(self) -> None:
        self._reading = True
        try:
            while (
                not (self.out_lost or self.busy or self._mutes)
                and (request := self._broker_end.next_request()) is not None
            ):
                self._ask(request)
        except HangUpError:
            self.broker.hang_ups += 1
            self.hang_up()
        finally:
            self._reading = False

    def _ask(self, request: bytes) -> None:
        self.used_at = self.now()
        self.requests += 1
        self.trace.note(self.used_at, self.node, ">", request)
        self.busy = True
        if self.client.closed:  # the response to the request before it was late, and the client has given up
            self.broker.cluster.taken_after_close.add(int.from_bytes(request[:2], "big"))
        when_known(self.take(self, request), self._respond)

    def _respond(self, response: KnownResponse) -> None:
        if response.muted_seconds and self.broker.produce_version < PRODUCE_AT_ONCE:
            late = KnownResponse(response.content)
            self.schedule.later(response.muted_seconds, lambda: self._respond(late))
            return
        self.busy = False
        if not self.broker.up or self.client.ended is not None:
            return  # the connection is no more
        if response.content is not None:
            self.answer(response.content)
        self.mute(response.muted_seconds)
        if not self._reading:
            self._read_on()

    def _unmute(self) -> None:
        self._mutes -= 1
        self._read_on()

    def _arrive_at_client(self, data: bytes) -> None:
        self.used_at = self.now()
        if not (self.client.closed or self.back_lost):
            self.client.received += data

    def _end(self, error: OttlaError) -> None:
        if self.client.ended is None and not self.back_lost:
            self.client.ended = error

    def _transfer(self, data: bytes) -> float:
        """Return the seconds that these bytes occupy the link."""
        return 0.0 if self.wire.bandwidth is None else len(data) / self.wire.bandwidth

    def _way(self) -> float:
        """Return the seconds that the next piece of bytes travels in one direction."""
        jitter = self.wire.jitter
        return self.wire.round_trip / 2 + (self.chance.uniform(0, jitter) if jitter else 0.0)

    def _cut_up(self, data: bytes) -> Sequence[bytes]:
        if len(data) < 2 or not self.chance.happens(self.wire.pieces):
            return [data]
        cuts = sorted({self.chance.randint(1, len(data) - 1) for _ in range(3)})
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
