"""The records of one open batch, until they are encoded: which of them have room, and what they occupy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import InvalidRecordError, UnsupportedVersionError
from ottla.interfaces import Columns, Encoded, Facts, Header

from ottla_encoder_plain.formats import NO_HEADERS, NO_TIMESTAMP, Row, header_section, message_set, records_section

RECORD_COST: Final = 192
"""Bytes of memory for each record: two bytes objects of 40 with rounding, an int of 32, four places in lists."""
_SECTION_COST: Final = 40
"""Bytes of memory for the object with a record's headers, if there are any."""

_FRAME: Final = 34
"""The most bytes that a record takes in any format besides its key, value and headers."""
_LATEST: Final = 2**63 - 1


class PlainColumns:
    """A list for each part of the records: keys, values, encoded headers, timestamps."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._closed = False
        self._count = 0
        self._memory = 0
        self._wire = 0
        self._first_timestamp = NO_TIMESTAMP
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[bytes] = []
        self._timestamps: list[int] = []
        self._facts: Facts | None = None  # once encoded

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int | None:
        """Append a record and return its index; None: no room. What no format can hold is an InvalidRecordError."""
        if not NO_TIMESTAMP <= timestamp_ms <= _LATEST:
            raise InvalidRecordError(f"timestamp_ms={timestamp_ms} is not from {NO_TIMESTAMP} to {_LATEST}")
        return self._count - 1 if self._add((key, value, header_section(headers), timestamp_ms)) else None

    def extend(self, other: Columns, indexes: Sequence[int]) -> int:
        """Append these records of other columns while there is room; return how many had room."""
        assert isinstance(other, PlainColumns), "columns are only extended by columns of the same encoder"
        for taken, index in enumerate(indexes):
            if not self._add(other._row(index)):
                return taken
        return len(indexes)

    def allow(self, memory: int) -> None:
        """Let the records occupy up to *memory* bytes from now on."""
        self._limit = memory

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def memory(self) -> int:
        """The bytes that the records occupy, objects included."""
        return self._memory

    def __len__(self) -> int:
        """The number of records; also after `encode` and `release`."""
        return self._count

    def size_estimate(self) -> int:
        """An upper bound of the encoded bytes; also after `encode`."""
        return self._wire

    def encode(self, magic: int) -> Encoded:
        """Encode all records in format v0, v1 or v2, and release them."""
        rows = zip(self._keys, self._values, self._headers, self._timestamps, strict=True)
        first, latest = self._first_timestamp, max(self._timestamps)
        if magic == 2:
            section = records_section(rows, first)
        elif any(headers != NO_HEADERS for headers in self._headers):
            raise UnsupportedVersionError(f"format v{magic} cannot hold headers; send the records without")
        else:
            section = message_set(magic, rows)
        if magic == 0:
            first = latest = NO_TIMESTAMP
        self._facts = self.facts()
        self.release()
        return Encoded(chunks=[section], first_timestamp=first, max_timestamp=latest, count=self._count)

    def keys(self) -> Sequence[bytes | None]:
        """The keys of all records, before `encode`."""
        return self._keys

    def release(self) -> None:
        """Drop the records; `len` still returns their number."""
        self._keys, self._values, self._headers, self._timestamps = [], [], [], []

    def facts(self) -> Facts:
        """The timestamps and sizes of the records; also after `encode`."""
        if self._facts is not None:
            return self._facts
        with_keys = any(key is not None for key in self._keys)
        return Facts(
            timestamps_ms=self._timestamps.copy(),
            key_sizes=_sizes(self._keys) if with_keys else None,
            value_sizes=_sizes(self._values),
        )

    def _row(self, index: int) -> Row:
        return self._keys[index], self._values[index], self._headers[index], self._timestamps[index]

    def _add(self, row: Row) -> bool:
        """Append the record if there is room, or if it is the first one."""
        if self._closed:
            return False
        key, value, headers, timestamp_ms = row
        parts = len(key or b"") + len(value or b"")
        memory = self._memory + RECORD_COST + parts
        if headers != NO_HEADERS:
            memory += _SECTION_COST + len(headers)
        if not self._count:
            self._first_timestamp = timestamp_ms
        # From a first timestamp of -1 the latest one is 2**63 away, more than the format can hold.
        elif memory > self._limit or timestamp_ms - self._first_timestamp > _LATEST:
            return False
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(headers)
        self._timestamps.append(timestamp_ms)
        self._count += 1
        self._memory = memory
        self._wire += _FRAME + parts + len(headers) - len(NO_HEADERS)
        return True


def _sizes(parts: Sequence[bytes | None]) -> list[int]:
    return [-1 if part is None else len(part) for part in parts]
