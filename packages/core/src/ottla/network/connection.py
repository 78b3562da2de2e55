"""What the client knows of its connection to one broker: its stage, its backoff, its addresses, its requests."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from ottla.errors import OttlaError
from ottla.network.authentication import Computation
from ottla.network.cluster import Broker
from ottla.network.request import InFlight
from ottla.network.selectable import Address
from ottla.network.throttling import LONGEST

if TYPE_CHECKING:
    from ottla.network.authentication.exchange import Exchange


_AFTER_THE_LONGEST: Final = 60.0
"""Seconds for an answer after the longest pause."""


class Stage(enum.Enum):
    """How far a connection has come; every stage may end in DISCONNECTED.

    | stage          | waits for                                         | then                          |
    |----------------|---------------------------------------------------|-------------------------------|
    | RESOLVING      | addresses                                         | CONNECTING                    |
    | CONNECTING     | the socket and the transport's handshake          | NEGOTIATING                   |
    | NEGOTIATING    | the answer to ApiVersions, once for a connection  | AUTHENTICATING, without: READY |
    | AUTHENTICATING | SaslHandshake, SaslAuthenticate, our mechanism    | READY                         |
    | READY          | requests                                          | RENEWING, with SASL           |
    | RENEWING       | the same, after answers to what was asked before  | READY                         |
    """

    DISCONNECTED = "disconnected"
    RESOLVING = "looking up the name"
    CONNECTING = "connecting"
    NEGOTIATING = "asking for API versions"
    AUTHENTICATING = "logging in"
    READY = "ready"
    RENEWING = "logging in again"


@attrs.define(eq=False, kw_only=True)
class LoginState:
    """A login under way: what is exchanged, and what our side is thinking of, if it is."""

    exchange: Exchange
    thought: Computation | None = None


@attrs.define(eq=False, kw_only=True)
class Connection:
    """The connection to one broker, over all its tries."""

    broker: Broker
    stage: Stage = Stage.DISCONNECTED
    failures: int = 0
    failed_at: float = float("-inf")
    last_failure: OttlaError | None = None
    reached: bool = False  # it was ready once
    retry_at: float = float("-inf")
    setup_deadline: float = float("inf")
    ready_at: float = float("-inf")  # when it last became ready
    used_at: float = float("-inf")  # ready, answered, or written to without an answer
    idle_at: float = float("inf")  # when connections.max.idle.ms are over, if it has nothing to do until then
    host: str = ""  # the name that certificate or principal should have there
    login: LoginState | None = None
    renew_at: float = float("inf")
    session_ends_at: float = float("inf")
    short_sessions: int = 0  # in a row, each too short to be renewed on its connection
    throttled_until: float = float("-inf")
    writing: bool = False
    closing: bool = False
    reason: OttlaError | None = None  # ours for closing it, which stands before what the socket says at the end
    refusal: OttlaError | None = None  # why it will not become ready by waiting
    heard: bool = True  # since it is ready, anything
    unconfirmed: InFlight | None = None  # the last request without an answer, until a later one is answered
    asked_to_confirm: bool = False
    versions: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    in_flight: deque[InFlight] = attrs.field(factory=deque)
    addresses: Sequence[Address] = ()

    def may_connect(self, now: float) -> bool:
        """Whether a new try is allowed now."""
        return self.stage is Stage.DISCONNECTED and now >= self.retry_at

    @property
    def attempts(self) -> int:
        """How many new connections were needed lately, which decides the backoff; a short session counts as well."""
        return max(self.failures, self.short_sessions - 1)

    @property
    def setting_up(self) -> bool:
        """Whether it is on its way to being ready, or to being so again."""
        return self.stage not in (Stage.DISCONNECTED, Stage.READY)

    @property
    def awaits_answers(self) -> bool:
        """Whether it has requests under way, or some without an answer that nothing has confirmed yet (`acks=0`)."""
        return not self.closing and bool(self.in_flight or self.unconfirmed)

    @property
    def obstacle(self) -> OttlaError | None:
        """What keeps it from being ready, since it failed."""
        return self.last_failure if self.failures and self.stage not in (Stage.READY, Stage.RENEWING) else None

    @property
    def doing(self) -> str:
        """What it waits for, in words."""
        thinking = self.login is not None and self.login.thought is not None
        return f"{self.stage.value}: our own mechanism takes so long" if thinking else self.stage.value

    def may_send(self, now: float, *, max_in_flight: int) -> bool:
        """Whether the connection takes one more request now."""
        return (
            self.stage is Stage.READY
            and not self.writing
            and not self.closing
            and len(self.in_flight) < max_in_flight
            and now >= self.throttled_until
        )

    @property
    def awaits_earlier_answers(self) -> bool:
        """Whether the next answer belongs to a request from before a login on this connection."""
        return bool(self.in_flight) and self.in_flight[0].reader is None

    def throttle(self, seconds: float, now: float) -> None:
        """Pause, as the broker asks: it reads nothing of us in this time, which so counts against no time-out."""
        self.throttled_until = max(self.throttled_until, now + seconds)
        self.setup_deadline = _put_off(self.setup_deadline, seconds, now)
        self.in_flight = deque(
            attrs.evolve(sent, deadline=_put_off(sent.deadline, seconds, now)) for sent in self.in_flight
        )

    def confirm(self, answered: InFlight) -> None:
        """Note an answer: a broker serves a connection in order, so it has taken whatever was sent before."""
        if self.unconfirmed is not None and answered.number > self.unconfirmed.number:
            self.unconfirmed, self.asked_to_confirm = None, False

    def next_deadline(self) -> float:
        """When something of this connection times out, or when it has been idle for too long."""
        if self.stage is Stage.READY:
            return self.in_flight[0].deadline if self.in_flight else self.idle_at
        if self.stage is Stage.DISCONNECTED:
            return float("inf")
        oldest = self.in_flight[0].deadline if self.in_flight else float("inf")  # all may take equally long
        return min(oldest, self.setup_deadline)

    def lost(self) -> Sequence[InFlight]:
        """Forget the connection; returns the requests that now have no answer, in order."""
        unanswered = tuple(self.in_flight)
        self.in_flight.clear()
        self.stage = Stage.DISCONNECTED
        self.writing = self.closing = False
        self.reason = None
        self.versions = {}
        self.login = None
        self.renew_at = self.session_ends_at = float("inf")
        self.unconfirmed, self.asked_to_confirm = None, False
        return unanswered


def _put_off(deadline: float, seconds: float, now: float) -> float:
    """A deadline after a pause; many answers at once with the longest pause make no longer one of it."""
    return max(deadline, min(deadline + seconds, now + LONGEST + _AFTER_THE_LONGEST))
