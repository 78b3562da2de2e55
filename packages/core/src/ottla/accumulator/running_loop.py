"""The event loop of the calling thread, as the I/O hand-off uses it: to run rounds, and to watch sockets."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Final

from ottla.accumulator.event_loops import running_inbox


class DescriptorWatch:
    """A `LoopWatch` of a copy of the descriptor, which its owner may close at any time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, function: Callable[[], bool]) -> None:
        self._loop = weakref.ref(loop)
        self._function = function
        self._descriptor = os.dup(descriptor)
        try:
            # In an empty context: the loop would keep that of the task which happens to send first, and its objects.
            Context().run(loop.add_reader, self._descriptor, self._call)
        except BaseException:
            self._close()
            raise

    @property
    def ended(self) -> bool:
        """Return whether the loop watches it no more, or is closed."""
        loop = self._loop()
        return self._descriptor < 0 or loop is None or loop.is_closed()

    def end(self) -> None:
        """Have the loop watch it no more, soon. For any thread; does not wait, and never raises."""
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._end)
        except RuntimeError:  # closed
            pass

    def _call(self) -> None:
        if not running_inbox().call_and_complete(self._function):
            self._end()

    def _end(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self._close()


class RunningLoop:
    """The `EventLoop` of asyncio that runs on the calling thread."""

    def at_end_of_turn(self, function: Callable[[], object], *, if_closed: Callable[[], object]) -> None:
        """Call a function once when the loop has run all tasks that are ready now; immediately without a loop.

        So the records that many tasks send after one wake-up of the loop leave together, and not each in its own
        request. If the loop is closed before that, a finalizer calls *if_closed* instead.
        """
        try:
            inbox = running_inbox()
        except RuntimeError:
            function()
        else:
            inbox.call_at_end_of_turn(function, if_closed)

    def watch(self, descriptor: int, function: Callable[[], bool]) -> DescriptorWatch | None:
        """Call *function* on the loop while *descriptor* is readable, until it returns False.

        Return None if no loop can.
        """
        try:
            return DescriptorWatch(asyncio.get_running_loop(), descriptor, function)
        except (RuntimeError, NotImplementedError, OSError):  # no loop; a loop without readers; no descriptor is left
            return None


RUNNING_LOOP: Final = RunningLoop()
