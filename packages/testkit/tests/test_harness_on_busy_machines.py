"""The suites' measurements judge a plugin, and not a machine that is busy or has no more threads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ottla_testkit.conformance.harness import nonwaiting_calls
from ottla_testkit.conformance.harness.nonwaiting_calls import check_does_not_wait
from ottla_testkit.conformance.harness.schedules import Schedule


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Threads of earlier tests do not interrupt this one: to give up the interpreter is to wait."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    yield
    sys.setswitchinterval(interval)


def compute() -> None:
    ends = time.perf_counter() + 0.03
    while time.perf_counter() < ends:
        pass


@pytest.mark.usefixtures("undisturbed")
@pytest.mark.skipif(nonwaiting_calls._OF_THREAD is None, reason="the system does not count it")
def test_a_call_that_only_loses_its_processor_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)  # as if other processes had had the processor

    check_does_not_wait("it", compute, timeout=60.0, waiting="records")


def test_a_call_that_sleeps_each_time_waits() -> None:
    with pytest.raises(BaseException, match=r"it waited for 0\.0\d+ s or more in each of 5 calls: records"):
        check_does_not_wait("it", lambda: time.sleep(0.03), timeout=60.0, waiting="records")


def test_threads_of_a_schedule_end_if_another_one_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Schedule(0).run([compute, compute])

    started[0].join(10.0)
    assert not started[0].is_alive()
