"""Cost of a run: time, processor time of all its threads, and the process's peak memory."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Self

import attrs
import psutil


@attrs.frozen(kw_only=True)
class Measurement:
    """A run's own measurement. `sent` includes the warm-up, the times do not.

    `called_back` is None without callbacks. Memory is in bytes: the peak, and its part that was added after sending had
    begun.
    """

    sent: int
    called_back: int | None
    seconds: float
    cpu_seconds: float
    peak_memory: int
    memory_taken: int


class Stopwatch:
    """Measures a `with` block: `seconds` on the clock, `cpu_seconds` of this process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._cpu = _cpu_seconds()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.cpu_seconds = _cpu_seconds() - self._cpu


def memory_now() -> int:
    """Return the bytes that this process has in memory."""
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Return the peak bytes that this process had in memory."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux passes ru_maxrss from the parent across exec; this line starts again.
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
