"""Calls that may hang, one after the other, on a thread of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import attrs

from ottla.concurrency.environment import Environment
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)


class CallsApart:
    """Makes calls in order, on a daemon thread that runs while there are any. For any thread.

    The calls raise nothing. A program without such calls has no thread.
    """

    def __init__(self, environment: Environment, name: str) -> None:
        self._make_thread = environment.thread
        self._name = name
        self._lock = environment.rlock()
        self._calls: deque[Callable[[], object]] = deque()
        self._runner: _Runner | None = None
        self._refused = False  # whether that was logged

    def add(self, call: Callable[[], object]) -> None:
        """Make a call behind the others; if no thread can be started, once one can at a later call."""
        with self._lock:
            self._calls.append(call)
            if self._runner is not None:
                return
            runner = self._runner = _Runner()
        try:
            self._make_thread(partial(self._run, runner), self._name).start()
        except BaseException as cause:
            with self._lock:
                if not runner.runs:  # else Ctrl-C came when the thread had been started
                    self._end(runner)
            if not isinstance(cause, RuntimeError):  # Ctrl-C
                raise
            if not self._refused:
                self._refused = True
                logger.warning("no thread %r could be started for calls, which wait for one: %s", self._name, cause)

    def _run(self, runner: _Runner) -> None:
        try:
            while (call := self._next(runner)) is not None:
                call()
        except BaseException:  # the program's hook for threads reports it; the next call begins another thread
            with self._lock:
                self._end(runner)
            raise

    def _next(self, runner: _Runner) -> Callable[[], object] | None:
        with self._lock:
            if self._runner is None:  # `add` has given it up, interrupted, before its thread began; no other followed
                self._runner = runner
            if self._runner is not runner:
                return None
            runner.runs = True
            if not self._calls:
                self._runner = None
                return None
            return self._calls.popleft()

    def _end(self, runner: _Runner) -> None:
        if self._runner is runner:
            self._runner = None


@attrs.define(eq=False, repr=False)
class _Runner:
    """A thread that makes the calls, or is about to begin."""

    runs: bool = False
