"""Log lines about brokers that throttle the client because of a quota: the first, its repetitions, and the end."""

from __future__ import annotations

from typing import Final

import attrs

from ottla.errors import counted
from ottla.errors.outages import Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger
from ottla.network.cluster import Broker

logger = robust_logger(__name__)

LOGGED_AFTER: Final = 5.0
"""Seconds. Consecutive pauses that last as long are logged; shorter ones are normal with a quota."""

ENDS_AFTER: Final = 5.0
"""Seconds. Pauses with shorter gaps count as one; after a longer gap the throttling is over."""

_QUOTA: Final = "quota"


@attrs.define(eq=False, kw_only=True, repr=False)
class _Pauses:
    """Consecutive pauses: when the first began, and when the last ends."""

    started_at: float
    until: float


class ThrottleLog:
    """The brokers that throttle one client now. For the I/O thread, without a lock."""

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        self._outages: Outages[Broker, str] = Outages(repeat_by_failure=True)
        self._pauses: dict[Broker, _Pauses] = {}
        self.active = False
        """True while any broker throttles the client, and until `ENDS_AFTER` seconds after that."""

    def paused(self, broker: Broker, seconds: float, now: float) -> None:
        """Note that a broker asks for a pause."""
        self.active = True
        pauses = self._pauses.get(broker)
        if pauses is None:
            pauses = self._pauses[broker] = _Pauses(started_at=now, until=now)
        pauses.until = max(pauses.until, now + seconds)
        if pauses.until - pauses.started_at >= LOGGED_AFTER:
            text = f"no request is sent to it for {seconds:.1f} s"
            self._outages.failed(broker, _QUOTA, text, pauses.until, started_at=pauses.started_at)

    def lasting(self, broker: Broker, now: float) -> float | None:
        """Seconds since a broker began to throttle the client; None if it stopped over `ENDS_AFTER` seconds ago."""
        pauses = self._pauses.get(broker)
        return now - pauses.started_at if pauses is not None and now < pauses.until + ENDS_AFTER else None

    def due_at(self) -> float:
        """The time at which a line is due without further events."""
        return min((pauses.until + ENDS_AFTER for pauses in self._pauses.values()), default=float("inf"))

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        for broker, pauses in list(self._pauses.items()):
            if now >= pauses.until + ENDS_AFTER:
                del self._pauses[broker]
                self._outages.recovered(broker, pauses.until)
        self.active = bool(self._pauses)
        for line in self._outages.take_lines(now):
            brokers = ", ".join(map(str, line.shown)) + (", ..." if line.count > len(line.shown) else "")
            if not isinstance(line, OutageUpdate):
                logger.info(
                    "%s: not throttled any more by %s, after %.1f s and %s",
                    self._client_id,
                    brokers,
                    line.lasting,
                    counted(line.failures, "pause"),
                )
            elif line.first:
                logger.warning(
                    "%s: throttled because of a quota by %s: %s; records wait meanwhile, up to delivery.timeout.ms; "
                    "send less, or have the quota of this user or client.id raised",
                    self._client_id,
                    brokers,
                    line.error,
                )
            else:
                logger.warning(
                    "%s: still throttled because of a quota by %s, after %.1f s and %s: %s",
                    self._client_id,
                    brokers,
                    line.lasting,
                    counted(line.failures, "more pause"),
                    line.error,
                )
