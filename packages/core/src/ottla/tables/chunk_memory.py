"""The size of a table's chunks: larger for many partitions, with memory of `buffer.memory` that the table holds.

Each batch costs time and memory, here and in brokers. With thousands of partitions, chunks of the usual size would make
batches of a dozen rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import attrs

from ottla.accumulator.batch_memory import BATCH_COST
from ottla.concurrency import signals

COPIES: Final = 2
"""How often the rows of a chunk are in memory: its parts are copied when they are joined."""


class SparePool(Protocol):
    """A producer's pool of `buffer.memory`."""

    @property
    def capacity(self) -> int:
        """All its bytes."""

    def reserve_spare(self, *, max_bytes: int, spared: int) -> int:
        """Take up to *max_bytes* bytes, but leave *spared* bytes free; return how many."""

    def release(self, size: int) -> None:
        """Give *size* bytes back."""


@attrs.define(kw_only=True, eq=False)
class ChunkMemory:
    """The chunks of one table: of *usual* bytes, or up to *wanted* bytes if more can be reserved from *pool*.

    A table that fits into one usual chunk reserves nothing. Whatever tables reserve, half of the pool is left, and
    enough for a record of *max_record* bytes: so rows can always be queued.
    """

    pool: SparePool | None
    usual: int
    wanted: int
    max_record: int
    _held: int = 0

    def is_enough(self, size: int) -> bool:
        """Return whether a chunk of *size* bytes is large enough. If more are wanted, this may reserve them."""
        if size >= self.wanted:
            return True
        if size < self.usual:
            return False
        self._reserve()
        return size >= self.usual + self._held // COPIES

    @contextmanager
    def returned(self) -> Iterator[None]:
        """At the end of the block, give back what is held. A signal handler may interrupt the block anywhere."""
        try:
            try:
                yield
            finally:
                self._give_back()
        finally:
            self._give_back()  # again: a signal handler may have raised as the first call began

    def _reserve(self) -> None:
        pool, missing = self.pool, COPIES * (self.wanted - self.usual) - self._held
        if pool is None or missing <= 0:
            return
        spared = max(pool.capacity // 2, self.max_record + BATCH_COST)
        with signals.Deferred():
            self._held += pool.reserve_spare(max_bytes=missing, spared=spared)

    def _give_back(self) -> None:
        if self.pool is not None and self._held:
            with signals.Deferred():
                held, self._held = self._held, 0
                self.pool.release(held)
