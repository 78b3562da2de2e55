"""Rows that wait for others of their topic, until they make up a large enough table.

Spark's record batches are small; some megabytes of rows together fill batches for every partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla import DeliveryError, OttlaError
from ottla_spark.errors import WriteError
from ottla_spark.sink.records import RowPlace, TopicRows, copied
from ottla_spark.sink.refused_rows import RefusedRow, RefusedRows, dead_letters

TABLE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of rows for one topic that are sent at once."""

GATHERED_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of rows that wait, in all topics together."""


class RowNames:
    """Names of a table's rows by their positions in the task's input. It keeps none of the rows."""

    def __init__(self, pieces: Sequence[_NamedRows]) -> None:
        self._pieces = pieces

    def __call__(self, row: int) -> str:
        """Return the name of the row with this index in the table."""
        for piece in self._pieces:
            if row < piece.count:
                return piece.place.of(row if piece.indexes is None else piece.indexes[row].as_py())
            row -= piece.count
        raise AssertionError("a table has the rows of its pieces")


@attrs.frozen(kw_only=True)
class TopicTable:
    """Rows for one topic; `parts` are the column arguments of `send_table`."""

    topic: str
    table: pa.Table
    parts: Mapping[str, Any]
    names: Callable[[int], str]

    def row(self, index: int, *, reason: str, cause: BaseException | None) -> RefusedRow:
        """Return a row that was refused."""
        [row] = self.table.slice(index, 1).to_batches()
        return RefusedRow.of(row, 0, name=self.names(index), topic=self.topic, reason=reason, cause=cause)


class RowBuffer:
    """Collect the rows of one task into tables. *send* returns the rows that are not valid records, with their errors.

    Rows that are not valid records are added to *refused*, and their dead letters are sent. Raises WriteError if such a
    row fails the task, and instead of errors that *send* raises.
    """

    def __init__(self, send: Callable[[TopicTable], Mapping[int, DeliveryError]], refused: RefusedRows) -> None:
        self._send = send
        self._refused = refused
        self._gathered: dict[str, _TopicRowBuffer] = {}
        self._bytes = 0

    def put(self, rows: TopicRows, place: RowPlace) -> None:
        """Add rows, and send the table when it is large enough."""
        gathered = self._gathered.setdefault(rows.topic, _TopicRowBuffer())
        self._bytes += gathered.add(rows, place)
        if gathered.bytes >= TABLE_BYTES:
            self._send_gathered(rows.topic)
            for other in self._gathered.values():
                other.copy_slices()
        elif self._bytes >= GATHERED_BYTES:
            self.send_all()

    def send_all(self) -> None:
        """Send all collected rows, and dead letters."""
        for topic in list(self._gathered):
            self._send_gathered(topic)
        self.send_dead_letters()

    def send_many_dead_letters(self) -> None:
        """Send the dead letters if they are many: no table takes them along where all rows are refused."""
        if self._refused.are_many:
            self.send_dead_letters()

    def send_dead_letters(self) -> bool:
        """Send the dead letters of rows that were refused meanwhile, and return False if there are none."""
        rows, topic = self._refused.take_letters(), self._refused.dead_letter_topic
        if topic is None or not rows:
            return False
        while rows:
            failed = self._sent(_letter_table(topic, rows))
            rows = [rows[index].after(error, topic) for index, error in failed.items()]
        return True

    def _send_gathered(self, topic: str) -> None:
        gathered = self._gathered.pop(topic)
        self._bytes -= gathered.bytes
        columns = gathered.batches[0].schema.names
        table = TopicTable(
            topic=topic,
            table=pa.Table.from_batches(gathered.batches),
            parts={name: name if name in columns else None for name in ("key", "headers", "partition", "timestamp")},
            names=RowNames(gathered.names),
        )
        for row, failed in self._sent(table).items():
            self._refused.add(table.row(row, reason=str(failed.__cause__), cause=failed.__cause__))
        self.send_dead_letters()

    def _sent(self, table: TopicTable) -> Mapping[int, DeliveryError]:
        try:
            return self._send(table)
        except WriteError:
            raise
        except OttlaError as error:
            raise WriteError(
                f"{table.names(0)} and the later rows for topic {table.topic!r} cannot be sent: {error}"
            ) from error


def _letter_table(topic: str, rows: Sequence[RefusedRow]) -> TopicTable:
    return TopicTable(
        topic=topic,
        table=dead_letters(rows),
        parts={"key": "key", "headers": "headers", "partition": None, "timestamp": None},
        names=lambda index: f"the dead letter of {rows[index].name}",
    )


@attrs.frozen(kw_only=True)
class _NamedRows:
    """The names of rows of one record batch; `indexes` None: they are all of its rows."""

    count: int
    indexes: Any | None
    place: RowPlace

    def copied(self) -> _NamedRows:
        """Return the same names; their indexes are no slice of those of other rows."""
        if self.indexes is None:
            return self
        return attrs.evolve(self, indexes=pa.concat_arrays([self.indexes, self.indexes[:0]]))


@attrs.define
class _TopicRowBuffer:
    """Rows of one topic. The first of the batches, so many as `own`, are in memory of their own, and so are names."""

    batches: list[pa.RecordBatch] = attrs.field(factory=list)
    names: list[_NamedRows] = attrs.field(factory=list)
    bytes: int = 0
    own: int = 0
    own_names: int = 0

    def add(self, rows: TopicRows, place: RowPlace) -> int:
        """Add rows, and return their size."""
        size: int = rows.rows.nbytes
        self.batches.append(rows.rows)
        self.names.append(_NamedRows(count=rows.rows.num_rows, indexes=rows.indexes, place=place))
        self.bytes += size
        return size

    def copy_slices(self) -> None:
        """Copy rows that are slices of record batches whose other rows are sent, and would stay in memory with them."""
        added, names = self.batches[self.own :], self.names[self.own_names :]
        if not added:
            return
        self.batches[self.own :] = [copied(added)]
        self.names[self.own_names :] = [each.copied() for each in names]
        self.own, self.own_names = len(self.batches), len(self.names)
