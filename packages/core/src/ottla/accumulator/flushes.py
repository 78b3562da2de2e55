"""Flushes: all queued batches leave, and each flush waits for those that have no outcome when it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.accumulator.flush_wait import FlushWait
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.partition_appender import PartitionAppender
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch
from ottla.results.stories.tries import CloseReason

LEAVE_WITHIN: Final = 0.01
"""Seconds for which a flush that is given up waits for the lock, also on the thread of an event loop."""


class Flushes:
    """The flushes of a producer, for any thread. Their waits are objects: thousands of tasks may flush at once."""

    def __init__(
        self,
        batches: IncompleteBatches,
        appender: PartitionAppender,
        *,
        wake: Callable[[], object],
        environment: Environment,
    ) -> None:
        self.environment = environment
        """The clock, and what makes locks and threads."""
        self._batches = batches
        self._appender = appender
        self._wake = wake

    def flush(self, timeout: float | None) -> bool:
        """Let every queued batch leave, and wait for all that have no outcome now. Return False if time ran out."""
        clock = self.environment.clock
        deadline = None if timeout is None else clock() + timeout
        latch = Latch(self.environment)
        flush = FlushWait(latch.set)
        try:
            if not self.begin(flush, timeout):
                return False
            return flush.ended or latch.wait(None if deadline is None else max(0.0, deadline - clock()))
        finally:
            self.leave(flush)

    def begin(self, flush: FlushWait, timeout: float | None) -> bool:
        """Let every queued batch leave; *flush* waits for all that have no outcome now.

        Return False if the lock was not free within *timeout* seconds, because a plugin hangs.
        """
        with self._batches.guard.within(timeout) as entered:
            if not entered:
                return False
            self._appender.close_open_batches(CloseReason.FLUSH)
            self._batches.begin_flush(flush)
        self._wake()
        return True

    def leave(self, flush: FlushWait) -> None:
        """Forget a flush that is given up; of one that has ended there is nothing left."""
        if flush.pending and not flush.ended:
            with self._batches.guard.within(LEAVE_WITHIN) as entered:
                if entered:  # else it is forgotten when its batches complete
                    self._batches.leave_flush(flush)
