"""The time at which a token is renewed before its expiry: Java's rule, with the settings `sasl.login.refresh.*`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RefreshWindow:
    """Renew a token after `factor` of its lifetime, plus a random part of `jitter`.

    The renewal is at least `min_period` seconds after the last one, and at least `buffer` seconds before the expiry; if
    the lifetime is too short for both, neither applies.
    """

    factor: float = 0.8
    jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0

    def due(self, *, now: float, issued_at: float | None, expires_at: float, chance: float) -> float:
        """Return the time of the renewal, for a token that arrived at *now*; *chance* is between 0 and 1."""
        share = self.factor + self.jitter * chance
        if now + self.min_period + self.buffer > expires_at:
            return now + (expires_at - now) * share
        start = now if issued_at is None else min(issued_at, now)
        wanted = start + (expires_at - start) * share
        return max(now + self.min_period, min(wanted, expires_at - self.buffer))
