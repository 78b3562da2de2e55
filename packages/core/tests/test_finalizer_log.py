"""Lines that finalizers leave: few threads write them, whatever happens to one of these."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from machine import wait_until
from ottla.errors.finalizer_log import FinalizerLog


def test_lines_that_wait_for_a_busy_handler_need_one_thread() -> None:
    log, free, written = FinalizerLog(), threading.Event(), list[int]()
    before = _thread._count()
    log.add(lambda: free.wait(60))  # as a handler that is busy
    wait_until(log._writing.locked, timeout=20)
    try:
        for number in range(500):
            log.add(lambda number=number: written.append(number))  # type: ignore[misc]
        assert _thread._count() <= before + 2
    finally:
        free.set()
    wait_until(lambda: len(written) == 500, timeout=20)

    assert written == list(range(500))
    wait_until(lambda: not log._writing.locked(), timeout=20)
    log.add(lambda: written.append(500))
    wait_until(lambda: written[-1] == 500, timeout=20)


def test_a_line_that_raises_keeps_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: reported.append(raised.exc_type))
    log, free, written = FinalizerLog(), threading.Event(), list[str]()

    def fail() -> None:
        free.wait(60)
        raise BufferError

    log.add(fail)
    wait_until(log._writing.locked, timeout=20)
    for each in (fail, lambda: written.append("last")):
        log.add(each)
    free.set()
    wait_until(lambda: written == ["last"], timeout=20)
    wait_until(lambda: len(reported) == 2, timeout=20)

    assert reported == [BufferError, BufferError]


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("has_started", [False, True])
def test_after_a_failed_start_the_next_line_starts_a_thread(
    error: BaseException, has_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, written, start = FinalizerLog(), list[str](), _thread.start_new_thread

    def fail(run: Callable[[], object], arguments: tuple[()]) -> None:
        if has_started:  # a signal's handler raised then
            start(run, arguments)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", fail)
        if isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                log.add(lambda: written.append("first"))
        else:
            log.add(lambda: written.append("first"))
    log.add(lambda: written.append("second"))
    wait_until(lambda: len(written) == 2, timeout=20)

    assert written == ["first", "second"]
