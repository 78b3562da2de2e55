"""The columns of a batch that `send` fills, one Python object after the other.

Appending takes most of the time of `send`, so it only appends a record's parts to lists and counts their size.
`records_v2`, or `messages` for older formats, encodes them once, when the batch is sealed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from operator import itemgetter
from threading import RLock
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.concurrency import interruptible_functions
from ottla.errors import InvalidRecordError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Columns, ColumnsKind, Encoded, Facts, Header, RecordEncoder
from ottla.protocol.primitives import varint_size
from ottla.recordbatch.callbacks import CallbackColumn, RecordCallback
from ottla.recordbatch.core_abilities import LockingColumns
from ottla.recordbatch.header_sections import encode_headers
from ottla.recordbatch.message_sets import NO_TIMESTAMP, message_set
from ottla.recordbatch.number_columns import Constant, Timestamps
from ottla.recordbatch.old_format_errors import no_headers
from ottla.recordbatch.record_limits import OBJECT_COST, TIMESTAMP_MAX
from ottla.recordbatch.records_v2 import encode_records

Part = TypeVar("Part", bytes, bytes | None, RecordCallback | None)

_NEAR_MS: Final = 1 << 20
"""Timestamps within this distance of the first one, some 17 minutes, have deltas of at most three bytes."""

_FAR_COST: Final = 7
"""The maximum bytes of any other timestamp's delta beyond those three."""

_NO_HEADERS: Final = b"\0"

_NOT_QUICK: Final = 2**63
"""A size above every limit: of a record that needs a column of keys which the batch lacks, or has no key for it."""

_FRAME: Final = 10
"""Length (2 bytes), attributes (1), timestamp delta (3), sizes of a null key (1) and of a value (2), no headers (1)."""

_first: Final = itemgetter(0)

_LONGER_SIZES: Final = 12
"""One byte more for each 4096 bytes covers the varints of sizes from 8192 on, which take more than two bytes."""


