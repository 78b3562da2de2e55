"""The byte budget of a producer (`buffer.memory`): who may hold how much, and who waits.

Counts bytes, holds none. Waiters are served in the order of their arrival; memory that comes back goes to the
longest waiter first, even when a later one asks for less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import attrs

from ottla.errors import BufferExhausted, OttlaError


@attrs.define(eq=False)
class _Waiter:
    missing: int
    served: threading.Event = attrs.field(factory=threading.Event)


class BufferPool:
    """A fair budget of *capacity* bytes. Safe for any number of threads."""

    def __init__(self, capacity: int, *, clock: Callable[[], float]) -> None:
        self.capacity = capacity
        self._clock = clock
        self._free = capacity
        self._waiters: deque[_Waiter] = deque()
        self._lock = threading.Lock()
        self._refusal: OttlaError | None = None

    @property
    def free(self) -> int:
        """Bytes that nobody holds; those that a waiter has collected so far count as held."""
        return self._free

    @property
    def waiting(self) -> int:
        """How many threads wait for memory."""
        return len(self._waiters)

    def try_reserve(self, size: int) -> bool:
        """Take *size* bytes if they are free and nobody waits; never blocks."""
        with self._lock:
            if self._waiters or size > self._free:
                return False
            self._free -= size
            return True

    def reserve(self, size: int, *, timeout: float, on_wait: Callable[[], object] = lambda: None) -> None:
        """Take *size* bytes, waiting for them at most *timeout* seconds; *on_wait* is called once in line.

        Raises BufferExhausted when time runs out, and what `close` was given when the pool is closed.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if not self._waiters and size <= self._free:
                self._free -= size
                return
            waiter = _Waiter(missing=size)
            self._waiters.append(waiter)
            self._serve()
        on_wait()
        started = self._clock()
        if not waiter.served.wait(timeout):
            self._give_up(waiter, size, waited=self._clock() - started)
        if waiter.missing and self._refusal is not None:
            raise self._refusal

    def release(self, size: int) -> None:
        """Give *size* bytes back."""
        with self._lock:
            self._free += size
            self._serve()

    def close(self, refusal: OttlaError) -> None:
        """Refuse with *refusal* from now on, those who wait included; what is held may still be released."""
        with self._lock:
            self._refusal = refusal
            for waiter in self._waiters:
                waiter.served.set()

    def _serve(self) -> None:
        while self._waiters and self._free:
            waiter = self._waiters[0]
            given = min(waiter.missing, self._free)
            waiter.missing -= given
            self._free -= given
            if not waiter.missing:
                self._waiters.popleft()
                waiter.served.set()

    def _give_up(self, waiter: _Waiter, size: int, *, waited: float) -> None:
        with self._lock:
            if not waiter.missing:  # served in the moment between the time-out and the lock
                return
            self._waiters.remove(waiter)
            free = self._free
            self._free += size - waiter.missing
            self._serve()
        raise BufferExhausted(
            f"no memory for {size} bytes within max.block.ms: waited {waited:.3f} s, {free} of buffer.memory="
            f"{self.capacity} bytes free; the broker takes records slower than they are sent"
        )
