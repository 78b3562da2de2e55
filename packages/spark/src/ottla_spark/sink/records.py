"""Conversion of Spark's record batches to batches of our columns, and a check for cells that no record can hold.

Columns stay the arrays that Spark sent. Whole columns are checked for invalid cells before the first row of the batch
is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.interfaces import Header
from ottla.protocol.binary_arrays import list_offsets, number, numbers
from ottla.tables.constant_headers import header_column
from ottla.tables.headers import nameless, without_headers
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions
from ottla_spark.sink.formats import formatted
from ottla_spark.sink.nested_offsets import with_all_offsets
from ottla_spark.sink.refused_rows import RefusedRow, RefusedRows
from ottla_spark.sink.valid_text import with_valid_text

TOPIC: Final = "topic"
HEADERS: Final = "headers"

MAX_KEPT: Final = 2
"""Maximum memory of a record batch that its rows keep while they wait, as a multiple of the bytes that are sent."""


@attrs.frozen(kw_only=True)
class RowPlace:
    """The start of a record batch, for messages: rows are counted from 1 within one task's input."""

    task: str
    rows_before: int

    def of(self, row: int) -> str:
        """Return the name of the row with this index in the record batch."""
        return f"row {self.rows_before + row + 1} of {self.task}"


@attrs.frozen(kw_only=True)
class TopicRows:
    """Rows of a record batch that go to one topic, in their order; `indexes` None: all rows of the batch."""

    topic: str
    rows: pa.RecordBatch
    indexes: Any | None


def topic_rows(
    batch: pa.RecordBatch, columns: ColumnPositions, *, options: WriteOptions, place: RowPlace, refused: RefusedRows
) -> tuple[pa.RecordBatch, Iterator[TopicRows]]:
    """Return the rows that records can hold, and the same rows by topic; add the others to *refused*.

    Raises WriteError if a refused row fails the task, and for a fault of a serializer.
    """
    records, unserializable, headers = records_of(batch, columns, options=options)
    valid, indexes = valid_rows(
        records, place=place, topic=options.topic, refused=refused, unserializable=unserializable
    )
    valid = with_headers(valid, headers)
    return valid, by_topic(valid, topic=options.topic, indexes=indexes)


def records_of(
    batch: pa.RecordBatch, columns: ColumnPositions, *, options: WriteOptions
) -> tuple[pa.RecordBatch, Mapping[int, str], Sequence[Header]]:
    """Return the batch with our columns alone, under our names, reasons by row, and headers for `with_headers`.

    A reason says why a row cannot be serialized, or that its topic or the name of a header is not valid UTF-8. The
    *options* have the formats of keys and values.
    Raises WriteError for a fault of a serializer.
    """
    batch = with_all_offsets(batch)
    batch, invalid = with_valid_text(batch, [columns[name] for name in (TOPIC, HEADERS) if name in columns])
    found = {name: batch.column(position) for name, position in columns.items()}
    refused = dict(invalid)
    headers: list[Header] = []
    for part, chosen in (("value", options.formats.value), ("key", options.formats.key)):
        if chosen is not None and (part == "value" or part in columns):
            found[part], reasons, added = formatted(batch, columns, part, chosen, options)
            refused = {**reasons, **refused}  # the first reason of a row counts
            headers += added
    records = pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
    # Spark's rows have all columns in one buffer, so rows that wait would keep those that are not sent, too.
    if batch.get_total_buffer_size() > MAX_KEPT * records.nbytes:
        records = copied([records])
    return records, refused, headers


