"""From the columns of an Arrow record batch to records of a producer: the loop that every row goes through.

Columns become Python lists at once, and what can be wrong with a row is looked for column by column before
the first one is sent; only what the producer itself refuses stops a batch half-way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla import OttlaError, Producer
from ottla_spark.columns import ColumnPositions
from ottla_spark.errors import WriteFailed


@attrs.frozen(kw_only=True)
class Sent:
    """How many records were queued, and the bytes of their keys and values."""

    records: int
    bytes: int


@attrs.frozen(kw_only=True)
class RowPlace:
    """Where a record batch begins, for people: rows are counted from 1 within what one task was given."""

    task: str
    rows_before: int

    def of(self, row: int) -> str:
        """Name the row with this index in the record batch."""
        return f"row {self.rows_before + row + 1} of {self.task}"


def send_rows(
    producer: Producer, batch: pa.RecordBatch, columns: ColumnPositions, *, topic: str | None, place: RowPlace
) -> Sent:
    """Queue a record for each row. Raises WriteFailed, which names the row and what is wrong with it."""
    found = {name: batch.column(position) for name, position in columns.items()}
    _check(found, place)
    values, keys = _bytes(found["value"]), _bytes(found.get("key"))
    rows = zip(
        repeat(topic, batch.num_rows) if topic is not None else found["topic"].to_pylist(),
        _list(values),
        _list(keys),
        _headers(found.get("headers")),
        _list(found.get("partition")),
        _list(_milliseconds(found.get("timestamp"))),
        strict=False,
    )
    send = producer.send
    row = 0
    try:
        for row, (name, value, key, headers, partition, timestamp_ms) in enumerate(rows):  # noqa: B007 - for the message
            send(name, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
    except OttlaError as error:
        raise WriteFailed(f"{place.of(row)} was refused: {error}") from error
    return Sent(records=batch.num_rows, bytes=_size(values) + _size(keys))


def _check(columns: Mapping[str, Any], place: RowPlace) -> None:
    if "topic" in columns:
        _refuse(
            pc.is_null(columns["topic"]),
            place,
            "column 'topic' is null; give it a topic, or set option 'topic'",
        )
    if "partition" in columns:
        wrong = pc.less(columns["partition"], 0)
        _refuse(wrong, place, "column 'partition' is negative; null leaves the choice to the partitioner")
    if "timestamp" in columns:
        wrong = pc.less(_milliseconds(columns["timestamp"]), 0)
        _refuse(wrong, place, "column 'timestamp' is before 1970, which Kafka cannot hold")
    if "headers" in columns:
        names, _ = columns["headers"].flatten().flatten()
        if names.null_count:
            row = columns["headers"].value_parent_indices().filter(names.is_null())[0].as_py()
            raise WriteFailed(
                f"{place.of(row)} was refused: column 'headers' has a null key; only its value may be null"
            )


def _refuse(wrong: Any, place: RowPlace, problem: str) -> None:
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        raise WriteFailed(f"{place.of(row)} was refused: {problem}")


def _bytes(column: Any) -> Any:
    if column is None or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column
    # Large where spark.sql.execution.arrow.useLargeVarTypes is set. Neither cast copies the text.
    return column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def _milliseconds(column: Any) -> Any:
    if column is None:
        return None
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _headers(column: Any) -> Iterable[Sequence[tuple[str, bytes | None]]]:
    if column is None:
        return repeat(())
    names, contents = column.flatten().flatten()
    pairs = iter(zip(names.to_pylist(), contents.to_pylist(), strict=True))
    return [tuple(islice(pairs, length or 0)) for length in column.value_lengths().to_pylist()]


def _list(column: Any) -> Iterable[Any]:
    return repeat(None) if column is None else column.to_pylist()


def _size(column: Any) -> int:
    return 0 if column is None else pc.sum(pc.binary_length(column)).as_py() or 0
