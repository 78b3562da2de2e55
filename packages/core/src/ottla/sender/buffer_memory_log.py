"""Log lines about memory: calls of `send` that wait long for `buffer.memory` or are refused, and the recovery."""

from __future__ import annotations

from typing import Final

from ottla.accumulator.buffer_pool import BufferPool
from ottla.errors.outages import Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)

LOGGED_AFTER: Final = 5.0
"""Seconds. A wait for memory that lasts as long is logged; shorter ones are the normal back-pressure on a producer."""

ENDS_AFTER: Final = 30.0
"""Seconds without such a wait after which memory counts as sufficient again.

A throttled producer still sends some records now and then: this ends the longest wait, and the next wait becomes as
long.
"""

_MEMORY: Final = "memory"


class BufferMemoryLog:
    """Logs that a producer is out of memory. For the I/O thread, which calls `note` once in each round; no lock."""

    def __init__(self, pool: BufferPool, *, client_id: str) -> None:
        self._pool = pool
        self._client_id = client_id
        self._outages: Outages[str, str] = Outages(repeat_by_failure=True)
        self._first: object | None = None
        self._waits_since = 0.0
        self._short_at = float("-inf")  # when memory was short last
        self._refusals = 0
        self._refusals_before = 0

    def note(self, now: float) -> None:
        """Note the state of the pool, and write the lines that are due; called while the pool is `short`."""
        first, refusals = self._pool.longest_wait, self._pool.refusals
        if first is not self._first:
            self._first, self._waits_since = first, now
        refused, self._refusals = refusals - self._refusals, refusals
        if not self._outages and refused:
            self._refusals_before = refusals - refused
        waits = first is not None and now - self._waits_since >= LOGGED_AFTER
        if refused or waits:
            self._short_at = now
            self._outages.failed(
                _MEMORY, _MEMORY, "", now, started_at=self._waits_since if waits else self._pool.refused_since
            )
        elif now >= self._over_at:
            self._outages.recovered(_MEMORY, self._short_at)
        self._write(now)
        if first is None and not self._outages:
            self._pool.short = False
            if self._pool.waiting:  # a thread may have begun to wait in between
                self._pool.short = True

    @property
    def _over_at(self) -> float:
        return self._short_at + ENDS_AFTER

    def due_at(self) -> float:
        """The time of the next call of `note` if nothing happens."""
        return self._over_at if _MEMORY in self._outages else float("inf")

    def _write(self, now: float) -> None:
        for line in self._outages.take_lines(now):
            refused = self._refusals - self._refusals_before
            if isinstance(line, OutageUpdate):
                # Without a time: a call of send that must not wait was refused.
                lasting = f" for {line.lasting:.1f} s" if line.lasting >= 0.05 else ""
                logger.warning(
                    "%s: buffer.memory is exhausted%s, calls of send that wait: %d, refused: %d; all %d "
                    "bytes are held by records that brokers have not acknowledged; send waits up to max.block.ms",
                    self._client_id,
                    lasting,
                    self._pool.waiting,
                    refused,
                    self._pool.capacity,
                )
            elif line.recovered:
                logger.info(
                    "%s: buffer.memory is sufficient again, after %.1f s; calls of send that were refused: %d",
                    self._client_id,
                    line.lasting,
                    refused,
                )
                self._refusals_before = self._refusals
