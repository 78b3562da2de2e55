"""When the tasks of a worker check their lease, and for how long each check may wait for the brokers' answer.

A check interrupts the rows of its task. While the lease's coordinator is away no driver can renew the lease, so a task
then has nothing to find out, and goes on.
"""

from __future__ import annotations

from typing import Final

import attrs

EVERY: Final = 1.0
"""Seconds between two checks while a task writes, each a request to a broker of 0.6 ms. Spark kills the worker of a
failed job two seconds after the failure at the earliest."""

BRIEFLY: Final = 3.0
"""Seconds for the answer to a check."""

ONCE_MORE: Final = 0.3
"""Seconds for the answer to a check that has to be made soon after one without an answer."""

LONGER: Final = 9.0
"""How many times longer than a check a task writes before the next one."""


@attrs.define
class LeaseChecks:
    """The last check of one worker. All times are those of a monotonic clock."""

    _due_at: float = float("-inf")
    _unanswered: bool = False

    def due(self, now: float) -> bool:
        """Return whether it is time for another check."""
        return now >= self._due_at

    def within(self, now: float) -> float:
        """Return the seconds for the answer to a check that begins now."""
        return ONCE_MORE if self._unanswered and not self.due(now) else BRIEFLY

    def ended(self, *, started_at: float, now: float, answered: bool) -> None:
        """Note a check that has ended now, with an answer or without."""
        in_pause = self._unanswered and not self.due(started_at)
        self._unanswered = not answered
        if answered or not in_pause:
            self._due_at = now + max(EVERY, LONGER * (now - started_at))
