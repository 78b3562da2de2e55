"""Locks and waits for threads that call the producer, which stay consistent whatever a signal handler does.

Python's own Condition and Event are Python code. A handler that raises in them leaves their lock taken, or releases it
while another thread holds it. A handler that calls the producer would wait forever for a lock of the code that it
interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Protocol

import attrs

from ottla.concurrency import interruptible_functions, signals
from ottla.concurrency.environment import SYSTEM, Environment, Lock
from ottla.errors import IllegalStateError

PAUSE_SECONDS: Final = 0.1
"""The time after which a wait on the main thread lets handlers run, where signals end no wait."""


def holder_of(lock: object) -> int | None:
    """The thread that holds a lock, if it is an RLock of Python, whose repr has it; for errors."""
    found = re.search(r"owner=(\d+)", repr(lock))
    return int(found[1]) or None if found else None


class Gate(Protocol):
    """An object that a wait ends with: a lock that a thread waits for, or a callback."""

    def release(self) -> object:
        """End the wait."""


@attrs.frozen(eq=False, repr=False)
class FunctionGate:
    """A gate of a latch that is a function."""

    release: Callable[[], object]


class Latch:
    """An event that any number of threads wait for, once. It has no lock, so no operation can be left half done."""

    __slots__ = ("_clock", "_gates", "_make_gate", "is_set")

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self.is_set = False
        """Whether `set` was called."""
        self._gates: list[Gate] = []
        self._make_gate = environment.lock
        self._clock = environment.clock

    def set(self) -> None:
        """Set the latch for good, and wake all waiting threads."""
        self.is_set = True
        gates = self._gates
        while gates:
            try:
                gate = gates.pop()
            except IndexError:  # taken by another `set`, or by a waiter whose time ran out
                return
            gate.release()

    def add_gate(self, gate: Gate) -> None:
        """Release *gate* once the latch is set, on the thread that sets it; here if it is set. Perhaps twice."""
        self._gates.append(gate)
        if self.is_set:  # else `set` may have released the gates before
            self.set()

    def remove_gate(self, gate: Gate) -> None:
        """Forget a gate, whose wait has ended otherwise. Harmless when repeated."""
        with contextlib.suppress(ValueError):  # `set` has taken it
            self._gates.remove(gate)

    def wait(self, timeout: float | None) -> bool:
        """Block until it is set; *timeout*, in seconds, is the limit if given. Return False if time ran out."""
        if self.is_set:
            return True
        interruptible_functions.break_off_interrupted()
        gate = self._make_gate()
        gate.acquire()
        try:
            self._gates.append(gate)
            if not self.is_set:  # else `set` may have released the gates before
                self._pass(gate, timeout)
        finally:
            self.remove_gate(gate)
        return self.is_set

    def _pass(self, gate: Lock, timeout: float | None) -> None:
        """Wait until the gate is released, at most *timeout* seconds."""
        if signals.INTERRUPT_WAITS or not signals.on_main_thread():
            gate.acquire(timeout=-1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX)))
            return
        end = float("inf") if timeout is None else self._clock() + timeout
        while (remaining := end - self._clock()) > 0:
            if gate.acquire(timeout=min(remaining, PAUSE_SECONDS)):
                return


class AutoResetEvent:
    """An event that one thread waits for again and again; each wait that it ends resets it.

    `set` waits for no lock, so signal handlers and finalizers may call it at any point, also in the middle of `wait`.
    """

    __slots__ = ("_gate",)

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self._gate = environment.lock()  # free: the event is set
        self._gate.acquire()

    def set(self) -> None:
        """End the current wait, or the next one."""
        if self._gate.locked():
            with contextlib.suppress(RuntimeError):  # another call has set it meanwhile
                self._gate.release()

    def wait(self, timeout: float) -> bool:
        """Wait until the event is set, at most *timeout* seconds, and reset it. Return False if time ran out."""
        return self._gate.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))


class Waiter(Protocol):
    """An object that `SignalSafeLock.notify_all` notifies, besides threads; it blocks no thread while it waits."""

    def set(self) -> object:
        """End the wait. Called under the lock."""


class SignalSafeLock:
    """A lock whose blocks no signal handler interrupts; `raw` is for threads on which no handler runs.

    If the same thread enters it again in such a block, by `__del__` for instance, it raises IllegalStateError instead
    of waiting for itself.
    """

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self.raw: Any = environment.rlock()
        self._environment = environment
        self._waiting: list[Waiter] = []

    def __enter__(self) -> None:
        signals.begin()
        try:
            raw = self.raw
            if raw._is_owned():
                raise IllegalStateError(
                    "a signal handler, __del__ or a plugin called the producer in the middle of another call on the "
                    "same thread: set a flag there, and call the producer from the main program"
                )
            if not raw.acquire(False):
                interruptible_functions.break_off_interrupted()
                raw.acquire()
        except BaseException:
            signals.end()
            raise

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Iterator[bool]:
        """A block of this lock, which yields True, or False if the lock was not free within *seconds*, if given.

        For calls with a time limit: a plugin that hangs may hold the lock.
        """
        if seconds is None:
            self.__enter__()
            entered = True
        else:
            entered = self._enter_within(max(0.0, min(seconds, threading.TIMEOUT_MAX)))
        try:
            yield entered
        finally:
            if entered:
                self.__exit__(None, None, None)

    def _enter_within(self, seconds: float) -> bool:
        if not self.raw._is_owned():  # else `__enter__` refuses it
            signals.begin()
            try:
                entered: bool = self.raw.acquire(False)
                if not entered:
                    interruptible_functions.break_off_interrupted()
                    entered = self.raw.acquire(timeout=seconds)
            except BaseException:
                signals.end()
                raise
            if not entered:
                signals.end()
            return entered
        self.__enter__()
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.raw._is_owned():  # not after a wait that was interrupted twice
            self.raw.release()
            signals.end()

    def wait(self, timeout: float | None) -> bool:
        """In a block: release the lock until `notify_all`. Return False if that takes more than *timeout* seconds.

        Handlers run while it waits. If one raises, `wait` raises that, with the lock taken again.
        """
        latch = Latch(self._environment)
        self._waiting.append(latch)
        try:
            try:
                self.__exit__(None, None, None)
                return latch.wait(timeout)
            finally:
                self.__enter__()
        except BaseException:
            if not self.raw._is_owned():
                self.__enter__()
            raise
        finally:
            if latch in self._waiting:
                self._waiting.remove(latch)

    def add_waiter(self, waiter: Waiter) -> None:
        """In a block: call the waiter's `set`, under the lock, at the next `notify_all`."""
        self._waiting.append(waiter)

    def add_latch(self) -> Latch:
        """In a block: a latch that the next `notify_all` sets, to wait for outside of the block."""
        latch = Latch(self._environment)
        self._waiting.append(latch)
        return latch

    def remove_waiter(self, waiter: Waiter) -> None:
        """Undo `add_waiter`. Call it only in a block of this lock."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)

    def notify_all(self) -> None:
        """In a block, or with `raw` held: wake all waiting threads."""
        waiting, self._waiting = self._waiting, []
        for latch in waiting:
            latch.set()


class LoggingLock(SignalSafeLock):
    """A lock for blocks that log: lines are written after the block, because a logging handler may call `send`."""

    def __init__(self, environment: Environment = SYSTEM) -> None:
        super().__init__(environment)
        self._lines: deque[tuple[logging.Logger, int, str, tuple[object, ...]]] = deque()

    def log(self, logger: logging.Logger, level: int, line: str, *parts: object) -> None:
        """Queue a line that is logged when the block of this lock ends. Call it only in such a block."""
        self._lines.append((logger, level, line, parts))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            # Not by super(), an object for which there may be no memory: then the lock would stay taken.
            SignalSafeLock.__exit__(self, kind, error, traceback)
        finally:
            while self._lines:
                try:
                    logger, level, line, parts = self._lines.popleft()
                except IndexError:  # another thread has written it
                    return
                logger.log(level, line, *parts)
