"""Turns of the event loop for tasks that send without ever having to wait."""

from __future__ import annotations

import asyncio
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ottla.accumulator.event_loops import LONGEST_TURN, LaterTurn

SENDS_IN_A_ROW: Final = 32
"""Sends before the clock is read again: reading it costs as much as a send of `ottla-accel`."""

LONGEST_EAGER_TURN: Final = 10 * LONGEST_TURN
"""Seconds after which tasks that start eagerly pause. Where each record has one, the loop gets no other turn."""

_RUN: Final = asyncio.Handle._run.__code__


class Pacing:
    """Counts sends that did not wait, and lets other tasks run in time. For any number of loops and threads."""

    __slots__ = ("_runs", "sends_left")

    def __init__(self) -> None:
        self.sends_left = SENDS_IN_A_ROW
        """Sends until `pause` is to be called. Threads may count wrong together; then the clock is read more rarely."""
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Run] = WeakKeyDictionary()

    async def pause(self) -> None:
        """Let other tasks run if this turn of the loop is long, and this task sends again and again.

        A task that awaits each record is not to pause: its record would miss the request of the other tasks' records.
        But tasks that start eagerly may all run in one step of the task that makes them. If that turn is very long,
        they pause, each behind those that do so already: so they send in the order in which they were made.
        """
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is None:
            run = self._runs[loop] = _Run()
        task = asyncio.current_task()
        if run.is_too_long(loop) and is_inside_another(task):
            self.sends_left = 0  # the next send calls this, too, and pauses behind this one
            await run.pause_in_order()
        elif run.is_long(loop, task):
            self.sends_left = SENDS_IN_A_ROW
            await LaterTurn()
        if not run.pausing:
            self.sends_left = SENDS_IN_A_ROW


class _Run:
    """The sends in one turn of a loop, of one task after the other."""

    __slots__ = ("_began_at", "_sender", "pausing")

    def __init__(self) -> None:
        self._sender: object = None
        self._began_at = 0.0
        self.pausing = 0
        """The number of tasks that started eagerly and pause."""

    def is_too_long(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether tasks that start eagerly are to pause: the turn is very long, or others pause before them."""
        return self.pausing > 0 or (self._sender is not None and loop.time() - self._began_at >= LONGEST_EAGER_TURN)

    async def pause_in_order(self) -> None:
        """Pause behind all tasks that do so already."""
        self.pausing += 1
        try:
            await LaterTurn()
        finally:
            self.pausing -= 1

    def is_long(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> bool:
        """Return whether the turn is long, and the task of this call is that of the last one."""
        now, sender = loop.time(), task or self
        if self._sender is None:
            self._began_at = now
            loop.call_soon(self._end)
        again, self._sender = sender is self._sender, sender
        return again and now - self._began_at >= LONGEST_TURN

    def _end(self) -> None:
        self._sender = None


def is_inside_another(task: asyncio.Task[Any] | None) -> bool:
    """Return whether this task, which runs now, has started eagerly in the step of another one."""
    frame: FrameType | None = getattr(task and task.get_coro(), "cr_frame", None)
    while frame is not None and (frame := frame.f_back) is not None and frame.f_code is not _RUN:
        if frame.f_code.co_flags & CO_COROUTINE:
            return True
    return False
