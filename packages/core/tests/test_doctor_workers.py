"""The doctor's calls for several brokers in parallel."""

from __future__ import annotations

import threading
import time

import pytest

from ottla.doctor.bounds import Bounds
from ottla.doctor.workers import side_by_side


def test_items_without_a_thread_are_done_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container limits the processes and threads of its programs."""
    start, working = threading.Thread.start, threading.Event()
    started: list[threading.Thread] = []

    def limited(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def work(number: int) -> tuple[int, bool]:
        if number < 2:
            working.wait(60)
        elif number == 4:
            working.set()
        return number, threading.current_thread() in started

    monkeypatch.setattr(threading.Thread, "start", limited)
    made = side_by_side(work, range(5), bounds=Bounds.of(600.0, time.monotonic))

    assert made == ((0, True), (1, True), (2, False), (3, False), (4, False))
