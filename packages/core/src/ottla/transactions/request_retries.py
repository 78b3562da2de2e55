"""The time of the next attempt of a request that has to be repeated."""

from __future__ import annotations

from typing import Final

from ottla.errors import OttlaError
from ottla.network.backoff import Backoff
from ottla.transactions.transaction_error_actions import CoordinatorRequestKind

_FINDING: Final = (CoordinatorRequestKind.FIND_COORDINATOR, CoordinatorRequestKind.FIND_GROUP)


class RequestRetries:
    """Failures in a row, by kind of request: `retry.backoff.ms` doubles with each up to `retry.backoff.max.ms`.

    A coordinator may be found each time and never respond, so finding it does not end the backoff of other requests.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[CoordinatorRequestKind, int] = {}
        self._next_at: dict[CoordinatorRequestKind, float] = {}

    def next_at(self, kind: CoordinatorRequestKind) -> float:
        """The time before which no request of this kind is sent, and no coordinator is found for one.

        Another kind has not failed: the end of a transaction does not wait because its offsets could not be written.
        """
        of_group = kind in (CoordinatorRequestKind.COMMIT_OFFSETS, CoordinatorRequestKind.FIND_GROUP)
        finding = CoordinatorRequestKind.FIND_GROUP if of_group else CoordinatorRequestKind.FIND_COORDINATOR
        return max(self._next_at.get(each, float("-inf")) for each in (kind, finding))

    def fail(self, kind: CoordinatorRequestKind, error: OttlaError, now: float) -> None:
        """Note a failed attempt."""
        failures = self._failures.get(kind, 0)
        self._failures[kind] = failures + 1
        self._next_at[kind] = now + self._backoff.delay_after(error, failures)

    def succeed(self, kind: CoordinatorRequestKind) -> None:
        """Note a response without an error."""
        if kind in _FINDING:
            self._failures.pop(kind, None)
            self._next_at.pop(kind, None)
        else:
            self._failures.clear()
            self._next_at.clear()
