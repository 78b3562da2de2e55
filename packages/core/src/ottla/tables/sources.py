"""What `send_table` takes: tables, files, datasets, and Python iterators of record batches, as streams of batches.

A stream has a `schema`, and is an iterator of pyarrow's record batches. Streams that Python code feeds do not pass
through Arrow's C interface: an exception of that code, KeyboardInterrupt too, would become the text of an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla.errors import InvalidRecordError, TableReadError, printable, quoted
from ottla.tables.columns import ALL_COLUMNS, UsedColumns
from ottla.tables.no_rows import no_rows

_TABLES: Final = (
    "a table of pyarrow, polars, pandas 2.2 or duckdb (anything with __arrow_c_stream__), a path that ends in "
    ".parquet, .arrow or .arrows, a pyarrow.parquet.ParquetFile, a pyarrow.dataset, a polars LazyFrame, or an iterable "
    "of pyarrow record batches"
)


@attrs.frozen
class BatchStream:
    """Record batches of one schema from Python code, or of a file that was opened for them."""

    schema: Any
    batches: Iterable[Any]
    file: Any | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield record batches; close the file at the end.

        Raises TypeError for an item that is none, ValueError for one with other columns.
        """
        try:
            yield from self._checked()
        finally:
            close_stream(self)

    def _checked(self) -> Iterator[Any]:
        for number, batch in enumerate(self.batches):
            for part in _record_batches(batch, number):
                if not part.schema.equals(self.schema) and _columns(part.schema) != _columns(self.schema):
                    raise ValueError(
                        f"batch {number} has the columns {_columns(part.schema)}, the first one {_columns(self.schema)}"
                    )
                yield part


def open_stream(table: Any, used: UsedColumns = ALL_COLUMNS) -> Any:
    """Open a stream. Raises InvalidRecordError for what is none, and for a file that cannot be opened.

    Of files, datasets and lazy frames only the *used* columns are read; other tables keep all of theirs.
    """
    if isinstance(table, pa.RecordBatchReader):  # which does not compare its batches with its schema
        return BatchStream(table.schema, table)
    if hasattr(table, "__arrow_c_stream__"):
        return _imported(_reader, table)
    if hasattr(table, "__arrow_c_array__"):
        batch = _imported(_batch, table)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if isinstance(table, str | os.PathLike):
        return _open_file(Path(table), used)
    if hasattr(table, "iter_batches") and hasattr(table, "schema_arrow"):  # pyarrow.parquet.ParquetFile
        return _parquet_stream(table, used)
    if hasattr(table, "scanner"):  # a pyarrow.dataset.Dataset
        table = table.scanner(columns=_read_columns(table.schema.names, used))
    if hasattr(table, "to_reader"):  # a pyarrow.dataset.Scanner
        return table.to_reader()
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # a polars LazyFrame
        return open_stream(_of_used_columns(table, used).collect())
    if isinstance(table, Iterable) and not isinstance(table, bytes | bytearray | Mapping):
        return _open_iterable(table)
    raise _no_table(table)


def close_stream(stream: Any) -> None:
    """Close the file of a stream that `open_stream` has opened, which may not have been read; again does nothing."""
    if isinstance(stream, BatchStream) and stream.file is not None:
        stream.file.close()


def _imported(read: Callable[[Any], Any], table: Any) -> Any:
    """Read a table with Arrow's C interface. Raises InvalidRecordError for one that Arrow cannot hold.

    Other errors stay as they are, such as those of a query of duckdb.
    """
    _check_objects(table)
    try:
        return read(_without_index(table))
    except (pa.ArrowException, TypeError, ValueError) as cause:
        if type(table).__name__ == "Series":  # a stream, too, of one column without a name
            raise _no_table(table) from cause
        raise InvalidRecordError(
            f"the {type(table).__name__} cannot be read as a table: {printable(_words(cause))}{_wide_integers(table)}"
        ) from cause


