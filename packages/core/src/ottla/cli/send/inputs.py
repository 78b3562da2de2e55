"""What `ottla send` reads: files and the standard input, in a format, as tables of bounded size with their position."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla.cli.send.columns import InputError, Parts, SendableTable, sendable
from ottla.cli.send.csv_tables import csv_tables
from ottla.cli.send.lines import json_table, line_blocks, line_table, split
from ottla.errors.plurals import counted
from ottla.tables.sources import open_stream

LINES, NDJSON, CSV, PARQUET, ARROW = "lines", "ndjson", "csv", "parquet", "arrow"
FORMATS: Final = (LINES, NDJSON, CSV, PARQUET, ARROW)
STDIN: Final = "-"
BLOCK_BYTES: Final = 8 * 1024 * 1024

_FORMATS_OF_NAMES: Final = {
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".csv": CSV,
    ".feather": ARROW,
    ".jsonl": NDJSON,
    ".ndjson": NDJSON,
    ".parquet": PARQUET,
}


@attrs.frozen(kw_only=True)
class Block:
    """Records of an input from the one with the number *first*, which counts from 0. *size* is in bytes."""

    content: SendableTable
    first: int
    count: int
    size: int


@attrs.frozen(kw_only=True)
class Input:
    """A file, or the standard input, and how to read it."""

    name: str
    format: str
    parts: Parts
    separator: bytes | None = None

    @classmethod
    def of(cls, name: str, format_: str | None, parts: Parts, separator: bytes | None) -> Input:
        """The input of this name; its format is by default that of its name, else lines."""
        found = format_ or _FORMATS_OF_NAMES.get(Path(name).suffix.lower(), LINES)
        if found == LINES and parts.named:
            raise InputError(f"lines have no columns: name the format of {name} with --format")
        if found == NDJSON and parts.value == "*":
            raise InputError("a line of JSON is the value as it is; leave --value out")
        if found == PARQUET and name == STDIN:
            raise InputError("a Parquet file is read from its end; it cannot come from the standard input")
        return cls(name=name, format=found, parts=parts, separator=separator)

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """Yield the records after the first *skip* ones. Raises InputError if one is wrong, and OSError."""
        first = 0
        for table, size in _READERS[self.format](self, skip):
            count = table.num_rows
            left_out = min(count, max(0, skip - first))
            if left_out < count:
                rest = table.slice(left_out)
                yield Block(
                    content=self._sendable(rest),
                    first=first + left_out,
                    count=count - left_out,
                    size=size * (count - left_out) // count,
                )
            first += count
        if first < skip:
            raise InputError(
                f"{self.name} has {counted(first, 'record')}, fewer than the {skip} that were sent from it"
            )

    def _sendable(self, table: Any) -> SendableTable:
        if self.format not in (LINES, NDJSON):
            return sendable(table, self.parts)
        names = set(table.column_names)
        renamed: dict[str, Any] = {part: part if part in names else None for part in _PARTS}
        parts = attrs.evolve(self.parts, **renamed)
        return sendable(table, parts)


_PARTS: Final = ("key", "value", "headers", "partition", "timestamp")
_Tables = Iterator[tuple[Any, int]]
"""Tables, each with its size in bytes in the input."""


def _lines(given: Input, _skip: int) -> _Tables:
    first = 0
    for block in _line_blocks(given):
        lines = split(block, blank=True)
        yield line_table(lines, given.separator, first), len(block) + 1
        first += len(lines)


def _ndjson(given: Input, skip: int) -> _Tables:
    first = 0
    for block in _line_blocks(given):
        lines = split(block, blank=False)
        if lines:
            # Records that are left out are not parsed.
            parts = given.parts if first + len(lines) > skip else Parts()
            yield json_table(lines, parts, first), len(block) + 1
        first += len(lines)


def _line_blocks(given: Input) -> Iterator[bytes]:
    if given.name == STDIN:
        # read1 returns what is there, so that lines of a terminal or a pipe are sent when they come.
        stream = sys.stdin.buffer
        yield from line_blocks(stream, max_bytes=BLOCK_BYTES, read=getattr(stream, "read1", None))
        return
    with open(given.name, "rb", buffering=0) as file:
        yield from line_blocks(file, max_bytes=BLOCK_BYTES)


def _csv(given: Input, _skip: int) -> _Tables:
    file = sys.stdin.fileno() if given.name == STDIN else given.name
    return csv_tables(file, given.name, block_bytes=BLOCK_BYTES)


def _parquet(given: Input, _skip: int) -> _Tables:
    return _batches(open_stream(_path(given, ".parquet")))


def _arrow(given: Input, _skip: int) -> _Tables:
    if given.name != STDIN:
        return _batches(open_stream(_path(given, ".arrow")))
    try:
        return _batches(pa.ipc.open_stream(sys.stdin.buffer))
    except pa.ArrowException as error:
        raise InputError(f"the standard input is not an Arrow stream: {error}") from None


def _path(given: Input, suffix: str) -> Any:
    path = Path(given.name)
    if path.suffix.lower() in _FORMATS_OF_NAMES:
        return path
    raise InputError(f"the name of {path} must end in {suffix}")


def _batches(stream: Any) -> _Tables:
    """Batches of a stream, small ones joined."""
    gathered: list[Any] = []
    size = 0
    for batch in stream:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        size += batch.nbytes
        if size >= BLOCK_BYTES:
            yield pa.Table.from_batches(gathered), size
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered), size


_READERS: Final[dict[str, Callable[[Input, int], _Tables]]] = {
    LINES: _lines,
    NDJSON: _ndjson,
    CSV: _csv,
    PARQUET: _parquet,
    ARROW: _arrow,
}
