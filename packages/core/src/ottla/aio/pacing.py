"""Turns of the event loop for tasks that send without ever having to wait."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from ottla.accumulator.event_loops import LONGEST_TURN, LaterTurn

SENDS_IN_A_ROW: Final = 32
"""Sends before the clock is read again: reading it costs as much as a send of `ottla-accel`."""


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
        """
        self.sends_left = SENDS_IN_A_ROW
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is None:
            run = self._runs[loop] = _Run()
        if run.is_long(loop, asyncio.current_task()):
            await LaterTurn()


class _Run:
    """The sends in one turn of a loop, of one task after the other."""

    __slots__ = ("_began_at", "_sender")

    def __init__(self) -> None:
        self._sender: object = None
        self._began_at = 0.0

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