def _reader(table: Any) -> Any:
    """A reader of the batches of a table. Raises what the table raises.

    pyarrow before 25 kills the process when its own tables pass through Arrow's C interface, if they have texts of the
    type string_view that all are short. An object of other code that has such a table is out of reach.
    """
    if isinstance(table, pa.Table):
        return table.to_reader()
    if isinstance(table, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(table.schema, [table])
    if isinstance(table, pa.ChunkedArray) and pa.types.is_struct(table.type) and not table.null_count:
        return pa.Table.from_struct_array(table).to_reader()
    return pa.RecordBatchReader.from_stream(table)


def _batch(table: Any) -> Any:
    """A batch of an array of structs. Raises what it raises."""
    if isinstance(table, pa.StructArray) and not table.null_count:
        return pa.RecordBatch.from_struct_array(table)
    return pa.record_batch(table)


def _words(cause: Exception) -> str:
    """The text of an error; pyarrow appends the name of a pandas column as an argument, and not to the text."""
    return ", ".join(map(str, cause.args)) or str(cause)


def _wide_integers(table: Any) -> str:
    """The columns of a polars frame whose type Arrow lacks, which its own error does not name."""
    found = [f"column {name!r} has the type {kind}" for name, kind in _polars_types(table) if "Int128" in str(kind)]
    return f"; {', '.join(found)}: cast to Int64, or to a Decimal" if found else ""


def _without_index(table: Any) -> Any:
    """A frame of pandas as a table of its columns alone: its own stream also has its index, if that is no range."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)  # loaded, if this is one
    if frame is None or not isinstance(table, frame):
        return table
    has_own_stream = getattr(type(table), "__arrow_c_stream__", None) is not frame.__arrow_c_stream__
    return table if has_own_stream else pa.Table.from_pandas(table, preserve_index=False)


def _check_objects(table: Any) -> None:
    """Raise InvalidRecordError for a frame of polars with Python objects, of which polars exports the addresses."""
    for name, kind in _polars_types(table):
        if str(kind) == "Object":
            raise InvalidRecordError(
                f"column {name!r} of the polars frame has the type Object, of which Arrow gets the addresses of Python "
                "objects: drop it, or make it text or bytes with map_elements"
            )


def _polars_types(table: Any) -> Iterable[tuple[str, Any]]:
    """The names and types of a frame of polars; none of another table."""
    is_polars = any(base.__module__.startswith("polars.") for base in type(table).__mro__)
    return table.schema.items() if is_polars and hasattr(table, "schema") else ()


def _read_columns(names: Sequence[str], used: UsedColumns) -> Sequence[str] | None:
    """The columns to read, or None for all of them; all as well if a name has a dot, which may be a path."""
    return None if any("." in name for name in names) else used.among(names)


def _of_used_columns(lazy: Any, used: UsedColumns) -> Any:
    """A lazy frame of the used columns of another one; of all if a name may be a pattern (^...$, *) for polars.

    Of all as well if it calls a function of the program for whole frames: polars before 2 would give it these alone.
    """
    names = used.among(list(lazy.collect_schema()))
    if names is None or any(name.startswith("^") or name == "*" for name in names):
        return lazy
    explain = getattr(lazy, "explain", None)
    return lazy if explain is not None and "OPAQUE_PYTHON" in explain(optimized=False) else lazy.select(names)


def _open_file(path: Path, used: UsedColumns) -> Any:
    opened = _OPENERS.get(path.suffix.lower())
    if opened is None:
        csv = "; for CSV pass pyarrow.csv.open_csv(path)" if path.suffix.lower() == ".csv" else ""
        raise InvalidRecordError(
            f"the path {quoted(str(path))} is not a table: its name must end in {', '.join(sorted(_OPENERS))}{csv}"
        )
    try:
        return opened(path, used)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as cause:
        raise InvalidRecordError(
            f"the file {quoted(str(path))} cannot be read as a table: {printable(str(cause))}"
        ) from cause


def _open_parquet(path: Path, used: UsedColumns) -> BatchStream:
    from pyarrow import parquet  # here: its import takes 50 ms

    file = parquet.ParquetFile(path)
    stream = _parquet_stream(file, used)
    return attrs.evolve(stream, file=file)


def _parquet_stream(file: Any, used: UsedColumns) -> BatchStream:
    names = _read_columns(file.schema_arrow.names, used)
    if names is None:
        return BatchStream(file.schema_arrow, file.iter_batches())
    schema = pa.schema([file.schema_arrow.field(name) for name in names], file.schema_arrow.metadata)
    return BatchStream(schema, (batch.select(names) for batch in file.iter_batches(columns=names)))


def _open_arrow(path: Path, used: UsedColumns) -> BatchStream:
    file, reader = _opened(path, pa.ipc.open_file, used)
    return BatchStream(reader.schema, map(reader.get_batch, range(reader.num_record_batches)), file)


def _open_arrow_stream(path: Path, used: UsedColumns) -> BatchStream:
    file, reader = _opened(path, pa.ipc.open_stream, used)
    return BatchStream(reader.schema, reader, file)


def _opened(path: Path, reader_of: Callable[..., Any], used: UsedColumns) -> tuple[Any, Any]:
    """Open a file and a reader of its *used* columns. If there can be no reader, the file is closed."""
    file = pa.OSFile(str(path))
    try:
        reader = reader_of(file)
        names = used.among(reader.schema.names)
        if names is not None:  # the others are not even decompressed
            included = [reader.schema.get_field_index(name) for name in names]
            file.seek(0)
            reader = reader_of(file, options=pa.ipc.IpcReadOptions(included_fields=included))
        return file, reader
    except BaseException:
        file.close()
        raise


_OPENERS: Final[Mapping[str, Callable[[Path, UsedColumns], BatchStream]]] = {
    ".arrow": _open_arrow,
    ".arrows": _open_arrow_stream,
    ".feather": _open_arrow,
    ".parquet": _open_parquet,
}


def _open_iterable(table: Iterable[Any]) -> BatchStream:
    batches = iter(table)
    try:
        first = next(batches)
    except StopIteration:
        raise InvalidRecordError(
            f"the {type(table).__name__} has no batch, so the columns of its table are unknown; pass a "
            "pyarrow.RecordBatchReader, which has a schema"
        ) from None
    except Exception as cause:
        raise TableReadError(f"the table's stream failed: {cause}") from cause
    try:
        parts = _record_batches(first, 0)
    except TypeError:
        raise _no_table(table) from None
    return BatchStream(parts[0].schema, _chained(parts, batches))


def _chained(first: Iterable[Any], rest: Iterable[Any]) -> Iterator[Any]:
    yield from first
    yield from rest


def _record_batches(batch: Any, number: int) -> list[Any]:
    """Return the record batches of one item of an iterable; a table may have several, and has at least one."""
    if isinstance(batch, pa.RecordBatch):
        return [batch]
    if hasattr(batch, "__arrow_c_stream__"):
        table = _imported(lambda each: _reader(each).read_all(), batch)
        return table.to_batches() or [no_rows(table.schema)]
    raise TypeError(f"item {number} of the table is of type {type(batch).__name__}, not a pyarrow record batch")


def _no_table(table: Any) -> InvalidRecordError:
    makes = ""
    if type(table).__name__ == "DuckDBPyConnection":
        makes = "; connection.sql returns a relation, which is one"
    elif type(table).__name__ == "Series":
        makes = "; its to_frame() makes one"
    elif isinstance(table, Mapping):
        makes = "; pyarrow.table makes one of a dict of columns"
    elif isinstance(table, Iterable) and not isinstance(table, str | bytes | bytearray):
        makes = "; pyarrow.Table.from_pylist makes one of a list of dicts"
    return InvalidRecordError(
        f"an object of type {type(table).__name__} is not a table; send_table takes {_TABLES}{makes}"
    )


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
