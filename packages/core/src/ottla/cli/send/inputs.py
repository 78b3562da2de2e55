"""What `ottla send` reads: files and the standard input, in a format, as tables of bounded size with their position."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import attrs
import click
import pyarrow as pa

from ottla.cli.send.columns import PARTS, InputError, Parts, SendableTable, sendable
from ottla.cli.send.csv_tables import csv_tables
from ottla.cli.send.formats import ARROW, CSV, LINES, NDJSON, PARQUET
from ottla.cli.send.lines import absent_field, json_table, line_blocks, line_table, split
from ottla.errors.plurals import counted
from ottla.tables.slicing import size_of
from ottla.tables.sources import open_stream

STDIN: Final = "-"
BLOCK_BYTES: Final = 8 * 1024 * 1024

_COMPRESSED: Final = frozenset({".br", ".bz2", ".gz", ".lz4", ".sz", ".xz", ".zip", ".zst"})

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ\x00": "xz",
    b"BZh91AY&SY": "bzip2",
    b"PK\x03\x04": "zip",
    b"PAR1\x15": "Parquet",
    b"ARROW1\x00\x00": "Arrow",
    b"\xff\xff\xff\xff": "Arrow stream",
    b"Obj\x01": "Avro",
    b"SQLite format 3\x00": "SQLite",
}
"""How files begin that are no lines of text."""

_LOOKED_AT: Final = 64 * 1024
"""Bytes in which a zero says that a file is no text."""

_FORMATS_OF_NAMES: Final = {
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".csv": CSV,
    ".feather": ARROW,
    ".jsonl": NDJSON,
    ".ndjson": NDJSON,
    ".parquet": PARQUET,
    ".tsv": CSV,
}
_DELIMITERS_OF_NAMES: Final = {".tsv": "\t"}


def check_no_file(topic: str) -> None:
    """Raise InputError if the topic was forgotten, so that the first file stands in its place."""
    if Path(topic).suffix.lower() in _FORMATS_OF_NAMES and Path(topic).is_file():
        raise InputError(f"{topic} is a file, and the first argument is the topic: ottla send TOPIC {topic}")


@attrs.frozen(kw_only=True)
class Block:
    """Records of an input from the one with the number *first*, which counts from 0. *size* is in bytes."""

    content: SendableTable
    first: int
    count: int
    size: int


@attrs.frozen(kw_only=True)
class Input:
    """A file, or the standard input, and how to read it. `guessed`: neither an option nor the name says its format."""

    name: str
    format: str
    parts: Parts
    separator: bytes | None = None
    delimiter: str | None = None
    guessed: bool = False

    @classmethod
    def of(
        cls, name: str, format_: str | None, parts: Parts, separator: bytes | None, delimiter: str | None = None
    ) -> Input:
        """The input of this name; its format is by default that of its name, else lines."""
        suffix = Path(name).suffix.lower()
        found = format_ or _FORMATS_OF_NAMES.get(suffix)
        guessed = found is None
        if guessed:
            _check_suffix(name, suffix)
        found = found or LINES
        if found == LINES and parts.named:
            raise InputError(f"lines have no columns: name the format of {_shown(name)} with --format")
        if found != LINES and separator is not None:
            raise InputError(
                f"--key-separator is for lines, but the format of {_shown(name)} is {found}: name the column or field "
                f"of its keys with --key, or pass --format {LINES}"
            )
        if found == NDJSON and parts.value == "*":
            raise InputError("a line of JSON is the value as it is; leave --value out")
        if found == PARQUET and name == STDIN:
            raise InputError("a Parquet file is read from its end; it cannot come from the standard input")
        if found == CSV:
            delimiter = _delimiter(delimiter) if delimiter is not None else _DELIMITERS_OF_NAMES.get(suffix)
        elif delimiter is not None:
            raise InputError(f"--delimiter is for CSV: name the format of {_shown(name)} with --format")
        return cls(name=name, format=found, parts=parts, separator=separator, delimiter=delimiter, guessed=guessed)

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
        renamed: dict[str, Any] = {part: part if part in names else None for part in PARTS}
        parts = attrs.evolve(self.parts, **renamed)
        return sendable(table, parts)


def _delimiter(given: str) -> str:
    """The character between two columns. A tab may be written as in Python. Raises InputError."""
    delimiter = "\t" if given == r"\t" else given
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\r\n\0"':
        raise InputError("--delimiter takes one character of ASCII, such as ; or \\t")
    return delimiter


def _shown(name: str) -> str:
    """The name of an input in messages."""
    return "the standard input" if name == STDIN else name


def _check_suffix(name: str, suffix: str) -> None:
    """Raise InputError for a name without --format that says that the file has no lines, or may have none."""
    if suffix in _COMPRESSED:
        inner = _FORMATS_OF_NAMES.get(Path(Path(name).stem).suffix.lower(), LINES)
        raise InputError(
            f"{name} is compressed: unpack it, such as by gunzip, and pass the result as a file, or as the standard "
            f"input with --format {inner}"
        )
    if suffix == ".json":
        raise InputError(
            f"{name} may be one document of several lines: pass --format {NDJSON} if each line is a document, or "
            f"--format {LINES} to send its lines as they are"
        )


def _check_text(name: str, block: bytes) -> None:
    """Raise InputError if the first block of an input is not of lines of text, or not of JSON."""
    kind = next((kind for magic, kind in _MAGIC.items() if block.startswith(magic)), None)
    if kind is None and b"\x00" in block[:_LOOKED_AT]:
        kind = "binary data, or text in UTF-16: it has zero bytes"
    if kind is not None:
        raise InputError(f"{name} is not lines of text, but {kind}; pass --format {LINES} if it is to be cut at \\n")


_Tables = Iterator[tuple[Any, int]]
"""Tables, each with its size in bytes in the input."""


def _lines(given: Input, _skip: int) -> _Tables:
    first = 0
    for block in _line_blocks(given):
        if given.guessed and not first:
            _check_text(_shown(given.name), block)
        lines = split(block, blank=True)
        yield line_table(lines, given.separator, first), len(block) + 1
        first += len(lines)


def _ndjson(given: Input, skip: int) -> _Tables:
    first = 0
    for number, block in enumerate(_line_blocks(given)):
        if not number:
            _check_text(_shown(given.name), block)
            block = block.removeprefix(codecs.BOM_UTF8)
        lines = split(block, blank=False)
        if lines:
            # Records that are left out are not parsed.
            parts = given.parts if first + len(lines) > skip else Parts()
            table = json_table(lines, parts, first)
            if not first and (absent := absent_field(lines, parts, table)):
                _report_absent(given, absent)
            yield table, len(block) + 1
        first += len(lines)


def _report_absent(given: Input, absent: str) -> None:
    """Raise InputError for a file, whose first block has many records; those of a pipe may be few, so only say it."""
    if _is_file(given):
        raise InputError(f"{given.name}: {absent}")
    click.echo(f"Up to now {absent}", err=True)


def _line_blocks(given: Input) -> Iterator[bytes]:
    if given.name == STDIN:
        # read1 returns what is there, so that lines of a terminal or a pipe are sent when they come.
        stream = _standard_input().buffer
        yield from line_blocks(stream, max_bytes=BLOCK_BYTES, read=getattr(stream, "read1", None))
        return
    with open(given.name, "rb", buffering=0) as file:
        # A raw file returns what is there, too.
        yield from line_blocks(file, max_bytes=BLOCK_BYTES, read=None if _is_file(given) else file.read)


def _is_file(given: Input) -> bool:
    """Whether it is a file of a known end, and no pipe: a pipe may have a name, too, such as that of `<(...)`."""
    return given.name != STDIN and Path(given.name).is_file()


def _standard_input() -> TextIO:
    if sys.stdin is None:  # the program was started without one: `<&-`
        raise InputError("the standard input is closed; name a file")
    return sys.stdin


def _csv(given: Input, _skip: int) -> _Tables:
    file = _standard_input().fileno() if given.name == STDIN else given.name
    return csv_tables(file, _shown(given.name), block_bytes=BLOCK_BYTES, delimiter=given.delimiter)


def _parquet(given: Input, _skip: int) -> _Tables:
    return _batches(given, open_stream(_path(given, ".parquet")))


def _arrow(given: Input, _skip: int) -> _Tables:
    if given.name != STDIN:
        return _batches(given, open_stream(_path(given, ".arrow")))
    try:
        return _batches(given, pa.ipc.open_stream(_standard_input().buffer))
    except pa.ArrowException as error:
        raise InputError(f"the standard input is not an Arrow stream: {error}") from None


def _path(given: Input, suffix: str) -> Any:
    path = Path(given.name)
    if path.suffix.lower() in _FORMATS_OF_NAMES:
        return path
    raise InputError(f"the name of {path} must end in {suffix}")


def _batches(given: Input, stream: Any) -> _Tables:
    """Batches of a stream, small ones joined. Raises InputError for one that pyarrow cannot read, and OSError."""
    gathered: list[Any] = []
    size = 0
    try:
        for batch in stream:
            if not batch.num_rows:
                continue
            gathered.append(batch)
            size += size_of(batch)
            if size >= BLOCK_BYTES:
                yield pa.Table.from_batches(gathered), size
                gathered, size = [], 0
        if gathered:
            yield pa.Table.from_batches(gathered), size
    except pa.ArrowException as error:
        raise InputError(f"{_shown(given.name)} cannot be read to its end: {error}") from None


_READERS: Final[dict[str, Callable[[Input, int], _Tables]]] = {
    LINES: _lines,
    NDJSON: _ndjson,
    CSV: _csv,
    PARQUET: _parquet,
    ARROW: _arrow,
}
