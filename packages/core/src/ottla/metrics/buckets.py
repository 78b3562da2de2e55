"""Counts of values by size, and the bounds of their buckets. Computes nothing else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

TIMES: Final = (
    1.0,
    2.5,
    5.0,
    10.0,
    25.0,
    50.0,
    75.0,
    100.0,
    250.0,
    500.0,
    750.0,
    1e3,
    2.5e3,
    5e3,
    7.5e3,
    1e4,
    3e4,
    12e4,
)
"""Bounds of milliseconds: those that OpenTelemetry's conventions ask for, and some below and above them."""

BATCH_SIZES: Final = tuple(float(256 * 4**power) for power in range(9))
"""Bounds of bytes: 256 bytes to 16 MiB."""

RECORD_SIZES: Final = tuple(float(16 * 4**power) for power in range(9))
"""Bounds of bytes: 16 bytes to 1 MiB."""


class Buckets:
    """A histogram: how many values were at most as large as each bound, and above the last one.

    Written by one thread at a time, read by any without a lock.
    """

    __slots__ = ("bounds", "counts", "observe", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.observe: Callable[[float, int], object] | None = None
        """Called with each value that is counted, and its times; must not raise."""

    def add(self, value: float, times: int = 1) -> None:
        """Count a value so many times: once for each record of a batch, for example."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times
        if self.observe is not None:
            self.observe(value, times)

    def add_all(self, values: Iterable[float], times_of_each: Iterable[int]) -> None:
        """Count several values, each so many times; the shorter of both ends it."""
        bounds, counts, observe = self.bounds, self.counts, self.observe
        total = 0.0
        for value, times in zip(values, times_of_each, strict=False):
            counts[bisect_left(bounds, value)] += times
            total += value * times
            if observe is not None:
                observe(value, times)
        self.total += total
