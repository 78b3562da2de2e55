"""A lock and callbacks for columns that have neither, so that a batch works with one interface only."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import itemgetter
from time import time_ns
from typing import Any, Final

from ottla.accumulator.delivery import OnDelivery
from ottla.concurrency import signals
from ottla.errors import IllegalStateError, OttlaError
from ottla.errors.plugin_origin import faults
from ottla.interfaces import Columns, Header
from ottla.recordbatch.core_abilities import Callbacks, LockingColumns
from ottla.recordbatch.encoder_faults import encoder_failed

first: Final = itemgetter(0)


@LockingColumns.register
class LockedColumns:
    """A lock and a list of callbacks for columns that have neither: of third-party encoders, and of tables."""

    __slots__ = ("_callbacks", "_columns", "lock")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._callbacks: list[tuple[int, OnDelivery]] = []
        self.lock = threading.RLock()

    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
        /,
    ) -> int | None:
        """Append a record under the lock and return its index. Raises InvalidPluginError for a fault of the encoder."""
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        lock = self.lock
        if lock._is_owned():  # type: ignore[attr-defined]  # of every RLock: Condition needs it, too
            _refuse_inside(lock)
        with lock:
            try:
                index = self._columns.append(key, value, headers, timestamp_ms)
            except (OttlaError, MemoryError):  # a record that no format can hold; no fault of the encoder
                raise
            except faults() as cause:
                raise encoder_failed(self._columns, "append", cause) from cause
            if on_delivery is not None and index is not None:
                self._callbacks.append((index, on_delivery))
            return index

    def take_callbacks(self, given: list[tuple[int, OnDelivery]]) -> Callbacks:
        """Remove all callbacks; returns them and those *given*, in the order of their records."""
        if not self._callbacks:
            return given
        taken = sorted([*self._callbacks, *given], key=first)
        self._callbacks = []
        return taken


def _refuse_inside(lock: Any) -> None:
    """Raise if a signal handler or __del__ interrupted an append on this thread: the columns may be half changed."""
    if lock._is_owned():
        raise IllegalStateError(
            "a signal handler or __del__ called the producer in the middle of a send on the same thread: set a flag "
            "there, and call the producer from the main program"
        )


signals.allow_break_off(LockedColumns.put, lambda names: _refuse_inside(names["self"].lock))
