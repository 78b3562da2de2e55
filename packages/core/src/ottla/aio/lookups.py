"""Lookups of serializers for tasks: a few threads make those that may be the same one, for all tasks that need it.

A thread for each task would be thousands, if all requests of a web service wait for the schema's id when it starts. The
core cannot know which lookups are the same, so a task that waited for a thread tries to serialize before it uses it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, TypeAlias

import attrs

from ottla.aio.calls import NoThreadError, on_a_thread
from ottla.aio.happening import Happening
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import SignalSafeLock
from ottla.errors import SerializationError
from ottla.plugins.serializer_lookups import Lookup
from ottla.producer.nonblocking_send import PendingSend, Step

MAX_THREADS: Final = 4
"""Maximum number of threads that look up for one serializer and topic. More than one, because a lookup may hang."""

USED_WITHIN: Final = 0.5
"""Seconds after which a task loses its right to a thread that it does not use, if others wait.

Its event loop may be blocked, or dropped without being closed.
"""

_Place: TypeAlias = tuple[int, str]


@attrs.define(eq=False)
class _Threads:
    """The threads of a serializer and topic, and the tasks that wait for one, in their order."""

    used: int = 0
    waiting: OrderedDict[ThreadUse, None] = attrs.field(factory=OrderedDict)
    unused: OrderedDict[ThreadUse, float] = attrs.field(factory=OrderedDict)
    """Uses that were granted to tasks that waited, which have not begun, and since when."""


class ThreadUse:
    """A task's right to use a thread. `granted` happens when it has one; it is `over` when another task may have it."""

    def __init__(self, place: _Place) -> None:
        self.place = place
        self.granted = Happening()
        self.over = False


class LookupsOfTasks:
    """The lookups of a producer's tasks, of all event loops."""

    def __init__(self, environment: Environment) -> None:
        self._lock = SignalSafeLock(environment)
        self._clock = environment.clock
        self._threads: dict[_Place, _Threads] = {}

    async def step_after(self, lookup: Lookup, pending: PendingSend, *, started_at: float) -> Step:
        """Wait for a lookup, or for that of another task which was the same; return the next step of the record.

        *started_at* is the loop's time when the call of `send` began. Raises the errors of `send`, and a
        SerializationError if no thread can be started. If the task is cancelled, the lookup keeps its thread.
        """
        loop = asyncio.get_running_loop()
        use = self._ask(_place(lookup))
        try:
            if not use.granted.happened:
                remaining = started_at + pending.limit.seconds - loop.time()
                if not await self._is_granted(use, remaining):
                    pending.begin_lookup(lookup, waited=pending.limit.seconds)  # raises
                step = pending.advance()
                if use.over or not isinstance(step, Lookup) or _place(step) != use.place:
                    self._end(use)
                    return step  # perhaps a lookup for which the task asks once more: another one has its thread
                lookup = step
            seconds = pending.begin_lookup(lookup, waited=loop.time() - started_at)
        except BaseException:
            self._end(use)
            raise
        await self._look_up(lookup, seconds, use)
        return pending.advance()

    async def _is_granted(self, use: ThreadUse, seconds: float) -> bool:
        """Wait until the task may use a thread, at most *seconds*. Return False if time ran out."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (remaining := until - loop.time()) > 0 and not use.granted.happened:
            # Mainly the task that waits longest watches: thousands would keep the loop busy.
            watched = USED_WITHIN if self._waits_longest(use) else 10 * USED_WITHIN
            if not await use.granted.wait(min(remaining, watched), if_closed=lambda: self._end(use)):
                self._take_unused(use)
        with self._lock:
            threads = self._threads.get(use.place)
            if threads is not None:
                threads.unused.pop(use, None)
            return use.granted.happened

    def _waits_longest(self, use: ThreadUse) -> bool:
        with self._lock:
            threads = self._threads.get(use.place)
            return threads is not None and next(iter(threads.waiting), None) is use

    def _take_unused(self, use: ThreadUse) -> None:
        """Let this task, which runs, have the thread that another one was granted and has not used in time."""
        with self._lock:
            threads = self._threads.get(use.place)
            if threads is None or use.granted.happened:
                return
            other, since = next(iter(threads.unused.items()), (use, float("inf")))
            if since + USED_WITHIN <= self._clock():
                del threads.unused[other], threads.waiting[use]
                other.over = use.granted.happened = True

    async def _look_up(self, lookup: Lookup, seconds: float, use: ThreadUse) -> None:
        def prepare() -> None:
            try:
                lookup.prepare(seconds)
            finally:
                self._end(use)

        try:
            await on_a_thread(name="prepare", call=prepare)
        except NoThreadError as error:
            self._end(use)
            raise SerializationError(
                f"{lookup.what} could not be serialized: no thread is left for its lookup: {error}"
            ) from error

    def _ask(self, place: _Place) -> ThreadUse:
        """Ask for a thread; call `_end` in any case."""
        use = ThreadUse(place)
        with self._lock:
            threads = self._threads.setdefault(place, _Threads())
            if threads.used < MAX_THREADS:
                threads.used += 1
                use.granted.happened = True
            else:
                threads.waiting[use] = None
        return use

    def _end(self, use: ThreadUse) -> None:
        """Let the task that waits longest have the thread. Harmless when repeated."""
        with self._lock:
            if use.over:
                return
            use.over = True
            threads = self._threads[use.place]
            threads.unused.pop(use, None)
            next_use = None
            if not use.granted.happened:
                del threads.waiting[use]
            elif threads.waiting:
                next_use, _ = threads.waiting.popitem(last=False)
                next_use.granted.happened = True
                threads.unused[next_use] = self._clock()
            else:
                threads.used -= 1
            if not threads.used:
                del self._threads[use.place]
        if next_use is not None:
            next_use.granted.happen()


def _place(lookup: Lookup) -> _Place:
    return id(lookup.serializer), lookup.topic
