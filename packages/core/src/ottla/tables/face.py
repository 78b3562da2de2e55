"""What `Producer.send_table` calls: the table's columns are looked at, then its rows are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.assembly import Engine
from ottla.errors import InvalidRecord
from ottla.recordbatch.v2 import HEADER_SIZE
from ottla.routes import Route
from ottla.table_delivery import TableDelivery
from ottla.tables.choice import choose
from ottla.tables.formatting import Formatted
from ottla.tables.reading import open_stream
from ottla.tables.sending import BATCH_BYTES, CHUNK_BYTES, TableSender
from ottla.value_formats import ValueFormats


def send_table(
    engine: Engine,
    find_route: Callable[[str], Route],
    topic: str,
    table: Any,
    columns: Mapping[str, Any],
    *,
    value_format: str | None,
) -> TableDelivery:
    """Send a table with the parts of a producer; `columns` are the names that the caller gave."""
    route = find_route(topic)  # first: a stream can be opened only once
    stream = open_stream(table)
    chunk_bytes = max(1, min(CHUNK_BYTES, engine.buffer_memory // 4))
    if value_format is not None:
        stream = _formatted(engine.value_formats, topic, stream, columns["value"], value_format, most=chunk_bytes)
        columns = {**columns, "value": stream.name}
    choice = choose(stream.schema, **columns)
    sizes = engine.sizes
    batch_bytes = min(max(BATCH_BYTES, sizes.target), sizes.most) if sizes.growing else sizes.target
    sender = TableSender(
        accumulator=engine.accumulator,
        routes=engine.routes,
        partitioner=engine.partitioner,
        encoder=engine.encoder,
        seal=engine.seal_columns,
        find_route=find_route,
        batch_bytes=max(1, min(batch_bytes - HEADER_SIZE, engine.buffer_memory // 4)),
        chunk_bytes=chunk_bytes,
        most_bytes=min(engine.max_request_size, engine.buffer_memory),
    )
    return sender.send(topic, route, stream, choice)


def _formatted(
    formats: ValueFormats, topic: str, stream: Any, value: Any, value_format: str, *, most: int
) -> Formatted:
    if value is None:
        raise InvalidRecord(f"value=None, value_format={value_format!r}: name the columns that the value is made of")
    return Formatted(
        stream=stream,
        topic=topic,
        value_format=value_format,
        serialize_column=formats.of(value_format),
        value=value if isinstance(value, str) else tuple(value),
        most=most,
    )
