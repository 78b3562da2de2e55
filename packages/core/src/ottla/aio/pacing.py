"""Turns of the event loop for tasks that send without ever having to wait."""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

LONGEST_RUN: Final = 0.001
"""Seconds that sends may take before other tasks get a turn."""

SENDS_IN_A_ROW: Final = 32
"""Sends before the clock is read again: reading it costs as much as a send of `ottla-accel`."""


class Pacing:
    """Counts sends that did not wait, and lets other tasks run in time. For any number of loops and threads."""

    __slots__ = ("_turns", "left")

    def __init__(self) -> None:
        self.left = SENDS_IN_A_ROW
        """Sends until `pause` is to be called. Threads may count wrong together; then the clock is read more rarely."""
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()

    async def pause(self) -> None:
        """Let other tasks run if the last turn of this loop is long ago."""
        self.left = SENDS_IN_A_ROW
        loop = asyncio.get_running_loop()
        if loop.time() - self._turns.get(loop, 0.0) >= LONGEST_RUN:
            await asyncio.sleep(0)
            self._turns[loop] = loop.time()
