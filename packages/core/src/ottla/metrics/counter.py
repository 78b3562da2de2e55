"""Counters: how often something happened, the total amount, and the recent maximum.

Counting computes nothing. Readers compute rates and averages of the current windows, from sums saved at the end of each
window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

NOTHING: Final = float("-inf")
"""The peak of a window without events."""


class CounterTotals(NamedTuple):
    """A counter at the end of a window: the totals so far, and the window's own peak."""

    times: int
    total: float
    peak: float


_START: Final = CounterTotals(times=0, total=0, peak=NOTHING)


class Counter:
    """One counter. Written by one thread at a time, read by any without a lock."""

    __slots__ = ("_marks", "count", "peak", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total: float = 0
        self.peak = NOTHING
        self._marks: tuple[CounterTotals, ...] = ()

    def add(self, amount: float) -> None:
        """Count one event with an amount."""
        self.count += 1
        self.total += amount
        if amount > self.peak:
            self.peak = amount

    def add_all(self, amounts: Sequence[float]) -> None:
        """Count several events, at least one, with their amounts."""
        self.count += len(amounts)
        self.total += sum(amounts)
        peak = max(amounts)
        if peak > self.peak:
            self.peak = peak

    def roll_window(self, keep: int) -> None:
        """End the window; keep the totals of the last *keep* windows."""
        self._marks = (*self._marks, CounterTotals(self.count, self.total, self.peak))[-keep:]
        self.peak = NOTHING

    def absorb(self, other: Counter) -> None:
        """Count what the *other* counter has counted, in the same windows; it counts no more."""
        kept = max(len(self._marks), len(other._marks))
        pairs = zip(_padded(self._marks, kept), _padded(other._marks, kept), strict=True)
        self._marks = tuple(
            CounterTotals(mine.times + its.times, mine.total + its.total, max(mine.peak, its.peak))
            for mine, its in pairs
        )
        self.count += other.count
        self.total += other.total
        self.peak = max(self.peak, other.peak)

    def since(self, windows: int) -> CounterTotals:
        """The counts in this window and the *windows* before it."""
        if windows < 0:
            return _START
        marks = self._marks
        before = marks[-windows - 1] if windows < len(marks) else _START
        peak = max([self.peak, *(mark.peak for mark in marks[-windows:])]) if windows else self.peak
        return CounterTotals(self.count - before.times, self.total - before.total, peak)


def _padded(marks: tuple[CounterTotals, ...], length: int) -> tuple[CounterTotals, ...]:
    """The marks, with empty windows before them: a counter may be younger than another one."""
    return (_START,) * (length - len(marks)) + marks


class Sum:
    """Several counters, read as one."""

    def __init__(self, counters: Iterable[Counter]) -> None:
        self._counters = tuple(counters)

    @property
    def count(self) -> int:
        return sum(counter.count for counter in self._counters)

    @property
    def total(self) -> float:
        return sum(counter.total for counter in self._counters)

    def since(self, windows: int) -> CounterTotals:
        """The counts in this window and the *windows* before it."""
        marks = [counter.since(windows) for counter in self._counters]
        return CounterTotals(
            times=sum(mark.times for mark in marks),
            total=sum(mark.total for mark in marks),
            peak=max((mark.peak for mark in marks), default=NOTHING),
        )


class Span:
    """Time spent on something, in seconds. For any number of threads."""

    __slots__ = ("_lock", "total")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt it, and count as well
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Add time that was measured elsewhere."""
        with self._lock:
            self.total += seconds

    @contextmanager
    def timed(self, clock: Callable[[], float]) -> Iterator[None]:
        """Add the duration of the block, even if it raises."""
        started_at = clock()
        try:
            yield
        finally:
            self.add(clock() - started_at)
