"""Tables of the rows of CSV with a header line. All columns are text, so that 007 stays 007."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from ottla.cli.send.columns import InputError

_HEADER_BYTES: Final = 1024 * 1024
_OTHER_DELIMITERS: Final = "\t;|"


def csv_tables(
    file: str | int, name: str, *, block_bytes: int, delimiter: str | None = None
) -> Iterator[tuple[Any, int]]:
    """Yield tables of about *block_bytes* of a file, or of an open descriptor, each with its size.

    Columns are separated by *delimiter*, by default a comma. Raises InputError, which calls the file *name*.
    """
    with io.FileIO(file, closefd=not isinstance(file, int)) as raw:
        start, names = _header(raw, name, delimiter or ",")
        if names[0].startswith("sep=") and start.lstrip(codecs.BOM_UTF8)[5:6] in (b"\r", b"\n"):
            raise InputError(f"the first line of {name} is for Excel: remove it, and pass --delimiter")
        if delimiter is None:
            _check_commas(names, name)
        options = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        parse = pa.csv.ParseOptions(delimiter=delimiter or ",", newlines_in_values=True)
        # With its threads, which make it no faster, pyarrow does not say which row has an error.
        read = pa.csv.ReadOptions(block_size=block_bytes, use_threads=False)
        stream = io.BufferedReader(_Begun(start, raw), _HEADER_BYTES)
        try:
            reader = pa.csv.open_csv(stream, read, parse_options=parse, convert_options=options)
            if reader.schema.names != names:  # a column with another name would not be text
                raise InputError(f"the header line of {name} cannot be read: its quotes are ambiguous")
            for batch in reader:
                yield pa.Table.from_batches([batch]), batch.nbytes
        except pa.ArrowException as error:
            raise InputError(f"{name} cannot be read as CSV: {error}") from None


class _Begun(io.RawIOBase):
    """A stream whose *start* was read already."""

    def __init__(self, start: bytes, rest: io.RawIOBase) -> None:
        self._start = memoryview(start)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self._start:
            return self._rest.readinto(buffer)
        count = min(len(buffer), len(self._start))
        buffer[:count], self._start = self._start[:count], self._start[count:]
        return count


class _UnfinishedError(Exception):
    """The header goes on after what was read."""


def _check_commas(names: list[str], name: str) -> None:
    """Raise InputError if the columns seem to be separated by something else: each row would be a single text."""
    other = next((each for each in _OTHER_DELIMITERS if each in names[0]), None)
    if len(names) == 1 and other is not None:
        shown = other.replace("\t", r"\t")
        raise InputError(
            f"the header line of {name} has a single column, {names[0]!r}: if its columns are separated by something "
            f"else, add --delimiter '{shown}', otherwise --delimiter ,"
        )


def _header(raw: io.RawIOBase, name: str, delimiter: str) -> tuple[bytes, list[str]]:
    """What was read, which has the whole header, and the names there. A pipe may return any part of it at once."""
    start, ended = bytearray(), False
    while not ended:
        piece = raw.read(_HEADER_BYTES) or b""
        ended = not piece
        start += piece
        if ended or b"\n" in piece or b"\r" in piece:
            try:
                names = _names(start, ended=ended, name=name, delimiter=delimiter)
            except _UnfinishedError:
                pass
            else:
                # pyarrow cannot read a header alone without the end of its line.
                return bytes(start + b"\n" if ended else start), names
        if len(start) >= _HEADER_BYTES:
            raise InputError(f"the header line of {name} is longer than {_HEADER_BYTES} bytes")
    raise AssertionError("at its end the header is finished")


def _names(start: bytes | bytearray, *, ended: bool, name: str, delimiter: str) -> list[str]:
    text = io.StringIO(start.decode("utf-8-sig", errors="surrogateescape"), newline="")
    try:
        names = next(csv.reader(_finished(text, ended=ended), delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(f"the header line of {name} cannot be read: {error}") from None
    for each in names:
        if any("\udc80" <= character <= "\udcff" for character in each):
            shown = each.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise InputError(f"{name} has the column '{shown}', which is not UTF-8: save it as UTF-8")
    if not names:
        raise InputError(f"{name} has no header line with the names of its columns")
    if len(set(names)) < len(names):
        raise InputError(f"two columns of {name} have one name")
    return names


def _finished(lines: Iterable[str], *, ended: bool) -> Iterator[str]:
    """Yield lines that have their end, or all if the input has *ended*. Raises _UnfinishedError for one more."""
    for line in lines:
        if ended or line.endswith(("\n", "\r")):
            yield line
    if not ended:
        raise _UnfinishedError
