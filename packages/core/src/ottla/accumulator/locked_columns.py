"""A lock and callbacks for columns that have neither, so that a batch works with one interface only.

A fault of their methods is reported with the encoder's plugin and package.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from operator import itemgetter
from time import time_ns
from typing import Any, Final

from ottla.accumulator.delivery import OnDelivery
from ottla.concurrency import interruptible_functions
from ottla.errors import IllegalStateError, InvalidPluginError, OttlaError, counted
from ottla.errors.plugin_origin import faults
from ottla.errors.quoting import class_name
from ottla.interfaces import Columns, Encoded, Facts, Header
from ottla.recordbatch.core_abilities import Callbacks, LockingColumns
from ottla.recordbatch.encoder_faults import checked_encoded, checked_facts, encoder_failed, encoder_fault
from ottla.recordbatch.finished_columns import FinishedColumns

first: Final = itemgetter(0)


@LockingColumns.register
class LockedColumns:
    """A lock and a list of callbacks for columns that have neither: of third-party encoders, and of tables.

    The methods of `Columns` raise InvalidPluginError for a fault of the encoder. Its number of records and its end do
    not depend on the encoder: otherwise a batch could neither fail nor expire. Neither do its facts after `encode`:
    then the records may have been written, and each of them needs its metadata.
    """

    __slots__ = ("_callbacks", "_closed", "_columns", "_count", "_facts", "_failed_close", "_rows", "lock")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._rows = self._number("__len__")  # of a table: columns for single records begin empty
        if self._rows > sys.maxsize:  # more than `len` may return
            raise self._not_empty()
        self._count = self._rows
        self._closed = False
        self._facts: Facts | None = None
        self._failed_close: OttlaError | MemoryError | None = None
        self._callbacks: list[tuple[int, OnDelivery]] = []
        self.lock = threading.RLock()

    @property
    def columns(self) -> Columns:
        """The columns behind the lock."""
        return self._columns

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
            if self._closed:
                return None
            try:
                index = self._columns.append(key, value, headers, timestamp_ms)
            except (OttlaError, MemoryError):  # a record that no format can hold; no fault of the encoder
                raise
            except faults() as cause:
                raise encoder_failed(self._columns, "append", cause) from cause
            if index is None and self._count:
                return None
            if type(index) is not int:
                what = (
                    f"returned {class_name(index)} in append; an index is an int, and an empty batch takes any record"
                )
                raise encoder_fault(self._columns, what)
            expected = self._count - self._rows
            if index != expected:
                raise encoder_fault(
                    self._columns, f"returned {index} in append, but the index of the record is {expected}"
                )
            if self._rows:
                raise self._not_empty()
            self._count += 1
            if on_delivery is not None:
                self._callbacks.append((index, on_delivery))
            return index

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Append a record, without the lock."""
        index: int | None = self._call("append", key, value, headers, timestamp_ms)
        self._count += index is not None
        return index

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes from now on."""
        self._call("allow", memory)

    def close(self) -> None:
        """Take no more records. The encoder's `close` is called once; if it fails, `encode` or `keys` raises the error.

        An error here would come from whatever ends the batch: a `send` of other records, or the end of the producer.
        """
        if not self._closed:
            self._closed = True
            try:
                self._call("close")
            except (OttlaError, MemoryError) as error:
                self._failed_close = error.with_traceback(None)

    def memory(self) -> int:
        """The bytes that the records occupy until they are encoded."""
        return self._number("memory")

    def __len__(self) -> int:
        return self._count

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes."""
        return self._number("size_estimate")

    def encode(self, magic: int) -> Encoded:
        """Encode all records in one pass, and release them."""
        columns = self._columns
        if type(columns) is FinishedColumns:
            return columns.encode(magic)
        self._refuse_unclosed()
        encoded = checked_encoded(columns, self._call("encode", magic), count=self._count)
        self._facts = self._checked_facts()
        return encoded

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns while there is room; return how many fit."""
        count = self._number("extend", other._columns if isinstance(other, LockedColumns) else other, indexes)
        if count > len(indexes):
            what = f"returned {count} in extend, more than the {counted(len(indexes), 'record')} that it was given"
            raise encoder_fault(self._columns, what)
        if self._rows:
            raise self._not_empty()
        if not (count or self._count) and indexes:
            raise encoder_fault(self._columns, "returned 0 in extend, but an empty batch takes any record")
        self._count += count
        return count

    def extend_at(self, other: Columns, indexes: Sequence[int], /) -> tuple[int, int]:
        """`extend`, with the index of the first record here."""
        return len(self), self.extend(other, indexes)

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records, before `encode`."""
        self._refuse_unclosed()
        keys: Any = self._call("keys")
        if not isinstance(keys, Sequence) or isinstance(keys, str) or len(keys) != self._count:
            wanted = f"a sequence with an entry for each of {counted(self._count, 'record')}"
            raise encoder_fault(self._columns, f"returned {class_name(keys)} in keys, not {wanted}")
        return keys

    def release(self) -> None:
        """Release the records."""
        self._call("release")

    def facts(self) -> Facts:
        """The timestamps and sizes for the metadata of delivered records."""
        if self._facts is not None:
            return self._facts
        columns = self._columns
        return columns.facts() if type(columns) is FinishedColumns else self._checked_facts()

    def _refuse_unclosed(self) -> None:
        if self._failed_close is not None:
            raise self._failed_close

    def _checked_facts(self) -> Facts:
        return checked_facts(self._columns, self._call("facts"), count=self._count)

    def _not_empty(self) -> InvalidPluginError:
        return encoder_fault(self._columns, f"returned new columns that are not empty: {self._rows} in __len__")

    def _number(self, method: str, *arguments: object) -> int:
        made = self._call(method, *arguments)
        if type(made) is not int or made < 0:
            raise encoder_fault(self._columns, f"returned {class_name(made)} in {method}, not an int of at least 0")
        return made

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._columns, method)(*arguments)
        except (OttlaError, MemoryError):  # a record that no format can hold; no fault of the encoder
            raise
        except faults() as cause:
            raise encoder_failed(self._columns, method, cause) from cause

    def take_callbacks(self, given: list[tuple[int, OnDelivery]]) -> Callbacks:
        """Remove all callbacks, and return them and those *given*, in the order of their records."""
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


interruptible_functions.allow_break_off(LockedColumns.put, lambda names: _refuse_inside(names["self"].lock))
