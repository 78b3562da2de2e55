"""Tables of the rows of CSV with a header line. All columns are text, so that 007 stays 007."""

from __future__ import annotations

import codecs
import csv
import io
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from ottla.cli.send.columns import InputError

_HEADER_BYTES: Final = 1024 * 1024
_OTHER_DELIMITERS: Final = "\t;|"
_ROW: Final = re.compile(r"Row #\d+")  # so pyarrow's errors name a row


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
        last_row = _LastRow(columns=len(names), delimiter=delimiter or ",", name=name)
        stream = io.BufferedReader(_Extended(start, raw, last_row.line), _HEADER_BYTES)
        try:
            reader = pa.csv.open_csv(stream, read, parse_options=parse, convert_options=options)
            if reader.schema.names != names:  # a column with another name would not be text
                raise InputError(f"the header line of {name} cannot be read: its quotes are ambiguous")
            for batch in reader:
                rows = last_row.removed(batch)
                if rows.num_rows:
                    yield pa.Table.from_batches([rows]), rows.nbytes
        except pa.ArrowException as error:
            raise InputError(last_row.explained(error)) from None


class _LastRow:
    """A row that is added at the end of an input, because pyarrow reads a quote that is not closed as a value.

    Such a value has all that follows, also this row.
    """

    def __init__(self, *, columns: int, delimiter: str, name: str) -> None:
        self._mark = secrets.token_hex(8)
        self._name = name
        self._rows = 1  # with the header line
        self.line = f"\n{self._mark}{delimiter * (columns - 1)}\n".encode()

    def removed(self, batch: Any) -> Any:
        """The rows of a batch without this one. Raises InputError if a value contains this row."""
        if not batch.num_rows:
            return batch
        self._rows += batch.num_rows
        last = batch.num_rows - 1
        if batch.column(0)[last].as_py() == self._mark:
            return batch.slice(0, last)
        if self._mark in batch.column(batch.num_columns - 1)[last].as_py():
            raise InputError(self._unclosed(f"Row #{self._rows}"))
        return batch

    def explained(self, error: Exception) -> str:
        """The text of an error of pyarrow, which does not name a quote that is not closed."""
        text = str(error)
        if "Empty CSV file" in text:  # this row is part of the header
            return self._unclosed("the header line")
        if self._mark in text and (row := _ROW.search(text)):
            return self._unclosed(row[0])
        hint = ""
        if "straddling" in text:
            hint = "; a row is longer than the blocks in which it is read, or a quote is not closed"
        return f"{self._name} cannot be read as CSV: {text}{hint}"

    def _unclosed(self, row: str) -> str:
        return f"{self._name} cannot be read as CSV: {row} has a quote that is not closed up to the end of the input"


class _Extended(io.RawIOBase):
    """A stream whose *start* was read already, and which goes on with *end* after its own end."""

    def __init__(self, start: bytes, rest: io.RawIOBase, end: bytes) -> None:
        self._start = memoryview(start)
        self._rest = rest
        self._end = memoryview(end)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self._start:
            count = self._rest.readinto(buffer)
            if count != 0:
                return count
            self._start, self._end = self._end, self._end[:0]
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
