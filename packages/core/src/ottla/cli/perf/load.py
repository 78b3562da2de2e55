"""The load: records sent one after another, in transactions if the producer has a `transactional.id`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import attrs

from ottla import Delivery, Producer
from ottla.cli.closing import close
from ottla.cli.perf.latencies import Interval, Latencies, LatencyRecorder
from ottla.cli.perf.pace import Pace
from ottla.cli.perf.timed_transactions import TimedTransactions
from ottla.errors import OttlaError, UndeliveredError

_NAMED: Final = 5
"""Different errors of records that are kept; all failed records are counted."""

_LONGEST_SLEEP: Final = 0.25
"""Seconds. Between two records, an interval may end."""


@attrs.frozen(kw_only=True)
class Load:
    """What is sent. The first `warmup_records` records are not measured."""

    topic: str
    records: int
    warmup_records: int = 0
    records_per_second: float | None = None
    transaction_seconds: float = 3.0
    interval_seconds: float = 5.0


@attrs.frozen(kw_only=True)
class Result:
    """What came of it, without the records of the warm-up; `seconds` from the first record to the last outcome."""

    sent: int
    acknowledged: int
    failed: int
    size: int
    seconds: float
    latencies: Latencies
    intervals: tuple[Interval, ...]
    failures: tuple[str, ...]
    error: str | None
    interrupted: bool


class Run:
    """One run of a load, which closes the producer."""

    def __init__(
        self,
        load: Load,
        producer: Producer,
        values: Iterator[bytes],
        *,
        on_interval: Callable[[Interval], object],
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._load = load
        self._producer = producer
        self._values = values
        self._on_interval = on_interval
        self._clock = clock
        self._sleep = sleep
        self._recorder = LatencyRecorder(load.records)
        self._intervals: list[Interval] = []
        self._failures: list[str] = []
        self._began_at = self._ended_at = clock()
        self._interval_ends_at = float("inf")
        self._sent = self._failed = 0

    @property
    def sent(self) -> int:
        """Records that were sent, without those of the warm-up."""
        return self._sent

    def run(self, *, flush_timeout: float) -> Result:
        """Send the load and wait for its outcomes; after Ctrl-C or an error, for at most *flush_timeout* seconds."""
        error: str | None = None
        interrupted = False
        try:
            self._send_all()
            self._finish()
        except KeyboardInterrupt:
            error, interrupted = "interrupted", True
            close(self._producer, flush_timeout)
        except OttlaError as cause:
            error = _text(cause)
            close(self._producer, flush_timeout)
        self._ended_at = self._clock()
        self._end_interval(self._ended_at)
        return Result(
            sent=self._sent,
            acknowledged=self._recorder.records,
            failed=self._failed,
            size=self._recorder.size,
            seconds=self._ended_at - self._began_at,
            latencies=self._recorder.latencies(),
            intervals=tuple(self._intervals),
            failures=tuple(self._failures),
            error=error,
            interrupted=interrupted,
        )

    def _send_all(self) -> None:
        load, producer = self._load, self._producer
        transactions = TimedTransactions(producer, load.transaction_seconds, self._clock)
        producer.partitions_for(load.topic)  # the first latency is not that of finding the brokers
        for _number in self._paced(load.warmup_records):
            transactions.before_record()
            producer.send(load.topic, next(self._values), on_delivery=self._warmed_up)
        self._began_at = self._clock()
        self._interval_ends_at = self._began_at + load.interval_seconds
        for _number in self._paced(load.records):
            transactions.before_record()
            value, sent_at = next(self._values), self._clock()
            producer.send(load.topic, value, on_delivery=partial(self._delivered, sent_at, len(value)))
            self._sent += 1
        transactions.end()

    def _paced(self, records: int) -> Iterator[int]:
        """The records' numbers, each when its time has come; ends the intervals that end before."""
        pace = Pace(self._load.records_per_second, clock=self._clock)
        for number in range(records):
            while delay := pace.delay(number):
                self._end_interval_if_due()
                self._sleep(min(delay, _LONGEST_SLEEP))
            self._end_interval_if_due()
            yield number

    def _end_interval_if_due(self) -> None:
        now = self._clock()
        if now >= self._interval_ends_at:
            self._end_interval(now)
            self._interval_ends_at = now + self._load.interval_seconds

    def _delivered(self, sent_at: float, size: int, delivery: Delivery) -> None:
        if delivery.error is None:
            self._recorder.add(size, self._clock() - sent_at)
        else:
            self._note_failure(delivery.error)
            self._failed += 1

    def _warmed_up(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._note_failure(delivery.error)

    def _note_failure(self, error: OttlaError) -> None:
        text = _text(error)
        if len(self._failures) < _NAMED and text not in self._failures:
            self._failures.append(text)

    def _end_interval(self, now: float) -> None:
        interval = self._recorder.end_interval(now - self._began_at)
        self._intervals.append(interval)
        self._on_interval(interval)

    def _finish(self) -> None:
        try:
            self._producer.flush()
            self._producer.close()
        except UndeliveredError:
            close(self._producer, None)  # the callbacks have counted them


def _text(error: OttlaError) -> str:
    return f"{type(error).__name__}: {error}"
