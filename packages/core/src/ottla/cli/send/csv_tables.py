"""Tables of the rows of CSV with a header line. All columns are text, so that 007 stays 007."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv

from ottla.cli.send.columns import InputError

_HEADER_BYTES: Final = 1024 * 1024


def csv_tables(file: str | int, name: str, *, block_bytes: int) -> Iterator[tuple[Any, int]]:
    """Yield tables of about *block_bytes* of a file, or of an open descriptor, each with its size.

    Raises InputError, which calls the file *name*.
    """
    with io.BufferedReader(io.FileIO(file, closefd=not isinstance(file, int)), _HEADER_BYTES) as stream:
        names = _header(stream.peek(_HEADER_BYTES), name)
        options = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        parse = pa.csv.ParseOptions(newlines_in_values=True)
        # With its threads, which make it no faster, pyarrow does not say which row has an error.
        read = pa.csv.ReadOptions(block_size=block_bytes, use_threads=False)
        try:
            for batch in pa.csv.open_csv(stream, read, parse_options=parse, convert_options=options):
                yield pa.Table.from_batches([batch]), batch.nbytes
        except pa.ArrowException as error:
            raise InputError(f"{name} cannot be read as CSV: {error}") from None


def _header(start: bytes, name: str) -> list[str]:
    names = next(csv.reader(io.StringIO(start.decode("utf-8-sig", errors="surrogateescape"))), [])
    for each in names:
        if any("\udc80" <= character <= "\udcff" for character in each):
            shown = each.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise InputError(f"{name} has the column '{shown}', which is not UTF-8: save it as UTF-8")
    if not names:
        raise InputError(f"{name} has no header line with the names of its columns")
    if len(set(names)) < len(names):
        raise InputError(f"two columns of {name} have one name")
    return names
