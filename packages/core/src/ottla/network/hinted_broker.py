"""The one broker that only a leader hint names, while metadata does not list it yet (KIP-951).

The number of connections that responses can cause must be limited: one such broker is used at a time, for a second.
Each one that metadata still lacks after that lengthens the backoff until the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.network.backoff import Backoff, RetrySchedule
from ottla.network.cluster import Broker

LISTED_AFTER: Final = 1.0
"""Seconds after which every broker's metadata is assumed to include a broker that another broker's response named."""


class HintedBroker:
    """The broker that the last leader hint named and that metadata does not list yet, or None."""

    def __init__(self, backoff: Backoff) -> None:
        self._schedule = RetrySchedule(backoff)
        self.broker: Broker | None = None
        self._named_at = float("-inf")

    def accept(self, broker: Broker, now: float) -> bool:
        """Use another broker; False if there is one already, or if the backoff is not over."""
        if self.broker is not None or not self._schedule.allows(now):
            return False
        self.broker, self._named_at = broker, now
        return True

    def forget(self) -> None:
        """Forget the broker, because the cluster is bootstrapped again."""
        self.broker = None

    def awaited(self, listed: Mapping[int, Broker], now: float) -> Broker | None:
        """The broker if a metadata response that lists these brokers may be too old to have it; else None."""
        broker = self.broker
        if broker is None:
            return None
        if listed.get(broker.id) == broker:
            self._schedule.reset()
        elif now - self._named_at < LISTED_AFTER:
            return broker
        else:
            self._schedule.wait(now)
            self._schedule.count()
        self.broker = None
        return None
