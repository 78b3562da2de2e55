"""Checks of the threads that a plugin starts: all end, none keeps the program from ending, none fails unnoticed."""

from __future__ import annotations

import concurrent.futures.thread
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla_testkit.conformance.harness.checked_layer import check, fail

OURS: Final = "conformance-"
"""The names of the suite's own threads begin with this."""


class StartedThreads:
    """The threads that were started since this object was created."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def check_daemons(self, what: str) -> None:
        """Fail for a thread that would keep the program running."""
        for thread in self._alive():
            check(
                thread.daemon or _ends_by_itself(thread),
                f"{what} began {thread.name!r}, which is not a daemon thread: a program that forgets to close its "
                "producer would never end",
            )

    def check_none(self, what: str, instead: str) -> None:
        """Fail for a thread that runs already."""
        alive = [thread.name for thread in self._alive()]
        check(not alive, f"{what} began the thread {', '.join(alive)}; {instead}")

    def check_gone(self, what: str, timeout: float) -> None:
        """Fail for a thread that still runs after *timeout* seconds."""
        deadline = time.monotonic() + timeout
        for thread in self._alive():
            thread.join(max(deadline - time.monotonic(), 0.0))
        alive = [thread.name for thread in self._alive()]
        check(not alive, f"{what} left threads behind: {', '.join(alive)}")

    def _alive(self) -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t not in self._before and not t.name.startswith(OURS)]


def _ends_by_itself(thread: threading.Thread) -> bool:
    """Return whether the thread is a worker of a `ThreadPoolExecutor`, which the interpreter ends before it waits."""
    return thread in getattr(concurrent.futures.thread, "_threads_queues", ())


@contextmanager
def no_thread_errors() -> Iterator[None]:
    """Fail when a thread ends by an exception in the block."""
    raised: list[Any] = []
    before, threading.excepthook = threading.excepthook, raised.append
    try:
        yield
    finally:
        threading.excepthook = before
    for each in raised:
        fail(f"its thread {each.thread.name!r} ended by {each.exc_value!r}: from then on nothing is reported")
