"""The rows of a table as a partitioner by records reads them, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from ottla.interfaces import Header, RecordView
from ottla.protocol.primitives import read_varint
from ottla.tables.reading import Chunk


def record_views(topic: str, chunk: Chunk) -> Iterator[RecordView]:
    """Yield the rows of a chunk in order. A header's name that is not UTF-8 has U+FFFD where it is not."""
    rows = zip(_each(chunk.keys), _each(chunk.values), _each(chunk.headers), _each(chunk.timestamps), strict=False)
    for _row, (key, value, section, timestamp_ms) in zip(range(chunk.count), rows, strict=False):
        headers = () if section is None else _headers(memoryview(section))
        yield RecordView(topic=topic, key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)


def _each(column: Any | None) -> Iterable[Any]:
    return repeat(None) if column is None else (cell.as_py() for cell in column)


def _headers(section: memoryview) -> Sequence[Header]:
    """The headers in an encoded section, which `header_sections` made."""
    count, position = read_varint(section, 0)
    headers: list[Header] = []
    for _ in range(count):
        name, position = _bytes(section, position)
        content, position = _bytes(section, position)
        headers.append(((name or b"").decode(errors="replace"), content))
    return tuple(headers)


def _bytes(section: memoryview, position: int) -> tuple[bytes | None, int]:
    size, start = read_varint(section, position)
    return (None, start) if size < 0 else (bytes(section[start : start + size]), start + size)