def copied(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of the batches in memory of their own."""
    return pa.concat_batches([*batches, batches[0].slice(0, 0)])  # of one batch alone, pyarrow need not make a copy


def with_headers(records: pa.RecordBatch, headers: Sequence[Header]) -> pa.RecordBatch:
    """Return the rows with these headers, in place of those of the same names."""
    if not headers or not records.num_rows:
        return records
    place = records.schema.get_field_index(HEADERS)
    if place < 0:
        return records.append_column(HEADERS, header_column(headers, records.num_rows))
    own = without_headers(records.column(place), [name for name, _value in headers])
    added = header_column(headers, records.num_rows)
    rows = pa.concat_arrays([pc.list_parent_indices(own), pc.list_parent_indices(added)])
    pairs = pa.concat_arrays([own.flatten(), added.flatten()]).take(pc.array_sort_indices(rows))
    counts = pc.add(pc.list_value_length(own), number(len(headers), pa.int32()))
    return records.set_column(place, HEADERS, pa.ListArray.from_arrays(list_offsets(counts), pairs))


def valid_rows(
    records: pa.RecordBatch,
    *,
    place: RowPlace,
    topic: str | None,
    refused: RefusedRows,
    unserializable: Mapping[int, str],
) -> tuple[pa.RecordBatch, Any | None]:
    """Return the rows that records can hold, and their indexes, None if these are all; add the others to *refused*.

    *topic* is the topic of all rows, None: they have a column. *unserializable* has the reasons of `records_of`.
    Raises WriteError if a refused row fails the task.
    """
    problems: dict[int, str] = dict(unserializable)
    for name in [name for name in _WRONG if name in records.schema.names]:
        wrong = _WRONG[name](records.column(name))
        for row in pc.indices_nonzero(wrong).to_pylist() if wrong is not None else ():
            problems.setdefault(row, f"column {name!r} {_PROBLEMS[name]}")
    if not problems:
        return records, None
    names = records.column(TOPIC) if topic is None else None
    for row in sorted(problems):
        named = topic if names is None else names[row].as_py()
        refused.add(RefusedRow.of(records, row, name=place.of(row), topic=named, reason=problems[row]))
    indexes = numbers([row for row in range(records.num_rows) if row not in problems], pa.int64())
    return records.take(indexes), indexes


def by_topic(records: pa.RecordBatch, *, topic: str | None, indexes: Any | None) -> Iterator[TopicRows]:
    """Yield the rows of each topic: *topic* for all rows, or the topic column.

    *indexes* are those of the rows in their record batch, or None for all of its rows.
    """
    if not records.num_rows:
        return
    if topic is not None:
        yield TopicRows(topic=topic, rows=records, indexes=indexes)
        return
    place = records.schema.get_field_index(TOPIC)
    names = records.column(place).dictionary_encode()
    rest = records.remove_column(place)
    if len(names.dictionary) == 1:
        yield TopicRows(topic=names.dictionary[0].as_py(), rows=rest, indexes=indexes)
        return
    order = pc.array_sort_indices(names.indices)  # stable: the rows of a topic stay in their order
    runs = pc.run_end_encode(names.indices.take(order))
    sorted_rows = rest.take(order)
    places = order if indexes is None else indexes.take(order)
    start = 0
    for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield TopicRows(
            topic=names.dictionary[code].as_py(),
            rows=sorted_rows.slice(start, end - start),
            indexes=places.slice(start, end - start),
        )
        start = end


def size_of(records: pa.RecordBatch) -> int:
    """Return the bytes of keys and values."""
    columns = (records.column(name) for name in ("key", "value") if name in records.schema.names)
    return sum(_as_bytes(column).total_values_length for column in columns)


def _as_bytes(column: Any) -> Any:
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column
    return column.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())


def _before_1970(column: Any) -> Any | None:
    return pc.less(column.cast(pa.int64()), number(0, pa.int64()))


_WRONG: Final = {
    TOPIC: pc.is_null,
    "partition": lambda column: pc.less(column, number(0, column.type)),
    "timestamp": _before_1970,
    HEADERS: nameless,  # a header that is null counts, too
}

_PROBLEMS: Final = {
    TOPIC: "is null; give it a topic, or set option 'topic'",
    "partition": "is negative; null leaves the choice to the partitioner",
    "timestamp": "is before 1970, but a timestamp of Kafka must not be negative",
    HEADERS: "has a null key; only its value may be null",
}
