"""The functions behind `Producer.send_table` and `send_sealed`, which check their arguments and queue the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.config.wait_limit import check_timeout
from ottla.errors import InvalidRecordError, OttlaError, RecordTooLargeError
from ottla.interfaces import ProducerRows
from ottla.producer.components import Engine
from ottla.producer.table_interceptors import TableInterceptors
from ottla.recordbatch.codecs import NONE
from ottla.recordbatch.finished_columns import sealed_columns
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.tables.columns import choose, with_other_columns
from ottla.tables.constant_headers import WithHeaders, take_constant_headers
from ottla.tables.formatting import Formatted
from ottla.tables.interception import INTERCEPTED, Intercepted
from ottla.tables.sending import FindRoute, TableSender, TableSizes
from ottla.tables.sources import open_stream
from ottla.tables.table_delivery import TableDelivery
from ottla.tables.table_waits import TableWaits


def send_table(
    engine: Engine,
    find_route: FindRoute,
    topic: str,
    table: Any,
    columns: Mapping[str, Any],
    *,
    value_format: str | None,
    key_format: str | None = None,
    timeout: float | None,
    delivery: TableDelivery | None = None,
) -> TableDelivery:
    """Send a table with the parts of a producer; `columns` are the names that the caller gave.

    *delivery*, an empty one, gets the rows and is returned: a caller that has it misses no row when it is interrupted.
    """
    if timeout is not None:
        check_timeout(timeout)
    delivery = TableDelivery(topic) if delivery is None else delivery
    waits = TableWaits(timeout=timeout, clock=engine.clock)
    send = partial(
        _send_table,
        engine,
        find_route,
        delivery,
        table,
        columns,
        value_format=value_format,
        key_format=key_format,
        waits=waits,
    )
    if engine.interceptors is None:
        return send()
    interceptors = TableInterceptors(engine.interceptors, topic, formatted=value_format is not None)
    try:
        send(intercept=interceptors.on_send)
    except Exception as error:
        taken = error.delivery if isinstance(error, OttlaError) else None
        interceptors.report(taken if isinstance(taken, TableDelivery) else None, error)
        raise
    interceptors.report(delivery)
    return delivery


def _send_table(
    engine: Engine,
    find_route: FindRoute,
    delivery: TableDelivery,
    table: Any,
    columns: Mapping[str, Any],
    *,
    value_format: str | None,
    key_format: str | None,
    waits: TableWaits,
    intercept: Callable[[ProducerRows], ProducerRows] | None = None,
) -> TableDelivery:
    queueing, plugins, topic = engine.queueing, engine.plugins, delivery.topic
    columns, headers = take_constant_headers(columns)
    # First, because a stream can be opened only once.
    route = waits.of(lambda: find_route(topic, timeout=waits.timeout))
    given = stream = open_stream(table)
    sizes = TableSizes.of(engine.config.batching)
    formatted = None
    if value_format is not None:
        columns = with_other_columns(stream.schema, columns)
    if key_format is not None:
        # Before the interceptors, which get keys as bytes.
        given = stream = keyed = _formatted(engine, topic, given, "key", columns, key_format, sizes=sizes, waits=waits)
        columns = {**columns, "key": keyed.name}
    if value_format is not None:
        stream = formatted = _formatted(engine, topic, given, "value", columns, value_format, sizes=sizes, waits=waits)
        columns = {**columns, "value": formatted.name}
    choice = choose(stream.schema, **columns)
    if intercept is not None:
        stream = Intercepted(
            stream=given,
            topic=topic,
            choice=choice,
            formatted=formatted,
            headers=headers,
            intercept=intercept,
            max_bytes=sizes.chunk,
        )
        choice = INTERCEPTED
    elif headers:
        stream = with_headers = WithHeaders(stream=stream, headers=headers, max_bytes=sizes.chunk)
        choice = with_headers.choice(choice)
    sender = TableSender(
        queue=queueing.accumulator.appender,
        routes=queueing.routes,
        partitioner=queueing.partitioner,
        encoder=plugins.encoder,
        seal=None if plugins.compressor is None else queueing.sealer.seal_columns,
        find_route=find_route,
        sizes=sizes,
        clock=engine.clock,
    )
    return sender.send(topic, route, stream, choice, waits=waits, delivery=delivery)


def send_sealed(engine: Engine, find_route: FindRoute, batch: SealedBatch) -> TableDelivery:
    """Queue a batch that a `TableSealer` made."""
    if not isinstance(batch, SealedBatch):
        raise InvalidRecordError(
            f"send_sealed takes a SealedBatch, one of the `batches` that TableSealer.seal returns, not "
            f"{type(batch).__name__}"
        )
    topic, partition, section = batch.topic, batch.partition, batch.section
    queueing, max_bytes = engine.queueing, engine.config.batching.max_request_size
    size = min(section.wire_size, section.plain_size + HEADER_SIZE)  # a codec may make a record a little larger
    if size > max_bytes:
        raise RecordTooLargeError(
            f"a sealed batch for topic {topic!r} has {size} bytes, above max.request.size: {max_bytes}; "
            "seal with the settings of the producer that sends"
        )
    if section.codec_id not in (NONE, queueing.sealer.codec_id):
        raise InvalidRecordError(
            f"a sealed batch for topic {topic!r} is compressed with codec {section.codec_id}, and compression.type is "
            f"codec {queueing.sealer.codec_id}: seal with the settings of the producer that sends"
        )
    if partition < 0:
        raise InvalidRecordError(f"a sealed batch for topic {topic!r} is for partition {partition}")
    started_at = engine.clock()
    route = queueing.routes.known.get(topic) or find_route(topic)
    if partition >= route.view.partitions:
        queueing.routes.await_partition(topic, partition, waited=engine.clock() - started_at)
    queued = queueing.accumulator.appender.enqueue(
        topic, partition, sealed_columns(section), sealed=section, waited=engine.clock() - started_at
    )
    delivery = TableDelivery(topic)
    delivery.add(queued, offset=delivery.begin_chunk(section.count), rows=range(section.count))
    return delivery


def _formatted(
    engine: Engine,
    topic: str,
    stream: Any,
    part: str,
    columns: Mapping[str, Any],
    name: str,
    *,
    sizes: TableSizes,
    waits: TableWaits,
) -> Formatted:
    """The stream with the *part* of the record, "value" or "key", that the format *name* makes of its columns."""
    source = columns[part]
    if source is ...:
        source = "key" if "key" in stream.schema.names else None
    if source is None:
        raise InvalidRecordError(f"{part}=None, {part}_format={name!r}: name the columns that the {part} is made of")
    formats = engine.plugins.value_formats if part == "value" else engine.plugins.key_formats
    return Formatted(
        stream=stream,
        topic=topic,
        part=part,
        format=name,
        serializer=formats.of(name),
        source=source if isinstance(source, str) else tuple(source),
        max_bytes=sizes.chunk,
        max_block=engine.config.batching.max_block,
        waits=waits,
    )
