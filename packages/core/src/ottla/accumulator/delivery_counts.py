"""The counts behind `DeliveryReport`, and the errors that were not retrieved.

Memory is bounded: the last thousands of failed batches are kept one by one, older ones as a count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TypeAlias

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.unretrieved_errors import FailedRecords, UnretrievedErrors
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import SignalSafeLock
from ottla.errors import DeliveryError, TransactionAbortedError
from ottla.metrics import Counters
from ottla.results import DeliveryReport, TopicReport

REMEMBERED_FAILURES = 4096

Report: TypeAlias = tuple[DeliveryReport, int, DeliveryError | None]
"""The counts, the number of errors that were not retrieved, and the first of them."""


class DeliveryCounts:
    """Counts acknowledged and failed records by topic. Safe for any number of threads."""

    def __init__(
        self,
        *,
        counters: Counters | None = None,
        unretrieved: UnretrievedErrors | None = None,
        environment: Environment = SYSTEM,
    ) -> None:
        self._counters = counters or Counters()
        self._unretrieved = UnretrievedErrors(wake=lambda: None) if unretrieved is None else unretrieved
        self._lock = SignalSafeLock(environment)
        self._acknowledged: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._possibly_persisted: Counter[str] = Counter()
        self._failures: deque[FailedRecords] = deque()  # not the batches: `lost` logs them when they are dropped
        self._failures_counted = 0
        self._forgotten_unretrieved = 0
        self._first_error: DeliveryError | None = None

    def add(self, batches: Iterable[ProducerBatch]) -> bool:
        """Count batches that have just been completed, and return whether one of them failed."""
        with self._lock:
            before = self._failures_counted
            for batch in batches:
                if not batch.counted:  # else an earlier call counted it and was interrupted; this one continues
                    self._add(batch)
            return self._failures_counted > before

    def take_report(self, pending: Iterable[ProducerBatch], *, leave_errors: bool = False) -> Report:
        """The report since the last one, the number of errors not retrieved, and the first of them.

        All of them count as retrieved from now on: the caller raises, or reports, the returned error. If a signal
        handler raises instead, as for Ctrl-C, or with *leave_errors*, the next report has them.
        """
        waiting: Counter[str] = Counter()
        for batch in pending:
            waiting[batch.topic] += batch.count
        taken: list[Report] = []
        try:
            with self._lock:
                taken.append(self._take(waiting, leave_errors=leave_errors))
        except BaseException:  # a signal handler that was deferred has raised: the caller gets no report
            for report in taken:
                self._put_back(report)
            raise
        return taken[0]

    def _take(self, waiting: Counter[str], *, leave_errors: bool) -> Report:
        topics = {
            topic: TopicReport(
                acknowledged=self._acknowledged[topic],
                failed=self._failed[topic],
                possibly_persisted=self._possibly_persisted[topic],
                pending=waiting[topic],
            )
            for topic in sorted({*self._acknowledged, *self._failed, *waiting})
        }
        for counts in (self._acknowledged, self._failed, self._possibly_persisted):
            counts.clear()
        if leave_errors:
            return DeliveryReport(topics), 0, None
        self._unretrieved.note_report()
        expected: deque[FailedRecords] = deque()
        while self._failures:
            failed = self._failures.popleft()
            unread, expects = failed.reads.report()
            self._count_unretrieved(failed, unread)
            if expects:
                failed.reports = self._unretrieved.reports or 0
                expected.append(failed)
        self._failures = expected
        unretrieved, error = self._forgotten_unretrieved, self._first_error
        self._forgotten_unretrieved, self._first_error = 0, None
        return DeliveryReport(topics), unretrieved, error

    def _put_back(self, taken: Report) -> None:
        """Leave a report to the next call."""
        report, unretrieved, error = taken
        with self._lock:
            for name, topic in report.topics.items():
                for counts, number in (
                    (self._acknowledged, topic.acknowledged),
                    (self._failed, topic.failed),
                    (self._possibly_persisted, topic.possibly_persisted),
                ):
                    if number:  # else the next report would have the topic for nothing
                        counts[name] += number
            self._forgotten_unretrieved += unretrieved
            self._first_error = error or self._first_error

    def _add(self, batch: ProducerBatch) -> None:
        count = batch.count
        match batch.outcome:
            case Acknowledged():
                batch.counted = True
                self._acknowledged[batch.topic] += count
            case Failed(error=error):
                if not isinstance(error, TransactionAbortedError):  # as in Java: the program has dropped them
                    self._counters.topic(batch.topic).errors.add(count)
                failed = batch.watch(error, self._unretrieved.drop)
                batch.counted = True
                self._failures_counted += 1
                self._failed[batch.topic] += count
                if error.possibly_persisted:
                    self._possibly_persisted[batch.topic] += count
                failed.reports = self._unretrieved.reports or 0
                self._failures.append(failed)
                if len(self._failures) > REMEMBERED_FAILURES:
                    oldest = self._failures.popleft()
                    self._count_unretrieved(oldest, oldest.reads.unread)
            case _:
                raise AssertionError("only completed batches are counted, and the parts of split ones")

    def _count_unretrieved(self, failed: FailedRecords, unread: int) -> None:
        self._forgotten_unretrieved += unread
        if unread and self._first_error is None:
            self._first_error = failed.error
