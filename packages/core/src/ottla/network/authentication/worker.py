"""A thread for mechanisms that may block, started when the first one needs it.

It runs one computation at a time, so a mechanism is called from one thread. If a connection times out while its
computation hangs, that thread is abandoned, and a new thread runs the other computations: a token endpoint that hangs
must not stop all logins.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial

import attrs

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import ConnectionFailedError, NetworkError
from ottla.interfaces import Step


@attrs.define(eq=False, repr=False)
class Computation:
    """A call of a mechanism. `outcome` is its result or the NetworkError that it raised, or None before it finishes."""

    work: Callable[[], Step] = attrs.field(repr=False)
    outcome: Step | NetworkError | None = attrs.field(default=None, repr=False)

    def run(self) -> None:
        """Run the computation."""
        try:
            self.outcome = self.work()
        except NetworkError as error:
            self.outcome = error


class AuthWorker:
    """Runs computations on a separate thread, which calls *wake* after each. The methods are for the I/O thread."""

    def __init__(self, *, name: str, wake: Callable[[], object], environment: Environment = SYSTEM) -> None:
        self._name = name
        self._wake = wake
        self._make_thread = environment.thread
        self._changed = environment.condition()
        self._waiting: deque[Computation] = deque()
        self._current: Computation | None = None
        self._thread: object | None = None  # identifies the current thread, if there is one

    def begin(self, work: Callable[[], Step]) -> Computation:
        """Queue a computation. Raises ConnectionFailedError if no thread can be started."""
        computation = Computation(work)
        with self._changed:
            self._waiting.append(computation)
            try:
                self._start_thread()
            except RuntimeError as cause:  # the system has no more threads
                self._waiting.remove(computation)
                raise ConnectionFailedError(f"could not start a thread for the login: {cause}") from cause
        return computation

    def cancel(self, computation: Computation) -> None:
        """Cancel a computation; its result is not needed any more."""
        with self._changed:
            if computation in self._waiting:
                self._waiting.remove(computation)
            elif computation is self._current:
                self._drop_thread()

    def close(self) -> None:
        """Start no more computations; the thread ends after the current one."""
        with self._changed:
            self._waiting.clear()
            self._drop_thread()

    def _start_thread(self) -> None:
        if self._thread is None:
            thread = object()
            self._make_thread(partial(self._run, thread), self._name).start()
            self._thread = thread
        self._changed.notify_all()

    def _drop_thread(self) -> None:
        self._thread = self._current = None
        self._changed.notify_all()
        if self._waiting:
            with contextlib.suppress(RuntimeError):  # no more threads now: the next `begin` may get one
                self._start_thread()

    def _run(self, thread: object) -> None:
        while (computation := self._next(thread)) is not None:
            computation.run()
            self._wake()

    def _next(self, thread: object) -> Computation | None:
        """The next computation; None if this thread was abandoned."""
        with self._changed:
            while self._thread is thread:
                self._current = self._waiting.popleft() if self._waiting else None
                if self._current is not None:
                    return self._current
                self._changed.wait()
        return None
