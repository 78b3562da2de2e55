"""State of the connection to one broker: stage, backoff, addresses, requests."""

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
    """The stage of a connection; DISCONNECTED may follow every stage.

    | stage          | waits for                                         | then                          |
    |----------------|---------------------------------------------------|-------------------------------|
    | RESOLVING      | addresses                                         | CONNECTING                    |
    | CONNECTING     | the socket and the transport's handshake          | NEGOTIATING                   |
    | NEGOTIATING    | the response to ApiVersions, once per connection  | AUTHENTICATING, without: READY |
    | AUTHENTICATING | SaslHandshake, SaslAuthenticate, our mechanism    | READY                         |
    | READY          | requests                                          | RENEWING, with SASL           |
    | RENEWING       | the same, after responses to earlier requests     | READY                         |
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
    """A login in progress: its exchange, and the mechanism's current computation, if any."""

    exchange: Exchange
    thought: Computation | None = None


@attrs.define(eq=False, kw_only=True)
class Connection:
    """The connection to one broker, over all its attempts."""

    broker: Broker
    stage: Stage = Stage.DISCONNECTED
    failures: int = 0
    failed_at: float = float("-inf")
    last_failure: OttlaError | None = None
    reached: bool = False  # it was ready once
    retry_at: float = float("-inf")
    setup_deadline: float = float("inf")
    ready_at: float = float("-inf")  # when it last became ready
    used_at: float = float("-inf")  # the last time that it became ready, got a response, or wrote a request without one
    idle_at: float = float("inf")  # when connections.max.idle.ms end, unless it is used before
    host: str = ""  # the name that the certificate or principal must have
    login: LoginState | None = None
    renew_at: float = float("inf")
    session_ends_at: float = float("inf")
    short_sessions: int = 0  # in a row, each too short to be renewed on its connection
    throttled_until: float = float("-inf")
    writing: bool = False
    closing: bool = False
    reason: OttlaError | None = None  # our own for closing it; takes precedence over the socket's error
    refusal: OttlaError | None = None  # a reason that a retry cannot fix
    heard: bool = True  # whether anything has arrived since it became ready
    unconfirmed: InFlight | None = None  # the last request without a response, until a later one is answered
    asked_to_confirm: bool = False
    versions: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    in_flight: deque[InFlight] = attrs.field(factory=deque)
    addresses: Sequence[Address] = ()

    def may_connect(self, now: float) -> bool:
        """Return whether a new attempt is allowed now."""
        return self.stage is Stage.DISCONNECTED and now >= self.retry_at

    @property
    def attempts(self) -> int:
        """The number of recent attempts, which determines the backoff; a short session counts as well."""
        return max(self.failures, self.short_sessions - 1)

    @property
    def setting_up(self) -> bool:
        """Return whether it is becoming ready, for the first time or again."""
        return self.stage not in (Stage.DISCONNECTED, Stage.READY)

    @property
    def awaits_answers(self) -> bool:
        """Return whether requests are in flight, or requests with `acks=0` are unconfirmed."""
        return not self.closing and bool(self.in_flight or self.unconfirmed)

    @property
    def obstacle(self) -> OttlaError | None:
        """The error of the last failure, while it has not become ready again."""
        return self.last_failure if self.failures and self.stage not in (Stage.READY, Stage.RENEWING) else None

    @property
    def doing(self) -> str:
        """A description of the event that it waits for, for error messages."""
        thinking = self.login is not None and self.login.thought is not None
        return f"{self.stage.value}: our own mechanism takes so long" if thinking else self.stage.value

    def may_send(self, now: float, *, max_in_flight: int) -> bool:
        """Return whether the connection takes one more request now."""
        return (
            self.stage is Stage.READY
            and not self.writing
            and not self.closing
            and len(self.in_flight) < max_in_flight
            and now >= self.throttled_until
        )

    @property
    def awaits_earlier_answers(self) -> bool:
        """Return whether the next response is for a request sent before a login on this connection."""
        return bool(self.in_flight) and self.in_flight[0].reader is None

    def throttle(self, seconds: float, now: float) -> None:
        """Pause, as the broker asks. It reads no requests in this time, so all timeouts are extended."""
        self.throttled_until = max(self.throttled_until, now + seconds)
        self.setup_deadline = _put_off(self.setup_deadline, seconds, now)
        self.in_flight = deque(
            attrs.evolve(sent, deadline=_put_off(sent.deadline, seconds, now)) for sent in self.in_flight
        )

    def confirm(self, answered: InFlight) -> None:
        """Note a response: a broker serves a connection in order, so it has taken all earlier requests."""
        if self.unconfirmed is not None and answered.number > self.unconfirmed.number:
            self.unconfirmed, self.asked_to_confirm = None, False

    def next_deadline(self) -> float:
        """The time of the next timeout of this connection, or of the end of its idle time."""
        if self.stage is Stage.READY:
            return self.in_flight[0].deadline if self.in_flight else self.idle_at
        if self.stage is Stage.DISCONNECTED:
            return float("inf")
        oldest = self.in_flight[0].deadline if self.in_flight else float("inf")  # all have the same timeout
        return min(oldest, self.setup_deadline)

    def lost(self) -> Sequence[InFlight]:
        """Reset to DISCONNECTED; return the unanswered requests in order."""
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
