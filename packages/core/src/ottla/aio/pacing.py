"""Turns of the event loop for tasks that send without ever having to wait."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

LONGEST_RUN: Final = 0.001
"""Seconds that sends may take before other tasks get a turn. Tasks that all send share them equally."""

SENDS_IN_A_ROW: Final = 32
"""Sends before the clock is read again: reading it costs as much as a send of `ottla-accel`."""

FEW_TASKS: Final = 4
SENDS_AMONG_MANY: Final = 8
"""In place of `SENDS_IN_A_ROW` if more tasks send than these: their shares are short."""


class Pacing:
    """Counts sends that did not wait, and lets other tasks run in time. For any number of loops and threads."""

    __slots__ = ("_runs", "sends_left")

    def __init__(self) -> None:
        self.sends_left = SENDS_IN_A_ROW
        """Sends until `pause` is to be called. Threads may count wrong together; then the clock is read more rarely."""
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Run] = WeakKeyDictionary()

    async def pause(self) -> None:
        """Let other tasks run if this task sends again and again, and has used up its share of the loop's turn.

        A task that awaits each record is not to pause: its record would miss the request of the other tasks' records.
        """
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is None:
            run = self._runs[loop] = _Run()
        if run.is_over(loop, asyncio.current_task()):
            self.sends_left = 1  # the share of the next task begins with its first send
            await asyncio.sleep(0)
        else:
            self.sends_left = run.sends_in_a_row


class _Run:
    """The sends in one turn of a loop, of one task after the other."""

    __slots__ = ("_began_at", "_sender", "_tasks", "_tasks_before")

    def __init__(self) -> None:
        self._sender: object = None
        self._began_at = 0.0  # of the sender's share
        self._tasks = 0  # that have sent in this turn
        self._tasks_before = 1  # in the turn before

    @property
    def sends_in_a_row(self) -> int:
        """The sends before `is_over` is to be called again."""
        return SENDS_IN_A_ROW if self._sharing <= FEW_TASKS else SENDS_AMONG_MANY

    def is_over(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> bool:
        """Return whether the share of a task is used up. A task's first call in a turn begins its share."""
        now, sender = loop.time(), task or self
        if self._sender is None:
            loop.call_soon(self._end)
        if sender is not self._sender:
            self._sender, self._began_at = sender, now
            self._tasks += 1
            return False
        return now - self._began_at >= LONGEST_RUN / self._sharing

    @property
    def _sharing(self) -> int:
        return max(self._tasks, self._tasks_before)

    def _end(self) -> None:
        self._sender = None
        self._tasks_before, self._tasks = self._tasks, 0
