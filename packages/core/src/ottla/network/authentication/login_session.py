"""The session of a connection's last login (KIP-368): when requests wait for another login, and when it ends."""

from __future__ import annotations

from typing import Final

import attrs

SHORT_SESSION: Final = 10.0
"""Seconds. A shorter session is not renewed on its connection; a new connection follows after the backoff.

Otherwise a broker could make us log in any number of times: sessions of 1 ms caused ten logins per second.
"""

LEAST_SESSION: Final = 0.1
"""Minimum seconds between two logins, even if sessions are shorter: there must be time for a request."""


@attrs.define(eq=False, kw_only=True)
class LoginSession:
    """The session at one broker, over all connections to it. Without a login it is never renewed and never ends."""

    renew_at: float = float("inf")
    ends_at: float = float("inf")
    # The lifetime that the broker stated at the last login.
    seconds: float = 0.0
    # When the last message of the connection's setup was written.
    asked_at: float = 0.0
    renewing_since: float = float("-inf")
    # In a row, each too short to be renewed on its connection.
    short_sessions: int = 0

    def begin(self, seconds: float, *, renewal_after: float, now: float) -> None:
        """Note a successful login; a session of 0 seconds does not expire."""
        self.seconds = seconds
        self.short_sessions = self.short_sessions + 1 if 0 < seconds < SHORT_SESSION else 0
        # The broker's session began between our last message and its response. Counted from the response, as in Java,
        # it would seem to end a part of the round trip too late, and requests would arrive after its end.
        self.renew_at = max(self.asked_at + renewal_after, now + LEAST_SESSION)
        self.ends_at = self.asked_at + seconds if seconds > 0 else float("inf")

    def end(self) -> None:
        """Note that the connection has ended, and the session with it."""
        self.renew_at = self.ends_at = float("inf")
