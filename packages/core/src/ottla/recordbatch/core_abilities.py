"""Abilities that only encoders released with the core have: the two of the core, and that of ottla-accel.

They depend on classes of the core that may change with each release, so no protocol of `ottla.interfaces` has them. A
class has one only if it is a subclass of the class here, or registered with it: methods of the same names in a
third-party encoder are never called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeAlias

from ottla.interfaces import Columns, Header, Partitioner
from ottla.recordbatch.callbacks import RecordCallback
from ottla.results import RecordMetadata

Callbacks: TypeAlias = Collection[tuple[int, RecordCallback]]
"""Pairs of a record's index and its callback."""


class LockingColumns(ABC):
    """Columns to which any thread appends, with a callback for each record.

    `put` takes `lock`, and callers of `take_callbacks` hold it. A signal handler may call the producer in the middle of
    a `put`: so the lock is an RLock and `put` can be broken off, or they are code in C, which no handler interrupts.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of the columns, and of the batch that has them."""

    @abstractmethod
    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
        on_delivery: RecordCallback | None,
        /,
    ) -> int | None:
        """Append a record and return its index, or None if there is no room, or the columns take no more."""

    @abstractmethod
    def extend_at(self, other: Columns, indexes: Sequence[int], /) -> tuple[int, int]:
        """`extend`, but return the index of the first record here, too, and the number of records.

        For the holder of the lock. Columns that a `send` in C appends to without the lock do both in one step.
        """

    @abstractmethod
    def take_callbacks(self, given: list[tuple[int, RecordCallback]]) -> Callbacks:
        """Remove all callbacks, and return them and those *given*, in the order of their records."""


class CallbackRunner(ABC):
    """Columns that make the core's deliveries and metadata in C, and run the callbacks of acknowledged records."""

    __slots__ = ()

    @abstractmethod
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

    @abstractmethod
    def metadata(
        self, topic: str, partition: int, first: int, end: int, base_offset: int, log_append_time_ms: int, /
    ) -> Sequence[RecordMetadata]:
        """Return the metadata of the records from *first* to before *end* of an acknowledged batch."""


class QuickSender(ABC):
    """An encoder with its own `Producer.send`, which reads open batches in memory (`native_layout`)."""

    __slots__ = ()

    @abstractmethod
    def awaited_delivery(self) -> type[Any]:
        """Return a subclass of `Delivery` with an `__await__` of its own and no other difference; imports asyncio."""

    @abstractmethod
    def quick_send(
        self, producer: Any, *, delivery: type[Any], routes: dict[str, Any], partitioner: Partitioner
    ) -> Callable[..., Any]:
        """Return `send` of this producer, without a reference that keeps the producer alive.

        *delivery*: the class of the deliveries that it returns.
        """


# The class is checked, once for each, and not the object: an object may forward every attribute to another one.


@cache
def are_locking(kind: type[Columns]) -> bool:
    """Return whether columns of this class are LockingColumns."""
    return issubclass(kind, LockingColumns)


@cache
def is_callback_runner(kind: type[Columns]) -> bool:
    """Return whether columns of this class are a CallbackRunner."""
    return issubclass(kind, CallbackRunner)
