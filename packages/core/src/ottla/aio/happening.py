"""Something that happens once, on any thread, and that tasks wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from ottla.accumulator.event_loops import UntilCalled


class Happening:
    """Something that happens once, on any thread, and functions that are called then, or at once if it has."""

    def __init__(self) -> None:
        self.happened = False
        self._calls: deque[Callable[[], object]] = deque()

    def on(self, call: Callable[[], object]) -> None:
        """Call *call* when it happens, on that thread, or now, if it has. Perhaps twice."""
        self._calls.append(call)
        if self.happened:
            self.happen()

    def happen(self) -> None:
        """Note that it has happened."""
        self.happened = True
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:  # taken by another thread
                return
            call()

    async def wait(self, timeout: float | None, *, if_closed: Callable[[], object] = lambda: None) -> bool:
        """Wait for it, at most *timeout* seconds. Return False if time ran out.

        *if_closed* is called when it happens, on that thread, if the loop of the task is closed by then.
        """
        if not self.happened and (timeout is None or timeout > 0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await UntilCalled(self.on, if_closed)
        return self.happened