@LockingColumns.register
class ObjectColumns:
    """Keys, values, headers and callbacks in Python lists; all lists but the values are None until a record needs them.

    Raises InvalidRecordError for a timestamp that the format cannot hold, or a header name that UTF-8 cannot.

    `put` is for any thread, and keeps callbacks; callers of other methods hold `lock` if `put` may be called meanwhile.
    """

    __slots__ = (
        "_acquire",
        "_callbacks",
        "_closed",
        "_count",
        "_facts",
        "_far_bytes",
        "_headers",
        "_high",
        "_kept",
        "_keys",
        "_limit",
        "_low",
        "_moment",
        "_moments",
        "_nulls",
        "_putting",
        "_quick_limit",
        "_release",
        "_since",
        "_starts",
        "_until",
        "_used",
        "_values",
        "lock",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._quick_limit = limit  # the same, but negative once a record has headers: `put` has no quick form for them
        self._closed = False
        self._used = 0
        self._far_bytes = 0
        self._low, self._high = 1, 0  # no timestamp is near before the first one
        self._moment: int | None = None  # the previous record's timestamp, if it is near,
        self._since, self._until = 0, 0  # and the time in ns from which and until which it is the current one
        self._moments: list[int] = []  # timestamps that differ from the previous one,
        self._starts: list[int] = []  # and the indexes of their records
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] = []
        self._headers: list[bytes] | None = None
        self._callbacks: list[RecordCallback | None] | None = None
        self._nulls = False  # among the values, or among the keys if there are some
        self._facts: Facts | None = None
        self._kept: int | None = None  # the number of records when a signal handler broke off a `put`
        self._count = 0  # once encoded
        self.lock = RLock()
        self._putting = False
        self._acquire, self._release = self.lock.acquire, self.lock.release

    # A with statement would take 50 ns more for each record. After Ctrl-C right behind `acquire` the lock is taken and
    # there is no `finally` yet: an RLock knows its owner, so it can still be released. Both ways append the value last:
    # if a signal handler interrupts them, the record is in the batch if its value is.
    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
        on_delivery: RecordCallback | None = None,
    ) -> int | None:
        """Append a record; return its index in the batch, None if there is no room. An empty batch takes any record.

        A record without a timestamp gets the current time. For any thread, because it takes the lock itself.
        """
        index = -1
        raised: BaseException | None = None
        try:
            self._acquire()
            if self._putting:  # this is a handler, or __del__, inside a put of the same thread
                self._release()
                self.break_off()
                return None
            self._putting = True
            try:
                values = self._values
                index = len(values)
                # The quick form is for records without nulls and headers, in a batch that has columns for them. A call
                # would take 25 ns more. The columns are read before any append, as in `_put_general`: a handler that
                # closes the batch meanwhile leaves no limit and no time that a record could be within.
                keys, callbacks = self._keys, self._callbacks
                if value is not None and not headers and (on_delivery is None or callbacks is not None):
                    used = self._used + OBJECT_COST + len(value)
                    if key is not None:
                        used = used + len(key) if keys is not None else _NOT_QUICK
                    elif keys is not None:
                        used = _NOT_QUICK
                    if used <= self._quick_limit and (
                        self._since <= time_ns() < self._until
                        if timestamp_ms is None
                        else self._low <= timestamp_ms <= self._high
                    ):
                        if timestamp_ms is not None and timestamp_ms != self._moment:
                            self._moment, self._until = timestamp_ms, 0
                            self._moments.append(timestamp_ms)
                            self._starts.append(index)
                            if self._closed:
                                return None
                        self._used = used
                        if keys is not None:
                            keys.append(key)
                        if callbacks is not None:
                            callbacks.append(on_delivery)
                        values.append(value)
                        return index
                # Assigned first: a `return` leaves this `try` before the `finally`, and a debugger's trace function may
                # run a handler in between.
                place = self._put_general(index, key, value, headers, timestamp_ms, on_delivery)
                return place
            except BaseException as error:
                if self.lock._is_owned():  # type: ignore[attr-defined]  # of every RLock: Condition needs it, too
                    self._trim()
                raised = error
                raise
            finally:
                self._putting = False
                self._release()
        except BaseException as error:
            return self._end_interrupted_put(error, raised, index, len(values) if index >= 0 else 0)

    def _end_interrupted_put(
        self, error: BaseException, raised: BaseException | None, index: int, count: int
    ) -> int | None:
        """Return the result of a `put` that a handler has broken off, or raise the current exception.

        *raised* is the exception of the appends themselves, *count* the number of values that the columns have.
        """
        if self.lock._is_owned():  # type: ignore[attr-defined]  # right behind `acquire`
            self._release()
            raise
        if self._kept is None or not isinstance(error, RuntimeError):
            raise
        # The lock is not held any more.
        if raised is not None:
            raise raised from None
        # The record was put if its index is among those kept. After that, the values may be those of encoded columns:
        # none.
        return index if 0 <= index < min(self._kept, count) else None

    if TYPE_CHECKING:  # the signature of the protocol

        def append(
            self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
        ) -> int | None:
            """`put` without a callback."""

    else:
        append = put  # the same function: a call that only passes its arguments on would take 25 ns

    def _put_general(
        self,
        index: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
        on_delivery: RecordCallback | None,
    ) -> int | None:
        """Append any record at *index*, its value last. `put` calls it and holds the lock."""
        used = self._used + OBJECT_COST
        if value is not None:
            used += len(value)
        else:
            self._nulls = True
        if key is not None:
            used += len(key)
        section = _NO_HEADERS
        if headers:  # encoded here and not in `encode`: bad ones fail only this record, and one object is kept
            section = encode_headers(headers)
            used += len(section) - len(_NO_HEADERS)
        now = 0
        if timestamp_ms is None:
            now = time_ns()
            # 35 ns less than a division each time
            timestamp_ms = (self._moment or 0) if self._since <= now < self._until else now // 1_000_000
        if used > self._limit and (index or self._closed):  # `break_off` of a handler sets the limit to -1
            return None
        if timestamp_ms != self._moment:
            if self._low <= timestamp_ms <= self._high:
                self._moment, self._until = timestamp_ms, 0
                self._moments.append(timestamp_ms)
                self._starts.append(index)
            elif not self._turn(timestamp_ms, index):
                return None
            if now and self._moment is not None:
                self._since = timestamp_ms * 1_000_000
                self._until = self._since + 1_000_000
            if self._closed:
                return None
        keys, sections, callbacks = self._keys, self._headers, self._callbacks
        if (
            (key is not None and keys is None)
            or (headers and sections is None)
            or (on_delivery is not None and callbacks is None)
        ):
            keys, sections, callbacks = self._begin_columns(index, key, headers, on_delivery)
            if self._closed:
                return None
        # No call is between the last check of the limit or of `_closed` and the first append, so no handler runs there.
        self._used = used
        if keys is not None:
            if key is None:
                self._nulls = True
            keys.append(key)
        if sections is not None:
            sections.append(section)
        if callbacks is not None:
            callbacks.append(on_delivery)
        self._values.append(value)
        return index

    def _begin_columns(
        self, index: int, key: bytes | None, headers: Sequence[Header], on_delivery: RecordCallback | None
    ) -> tuple[list[bytes | None] | None, list[bytes] | None, list[RecordCallback | None] | None]:
        """The columns of keys, headers and callbacks; new ones for what the record at *index* is the first to have.

        In a new column, the records before *index* get null keys, no headers or no callbacks.
        """
        keys, sections, callbacks = self._keys, self._headers, self._callbacks
        if keys is None and key is not None:
            keys = [None] * index
        if sections is None and headers:
            sections = [_NO_HEADERS] * index
        if callbacks is None and on_delivery is not None:
            callbacks = [None] * index
        if not self._closed:  # a new list may run the garbage collector, and a finalizer may then break this off
            self._nulls = self._nulls or (keys is not self._keys and index > 0)
            self._keys, self._headers, self._callbacks = keys, sections, callbacks
            if sections is not None:
                self._quick_limit = -1
        return keys, sections, callbacks

    def break_off(self) -> None:
        """Close the columns and release the lock, when a signal handler or __del__ runs inside a `put` of its thread.

        The handler will wait for this batch. The interrupted `put` goes on with columns that are not read any more;
        without the lock it finds out whether its record is in the batch.
        """
        if not self.lock._is_owned():  # type: ignore[attr-defined]
            return
        self._putting = False
        self._trim()
        self._kept = len(self._values)
        self._values, self._moments, self._starts = list(self._values), list(self._moments), list(self._starts)
        self._keys = self._keys and list(self._keys)
        self._headers = self._headers and list(self._headers)
        self._callbacks = self._callbacks and list(self._callbacks)
        self.close()
        self._release()

    def _trim(self) -> None:
        """Remove what a `put` that was broken off has left: entries of a record whose value was not appended."""
        count = len(self._values)
        for column in (self._keys, self._headers, self._callbacks):
            if column is not None:
                del column[count:]
        turns = bisect_left(self._starts, count)
        del self._moments[turns:], self._starts[turns:]
        self._moment, self._until = None, 0  # the next record sets its own

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns, and move their callbacks from there; return how many had room.

        The indexes ascend. An empty batch always takes the first one. The records stay in *other*.
        """
        assert isinstance(other, ObjectColumns), "columns can only be extended by columns of the same encoder"
        chosen = _chooser(indexes)
        values, keys, headers = chosen(other._values), chosen(other._keys), chosen(other._headers)
        used = self._used + len(indexes) * OBJECT_COST
        used += sum(_total(column, nulls=other._nulls) for column in (values, keys, headers))
        if headers is not None:
            used -= len(headers) * len(_NO_HEADERS)
        if used > self._limit and (len(indexes) > 1 or self._values):
            fitting = self._fitting(values, keys, headers)
            return self.extend(other, indexes[:fitting]) if fitting else 0
        count, runs = len(self._values), list(other._timestamps().cut(indexes))
        earliest = self._moments[0] if count else runs[0][0]
        for moment, first, _last in runs:
            if moment - earliest > TIMESTAMP_MAX:
                return self.extend(other, indexes[:first]) if first else 0
        for moment, first, last in runs:
            self._extend_timestamps(moment, start=count + first, stop=count + last)
        self._used = used
        self._values += values
        self._nulls |= other._nulls or (count > 0 and (keys is None) != (self._keys is None))
        self._keys = _joined(self._keys, count, keys, len(values), filler=None)
        self._headers = _joined(self._headers, count, headers, len(values), filler=_NO_HEADERS)
        if self._headers is not None:
            self._quick_limit = -1
        self._callbacks = _joined(self._callbacks, count, chosen(other._callbacks), len(values), filler=None)
        _forget_callbacks(other, indexes)
        return len(values)

    def extend_at(self, other: Columns, indexes: Sequence[int], /) -> tuple[int, int]:
        """`extend`, with the index of the first record here."""
        return len(self._values), self.extend(other, indexes)

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records; only before `encode`."""
        return self._keys or [None] * len(self._values)

    def release(self) -> None:
        """Drop the records, because other columns have them; `len` still returns their number."""
        self._count = len(self._values)
        self._drop_records()

    def allow(self, memory: int) -> None:
        """Set the maximum memory of the records to *memory* bytes."""
        if self._putting:
            self.break_off()
        if not self._closed:
            self._limit = memory
            if self._headers is None:
                self._quick_limit = memory

    def close(self) -> None:
        """Refuse further records."""
        if self._putting:  # in a handler: the lock is held, so it can only be a put of this thread
            self.break_off()
        self._closed, self._limit, self._quick_limit = True, -1, -1
        self._moment, self._until = None, 0
        self._low, self._high = 1, 0  # no timestamp is near any more, so each one goes through `_turn`

    def memory(self) -> int:
        """The memory of the records until they were encoded, objects included."""
        return self._used

    def __len__(self) -> int:
        """The number of records; also after `encode`."""
        return self._count or len(self._values)

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes; 2 to 3 % above it for values of 100 bytes."""
        count = len(self)
        bare = self._used - count * OBJECT_COST
        frame = _FRAME + varint_size(count) + (self._keys is not None)
        return bare + (bare >> _LONGER_SIZES) + count * frame + self._far_bytes

    def encode(self, magic: int) -> Encoded:
        """Encode everything in one pass and drop the records; called once, outside every lock.

        Raises UnsupportedVersionError for headers in a format before v2, and keeps the records. v0 has no timestamps.
        """
        keys, values, timestamps = self._keys, self._values, self._timestamps()
        first, highest, count = timestamps[0], max(timestamps.moments), len(values)
        facts = self.facts()
        if magic == 2:
            section = encode_records(
                keys=keys,
                values=values,
                headers=self._headers,
                timestamps=timestamps,
                key_sizes=facts.key_sizes,
                value_sizes=facts.value_sizes,
                nulls=self._nulls,
            )
        else:
            self._refuse_headers(magic)
            section = message_set(magic, keys=keys, values=values, timestamps=timestamps)
        self._facts = facts
        self._count = count
        self._drop_records()
        if magic == 0:
            first = highest = NO_TIMESTAMP
        return Encoded(chunks=[section], first_timestamp=first, max_timestamp=highest, count=count)

    def facts(self) -> Facts:
        """The times and sizes of records, for their metadata after delivery; also after `encode`."""
        keys, values = self._keys, self._values
        return self._facts or Facts(
            self._timestamps(),
            None if keys is None else _sizes(keys, nulls=self._nulls),
            _sizes(values, nulls=self._nulls),
        )

    def take_callbacks(self, given: list[tuple[int, RecordCallback]]) -> Collection[tuple[int, RecordCallback]]:
        """Remove and return all pairs of index and callback, in order: those of the records, and those *given*."""
        own = self._callbacks
        if own is None:
            return given
        column = CallbackColumn(own)
        taken = sorted([*column, *given], key=_first) if given else column
        self._callbacks = None  # last: an exception before it leaves all callbacks in place
        return taken

    def _turn(self, timestamp_ms: int, index: int) -> bool:
        """Begin another timestamp at *index*. Return False if there is no room.

        Timestamps are near if they are close to the first.
        """
        if self._closed:
            return False
        if not -1 <= timestamp_ms <= TIMESTAMP_MAX:
            raise InvalidRecordError(f"timestamp_ms={timestamp_ms} is not between -1 and {TIMESTAMP_MAX}")
        if not index:
            self._low = max(timestamp_ms - _NEAR_MS, -1)
            self._high = min(timestamp_ms + _NEAR_MS - 1, TIMESTAMP_MAX)
        elif timestamp_ms - self._moments[0] > TIMESTAMP_MAX:
            return False  # after a first one of -1 the largest timestamp is 2**63 away, more than a delta can hold
        near = self._low <= timestamp_ms <= self._high
        self._moment = timestamp_ms if near else None  # the next far one costs the same again
        self._until = 0
        if not near:
            self._far_bytes += _FAR_COST
        if not index or timestamp_ms != self._moments[-1]:
            self._moments.append(timestamp_ms)
            self._starts.append(index)
        return True

    def _extend_timestamps(self, timestamp_ms: int, *, start: int, stop: int) -> None:
        self._turn(timestamp_ms, start)
        if self._moment is None:
            self._far_bytes += _FAR_COST * (stop - start - 1)

    def _timestamps(self) -> Timestamps:
        count = len(self._values)
        if self._kept is not None:  # an interrupted put may have gone on
            turns = bisect_left(self._starts, count)
            return Timestamps(self._moments[:turns], self._starts[:turns], count)
        return Timestamps(self._moments, self._starts, count)

    def _drop_records(self) -> None:
        self._keys, self._values, self._headers = None, [], None

    def _fitting(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, headers: Sequence[bytes] | None
    ) -> int:
        """The number of these records that have room, counted from the first; at least one in an empty batch."""
        sizes = (map(_length, column) for column in (values, keys, headers) if column is not None)
        each = OBJECT_COST - (0 if headers is None else len(_NO_HEADERS))
        occupied = accumulate((sum(parts, each) for parts in zip(*sizes, strict=True)), initial=self._used)
        return max(bisect_right(list(occupied), self._limit) - 1, 0 if self._values else 1)

    def _refuse_headers(self, magic: int) -> None:
        for index, section in enumerate(self._headers or ()):
            if section != _NO_HEADERS:
                raise no_headers(magic, index=index)


interruptible_functions.allow_break_off(ObjectColumns.put, lambda names: names["self"].break_off())


def _forget_callbacks(columns: ObjectColumns, indexes: Sequence[int]) -> None:
    if columns._callbacks is not None:
        for index in indexes:
            columns._callbacks[index] = None


def _joined(
    column: list[Part] | None, count: int, more: Sequence[Part] | None, number: int, *, filler: Part
) -> list[Part] | None:
    """Extend a column of *count* entries by *number* more, in place; return it, or a new list if there was none.

    None stands for a column of fillers only. The result is None if both columns are None.
    """
    if column is None and more is None:
        return None
    joined = [filler] * count if column is None else column
    joined += [filler] * number if more is None else more
    return joined


def _chooser(indexes: Sequence[int]) -> Callable[[Any], Any]:
    """A function that returns the entries of a column at these indexes, and None for a column that is None."""
    if len(indexes) == 1:
        return lambda column: None if column is None else [column[indexes[0]]]
    choose = itemgetter(*indexes)  # half the time of a loop
    return lambda column: None if column is None else choose(column)


def _total(column: Sequence[bytes | None] | None, *, nulls: bool) -> int:
    if column is None:
        return 0
    return sum(map(len, filter(None, column) if nulls else column))  # type: ignore[arg-type]  # none is null


def _length(part: bytes | None) -> int:
    return 0 if part is None else len(part)


def _sizes(column: Sequence[bytes | None], *, nulls: bool) -> Sequence[int]:
    """The size of each part, -1 for null."""
    if nulls and None in column:
        return array("i", [-1 if part is None else len(part) for part in column])
    sizes = list(map(len, column))  # type: ignore[arg-type]  # none is null
    return Constant.of(sizes) or array("i", sizes)


class ObjectEncoder:
    """The encoder in pure Python, for `send`."""

    priority = 0
    record_cost = OBJECT_COST

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Columns for a batch of about *limit* bytes of records; None for an unsupported kind."""
        return ObjectColumns(limit) if kind is ColumnsKind.OBJECTS else None


@hookimpl
def ottla_encoder() -> RecordEncoder:
    return ObjectEncoder()
