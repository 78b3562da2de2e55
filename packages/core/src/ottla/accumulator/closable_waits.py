"""Waits of tasks that something else has to learn of if their event loop is closed first, such as freed memory."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

from ottla.accumulator.task_wait import TaskWait
from ottla.errors import IllegalStateError


class ClosableWait(TaskWait[None]):
    """A wait with a function that is called if the loop is closed before the task has its turn."""

    __slots__ = ("_if_closed",)

    def __init__(self, loop: asyncio.AbstractEventLoop, if_closed: Callable[[], object]) -> None:
        super().__init__(loop)
        self._if_closed = [if_closed]

    def give_up(self) -> int:
        """Call the function, once, on any thread: also if the task was cancelled, since it does not run any more.

        Returns 0, as BatchWaiter does if no callback is lost.
        """
        with contextlib.suppress(IndexError):  # another thread has called it
            _one_after_the_other(self._if_closed.pop())
        return 0


class _CallsOfThread(threading.local):
    def __init__(self) -> None:
        self.calls: deque[Callable[[], object]] = deque()


_calls_of_thread = _CallsOfThread()


def _one_after_the_other(call: Callable[[], object]) -> None:
    """Make a call, after those that run on this thread now: one that ends another wait must not be inside of it.

    Else the memory that a thousand waits of a closed loop return would be as many calls deep.
    """
    calls = _calls_of_thread.calls
    calls.append(call)
    if len(calls) > 1:
        return
    try:
        while calls:
            _call_outside_of_locks(calls[0])
            calls.popleft()
    finally:
        calls.clear()


def _call_outside_of_locks(call: Callable[[], object]) -> None:
    """Make a call, on another thread if this one is in a block of a lock that the call takes.

    The garbage collector runs finalizers at any point of any thread, also for a loop that is dropped and not closed.
    """
    try:
        call()
    except IllegalStateError:  # raised before the call has done anything
        # Not `threading.Thread`, whose start takes locks and waits for the thread.
        _thread.start_new_thread(call, ())
