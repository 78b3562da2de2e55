"""Who settled how: the counts behind `DeliveryReport`, and the failures that nobody has looked at.

Bounded: of failed batches the last thousands are remembered one by one, older ones as a count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.lost_records import FailedRecords, LostRecords
from ottla.concurrency.locks import SignalSafeLock
from ottla.errors import DeliveryError
from ottla.metrics import Counters
from ottla.results import DeliveryReport, TopicReport

REMEMBERED_FAILURES = 4096


class DeliveryCounts:
    """Counts settled records by topic. Safe for any number of threads."""

    def __init__(self, *, counters: Counters | None = None, lost: LostRecords | None = None) -> None:
        self._counters = counters or Counters()
        self._lost = LostRecords(wake=lambda: None) if lost is None else lost
        self._lock = SignalSafeLock()
        self._acknowledged: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._possibly_persisted: Counter[str] = Counter()
        self._failures: deque[FailedRecords] = deque()  # not the batches: their end is what `lost` waits for
        self._entered_failures = 0
        self._forgotten_unretrieved = 0
        self._first_error: DeliveryError | None = None

    def add(self, batches: Iterable[ProducerBatch]) -> bool:
        """Count batches that have just been settled; True: one of them failed."""
        with self._lock:
            before = self._entered_failures
            for batch in batches:
                if not batch.accounted:  # else whoever counted it was interrupted then, and goes on
                    self._add(batch)
            return self._entered_failures > before

    def take_report(self, pending: Iterable[ProducerBatch]) -> tuple[DeliveryReport, int, DeliveryError | None]:
        """The report since the last one, how many failures nobody has looked at, and the first of their causes.

        All of them count as looked at from now on: the caller raises, or reports, what is returned.
        """
        waiting: Counter[str] = Counter()
        for batch in pending:
            waiting[batch.topic] += batch.count
        with self._lock:
            topics = {
                topic: TopicReport(
                    acknowledged=self._acknowledged[topic],
                    failed=self._failed[topic],
                    possibly_persisted=self._possibly_persisted[topic],
                    pending=waiting[topic],
                )
                for topic in sorted({*self._acknowledged, *self._failed, *waiting})
            }
            while self._failures:
                self._forget(self._failures.popleft())
            if self._lost.reports is not None:
                self._lost.reports += 1
            unseen, error = self._forgotten_unretrieved, self._first_error
            self._forgotten_unretrieved, self._first_error = 0, None
            for counts in (self._acknowledged, self._failed, self._possibly_persisted):
                counts.clear()
        return DeliveryReport(topics), unseen, error

    def _add(self, batch: ProducerBatch) -> None:
        count = batch.count
        match batch.outcome:
            case Acknowledged():
                batch.accounted = True
                self._acknowledged[batch.topic] += count
            case Failed(error=error):
                self._counters.topic(batch.topic).errors.add(count)
                failed = batch.watch(error, self._lost.drop)
                batch.accounted = True
                self._entered_failures += 1
                self._failed[batch.topic] += count
                if error.possibly_persisted:
                    self._possibly_persisted[batch.topic] += count
                failed.reports = self._lost.reports or 0
                self._failures.append(failed)
                if len(self._failures) > REMEMBERED_FAILURES:
                    self._forget(self._failures.popleft())
            case _:
                raise AssertionError("only settled batches are entered, and of split ones the parts")

    def _forget(self, failed: FailedRecords) -> None:
        unseen = failed.unretrieved
        self._forgotten_unretrieved += unseen
        if unseen and self._first_error is None:
            self._first_error = failed.error
