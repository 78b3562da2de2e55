"""The transactions of a load: each is committed after a time."""

from __future__ import annotations

from collections.abc import Callable

from ottla import Producer


class TimedTransactions:
    """Transactions of some seconds each, if the producer has a `transactional.id`."""

    def __init__(self, producer: Producer, seconds: float, clock: Callable[[], float]) -> None:
        self._producer = producer
        self._seconds = seconds
        self._clock = clock
        self._transactional = bool(producer.config["transactional.id"])
        self._commit_at: float | None = None
        """When the open transaction is committed, or None while none is open."""
        if self._transactional:
            producer.init_transactions()

    def before_record(self) -> None:
        """Begin a transaction if none is open, after a commit of the one whose time is over."""
        if not self._transactional:
            return
        if self._commit_at is not None and self._clock() >= self._commit_at:
            self.end()
        if self._commit_at is None:
            self._producer.begin_transaction()
            self._commit_at = self._clock() + self._seconds

    def end(self) -> None:
        """Commit the open transaction."""
        if self._commit_at is not None:
            self._commit_at = None
            self._producer.commit_transaction()
