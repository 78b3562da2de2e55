"""What the caller gives and gets back for a record."""

from __future__ import annotations

from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """Where a record went.

    `offset` is -1 when the broker gave none (`acks=0`); `timestamp_ms` is the time the log holds, in milliseconds since
    1970: the record's own (CreateTime) or the broker's (LogAppendTime). Sizes are in bytes, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int


def plain_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """What is really there, as bytes: a class derived from bytes may say anything of itself, its length for one."""
    return bytes(memoryview(data))
