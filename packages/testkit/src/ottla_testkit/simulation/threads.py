"""Simulated threads: one runs at a time, and a seed decides which one is next. Time passes only while all of them wait.

They are real threads, so code under test needs no changes. A thread may be interrupted where it takes or releases a
lock of the simulation, and wherever it waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

import attrs

from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.chance import Chance

HANG_GUARD: Final = 300.0
"""Seconds of real time after which a simulation that does not end fails."""

_MAX_SWITCHES: Final = 200_000
"""Switches without time passing after which the threads are considered to spin."""

_FOREVER: Final = float("inf")


class StuckError(AssertionError):
    """All threads wait, and neither an event nor a time-out would ever wake one of them; or they run in circles."""


@attrs.define(eq=False)
class SimulatedThread:
    """One thread, with the methods of `threading.Thread` that a producer uses."""

    threads: SimulatedThreads
    body: Callable[[], object]
    name: str
    ended: bool = False
    ready: Callable[[], object] | None = None  # None: it does not wait
    until: float = _FOREVER
    interruptible: bool = False
    """Whether it waits where a signal handler may raise."""
    interrupted: bool = False
    _turn: threading.Lock = attrs.field(factory=threading.Lock)
    _real: threading.Thread | None = None

    @property
    def ident(self) -> int | None:
        return None if self._real is None else self._real.ident

    def start(self) -> None:
        self._turn.acquire()
        self._real = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._real.start()
        self.threads.living.append(self)

    def join(self, timeout: float | None = None) -> None:
        until = _FOREVER if timeout is None else self.threads.clock() + timeout
        self.threads.wait(lambda: self.ended, until)

    def is_alive(self) -> bool:
        return self._real is not None and not self.ended

    def resume(self) -> None:
        """Let the thread run; another one has to `pause` then."""
        self._turn.release()

    def pause(self) -> None:
        """Block until another thread resumes this one."""
        self._turn.acquire()

    def _run(self) -> None:
        self.pause()
        try:
            self.body()
        except BaseException as error:
            self.threads.fail(error)
        self.ended = True
        self.threads.leave(self)


class SimulatedThreads:
    """The threads of one simulation. *happen* runs the events that are due; *next_event* returns the time of the next.

    *switching* is the probability of a switch at each lock.
    """

    def __init__(
        self,
        *,
        clock: ManualClock,
        chance: Chance,
        happen: Callable[[], object],
        next_event: Callable[[], float],
        switching: float = 0.0,
    ) -> None:
        self.clock = clock
        self.living: list[SimulatedThread] = []
        """The threads that have been started and have not ended."""
        self.running: SimulatedThread | None = None
        """The thread that runs, or None for the thread of the test."""
        self.switches = 0
        self._chance = chance
        self._happen = happen
        self._next_event = next_event
        self._switching = switching
        self._programs: list[SimulatedThread] = []
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._suspended_until = float("-inf")
        self._switched_at = clock()
        self._switches_now = 0

    def thread(self, body: Callable[[], object], name: str) -> SimulatedThread:
        """Make a thread, not started."""
        return SimulatedThread(self, body, name)

    def lock(self) -> SimulatedLock:
        """Make a lock that any thread may release."""
        return SimulatedLock(self, reentrant=False)

    def rlock(self) -> SimulatedLock:
        """Make a lock that its owner may take again."""
        return SimulatedLock(self, reentrant=True)

    def run(self, *programs: Callable[[], object]) -> None:
        """Run functions, each on a simulated thread, until all have ended; raise the first error of any thread.

        Called on the thread of the test. After an error no simulated thread runs again.
        """
        assert self.running is None, "only the thread of the test runs programs"
        self._raise_error()
        self._programs = [self.thread(program, f"program {number}") for number, program in enumerate(programs)]
        for program in self._programs:
            program.start()
        self._over.clear()
        self._resume_next()
        ended = self._over.wait(HANG_GUARD)
        assert ended, f"the simulation has not ended within {HANG_GUARD:g} s of real time"
        self.running = None
        self._raise_error()

    def wait(self, ready: Callable[[], object], until: float = _FOREVER, *, interruptible: bool = False) -> bool:
        """Let other threads run, and time pass, until *ready* returns true or the time *until* has come.

        If it is *interruptible*, `interrupt` may end it with KeyboardInterrupt.
        """
        thread = self.running
        if thread is None:
            return bool(ready())
        thread.ready, thread.until, thread.interruptible = ready, until, interruptible
        self._switch(thread)
        thread.ready, thread.until, thread.interruptible = None, _FOREVER, False
        if thread.interrupted:
            thread.interrupted = False
            raise KeyboardInterrupt
        return bool(ready())

    def interrupt(self, program: int) -> bool:
        """Raise KeyboardInterrupt in a program that waits in a call of a producer; return whether it does."""
        thread = self._programs[program] if program < len(self._programs) else None
        if thread is None or not thread.interruptible:
            return False
        thread.interrupted = True
        return True

    def sleep(self, seconds: float) -> None:
        """Let this number of seconds pass on the simulated thread that calls this."""
        self.wait(lambda: False, self.clock() + seconds)

    def may_switch(self) -> None:
        """Let the seed decide whether another thread that can run does so now."""
        if (
            self._switching
            and self.running is not None
            and len(self.living) > 1
            and self._chance.happens(self._switching)
        ):
            self._switch(self.running)

    def suspend(self, seconds: float) -> None:
        """Let no thread run for this number of seconds, as if the process was stopped, or its machine asleep."""
        self._suspended_until = self.clock() + seconds

    def fail(self, error: BaseException) -> None:
        """End the simulation with an error."""
        if self._error is None:
            self._error = error

    def leave(self, thread: SimulatedThread) -> None:
        """Pass control on from a thread that has ended."""
        self.living.remove(thread)
        if self._error is not None or all(program.ended for program in self._programs):
            self._over.set()
        else:
            self._resume_next()

    def _switch(self, thread: SimulatedThread) -> None:
        following = self._choose()
        if following is thread:
            return
        if following is not None:
            self.running = following
            following.resume()
        thread.pause()  # for good, if the simulation has failed

    def _resume_next(self) -> None:
        following = self._choose()
        if following is not None:
            self.running = following
            following.resume()

    def _choose(self) -> SimulatedThread | None:
        """Return the next thread to run, after the time until it is able to, or None if the simulation has failed."""
        clock = self.clock
        try:
            self._count()
            while self._error is None:
                self._happen()
                now = clock()
                if now >= self._suspended_until:
                    able = [  # those that do not wait, and those whose wait is over
                        thread
                        for thread in self.living
                        if thread.ready is None or now >= thread.until or thread.interrupted or thread.ready()
                    ]
                    if able:
                        return able[0] if len(able) == 1 else self._chance.choice(able)
                at = self._next_event()
                if now < self._suspended_until:
                    at = min(at, self._suspended_until)
                else:
                    at = min([at, *[thread.until for thread in self.living]])
                if at == _FOREVER:
                    raise StuckError(f"at {now:.3f} s all threads wait: {[thread.name for thread in self.living]}")
                clock.advance(max(0.0, at - now))
        except BaseException as error:
            self.fail(error)
        self._over.set()
        return None

    def _count(self) -> None:
        now = self.clock()
        self.switches += 1
        self._switches_now = self._switches_now + 1 if now <= self._switched_at else 0
        self._switched_at = now
        if self._switches_now > _MAX_SWITCHES:
            raise StuckError(f"at {now:.3f} s the threads take turns, and no time passes")

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class SimulatedLock:
    """A lock with the methods of `threading.Lock` and `threading.RLock` that a producer uses."""

    __slots__ = ("_owner", "_reentrant", "_threads", "_times")

    def __init__(self, threads: SimulatedThreads, *, reentrant: bool) -> None:
        self._threads = threads
        self._reentrant = reentrant
        self._owner: Any = None  # the thread, or the simulation for the thread of the test
        self._times = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock. Signal handlers may raise here if it is no RLock: those are held in deferred blocks only."""
        return self._acquire(blocking, timeout, interruptible=not self._reentrant)

    def _acquire(self, blocking: bool, timeout: float, *, interruptible: bool) -> bool:
        threads = self._threads
        me: Any = threads.running or threads
        if self._reentrant and self._owner is me:
            self._times += 1
            return True
        threads.may_switch()
        if self._times:
            if not blocking:
                return False
            until = threads.clock() + timeout if timeout >= 0 else _FOREVER
            if not threads.wait(self._free, until, interruptible=interruptible):
                return False
        self._owner, self._times = me, 1
        return True

    def release(self) -> None:
        if not self._times or (self._reentrant and self._owner is not (self._threads.running or self._threads)):
            raise RuntimeError("cannot release a lock that this thread has not taken")
        self._times -= 1
        if not self._times:
            self._owner = None
            self._threads.may_switch()

    def locked(self) -> bool:
        return self._times > 0

    def __enter__(self) -> bool:
        return self._acquire(True, -1, interruptible=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return self._times > 0 and self._owner is (self._threads.running or self._threads)

    def _free(self) -> bool:
        return not self._times
