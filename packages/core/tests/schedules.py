"""Threads that run one at a time, in an order that a seed decides: a failed interleaving can be repeated.

A thread may be interrupted at every bytecode instruction of the module under test, and at every lock of its
environment. Time passes only where a thread waits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from random import Random
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final

import attrs

from ottla.concurrency.environment import Environment

MAX_SWITCHES: Final = 20_000
HANG_GUARD: Final = 60.0
LONGEST_DELAY: Final = 1.0
"""Threads that could go on may be held up so long, in simulated seconds."""


class Stuck(Exception):
    """All threads wait, and no time-out would wake one of them."""


@attrs.define(eq=False)
class _Thread:
    run: Callable[[], object]
    may_run: threading.Lock = attrs.field(factory=threading.Lock)
    ready: Callable[[], object] | None = None  # None: it does not wait
    deadline: float = float("inf")
    ended: bool = False


class Schedule:
    """Runs threads in the order that *seed* decides; *module* is the code between whose instructions they switch."""

    def __init__(self, seed: int, module: ModuleType) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.environment = Environment(
            clock=lambda: self.now, lock=lambda: _Lock(self, reentrant=False), rlock=lambda: _Lock(self, reentrant=True)
        )
        self._often = self.random.choice([0.02, 0.1, 0.5])
        self._file = module.__file__
        self._threads: list[_Thread] = []
        self._running: _Thread | None = None
        self._switches = 0
        self._error: BaseException | None = None
        self._over = threading.Event()

    def run(self, *threads: Callable[[], object]) -> None:
        """Run these functions, each on a thread of its own, until all have ended."""
        self._threads = [_Thread(run) for run in threads]
        for thread in self._threads:
            thread.may_run.acquire()
            threading.Thread(target=self._body, args=(thread,), daemon=True).start()
        self._switch_to(self.random.choice(self._threads))
        assert self._over.wait(HANG_GUARD)
        if self._error is not None:
            raise self._error

    def wait_for(self, happened: Callable[[], object], timeout: float = float("inf")) -> bool:
        """Let other threads run until something has happened, or until time is over."""
        thread = self._running
        if thread is None:  # nothing runs yet
            return bool(happened())
        thread.ready, thread.deadline = happened, self.now + timeout
        self.switch()
        thread.ready, thread.deadline = None, float("inf")
        return bool(happened())

    def switch(self) -> None:
        """Let the seed decide which thread goes on."""
        thread = self._running
        assert thread is not None
        following = self._choose()
        if following is not thread:
            self._switch_to(following)
            self._pause(thread)

    def _choose(self) -> _Thread:
        self._switches += 1
        living = [thread for thread in self._threads if not thread.ended]
        able = [thread for thread in living if thread.ready is None or thread.ready()]
        waiting = [thread for thread in living if thread not in able and thread.deadline < float("inf")]
        if self._switches > MAX_SWITCHES or not (able or waiting):
            raise Stuck(f"at {self.now} s after {self._switches} switches")
        first = min(waiting, key=lambda thread: thread.deadline, default=None)
        held_up = first is not None and first.deadline < self.now + LONGEST_DELAY and self.random.random() < 0.05
        if able and not held_up:
            return self.random.choice(able)
        assert first is not None
        self.now = max(self.now, first.deadline)
        return first

    def _switch_to(self, thread: _Thread) -> None:
        self._running = thread
        thread.may_run.release()

    def _pause(self, thread: _Thread) -> None:
        thread.may_run.acquire()
        if self._error is not None:
            raise SystemExit

    def _body(self, thread: _Thread) -> None:
        thread.may_run.acquire()
        if self._error is not None:
            return
        function = self._trace  # the reference matters: see tracing.py
        sys.settrace(function)
        try:
            thread.run()
            sys.settrace(None)
            thread.ended = True
            if all(other.ended for other in self._threads):
                self._over.set()
            else:
                self._switch_to(self._choose())
        except BaseException as error:
            sys.settrace(None)
            if self._error is None:
                self._error = error
                for other in self._threads:
                    if other is not thread and other.may_run.locked():
                        other.may_run.release()
                self._over.set()

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != self._file:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self.random.random() < self._often:
            self.switch()
        return self._trace


class _Lock:
    """A lock of the schedule's environment."""

    def __init__(self, schedule: Schedule, *, reentrant: bool) -> None:
        self._schedule = schedule
        self._reentrant = reentrant
        self._owner: int | None = None
        self._times = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        own = threading.get_ident()
        if self._reentrant and self._owner == own:
            self._times += 1
            return True
        if blocking:
            self._schedule.wait_for(lambda: self._owner is None, float("inf") if timeout < 0 else timeout)
        if self._owner is not None:
            return False
        self._owner, self._times = own, 1
        return True

    def release(self) -> None:
        if self._owner is None or (self._reentrant and self._owner != threading.get_ident()):
            raise RuntimeError("the lock is not taken")
        self._times -= 1
        if not self._times:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def _is_owned(self) -> bool:
        return self._owner == threading.get_ident()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
