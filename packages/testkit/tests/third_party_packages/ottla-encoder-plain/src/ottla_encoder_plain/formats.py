"""The bytes of records: the records section of format v2, and the messages of v0 and v1."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.errors import InvalidRecordError
from ottla.interfaces import Header

from ottla_encoder_plain.varints import EMPTY, NULL, varint

NO_HEADERS: Final = EMPTY
NO_TIMESTAMP: Final = -1

_ATTRIBUTES: Final = b"\0"

Row = tuple[bytes | None, bytes | None, bytes, int]
"""Key, value, the section of the headers, and the timestamp."""


def header_section(headers: Sequence[Header]) -> bytes:
    """The number of headers, then the name and the value of each."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecordError(f"the name of the header {name!r} cannot be written as UTF-8: {error}") from error
        parts += (varint(len(encoded)), encoded)
        parts += (NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def records_section(rows: Iterable[Row], first_timestamp: int) -> bytes:
    """Format v2: each record after its length, with its distance from the first timestamp, and its index."""
    section = bytearray()
    for index, (key, value, headers, timestamp_ms) in enumerate(rows):
        record = b"".join(
            (
                _ATTRIBUTES,
                varint(timestamp_ms - first_timestamp),
                varint(index),
                *((NULL,) if key is None else (varint(len(key)), key)),
                *((NULL,) if value is None else (varint(len(value)), value)),
                headers,
            )
        )
        section += varint(len(record))
        section += record
    return bytes(section)


def message_set(magic: int, rows: Iterable[Row]) -> bytes:
    """Formats v0 and v1: each message after its index, its length and its checksum. v0 has no timestamps."""
    messages = bytearray()
    for index, (key, value, _headers, timestamp_ms) in enumerate(rows):
        time = struct.pack(">q", timestamp_ms) if magic else b""
        body = b"".join((bytes((magic, 0)), time, _sized(key), _sized(value)))
        messages += struct.pack(">qiI", index, len(body) + 4, zlib.crc32(body))
        messages += body
    return bytes(messages)


def _sized(part: bytes | None) -> bytes:
    return struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
