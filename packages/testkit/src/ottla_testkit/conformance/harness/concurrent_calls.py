"""Calls on other threads: one that may not return, and many at once."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import pytest

from ottla_testkit.conformance.harness.checked_layer import RequirementNotMetError, fail

Result = TypeVar("Result")

_AT_ONCE: Final = "by many threads at once"
_SWITCH_INTERVAL: Final = 1e-6
"""Seconds between thread switches: short, so that races occur in each run."""


class NotBackError(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A call has not returned, and its thread is left behind. *stack*: where the thread was."""

    def __init__(self, broken: str, stack: traceback.StackSummary | None = None) -> None:
        super().__init__(broken, pytrace=False)
        self.stack = stack


def within(timeout: float, call: str, work: Callable[[], Result], *, remedy: str) -> Result:
    """Return the result of *work*, or raise its error. Fail after *timeout* seconds; the thread is left behind."""
    results: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="conformance-call", daemon=True)
    thread.start()
    thread.join(timeout)
    if raised:
        raise raised[0]
    if not results:
        frame = sys._current_frames().get(thread.ident or 0)
        stack = None if frame is None else traceback.extract_stack(frame)
        raise NotBackError(f"{call} did not return within {timeout:g} s; {remedy}", stack)
    return results[0]


def together(timeout: float, works: list[Callable[[], object]], *, call: str) -> None:
    """Run all of these at once; fail with the first error, or when one does not return."""
    raised: list[BaseException] = []
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            begin.wait(timeout)
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,), name="conformance-crew", daemon=True) for work in works]
    deadline = time.monotonic() + timeout
    with _frequent_thread_switches():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
    if raised:
        error = raised[0]
        if isinstance(error, RequirementNotMetError) and _AT_ONCE not in error.sentence:
            fail(f"{_AT_ONCE}, {error.sentence}", error)
        raise error
    if any(thread.is_alive() for thread in threads):
        raise NotBackError(
            f"{call} by {len(works)} threads at once did not return within {timeout:g} s; do they wait for each other?"
        )


@contextmanager
def _frequent_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
