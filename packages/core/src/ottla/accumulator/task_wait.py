"""A wait of one task, as in `await delivery`: a future of asyncio that runs its task at once when it is completed.

A task takes any object for a future that has `_asyncio_future_blocking` and the methods below. One of `asyncio.Future`
has the loop call its task in a later turn. So all tasks that wait for a large batch, or for memory, would run in one
turn, however long that takes. Here the turn that completes the waits runs their tasks one after the other, and can end
in time. For a record it takes about as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TaskWait(Generic[T]):
    """A wait of the running task, which has to yield it at once. All methods are for the thread of the task's loop."""

    __slots__ = ("_asyncio_future_blocking", "_calls", "_cancelled", "_loop", "_message", "pending", "value")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = True  # it is awaited as soon as it is made; the task resets this
        self._loop = loop
        self._calls: tuple[tuple[Callable[[Any], object], Context | None], ...] = ()
        self._cancelled = False
        self._message: object = None
        self.pending = True
        """Whether it was neither completed nor cancelled."""
        self.value: T | None = None
        """What it was completed with."""

    def __repr__(self) -> str:
        state = "pending" if self.pending else "cancelled" if self._cancelled else "completed"
        return (
            f"<{type(self).__name__} {state}>"  # a task in asyncio's debug mode and in errors shows what it waits for
        )

    def complete(self, value: T) -> None:
        """Run the task. To be called by a callback of the loop, outside of any task, while the wait is pending.

        An exception that ends the loop, such as KeyboardInterrupt, is raised here.
        """
        self.pending = False
        self.value = value
        calls, self._calls = self._calls, ()  # else the task and its wait keep each other
        for function, context in calls:
            if context is None:
                function(self)
            else:
                context.run(function, self)

    # What a task calls

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task."""
        return self._loop

    def add_done_callback(self, function: Callable[[Any], object], *, context: Context | None = None) -> None:
        """Call *function* with this object when it is completed or cancelled."""
        if self.pending:
            self._calls += ((function, context),)
        else:
            self._loop.call_soon(function, self, context=context)

    def cancel(self, msg: object = None) -> bool:
        """End the wait. Returns False if it was over."""
        if not self.pending:
            return False
        self.pending = False
        self._cancelled = True
        self._message = msg
        calls, self._calls = self._calls, ()
        for function, context in calls:  # not at once: the code that cancels runs on first, and may itself be a task
            self._loop.call_soon(function, self, context=context)
        return True

    def result(self) -> T | None:
        """What it was completed with; raises CancelledError if it was cancelled."""
        if self._cancelled:
            raise asyncio.CancelledError(*(() if self._message is None else (self._message,)))
        return self.value
