"""Sending of a table whose rows name their topics: piece by piece, the rows of each topic as a separate table."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ottla.accumulator.topic_routes import Route
from ottla.errors import InvalidRecordError
from ottla.tables.columns import ColumnChoice
from ottla.tables.sending import GATHERED_BYTES, NewRows, TableSender, TableSending, read, with_delivery
from ottla.tables.sources import BatchStream
from ottla.tables.table_delivery import TableDelivery
from ottla.tables.table_waits import TableWaits
from ottla.tables.topic_column import TopicColumn, TopicPiece, TopicRows

Prepare = Callable[[str, Any], tuple[Any, ColumnChoice]]
"""A function that makes the stream to be sent of a topic's stream of rows, and chooses its columns."""

_NO_TOPIC: Final = ""
"""In reports, the topic of rows that have none."""


class TopicColumnSending:
    """The sending of one table. `prepare` is called for each topic's rows of each piece."""

    def __init__(
        self, sender: TableSender, column: TopicColumn, *, prepare: Prepare, waits: TableWaits, delivery: TableDelivery
    ) -> None:
        self._sender = sender
        self._column = column
        self._prepare = prepare
        self._waits = waits
        self._delivery = delivery
        self._queue = sender.piece_queue(delivery, waits, topics=self._topics)
        self._sendings: dict[str, TableSending] = {}
        self._groups: Sequence[TopicRows] = ()

    def send(self, stream: Any) -> None:
        """Queue the rows of a stream; what it raises has their `delivery`."""
        with_delivery(self._delivery, lambda: self._queue.run(lambda: self._queue_rows(stream)))

    def _queue_rows(self, stream: Any) -> None:
        sizes = self._sender.sizes

        def min_bytes() -> int:
            return min(sizes.chunk, GATHERED_BYTES * max(1, len(self._sendings)))

        checked = False
        for piece in read(self._column.pieces(stream, min_bytes=min_bytes, max_bytes=sizes.chunk)):
            routes, errors = self._routes(piece)
            if routes and not checked:  # the table as a whole, with all of its columns
                self._prepare(next(iter(routes)), BatchStream(stream.schema, []))
                checked = True
            self._send(piece, routes, errors)

    def _routes(self, piece: TopicPiece) -> tuple[dict[str, Route], dict[str | None, InvalidRecordError]]:
        """The routes of a piece's topics, and the errors of names that are none. Raises for topics that are missing."""
        routes: dict[str, Route] = {}
        errors: dict[str | None, InvalidRecordError] = {}
        sender, waits = self._sender, self._waits
        for group in piece.groups:
            topic = group.topic
            if topic is None:
                errors[topic] = InvalidRecordError(
                    f"its topic, the column {self._column.name!r}, is null; name the topic of such rows, as the first "
                    "argument of send_table"
                )
                continue
            try:
                routes[topic] = sender.routes.known.get(topic) or self._find(topic, waits)
            except InvalidRecordError as error:
                errors[topic] = error
        return routes, errors

    def _find(self, topic: str, waits: TableWaits) -> Route:
        return waits.of(lambda: self._sender.find_route(topic, waited=waits.seconds, timeout=waits.timeout))

    def _send(self, piece: TopicPiece, routes: dict[str, Route], errors: dict[str | None, InvalidRecordError]) -> None:
        streams = {
            group.topic: self._prepare(group.topic, BatchStream(group.rows.schema, [group.rows]))
            for group in piece.groups
            if group.topic in routes
        }
        self._groups = piece.groups  # first: an interrupt may come as soon as the rows are taken
        offset = self._delivery.begin_chunk(piece.count)
        for group in piece.groups:
            topic = group.topic
            if topic is None or topic in errors:
                self._queue.refuse(topic or _NO_TOPIC, offset, dict.fromkeys(group.places, errors[topic]))
                continue
            sending = self._sendings.get(topic)
            if sending is None:
                sending = self._sendings[topic] = TableSending(self._sender, topic, routes[topic], self._queue)
            sending.queue_rows(*streams[topic], new_rows=_numbers(offset, group.places))
        self._queue.rest()  # so that all rows that are not queued are in `_groups`

    def _topics(self, _offset: int, rows: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
        remaining = set(rows)
        for group in self._groups:
            found = array("i", (place for place in group.places if place in remaining))
            if found:
                yield group.topic or _NO_TOPIC, found


def _numbers(offset: int, places: Sequence[int]) -> NewRows:
    start = 0

    def new_rows(count: int) -> tuple[int, Sequence[int]]:
        nonlocal start
        start += count
        return offset, places[start - count : start]

    return new_rows
