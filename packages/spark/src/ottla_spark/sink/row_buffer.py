"""Rows that wait for others of their topic, until they make up a large enough table.

Spark's record batches are small; some megabytes of rows together fill batches for every partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla import DeliveryError, InvalidRecordError, OttlaError, RecordTooLargeError
from ottla_spark.errors import WriteError
from ottla_spark.sink.records import RowPlace, TopicRows

TABLE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of rows for one topic that are sent at once."""

GATHERED_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of rows that wait, in all topics together."""


class RowNames:
    """Names of a table's rows by their positions in the task's input. Keeps none of the rows."""

    def __init__(self, pieces: Sequence[_BufferedRows]) -> None:
        self._pieces = [(piece.rows.rows.num_rows, piece.rows.indexes, piece.place) for piece in pieces]

    def __call__(self, row: int) -> str:
        """Return the name of the row with this index in the table."""
        for count, indexes, place in self._pieces:
            if row < count:
                return place.of(row if indexes is None else indexes[row].as_py())
            row -= count
        raise AssertionError("a table has the rows of its pieces")


@attrs.frozen(kw_only=True)
class TopicTable:
    """Rows for one topic; `parts` are the column arguments of `send_table`."""

    topic: str
    table: pa.Table
    parts: Mapping[str, Any]
    names: RowNames


class RowBuffer:
    """Collect the rows of one task into tables. *send* returns the rows that it refused, with their errors.

    Raises WriteError for the first row that is not a valid record, and instead of errors that *send* raises.
    """

    def __init__(self, send: Callable[[TopicTable], Mapping[int, DeliveryError]]) -> None:
        self._send = send
        self._gathered: dict[str, _TopicRowBuffer] = {}
        self._bytes = 0

    def put(self, rows: TopicRows, place: RowPlace) -> None:
        """Add rows, and send the table when it is large enough."""
        gathered = self._gathered.setdefault(rows.topic, _TopicRowBuffer())
        size = rows.rows.nbytes
        gathered.pieces.append(_BufferedRows(rows=rows, place=place))
        gathered.bytes += size
        self._bytes += size
        if gathered.bytes >= TABLE_BYTES:
            self._send_gathered(rows.topic)
        elif self._bytes >= GATHERED_BYTES:
            self.send_all()

    def send_all(self) -> None:
        """Send all collected rows."""
        for topic in list(self._gathered):
            self._send_gathered(topic)

    def _send_gathered(self, topic: str) -> None:
        gathered = self._gathered.pop(topic)
        self._bytes -= gathered.bytes
        pieces = gathered.pieces
        columns = pieces[0].rows.rows.schema.names
        table = TopicTable(
            topic=topic,
            table=pa.Table.from_batches([piece.rows.rows for piece in pieces]),
            parts={name: name if name in columns else None for name in ("key", "headers", "partition", "timestamp")},
            names=RowNames(pieces),
        )
        try:
            refused = self._send(table)
        except WriteError:
            raise
        except OttlaError as error:
            raise WriteError(
                f"{table.names(0)} and the later rows for topic {topic!r} cannot be sent: {error}"
            ) from error
        for row, failed in refused.items():
            cause = failed.__cause__
            if isinstance(cause, InvalidRecordError):
                sizes = _sizes(pieces, row) if isinstance(cause, RecordTooLargeError) else ""
                raise WriteError(f"{table.names(row)} was refused: {cause}{sizes}") from failed


@attrs.frozen(kw_only=True)
class _BufferedRows:
    rows: TopicRows
    place: RowPlace


@attrs.define
class _TopicRowBuffer:
    pieces: list[_BufferedRows] = attrs.field(factory=list)
    bytes: int = 0


def _sizes(pieces: Sequence[_BufferedRows], row: int) -> str:
    """Return the sizes of a row's columns, for a message."""
    for piece in pieces:
        rows = piece.rows.rows
        if row < rows.num_rows:
            cells: list[tuple[str, Any]] = [
                (name, rows.column(name)[row]) for name in ("key", "value") if name in rows.schema.names
            ]
            sizes = [f"column {name!r}: {cell.as_buffer().size} bytes" for name, cell in cells if cell.is_valid]
            return f" ({', '.join(sizes)})" if sizes else ""
        row -= rows.num_rows
    raise AssertionError("a table has the rows of its pieces")
