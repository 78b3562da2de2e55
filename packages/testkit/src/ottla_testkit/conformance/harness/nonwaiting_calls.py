"""Calls that must not wait: the time in which they do not compute is measured.

A busy machine interrupts some calls, but not each of several short ones. Where the system counts how often a thread
gives up its processor by itself, a call that never does has not waited, however often the machine interrupts it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.concurrent_calls import within

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LONGEST_WAIT: Final = 0.02
"""Seconds; so long a wait would leave fifty records in a second."""

_ATTEMPTS: Final = 5

_OF_THREAD: Final = getattr(resource, "RUSAGE_THREAD", None)
"""Linux and FreeBSD have it."""


def check_does_not_wait(call: str, work: Callable[[], object], *, timeout: float, waiting: str) -> None:
    """Fail for a call that does not return within *timeout*, or that waits each time; *waiting*: who waits for it."""
    waits: list[float] = []

    def measured() -> None:
        started_at, computed, given_up = time.monotonic(), time.thread_time(), _times_given_up()
        work()
        waited = time.monotonic() - started_at - (time.thread_time() - computed)
        waits.append(0.0 if given_up is not None and _times_given_up() == given_up else waited)

    for _ in range(_ATTEMPTS):
        within(timeout, call, measured, remedy=waiting)
        if waits[-1] < LONGEST_WAIT:
            return
    check(False, f"{call} waited for {min(waits):.2g} s or more in each of {_ATTEMPTS} calls: {waiting}")


def _times_given_up() -> int | None:
    """How often this thread has given up its processor by itself, to wait; None where the system does not count it."""
    if sys.platform == "win32" or _OF_THREAD is None:
        return None
    return resource.getrusage(_OF_THREAD).ru_nvcsw
