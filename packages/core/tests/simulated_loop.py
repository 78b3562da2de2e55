"""An event loop of asyncio on a simulated thread. Its tasks wait in simulated time; it watches no sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ottla.aio import calls
from ottla.concurrency.cancellation import Cancellation
from ottla_testkit.simulation.threads import SimulatedThreads

T = TypeVar("T")

_RESOLUTION: Final = 1e-6
"""Seconds by which a timer may be early: sums of floating-point numbers are not exact."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop that lets other simulated threads run, and time pass, while none of its tasks can run."""

    def __init__(self, threads: SimulatedThreads) -> None:
        super().__init__()
        self._threads = threads
        self._selector = _Wakeups(threads)
        self._clock_resolution = _RESOLUTION
        self.errors: list[BaseException] = []
        """What callbacks of the loop have raised."""
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._threads.clock()

    def run_until_complete(self, future: Coroutine[Any, Any, T] | Any) -> T:
        """Run a coroutine, and raise what callbacks of the loop have raised meanwhile."""
        result: T = super().run_until_complete(future)
        if self.errors:
            raise self.errors[0]
        return result

    def _process_events(self, event_list: Sequence[object]) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        self._selector.woken = True

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")  # none for a task that is destroyed with its loop
        if error is not None:
            self.errors.append(error)


class _Wakeups:
    """The part of a selector that the loop uses."""

    def __init__(self, threads: SimulatedThreads) -> None:
        self.woken = False
        self._threads = threads

    def select(self, timeout: float | None) -> Sequence[object]:
        """Wait until another thread wakes the loop."""
        if timeout is None:
            self._threads.wait(lambda: self.woken)
        elif timeout > 0:
            self._threads.wait(lambda: self.woken, self._threads.clock() + timeout)
        else:
            self._threads.may_switch()
        self.woken = False
        return ()


@contextmanager
def simulated_calls(threads: SimulatedThreads) -> Iterator[None]:
    """A block in which blocking calls of an AsyncProducer run on simulated threads."""
    started = calls.start_thread

    def start(name: str, run: Callable[[], object], cancellation: Cancellation | None = None) -> None:
        threads.thread(run, name).start()

    calls.start_thread = start
    try:
        yield
    finally:
        calls.start_thread = started
