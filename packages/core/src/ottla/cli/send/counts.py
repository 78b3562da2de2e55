"""Counts of a run of `ottla send`, from the deliveries of its blocks; nothing grows with the number of records."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import attrs

from ottla.errors import TableDeliveryError, printable

_NAMED: Final = 5
"""Failed records that are named; the others are counted."""


@attrs.frozen
class _Pending:
    delivery: Any
    name: str
    first: int


@attrs.define(kw_only=True)
class Counts:
    """Records that were read, acknowledged and failed; `failures` names the first failed ones."""

    read: int = 0
    size: int = 0
    acknowledged: int = 0
    failed: int = 0
    failures: list[str] = attrs.Factory(list)
    _pending: deque[_Pending] = attrs.Factory(deque)
    _started_at: float = attrs.Factory(time.monotonic)

    @property
    def in_flight(self) -> int:
        """Records that have no outcome yet."""
        return self.read - self.acknowledged - self.failed

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.monotonic() - self._started_at

    def add(self, delivery: Any, *, name: str, first: int, count: int, size: int) -> None:
        """Note a block of *count* records; *first* is the number of its first one in the input *name*."""
        self.read += count
        self.size += size
        self._pending.append(_Pending(delivery, name, first))
        self.settle()

    def settle(self) -> None:
        """Count the outcomes of the blocks that are done, in order."""
        while self._pending and self._pending[0].delivery.done():
            self._count(self._pending.popleft())

    def wait(self) -> None:
        """Wait for all blocks, and count them."""
        while self._pending:
            self._count(self._pending.popleft())

    def _count(self, pending: _Pending) -> None:
        error: TableDeliveryError | None = pending.delivery.exception()
        result = pending.delivery.result() if error is None else error.result
        self.acknowledged += result.acknowledged
        self.failed += result.failed
        if error is not None and len(self.failures) < _NAMED:
            for row, why in pending.delivery.failed_rows().items():
                if len(self.failures) == _NAMED:
                    break
                self.failures.append(f"record {pending.first + row} of {printable(pending.name)}: {why}")


def per_second(amount: float, seconds: float) -> float:
    """A rate; 0 before any time has passed."""
    return amount / seconds if seconds > 0 else 0.0
