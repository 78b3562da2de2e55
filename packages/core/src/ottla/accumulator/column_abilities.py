"""Optional abilities of columns, as protocols that are checked once for each class of columns.

Columns with a `put` store callbacks and have a lock. All others get both from `LockedColumns`, so that a batch works
with one interface only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import cache
from operator import itemgetter
from time import time_ns
from typing import Any, Final, Protocol, TypeAlias

from ottla.accumulator.delivery import OnDelivery
from ottla.concurrency import signals
from ottla.errors import IllegalStateError
from ottla.interfaces import Columns, Header

first: Final = itemgetter(0)

Callbacks: TypeAlias = Collection[tuple[int, OnDelivery]]
"""Pairs of a record's index and its callback."""


class GuardedColumns(Protocol):
    """Columns to which any thread appends, with a callback for each record.

    `put` takes `lock`, and callers of `take_callbacks` hold it. Where signal handlers may run, it is an RLock, or these
    methods are code in C.
    """

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of the columns, and of the batch that has them."""

    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
        /,
    ) -> int | None:
        """Append a record and return its index; None: there is no room, or the columns take no more."""

    def take_callbacks(self, given: list[tuple[int, OnDelivery]]) -> Callbacks:
        """Remove all callbacks; returns them and those *given*, in the order of their records."""
        ...


class CallbackRunner(Protocol):
    """Columns that run the callbacks of acknowledged records themselves."""

    def run_callbacks(
        self,
        callbacks: Callbacks,
        batch: object,
        base_offset: int,
        log_append_time_ms: int,
        raised: Callable[[], object],
        /,
    ) -> None:
        """Run callbacks that `take_callbacks` returned; *raised* is called in the `except` of one that raises."""


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
        """Append a record under the lock and return its index."""
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        lock = self.lock
        if lock._is_owned():  # type: ignore[attr-defined]  # of every RLock: Condition needs it, too
            _refuse_inside(lock)
        with lock:
            index = self._columns.append(key, value, headers, timestamp_ms)
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


# The class is checked, not the object: an object may forward every attribute to another one.


@cache
def are_guarded(kind: type[Columns]) -> bool:
    """Return whether columns of this class are GuardedColumns."""
    return hasattr(kind, "put")


@cache
def is_callback_runner(kind: type[Columns]) -> bool:
    """Return whether columns of this class are a CallbackRunner."""
    return hasattr(kind, "run_callbacks")
