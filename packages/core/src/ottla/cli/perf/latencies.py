"""The latencies of records, from `send` to their acknowledgement: of each interval, and of a whole run."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

MAX_SAMPLES: Final = 500_000
"""Latencies that are kept, 4 MB of them, evenly spread over the run; as many as Kafka's own tool keeps."""

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


@attrs.frozen(kw_only=True)
class Interval:
    """The records acknowledged in an interval, which ends at *ends_at* seconds after the start."""

    ends_at: float
    seconds: float
    records: int
    size: int
    average_ms: float
    max_ms: float


@attrs.frozen(kw_only=True)
class Latencies:
    """Milliseconds from `send` to the acknowledgement; `percentiles` by percent."""

    average_ms: float = 0.0
    max_ms: float = 0.0
    percentiles: Mapping[float, float] = attrs.Factory(lambda: MappingProxyType(dict.fromkeys(PERCENTILES, 0.0)))


@attrs.define
class _Sum:
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, size: int, latency: float) -> None:
        self.records += 1
        self.size += size
        self.seconds += latency
        self.longest = max(self.longest, latency)

    @property
    def average_ms(self) -> float:
        return 1000 * self.seconds / self.records if self.records else 0.0


class LatencyRecorder:
    """Collects the latencies of about *records* records. For any thread."""

    def __init__(self, records: int) -> None:
        self._each = max(1, math.ceil(records / MAX_SAMPLES))
        self._samples = array("d")
        self._lock = threading.Lock()
        self._all = _Sum()
        self._interval = _Sum()
        self._began_at = 0.0

    @property
    def records(self) -> int:
        """Records that were acknowledged."""
        return self._all.records

    @property
    def size(self) -> int:
        """The bytes of their values."""
        return self._all.size

    def add(self, size: int, latency: float) -> None:
        """Count an acknowledged record of *size* bytes, after *latency* seconds."""
        with self._lock:
            if self._all.records % self._each == 0:
                self._samples.append(latency)
            self._all.add(size, latency)
            self._interval.add(size, latency)

    def end_interval(self, at: float) -> Interval:
        """End the interval at this time, in seconds since the start, and begin the next one."""
        with self._lock:
            ended, self._interval = self._interval, _Sum()
            seconds, self._began_at = at - self._began_at, at
        return Interval(
            ends_at=at,
            seconds=seconds,
            records=ended.records,
            size=ended.size,
            average_ms=ended.average_ms,
            max_ms=1000 * ended.longest,
        )

    def latencies(self) -> Latencies:
        """The figures of all records so far."""
        with self._lock:
            samples, total = sorted(self._samples), attrs.evolve(self._all)
        return Latencies(
            average_ms=total.average_ms,
            max_ms=1000 * total.longest,
            percentiles={percent: 1000 * percentile(samples, percent) for percent in PERCENTILES},
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of these values that *percent* percent of them do not exceed; 0 if there are none."""
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
