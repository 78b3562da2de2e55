"""The columns of a batch that `send` fills, one Python object after the other.

Appending is the hot path of the caller's thread, so it only puts a record's parts on lists and counts what they
occupy. How they become bytes is the business of `records_v2`, or of `messages` for the formats before, once, when
the batch is sealed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, TypeVar

from ottla.errors import InvalidRecord
from ottla.hookspecs import hookimpl
from ottla.interfaces import Columns, ColumnsKind, Encoded, Facts, Header, RecordEncoder
from ottla.protocol.primitives import varint, varint_size
from ottla.recordbatch.messages import NO_TIMESTAMP, message_set
from ottla.recordbatch.records_v2 import encode_records
from ottla.recordbatch.refusals import no_headers

Part = TypeVar("Part", bytes, bytes | None)

TIMESTAMP_MAX: Final = 2**63 - 1

_NEAR_MS: Final = 1 << 20
"""Timestamps this close to the first one, some 17 minutes, have deltas of at most three bytes."""

_FAR_COST: Final = 7
"""What the delta of any other timestamp may take beyond those three bytes."""

_FRAME: Final = 10
"""Length (2 bytes), attributes (1), timestamp delta (3), sizes of a null key (1) and of a value (2), no headers (1)."""

OBJECT_COST: Final = 176
"""Bytes that a queued record costs beside its own: its objects' headers, its timestamp, its places in the columns."""

_LONGER_SIZES: Final = 12
"""One byte more for each 4096 bytes pays for what sizes of 8192 and above take beyond two bytes each."""


