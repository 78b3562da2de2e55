"""The functions behind `Producer.send_table` and `send_sealed`, which check their arguments and queue the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ottla.concurrency.cancellation import Cancellation
from ottla.config.wait_limit import check_timeout
from ottla.errors import InvalidRecordError, OttlaError, RecordTooLargeError, TableReadError
from ottla.interfaces import Header
from ottla.producer.components import Engine
from ottla.producer.interceptors import Interceptors
from ottla.producer.record_checks import check_topic_name
from ottla.producer.table_interceptors import TableInterceptors
from ottla.recordbatch.codecs import NONE
from ottla.recordbatch.finished_columns import sealed_columns
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.results import TableProgress
from ottla.tables.cancellable_stream import CancellableStream
from ottla.tables.columns import ColumnChoice, UsedColumns, check_columns, choose, with_other_columns
from ottla.tables.constant_headers import WithHeaders, in_place_of, take_constant_headers
from ottla.tables.formatting import Formatted
from ottla.tables.interception import INTERCEPTED, Intercepted
from ottla.tables.progress import ProgressCalls, check_on_progress
from ottla.tables.sending import FindRoute, TableSender, TableSizes
from ottla.tables.sources import close_stream, open_stream
from ottla.tables.table_delivery import TableDelivery, by_topic
from ottla.tables.table_waits import TableWaits
from ottla.tables.topic_column import TopicColumn
from ottla.tables.topic_sending import TopicColumnSending


def send_table(
    engine: Engine,
    find_route: FindRoute,
    topic: str | None,
    table: Any,
    columns: Mapping[str, Any],
    *,
    topic_column: str | None = None,
    value_format: str | None,
    key_format: str | None = None,
    on_progress: Callable[[TableProgress], object] | None = None,
    timeout: float | None,
    transaction: int,
    delivery: TableDelivery | None = None,
    cancellation: Cancellation | None = None,
    invalid_rows_count: bool = True,
) -> TableDelivery:
    """Send a table with the parts of a producer; `columns` are the names that the caller gave.

    *delivery*, an empty one, gets the rows and is returned: a caller that has it misses no row when it is interrupted.
    Once the *cancellation* is made, on another thread, no more rows are queued, and its error is raised. Nor are they
    once another transaction is open than that of this number. Unless *invalid_rows_count*, rows that cannot be records
    fail in the delivery alone, and do not fail the transaction.
    """
    if timeout is not None:
        check_timeout(timeout)
    if delivery is None:
        calls = None
        if on_progress is not None:
            check_on_progress(on_progress)
            calls = ProgressCalls(on_progress, clock=engine.clock)
        delivery = TableDelivery("" if topic is None else topic, topic_column=topic_column, on_progress=calls)
    columns, headers = take_constant_headers(columns)
    formats = {part: name for part, name in (("key", key_format), ("value", value_format)) if name is not None}
    sending = _Sending(
        engine=engine,
        find_route=find_route,
        topic=topic,
        by_topic=topic_column is not None,
        columns=columns,
        headers=headers,
        formats=formats,
        sizes=TableSizes.of(engine.config.batching),
        waits=TableWaits(
            timeout=timeout,
            clock=engine.clock,
            cancellation=cancellation or Cancellation(),
            permission=engine.queueing.accumulator.permission,
            transaction=transaction,
        ),
        delivery=delivery,
        invalid_rows_count=invalid_rows_count,
    )
    send = partial(sending.send, table) if topic_column is None else partial(sending.send_topics, table, topic_column)
    try:
        send()
    except Exception as error:
        sending.report(error)
        raise
    except BaseException as interrupt:  # KeyboardInterrupt, or what ends the generator that the table is
        sending.report(_interrupted(interrupt, delivery))
        raise
    finally:
        close_stream(sending.opened)  # its rows may not have been read
    sending.report()
    delivery.report_progress(last=True)
    return delivery


@attrs.define(kw_only=True, eq=False)
class _Sending:
    """One call of `send_table`.

    `columns` names no constant headers, and `formats` contains those of "key" and "value".
    """

    engine: Engine
    find_route: FindRoute
    topic: Any
    by_topic: bool
    columns: Mapping[str, Any]
    headers: Sequence[Header]
    formats: Mapping[str, str]
    sizes: TableSizes
    waits: TableWaits
    delivery: TableDelivery
    invalid_rows_count: bool
    interceptors: dict[str, TableInterceptors] = attrs.field(factory=dict)
    """Those that got rows, by topic."""
    opened: Any = None
    """The stream of the table."""

    def send(self, table: Any) -> None:
        """Send the table to the topic."""
        topic = self.topic
        # First, because a stream can be opened only once.
        route = self.waits.of(lambda: self.find_route(topic, timeout=self.waits.timeout))
        stream, choice = self._prepared(topic, self._opened(table))
        self._sender().send(topic, route, stream, choice, waits=self.waits, delivery=self.delivery)

    def send_topics(self, table: Any, name: str) -> None:
        """Send each row to the topic that its column of this name has; by default, to the topic."""
        if self.topic is not None:
            check_topic_name(self.topic)
        stream = self._opened(table, topic_column=name)
        check_columns(stream.schema, self.columns, topic=name, formatted=self.formats)
        columns = {**self.columns, "key": _key(stream.schema, self.columns)}
        column = TopicColumn(name=name, default=self.topic, columns=columns, formatted=self.formats)
        TopicColumnSending(
            self._sender(), column, prepare=self._prepared, waits=self.waits, delivery=self.delivery
        ).send(stream)

    def report(self, error: Exception | None = None) -> None:
        """Report the outcome to interceptors, once it is known; *error*: this call raises it."""
        if self.engine.interceptors is None:
            return
        if self.by_topic:
            taken = by_topic(self.delivery)
            for topic, interceptors in self.interceptors.items():
                interceptors.report(taken.get(topic), error)
            return
        made = next(iter(self.interceptors.values()), None)  # none, if the table was refused
        interceptors = made or self._made_interceptors(self.engine.interceptors, self.topic)
        delivery = error.delivery if isinstance(error, OttlaError) else None if error else self.delivery
        interceptors.report(delivery if isinstance(delivery, TableDelivery) else None, error)

    def _opened(self, table: Any, *, topic_column: str | None = None) -> Any:
        """The stream of a table, after which `columns` name all columns of a value "*"."""
        self.opened = open_stream(table, UsedColumns(columns=self.columns, topic=topic_column))
        stream = CancellableStream(self.opened, self.waits.cancellation)
        if "value" in self.formats:
            self.columns = with_other_columns(stream.schema, self.columns, topic=topic_column)
        return stream

    def _prepared(self, topic: str, stream: Any) -> tuple[Any, ColumnChoice]:
        """The stream to send for a stream of rows for one topic, and the choice of its columns."""
        given, columns, formatted = stream, self.columns, None
        set_headers: Sequence[Header] = ()
        if "key" in self.formats:
            # Before the interceptors, which get keys as bytes.
            given = stream = keyed = self._formatted(topic, given, "key", columns)
            columns, set_headers = {**columns, "key": keyed.name}, keyed.headers
        if "value" in self.formats:
            stream = formatted = self._formatted(topic, given, "value", columns)
            columns, set_headers = {**columns, "value": formatted.name}, (*set_headers, *formatted.headers)
        choice = choose(stream.schema, **columns)
        interceptors = self._intercepted(topic)
        if interceptors is not None:
            intercepted = Intercepted(
                stream=given,
                topic=topic,
                choice=choice,
                formatted=formatted,
                headers=self.headers,
                set_headers=set_headers,
                intercept=interceptors.on_send,
                max_bytes=self.sizes.chunk,
            )
            return intercepted, INTERCEPTED
        headers = in_place_of(self.headers, set_headers)
        if headers:
            with_headers = WithHeaders(
                stream=stream, headers=headers, column=choice.headers, max_bytes=self.sizes.chunk
            )
            return with_headers, with_headers.choice(choice)
        return stream, choice

    def _intercepted(self, topic: str) -> TableInterceptors | None:
        """The interceptors for rows of this topic, which are made for the first ones."""
        if self.engine.interceptors is None:
            return None
        interceptors = self.interceptors.get(topic)
        if interceptors is None:
            interceptors = self.interceptors[topic] = self._made_interceptors(self.engine.interceptors, topic)
        return interceptors

    def _made_interceptors(self, interceptors: Interceptors, topic: str) -> TableInterceptors:
        return TableInterceptors(interceptors, topic, formatted="value" in self.formats)

    def _formatted(self, topic: str, stream: Any, part: str, columns: Mapping[str, Any]) -> Formatted:
        """The stream with the *part* of the record, "value" or "key", that its format makes of its columns."""
        name, plugins = self.formats[part], self.engine.plugins
        source = _key(stream.schema, columns) if part == "key" else columns[part]
        if source is None:
            raise InvalidRecordError(
                f"{part}=None, {part}_format={name!r}: name the columns that the {part} is made of"
            )
        return Formatted(
            stream=stream,
            topic=topic,
            part=part,
            format=name,
            serializer=(plugins.value_formats if part == "value" else plugins.key_formats).of(name),
            source=source if isinstance(source, str) else tuple(source),
            max_bytes=self.sizes.chunk,
            max_block=self.engine.max_lookup,
            waits=self.waits,
        )

    def _sender(self) -> TableSender:
        queueing, plugins = self.engine.queueing, self.engine.plugins
        return TableSender(
            queue=queueing.accumulator.appender,
            routes=queueing.routes,
            partitioner=queueing.partitioner,
            encoder=plugins.encoder,
            seal=None if plugins.compressor is None else queueing.sealer.seal_columns,
            find_route=self.find_route,
            sizes=self.sizes,
            pool=queueing.pool,
            clock=self.engine.clock,
            invalid_rows_count=self.invalid_rows_count,
        )


def _interrupted(cause: BaseException, delivery: TableDelivery) -> TableReadError:
    """The outcome that interceptors get for a call that *cause* has ended; they take an Exception."""
    error = TableReadError(f"send_table read the table no further: it was interrupted by {cause!r}")
    error.__cause__ = cause
    error.delivery = delivery
    return error


def _key(schema: Any, columns: Mapping[str, Any]) -> Any:
    """The columns of the key: "key", if none is named and there is such a column."""
    if columns["key"] is not ...:
        return columns["key"]
    return "key" if "key" in schema.names else None


def send_sealed(engine: Engine, find_route: FindRoute, batch: SealedBatch, *, transaction: int) -> TableDelivery:
    """Queue a batch that a `TableSealer` made, in the transaction of this number or in none."""
    if not isinstance(batch, SealedBatch):
        raise InvalidRecordError(
            f"send_sealed takes a SealedBatch, one of the `batches` that TableSealer.seal returns, not "
            f"{type(batch).__name__}"
        )
    topic, partition, sealed = batch.topic, batch.partition, batch.sealed
    queueing, max_bytes = engine.queueing, engine.config.batching.max_request_size
    size = min(sealed.wire_size, sealed.plain_size + HEADER_SIZE)  # a codec may make a record a little larger
    if size > max_bytes:
        raise RecordTooLargeError(
            f"a sealed batch for topic {topic!r} has {size} bytes, above max.request.size: {max_bytes}; "
            "seal with the settings of the producer that sends"
        )
    if sealed.codec_id not in (NONE, queueing.sealer.codec_id):
        raise InvalidRecordError(
            f"a sealed batch for topic {topic!r} is compressed with codec {sealed.codec_id}, and compression.type is "
            f"codec {queueing.sealer.codec_id}: seal with the settings of the producer that sends"
        )
    if partition < 0:
        raise InvalidRecordError(f"a sealed batch for topic {topic!r} is for partition {partition}")
    started_at = engine.clock()
    route = queueing.routes.known.get(topic) or find_route(topic)
    if partition >= route.view.partitions:
        queueing.routes.await_partition(topic, partition, waited=engine.clock() - started_at)
    queued = queueing.accumulator.appender.enqueue(
        topic,
        partition,
        sealed_columns(sealed),
        sealed=sealed,
        waited=engine.clock() - started_at,
        check=partial(queueing.accumulator.permission.check, transaction),
    )
    delivery = TableDelivery(topic)
    delivery.add(queued, offset=delivery.begin_chunk(sealed.count), rows=range(sealed.count))
    return delivery
