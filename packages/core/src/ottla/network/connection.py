"""State of the connection to one broker: stage, backoff, session, addresses, requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from ottla.errors import NetworkError, OttlaError, SecurityError
from ottla.interfaces import Target
from ottla.network.address_failures import AddressFailures
from ottla.network.api_versions import Features
from ottla.network.authentication import LoginSession
from ottla.network.cluster import Broker
from ottla.network.connection_setup import ConnectionSetup
from ottla.network.connection_stage import DISCONNECTED, READY, Stage
from ottla.network.in_flight_requests import InFlight, InFlightRequests, postponed
from ottla.network.selector_interface import Address

SHORT_LIFE: Final = 5.0
"""Seconds. If a broker ends connections sooner after they became ready, the second and later ones lengthen the backoff.

Otherwise a broker that closes each connection after a response could make us log in ten times a second. An idle
connection lives longer, and so does one that a restart of its broker ends.
"""

SLOW_AFTER: Final = 1.0
"""Seconds after which a connection that is not established counts as slow, so that another broker is tried meanwhile.

A host that is gone answers nothing, and `socket.connection.setup.timeout.ms` are ten seconds. The next address of a
name is tried after the same time, doubled with each failure: a host that is far away may need longer.
"""

_MOST_DOUBLINGS: Final = 10


@attrs.define(eq=False, kw_only=True, repr=False)
class Connection:
    """The state of the connection to one broker, over all attempts to connect."""

    broker: Broker
    max_in_flight: int = 5
    max_idle: float = float("inf")
    stage: Stage = Stage.DISCONNECTED
    failures: int = 0
    # In a row; a connection that is lost after it became ready is a failure, but no setup failed.
    failed_setups: int = 0
    failed_at: float = float("-inf")  # when the last of its addresses failed, since the broker last answered
    last_failure: OttlaError | None = None
    answered: bool = False  # it answered ApiVersions once
    retry_at: float = float("-inf")
    setup_deadline: float = float("inf")
    address_deadline: float = float("inf")  # for the peer to accept the connection, while there are other addresses
    began_at: float = float("-inf")  # when this attempt to connect began
    opened_at: float = float("-inf")  # when it became ready for the first time since it was made
    ready_at: float = float("-inf")  # when it became ready the last time, after a login that renewed its session, too
    used_at: float = float("-inf")  # the last time that it became ready, got a response, or wrote a request without one
    idle_at: float = float("inf")  # when connections.max.idle.ms end, unless it is used before
    host: str = ""  # the name that the certificate or principal must have
    setup: ConnectionSetup | None = None
    session: LoginSession = attrs.field(factory=LoginSession)
    short_lives: int = 0  # connections in a row that the broker ended soon after they were ready
    throttled_until: float = float("-inf")
    closing: bool = False
    # Why this client closes it, now or once the requests in flight have responses; the socket's error counts less.
    reason: NetworkError | None = None
    refusal: OttlaError | None = None  # a reason that a retry cannot fix: at the last of its addresses, or at one
    refusal_so_far: OttlaError | None = None  # such a reason at an address, while others are still to be tried
    unchecked: bool = False  # the broker has not yet said which cluster it belongs to; until then it gets no records
    received_any: bool = True  # whether anything has arrived since it became ready
    versions: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    features: Features = attrs.field(factory=Features)
    in_flight: InFlightRequests = attrs.field(factory=InFlightRequests)
    address: Address | None = None  # the one that the last attempt was for, once the name was resolved
    addresses: Sequence[Address] = ()  # that are still to be tried
    silent: set[Target] = attrs.field(factory=set)  # that did not answer, and are tried last
    failed_addresses: AddressFailures = attrs.field(factory=AddressFailures)

    def may_connect(self, now: float) -> bool:
        """Return whether a new attempt is allowed now."""
        return self.stage is Stage.DISCONNECTED and now >= self.retry_at

    @property
    def attempts(self) -> int:
        """The number of recent attempts, which determines the backoff; short sessions and lives count from two on."""
        return max(self.failures, self.session.short_sessions - 1, self.short_lives - 1)

    @property
    def setting_up(self) -> bool:
        """Return whether the connection is being set up, or its session renewed."""
        return self.stage not in (Stage.DISCONNECTED, Stage.READY)

    @property
    def slow_at(self) -> float:
        """The time at which the attempt to connect counts as slow; infinity once the connection is established."""
        if self.stage is Stage.CONNECTING or self.stage is Stage.RESOLVING:
            return self.began_at + SLOW_AFTER
        return float("inf")

    @property
    def busy_until(self) -> float:
        """The time at which the next response counts as late; minus infinity if none is awaited."""
        responding = self.stage is READY and self.reason is None and self.in_flight
        return self.in_flight[0].sent_at + SLOW_AFTER if responding else float("-inf")

    @property
    def awaits_responses(self) -> bool:
        """Return whether requests are in flight, or requests with `acks=0` are unconfirmed."""
        return not self.closing and bool(self.in_flight or self.in_flight.unconfirmed)

    @property
    def obstacle(self) -> OttlaError | None:
        """The error of the last failure; None once the connection is ready again."""
        return self.last_failure if self.failures and self.stage not in (Stage.READY, Stage.RENEWING) else None

    @property
    def doing(self) -> str:
        """A description of what the client does until the connection is ready, for error messages."""
        slow = "" if self.setup is None else self.setup.waits_for
        return f"{self.stage.value}, and {slow}" if slow else self.stage.value

    def may_send(self, now: float) -> bool:
        """Return whether the connection takes one more request now."""
        return (
            self.stage is READY
            and not self.in_flight.writing
            and self.reason is None
            and len(self.in_flight) < self.max_in_flight
            and now >= self.throttled_until
        )

    def next_deadline(self) -> float:
        """The time of the next timeout of this connection, or of the end of its idle time."""
        if self.stage is READY:
            if self.in_flight:
                return self.in_flight[0].deadline
            return self.in_flight.write_deadline if self.in_flight.writing else self.idle_at
        if self.stage is DISCONNECTED:
            return float("inf")
        # All requests have the same timeout, so the oldest one expires first.
        oldest = self.in_flight[0].deadline if self.in_flight else float("inf")
        return min(oldest, self.setup_deadline, self.address_deadline)

    def try_addresses(self, addresses: Sequence[Address]) -> None:
        """Take the addresses of a name in their order, but those last that did not answer the last time."""
        self.silent.intersection_update(address.target for address in addresses)
        self.addresses = sorted(addresses, key=lambda address: address.target in self.silent)

    def begin_address(self, now: float) -> Address:
        """Take the next address. It may be silent for a second, or longer after failures, if there are others."""
        self.address, self.addresses = self.addresses[0], self.addresses[1:]
        if self.addresses:
            self.address_deadline = now + SLOW_AFTER * 2 ** min(self.failed_setups, _MOST_DOUBLINGS)
        return self.address

    def use(self, now: float) -> None:
        """Note that the connection is used: its idle time starts again."""
        self.used_at, self.idle_at = now, now + self.max_idle

    def throttle(self, seconds: float, now: float) -> None:
        """Pause, as the broker asks. The broker reads no requests in this time, so all timeouts are extended."""
        self.throttled_until = max(self.throttled_until, now + seconds)
        self.setup_deadline = postponed(self.setup_deadline, seconds, now)
        self.in_flight.postpone(seconds, now)

    def become_ready(self, now: float) -> None:
        """Note that the connection takes requests, after ApiVersions and the login."""
        if self.stage is not Stage.RENEWING:
            self.opened_at = now
        self.stage, self.ready_at = Stage.READY, now
        self.use(now)
        self.refusal = self.refusal_so_far = None
        self.failed_setups = 0
        self.received_any = False
        self.addresses = ()
        if self.address is not None:
            self.silent.discard(self.address.target)
        self.failed_addresses.clear()

    def note_working(self) -> bool:
        """Note that the broker answers; return whether this ends failures.

        While it has not said which cluster it belongs to, they go on: it may be a wrong one.
        """
        self.received_any = True
        if not self.failures or self.unchecked:
            return False
        self.failures, self.failed_at = 0, float("-inf")
        return True

    def note_failure(self, error: OttlaError, now: float, *, final: bool) -> None:
        """Note why an address failed; if it was the last one, whether the broker refuses us, with the errors of all.

        If one address has refused the login or certificate, it is enough that the others failed, as with brokers.
        """
        if final:
            self.refusal_so_far = error
        elif not isinstance(self.refusal_so_far, SecurityError):
            self.refusal_so_far = None
        self.failures += 1
        self.failed_addresses.note(self.address, error)
        if not self.addresses:
            self.failed_at = now
            self.refusal = None if self.refusal_so_far is None else self.failed_addresses.named(self.refusal_so_far)
            self.refusal_so_far = None
            self.failed_addresses.clear()

    def count_life(self, now: float, *, by_broker: bool) -> bool:
        """Count the end of a connection; return whether the broker ended it soon after it became ready."""
        if self.stage not in (Stage.READY, Stage.RENEWING):
            return False
        if now - self.opened_at >= SHORT_LIFE:
            self.short_lives = 0
            return False
        self.short_lives += by_broker
        return by_broker

    def lost(self) -> Sequence[InFlight]:
        """Reset to DISCONNECTED; return the unanswered requests in order."""
        self.stage = Stage.DISCONNECTED
        self.address_deadline = float("inf")
        self.closing = False
        self.reason = None
        self.unchecked = False
        self.versions, self.features = {}, Features()
        self.setup = None
        self.session.end()
        return self.in_flight.take_all()
