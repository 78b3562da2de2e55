"""What `Producer.send_table` calls: the table's columns are looked at, then its rows are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.assembly import Engine
from ottla.recordbatch.v2 import HEADER_SIZE
from ottla.routes import Route
from ottla.table_delivery import TableDelivery
from ottla.tables.choice import choose
from ottla.tables.reading import open_stream
from ottla.tables.sending import BATCH_BYTES, CHUNK_BYTES, TableSender


def send_table(
    engine: Engine, find_route: Callable[[str], Route], topic: str, table: Any, columns: Mapping[str, Any]
) -> TableDelivery:
    """Send a table with the parts of a producer; `columns` are the names that the caller gave."""
    route = find_route(topic)  # first: a stream can be opened only once
    stream = open_stream(table)
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
        chunk_bytes=max(1, min(CHUNK_BYTES, engine.buffer_memory // 4)),
        most_bytes=min(engine.max_request_size, engine.buffer_memory),
    )
    return sender.send(topic, route, stream, choice)
