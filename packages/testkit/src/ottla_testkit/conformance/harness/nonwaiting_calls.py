"""Calls that must not wait: the time in which they do not compute is measured.

A busy machine interrupts some calls, but not each of several short ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.concurrent_calls import within

LONGEST_WAIT: Final = 0.02
"""Seconds; so long a wait would leave fifty records in a second."""

_ATTEMPTS: Final = 5


def check_does_not_wait(call: str, work: Callable[[], object], *, timeout: float, waiting: str) -> None:
    """Fail for a call that does not return within *timeout*, or that waits each time; *waiting*: who waits for it."""
    waits: list[float] = []

    def measured() -> None:
        started_at, computed = time.monotonic(), time.thread_time()
        work()
        waits.append(time.monotonic() - started_at - (time.thread_time() - computed))

    for _ in range(_ATTEMPTS):
        within(timeout, call, measured, remedy=waiting)
        if waits[-1] < LONGEST_WAIT:
            return
    check(False, f"{call} waited for {min(waits):.2g} s or more in each of {_ATTEMPTS} calls: {waiting}")
