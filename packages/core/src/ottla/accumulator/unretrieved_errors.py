"""Failed records whose error the program can no longer retrieve: found when their batch is dropped, logged at ERROR.

asyncio does the same for a Future whose exception was never retrieved. A batch lives as long as one of its deliveries.
So the finalizer of the batch finds them: immediately where no delivery was kept and no callback given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ottla.accumulator.error_reads import ErrorReads
from ottla.errors import DeliveryError, counted
from ottla.errors.finalizer_log import finalizer_log
from ottla.errors.outages import LONGEST_GAP, SHORTEST_GAP, SHOWN, one_line
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)


class FailedRecords:
    """The report of a failed batch, without a reference to it; `reads` are the batch's own."""

    __slots__ = ("counted", "error", "partition", "reads", "reports", "topic")

    def __init__(self, *, topic: str, partition: int, reads: ErrorReads, error: DeliveryError) -> None:
        self.topic = topic
        self.partition = partition
        self.reads = reads
        self.error = error
        self.counted = 0  # of the unread errors, for a log line
        self.reports = 0  # how many delivery reports there were before: the next one counts it


class DropNotice:
    """An object that only a failed batch holds, so that it is finalized with the batch.

    Its finalizer runs on any thread and may interrupt any code, so it takes no lock and writes no log line.
    """

    __slots__ = ("_dropped", "_failed")

    def __init__(self, failed: FailedRecords, dropped: Callable[[FailedRecords], object]) -> None:
        self._failed = failed
        self._dropped = dropped

    def __del__(self) -> None:
        if not hasattr(self, "_dropped"):
            return  # an exception has ended its construction
        reads = self._failed.reads
        if reads.unread:
            self._dropped(self._failed)
        if reads.expects:  # of a cycle, the collector may finalize what expects an error after this
            reads.when_given_up = partial(self._dropped, self._failed)


class UnretrievedErrors:
    """Collects what finalizers report, and logs it. `drop` is for any thread, `write` for the I/O thread.

    Records that a running `flush` or `close` will report are not logged.
    """

    def __init__(self, *, wake: Callable[[], object]) -> None:
        self.reports: int | None = 0
        """The number of delivery reports so far; failures before the last one were reported. If None, log nothing."""
        self.active = False
        """Whether something was dropped that is not logged yet."""
        self._wake = wake
        self._client_id = ""
        self._ended = False
        self._dropped: deque[FailedRecords] = deque()
        self._reporting: set[object] = set()
        self._records = 0
        self._batches = 0
        self._partitions: dict[tuple[str, int], None] = {}
        self._error = ""
        self._gap = SHORTEST_GAP
        self._logged_at = float("-inf")
        self._next_at = float("-inf")

    def drop(self, failed: FailedRecords) -> None:
        """Note the records that a finalizer found. The I/O thread logs them, and once it has ended, `finalizer_log`."""
        if failed.reports != self.reports:
            return
        self._dropped.append(failed)
        if self._ended:  # something was expected to read these errors, as a task that was cancelled after the close
            finalizer_log.add(self._write_last)
            return
        self.active = True
        self._wake()

    def note_report(self) -> None:
        """Note that a report has all errors so far."""
        if self.reports is not None:
            self.reports += 1
        self._ended = self in self._reporting

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Log nothing in this block, whose delivery report will have the records that fail meanwhile."""
        token = object()
        try:
            self._reporting.add(token)  # in here: a signal's handler may raise right after it
            yield
        finally:
            self._reporting.discard(token)
            if self._dropped:
                self._wake()

    def hold(self) -> None:
        """Log nothing more: the producer closes, and `close` reports what is not logged by now."""
        self._reporting.add(self)

    def ignore(self) -> None:
        """Log nothing: in a forked child the records are the parent's, and a transaction reports its records itself."""
        self.reports = None
        self._dropped.clear()
        self._records = 0

    def due_at(self) -> float:
        """The time to log the records that were dropped or counted since the last line."""
        held = self._reporting or not self._dropped
        return float("inf") if held and not self._records else self._next_at

    def write(self, client_id: str, now: float, *, final: bool = False) -> None:
        """Log dropped records: immediately, then, while it goes on, with counts and ever longer gaps."""
        self.active = False  # before the count: a finalizer may run at any moment
        self._client_id = client_id
        self._count_dropped()
        if self._dropped or self._records:
            self.active = True
        if not self._records or (now < self._next_at and not final):
            return
        if now >= self._logged_at + 2 * LONGEST_GAP:
            self._gap = SHORTEST_GAP
        self._write_counts(client_id)
        self.active = False  # before the check, as above
        if self._dropped:
            self.active = True
        self._logged_at, self._next_at = now, now + self._gap
        self._gap = min(2 * self._gap, LONGEST_GAP)

    def _write_last(self) -> None:
        while self._dropped:
            failed = self._dropped.popleft()
            if failed.reports == self.reports:  # else `close` has reported it, which ended before it was counted
                self._count(failed)
        if self._records:  # else an earlier line has them
            self._write_counts(self._client_id)

    def _write_counts(self, client_id: str) -> None:
        if self._batches == 1:
            logger.error(
                "%s: %s failed, and no delivery or callback is left to report the error: %s",
                client_id,
                counted(self._records, "record"),
                self._error,
            )
        else:
            shown = ", ".join(f"{topic}-{partition}" for topic, partition in list(self._partitions)[:SHOWN])
            logger.error(
                "%s: %s of %d batches for %s (%s%s) failed, and no delivery or callback is left "
                "to report the errors; the last one: %s",
                client_id,
                counted(self._records, "record"),
                self._batches,
                counted(len(self._partitions), "partition"),
                shown,
                ", ..." if len(self._partitions) > SHOWN else "",
                self._error,
            )
        self._records = self._batches = 0
        self._partitions.clear()

    def _count_dropped(self) -> None:
        while self._dropped and not self._reporting:
            failed = self._dropped.popleft()
            if failed.reports == self.reports:
                self._count(failed)

    def _count(self, failed: FailedRecords) -> None:
        more = failed.reads.unread - failed.counted
        if not more:  # those that are given up after the batch is gone come one by one
            return
        failed.counted += more
        self._records += more
        self._batches += 1
        self._partitions[failed.topic, failed.partition] = None
        self._error = one_line(failed.error)