class ObjectColumns:
    """Keys, values, headers and timestamps in Python lists. Keys and headers have none until a record has one.

    A timestamp that the format cannot hold, or a header name that UTF-8 cannot, raises InvalidRecord.
    """

    __slots__ = (
        "_closed",
        "_count",
        "_facts",
        "_far_bytes",
        "_headers",
        "_high",
        "_keys",
        "_limit",
        "_low",
        "_null_values",
        "_timestamps",
        "_used",
        "_values",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._closed = False
        self._used = 0
        self._far_bytes = 0
        self._low, self._high = 1, 0  # no timestamp is near before the first one
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] = []
        self._headers: list[bytes] | None = None
        self._timestamps: list[int] = []
        self._null_values = False
        self._facts: Facts | None = None
        self._count = 0  # once encoded

    # Encoding headers here and not in `encode` lets a bad one stop its own record only, and leaves one object instead
    # of a tuple of tuples.
    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """The record's index in the batch; None: no room. An empty batch takes any record."""
        values = self._values
        index = len(values)
        used = self._used + OBJECT_COST
        if value is not None:
            used += len(value)
        if key is not None:
            used += len(key)
        if headers:
            section = encode_headers(headers)
            used += len(section)
        if used > self._limit and index:
            return None
        if not self._low <= timestamp_ms <= self._high and not self._far(timestamp_ms, first=not index):
            return None
        self._used = used
        values.append(value)
        self._timestamps.append(timestamp_ms)
        if value is None:
            self._null_values = True
        if self._keys is not None:
            self._keys.append(key)
        elif key is not None:
            self._keys = [*[None] * index, key]
        if headers:
            self._append_headers(section, index)
        elif self._headers is not None:
            self._headers.append(b"\0")
        return index

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns, in this order; how many, for the rest has no room.

        An empty batch takes the first one in any case.
        """
        assert isinstance(other, ObjectColumns), "columns of one encoder only"
        values = [other._values[index] for index in indexes]
        keys = None if other._keys is None else [other._keys[index] for index in indexes]
        headers = None if other._headers is None else [other._headers[index] for index in indexes]
        used = self._used + len(indexes) * OBJECT_COST + _total(values) + _total(keys) + _total(headers)
        if used > self._limit and (len(indexes) > 1 or self._values):
            fitting = self._fitting(values, keys, headers)
            return self.extend(other, indexes[:fitting]) if fitting else 0
        count = len(self._values)
        self._extend_timestamps([other._timestamps[index] for index in indexes], first=not count)
        self._used = used
        self._values += values
        self._null_values |= other._null_values
        self._keys = _joined(self._keys, count, keys, len(values), filler=None)
        self._headers = _joined(self._headers, count, headers, len(values), filler=b"\0")
        return len(values)

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records; only before `encode`."""
        return self._keys or [None] * len(self._values)

    def release(self) -> None:
        """Let go of the records, which other columns have taken over; their number stays."""
        self._count = len(self._values)
        self._keys, self._values, self._headers, self._timestamps = None, [], None, []

    def allow(self, memory: int) -> None:
        """From now on there is room while the records occupy no more than *memory* bytes."""
        if not self._closed:
            self._limit = memory

    def close(self) -> None:
        """Take no more records."""
        self._closed, self._limit = True, -1
        self._low, self._high = 1, 0  # no timestamp is near any more, so that each is looked at

    def memory(self) -> int:
        """What the records occupied until they were encoded, their objects included."""
        return self._used

    def __len__(self) -> int:
        """How many records there are; also after `encode`."""
        return self._count or len(self._values)

    def size_estimate(self) -> int:
        """An upper bound of the encoded records section, in bytes; 2 to 3 % above it for values of 100 bytes."""
        count = len(self)
        bare = self._used - count * OBJECT_COST
        frame = _FRAME + varint_size(count) + (self._keys is not None)
        return bare + (bare >> _LONGER_SIZES) + count * frame + self._far_bytes

    def encode(self, magic: int) -> Encoded:
        """Encode everything at once and let go of the records; called once, outside every lock.

        A format before v2 cannot carry headers: UnsupportedVersion, and the records stay. v0 has no timestamps.
        """
        keys, values, timestamps = self._keys, self._values, self._timestamps
        first, count = timestamps[0], len(values)
        low, high = min(timestamps), max(timestamps)
        value_sizes = _sizes(values) if self._null_values else list(map(len, values))  # type: ignore[arg-type]
        key_sizes = None if keys is None else _sizes(keys)
        if magic == 2:
            section = encode_records(
                keys=keys,
                values=values,
                headers=self._headers,
                timestamps=timestamps,
                lowest_timestamp=low,
                highest_timestamp=high,
                key_sizes=key_sizes,
                value_sizes=value_sizes,
                null_values=self._null_values,
            )
        else:
            self._refuse_headers(magic)
            section = message_set(magic, keys=keys, values=values, timestamps=timestamps)
        self._facts = Facts(
            (first,) * count if low == high else array("q", timestamps),
            None if key_sizes is None else array("i", key_sizes),
            array("i", value_sizes),
        )
        self._count = count
        self._keys, self._values, self._headers, self._timestamps = None, [], None, []
        if magic == 0:
            first = high = NO_TIMESTAMP
        return Encoded(chunks=[section], first_timestamp=first, max_timestamp=high, count=count)

    def facts(self) -> Facts:
        """What is told of each record once it is delivered; also after `encode`."""
        keys, values, timestamps = self._keys, self._values, self._timestamps
        return self._facts or Facts(timestamps, None if keys is None else _sizes(keys), _sizes(values))

    def _far(self, timestamp_ms: int, *, first: bool) -> bool:
        """Count a timestamp that is not near the first one; the first one says what is near. False: no room."""
        if self._closed:
            return False
        if not -1 <= timestamp_ms <= TIMESTAMP_MAX:
            raise InvalidRecord(f"timestamp_ms={timestamp_ms} is not between -1 and {TIMESTAMP_MAX}")
        if first:
            self._low = max(timestamp_ms - _NEAR_MS, -1)
            self._high = min(timestamp_ms + _NEAR_MS - 1, TIMESTAMP_MAX)
        elif timestamp_ms - self._timestamps[0] > TIMESTAMP_MAX:
            return False  # after a first one of -1 the last moment of all is 2**63 away, more than a delta can say
        else:
            self._far_bytes += _FAR_COST
        return True

    def _extend_timestamps(self, timestamps: Sequence[int], *, first: bool) -> None:
        if first:
            self._far(timestamps[0], first=True)
        if not self._low <= min(timestamps) <= max(timestamps) <= self._high:
            self._far_bytes += _FAR_COST * sum(not self._low <= timestamp <= self._high for timestamp in timestamps)
        self._timestamps += timestamps

    def _fitting(self, *columns: Sequence[bytes | None] | None) -> int:
        """How many of these records there is room for."""
        sizes = (map(_length, column) for column in columns if column is not None)
        occupied = accumulate((OBJECT_COST + sum(parts) for parts in zip(*sizes, strict=True)), initial=self._used)
        return max(bisect_right(list(occupied), self._limit) - 1, 0 if self._values else 1)

    def _refuse_headers(self, magic: int) -> None:
        for index, section in enumerate(self._headers or ()):
            if section != b"\0":
                raise no_headers(magic, index=index)

    def _append_headers(self, section: bytes, index: int) -> None:
        if self._headers is None:
            self._headers = [b"\0"] * index
        self._headers.append(section)


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The headers of one record as they stand at its end."""
    parts = [varint(len(headers))]
    for name, content in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"the header name {name!r} cannot be written as UTF-8: {error}") from error
        parts += (varint(len(encoded)), encoded)
        parts += (b"\1",) if content is None else (varint(len(content)), content)
    return b"".join(parts)


def _joined(
    column: list[Part] | None, count: int, more: Sequence[Part] | None, number: int, *, filler: Part
) -> list[Part] | None:
    """A column of *count* places with *number* more; None as long as it would hold nothing but fillers."""
    if column is None and more is None:
        return None
    joined = [filler] * count if column is None else column
    joined += [filler] * number if more is None else more
    return joined


def _total(column: Sequence[bytes | None] | None) -> int:
    return 0 if column is None else sum(map(len, filter(None, column)))


def _length(part: bytes | None) -> int:
    return 0 if part is None else len(part)


def _sizes(column: Sequence[bytes | None]) -> list[int]:
    return [-1 if part is None else len(part) for part in column]


class ObjectEncoder:
    """Pure Python, for `send`."""

    priority = 0
    record_cost = OBJECT_COST

    def columns(self, kind: ColumnsKind, limit: int) -> Columns | None:
        """Columns for a batch of about *limit* bytes of records; None: this kind is not taken."""
        return ObjectColumns(limit) if kind is ColumnsKind.OBJECTS else None


@hookimpl
def ottla_encoder() -> RecordEncoder:
    return ObjectEncoder()
