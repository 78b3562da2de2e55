"""Rows that wait for others of their topic, tables that were sent, and what became of them.

Spark's record batches are small; some megabytes of rows together fill batches for every partition. What was sent is
looked at as it is settled, so that a task keeps no account of rows that have arrived, however many it sends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

import attrs
import pyarrow as pa

from ottla import DeliveryFailed, InvalidRecord, OttlaError, Producer, RecordTooLarge, TableDelivery, TableUndelivered
from ottla_spark.errors import WriteFailed
from ottla_spark.records import RowPlace, TopicRows

TABLE_BYTES: Final = 8 * 1024 * 1024
"""So much for one topic is sent at once."""

GATHERED_BYTES: Final = 16 * 1024 * 1024
"""So much waits for more at most, in all topics together."""


class Outbox:
    """The rows of one task on their way. Raises WriteFailed as soon as one of them is known to have failed."""

    def __init__(self, producer: Producer, *, task: str) -> None:
        self._producer = producer
        self._task = task
        self._gathered: dict[str, _Gathered] = {}
        self._sent: deque[_Sent] = deque()
        self._bytes = 0
        self.records = 0
        """How many were acknowledged."""
        self.partitions: Counter[tuple[str, int]] = Counter()
        """The same by topic and partition."""
        self.first_offsets: dict[tuple[str, int], int] = {}
        """The lowest offset of each partition, -1 where a broker told none."""

    def put(self, rows: TopicRows, place: RowPlace) -> None:
        """Take rows, and send what is enough for a table."""
        gathered = self._gathered.setdefault(rows.topic, _Gathered())
        size = rows.rows.nbytes
        gathered.pieces.append(_Piece(rows=rows, place=place))
        gathered.bytes += size
        self._bytes += size
        if gathered.bytes >= TABLE_BYTES:
            self._send(rows.topic)
        elif self._bytes >= GATHERED_BYTES:
            self.send_all()
        else:
            return
        self._look_at_settled()

    def send_all(self) -> None:
        """Send what is gathered."""
        for topic in list(self._gathered):
            self._send(topic)

    def wait(self) -> None:
        """Wait until everything that was sent has arrived."""
        failed = _Failures()
        for sent in self._sent:
            self._settle(sent, failed)
        self._sent.clear()
        self._raise(failed)

    def _send(self, topic: str) -> None:
        gathered = self._gathered.pop(topic)
        self._bytes -= gathered.bytes
        pieces = gathered.pieces
        names = pieces[0].rows.rows.schema.names
        parts = {name: name if name in names else None for name in ("key", "headers", "partition", "timestamp")}
        table = pa.Table.from_batches([piece.rows.rows for piece in pieces])
        try:
            delivery = self._producer.send_table(topic, table, value="value", **parts)
        except OttlaError as error:
            first = pieces[0].place.of(pieces[0].rows.index(0))
            raise WriteFailed(f"{first}, and what follows it for topic {topic!r}, cannot be sent: {error}") from error
        sent = _Sent(delivery=delivery, pieces=[_Numbers.of(piece) for piece in pieces])
        self._refuse(sent, pieces)
        self._sent.append(sent)

    def _refuse(self, sent: _Sent, pieces: Sequence[_Piece]) -> None:
        """Rows that can be no records fail at once; the first is told, with its columns' sizes if it is too large."""
        for row, error in sent.delivery.failed_rows().items():
            cause = error.__cause__
            if isinstance(cause, InvalidRecord):
                sizes = _sizes(pieces, row) if isinstance(cause, RecordTooLarge) else ""
                raise WriteFailed(f"{sent.name(row)} was refused: {cause}{sizes}") from error

    def _look_at_settled(self) -> None:
        failed = _Failures()
        while self._sent and self._sent[0].delivery.done():
            self._settle(self._sent.popleft(), failed)
        self._raise(failed)

    def _settle(self, sent: _Sent, failed: _Failures) -> None:
        try:
            result = sent.delivery.result()
        except TableUndelivered:
            failed.add(sent)
            return
        self.records += result.acknowledged
        for partition, found in result.partitions.items():
            place = (sent.delivery.topic, partition)
            self.partitions[place] += found.rows
            self.first_offsets[place] = min(found.first_offset, self.first_offsets.get(place, found.first_offset))

    def _raise(self, failed: _Failures) -> None:
        if failed.first is not None:
            raise WriteFailed(f"{self._task}: {failed}") from failed.first


@attrs.frozen(kw_only=True)
class _Piece:
    rows: TopicRows
    place: RowPlace


@attrs.define
class _Gathered:
    pieces: list[_Piece] = attrs.field(factory=list)
    bytes: int = 0


@attrs.frozen(kw_only=True)
class _Numbers:
    """What is left of a piece once it is sent: how many rows, and which."""

    count: int
    indexes: Any | None
    place: RowPlace

    @classmethod
    def of(cls, piece: _Piece) -> _Numbers:
        return cls(count=piece.rows.rows.num_rows, indexes=piece.rows.indexes, place=piece.place)


@attrs.frozen(kw_only=True)
class _Sent:
    delivery: TableDelivery
    pieces: Sequence[_Numbers]

    def name(self, row: int) -> str:
        """A row of the table as people find it."""
        for piece in self.pieces:
            if row < piece.count:
                return piece.place.of(row if piece.indexes is None else piece.indexes[row].as_py())
            row -= piece.count
        raise AssertionError("a delivery has the rows of its table")


class _Failures:
    """What failed after it was queued, for one sentence."""

    def __init__(self) -> None:
        self.first: DeliveryFailed | None = None
        self._name = ""
        self._rows = 0
        self._counts: Counter[str] = Counter()
        self._doubtful: Counter[str] = Counter()

    def add(self, sent: _Sent) -> None:
        topic = sent.delivery.topic
        self._rows += sent.delivery.rows
        for row, error in sent.delivery.failed_rows().items():
            if self.first is None:
                self.first, self._name = error, sent.name(row)
            self._counts[topic] += 1
            self._doubtful[topic] += error.possibly_persisted

    def __str__(self) -> str:
        assert self.first is not None
        counts = ", ".join(
            f"{count} for topic {topic!r} ({self._doubtful[topic]} of them possibly in Kafka)"
            for topic, count in self._counts.items()
        )
        return (
            f"of {self._rows} records these failed: {counts}; the first, {self._name}: "
            f"topic {self.first.topic!r}, partition {self.first.partition}: {self.first}"
        )


def _sizes(pieces: Sequence[_Piece], row: int) -> str:
    """What the columns of a row take, for people."""
    for piece in pieces:
        rows = piece.rows.rows
        if row < rows.num_rows:
            cells = [(name, rows.column(name)[row]) for name in ("key", "value") if name in rows.schema.names]
            sizes = [f"column {name!r}: {cell.as_buffer().size} bytes" for name, cell in cells if cell.is_valid]
            return f" ({', '.join(sizes)})" if sizes else ""
        row -= rows.num_rows
    raise AssertionError("a table has the rows of its pieces")
