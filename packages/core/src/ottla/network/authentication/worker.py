"""Threads for mechanisms that may block, started when a computation needs them.

With one thread, which is the default, a mechanism is called from one thread, one call at a time. If a connection times
out while its computation hangs, that thread is abandoned, and a new thread runs the other computations: a token
endpoint that hangs must not stop all logins. The number of abandoned threads is limited, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import ConnectionFailedError, NetworkError
from ottla.interfaces import Step

MAX_ABANDONED: Final = 32
"""Maximum number of threads whose computations hang; with that many, logins fail until one of them returns."""


@attrs.define(eq=False, repr=False)
class Computation:
    """A call of a mechanism. `outcome` is its result or the NetworkError that it raised, or None before it finishes."""

    work: Callable[[], Step] = attrs.field(repr=False)
    outcome: Step | NetworkError | None = attrs.field(default=None, repr=False)
    begun: bool = False
    """Whether the mechanism was called; until then the computation waits for those of other logins."""

    def run(self) -> None:
        """Run the computation."""
        self.begun = True
        try:
            self.outcome = self.work()
        except NetworkError as error:
            self.outcome = error


class AuthWorker:
    """Runs computations on up to *threads* threads; calls *wake* after each. The methods are for the I/O thread."""

    def __init__(
        self, *, name: str, wake: Callable[[], object], environment: Environment = SYSTEM, threads: int = 1
    ) -> None:
        self._name = name
        self._wake = wake
        self._make_thread = environment.thread
        self._changed = environment.condition()
        self._waiting: deque[Computation] = deque()
        self._max_threads = threads
        self._threads: dict[object, Computation | None] = {}  # what each thread computes; None: it waits for more
        self._abandoned = 0  # threads that hang
        self._closed = False

    def begin(self, work: Callable[[], Step]) -> Computation:
        """Queue a computation. Raises ConnectionFailedError if no thread can be started."""
        computation = Computation(work)
        with self._changed:
            self._waiting.append(computation)
            problem = self._start_thread()
            if problem and not self._threads:
                self._waiting.remove(computation)
                raise ConnectionFailedError(f"could not start a thread for the login: {problem}")
        return computation

    def cancel(self, computation: Computation) -> None:
        """Cancel a computation; its result is not needed any more."""
        with self._changed:
            if computation in self._waiting:
                self._waiting.remove(computation)
                return
            for thread, current in self._threads.items():
                if current is computation:
                    self._abandon(thread)
                    break
            self._start_thread()  # if it cannot be started now, the next `begin` may be able to

    def close(self) -> None:
        """Start no more computations; each thread ends after its current one."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._threads.clear()
            self._changed.notify_all()

    def _start_thread(self) -> str:
        """Wake the waiting threads, and start one if all are busy; return why that was not possible."""
        idle = sum(current is None for current in self._threads.values())
        if len(self._waiting) > idle and len(self._threads) < self._max_threads:
            if self._abandoned >= MAX_ABANDONED:
                return f"{self._abandoned} earlier calls of the mechanism have not returned"
            thread = object()
            try:
                self._make_thread(partial(self._run, thread), self._name).start()
            except RuntimeError as cause:  # the system has no more threads
                return str(cause)
            self._threads[thread] = None
        self._changed.notify_all()
        return ""

    def _abandon(self, thread: object) -> None:
        del self._threads[thread]
        self._abandoned += 1

    def _run(self, thread: object) -> None:
        while (computation := self._next(thread)) is not None:
            computation.run()
            self._wake()

    def _next(self, thread: object) -> Computation | None:
        """The next computation; None if this thread was abandoned, or if others are enough."""
        with self._changed:
            if thread not in self._threads:
                if not self._closed:  # then all threads are forgotten, and not abandoned
                    self._abandoned -= 1
                    self._start_thread()  # computations may wait because too many threads were abandoned
                return None
            self._threads[thread] = None
            while thread in self._threads:
                if self._waiting:
                    self._threads[thread] = computation = self._waiting.popleft()
                    return computation
                if sum(current is None for current in self._threads.values()) > 1:
                    del self._threads[thread]
                    return None
                self._changed.wait()
        return None
