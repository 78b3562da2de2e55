"""Calls `on_progress` on the event loop from which the table is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ottla.results import TableProgress
from ottla.tables.progress import Guarded


class LoopProgress:
    """A callback for any thread, which has *callback* called on *loop*."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[TableProgress], object]) -> None:
        self._loop = loop
        self._callback = Guarded(callback)

    def __call__(self, progress: TableProgress) -> None:
        """Do not wait for the call. A loop that is closed makes none."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._callback, progress)
