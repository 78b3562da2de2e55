"""What a run cost: time, processor time of all its threads, and the process's memory at its highest."""

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
    """What a run says of itself. `sent` counts the warm-up too, the times do not.

    `called_back` is None when no callbacks were asked for. Memory is in bytes: at its highest, and what of it came
    after sending had begun.
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
    """Bytes that this process has in memory."""
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Bytes that this process had in memory at most."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux hands ru_maxrss down from the parent across exec; this line starts anew.
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
