"""Flushes of tasks. One thread begins all that were called by then, and none waits on a thread.

A flush takes a lock that a plugin may hold, and may choose partitions, so it does not begin on the loop's thread if
another can be started. A thread for each would be thousands, if each request of a web service waits for its own.
"""

from __future__ import annotations

import asyncio

from ottla.accumulator.flush_wait import FlushWait
from ottla.accumulator.flushes import Flushes
from ottla.accumulator.hanging_plugins import LOCK_TIMEOUT_SECONDS
from ottla.aio import calls
from ottla.aio.happening import Happening
from ottla.concurrency.locks import SignalSafeLock
from ottla.errors.notes import unshared


class SharedFlush:
    """One flush for all tasks that called it before it began."""

    def __init__(self) -> None:
        self.begun = Happening()
        self.ended = Happening()
        self.wait = FlushWait(self.ended.happen)
        self.waiting = 0
        self.error: BaseException | None = None

    def begin(self, flushes: Flushes, *, without: calls.NoThreadError | None = None) -> None:
        """Let every queued batch leave. An error is for the tasks.

        *without* a thread, this is called on that of the loop, and waits for the lock only for a moment.
        """
        try:
            if not flushes.begin(self.wait, None if without is None else LOCK_TIMEOUT_SECONDS):
                self.error = without
        except BaseException as error:
            self.error = error
        self.begun.happen()


class FlushesOfTasks:
    """The flushes of a producer's tasks, of all event loops."""

    def __init__(self, flushes: Flushes) -> None:
        self._flushes = flushes
        self._lock = SignalSafeLock(flushes.environment)
        self._next: SharedFlush | None = None  # of tasks that the thread has still to begin a flush for
        self._beginning = False  # whether there is such a thread

    async def flush(self, timeout: float | None) -> bool:
        """Let every queued batch leave, and wait for all that have no outcome now. Return False if time ran out.

        If the task is cancelled, the batches leave nevertheless.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        shared = self._join()
        try:
            # Also if *timeout* is 0: a flush that does not wait sends, and returns whether all is done.
            begins = None if timeout is None else max(timeout, LOCK_TIMEOUT_SECONDS)
            if not await shared.begun.wait(begins):
                return False
            if shared.error is not None:
                raise unshared(shared.error)
            return await shared.ended.wait(None if deadline is None else deadline - loop.time())
        finally:
            self._leave(shared)

    def _join(self) -> SharedFlush:
        with self._lock:
            if self._next is None:
                self._next = SharedFlush()
            shared = self._next
            no_thread = None if self._beginning else self._begin_next()
            shared.waiting += 1
        if no_thread is not None:
            shared.begin(self._flushes, without=no_thread)
        return shared

    def _begin_next(self) -> calls.NoThreadError | None:
        """Start a thread that begins the next flush; return the error if none can be started. Under the lock."""
        self._beginning = True
        try:
            calls.start_thread("flush", self._begin_all)
        except calls.NoThreadError as error:
            self._beginning, self._next = False, None
            return error
        except BaseException:
            self._beginning, self._next = False, None
            raise
        return None

    def _leave(self, shared: SharedFlush) -> None:
        with self._lock:
            shared.waiting -= 1
            last = not shared.waiting and shared is not self._next
        if last:
            self._flushes.leave(shared.wait)

    def _begin_all(self) -> None:
        while True:
            with self._lock:
                shared, self._next = self._next, None
                if shared is None:
                    self._beginning = False
                    return
            shared.begin(self._flushes)
            with self._lock:
                given_up = not shared.waiting
            if given_up:  # before it began, so that `_leave` found no wait yet
                self._flushes.leave(shared.wait)
