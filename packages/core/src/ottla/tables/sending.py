"""Sending of a table: its stream is read in chunks, partitioned, encoded, and queued batch by batch.

All of it runs on the caller's thread, which blocks where `send` would; only compression has other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, time_ns
from typing import Any, Final, Protocol, Self

import attrs
import pyarrow.compute as pc

from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.topic_routes import Route
from ottla.concurrency import signals
from ottla.config import BatchingConfig
from ottla.errors import (
    DeliveryError,
    InvalidRecordError,
    OttlaError,
    PluginError,
    RecordTooLargeError,
    SerializationError,
    TableReadError,
    TopicUnavailableError,
    counted,
    were,
)
from ottla.interfaces import Columns, RecordEncoder, TableRows
from ottla.recordbatch.arrow import FRAME
from ottla.recordbatch.arrow_varints import sums
from ottla.recordbatch.finished_columns import refused_columns
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.objects import TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.tables.columns import ColumnChoice
from ottla.tables.compression_pool import CompressionPool, PartitionRows, SealedPiece, threads
from ottla.tables.encoder_calls import cut_rows
from ottla.tables.partitioning import RowPartitions
from ottla.tables.reading import Chunk, chunks
from ottla.tables.table_delivery import TableDelivery, unassigned
from ottla.tables.table_waits import TableWaits

BATCH_BYTES: Final = 896 * 1024
"""Target size of a table's batches: below the default limit of requests and topics, a megabyte."""

GATHERED_BYTES: Final = 512 * 1024
"""Size to which small batches of a stream are joined; with keys, for each partition."""

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of rows that are partitioned and encoded at once."""

LONE_OVERHEAD: Final = HEADER_SIZE + 21
"""Bytes that a record alone in its batch can take besides key, value and headers, as `send` counts."""


@attrs.frozen(kw_only=True)
class TableSizes:
    """Limits in bytes: a batch's records, a record alone in its batch, and the rows that are encoded at once."""

    batch: int
    record: int
    chunk: int

    @classmethod
    def of(cls, batching: BatchingConfig) -> Self:
        """The limits of a producer with these settings."""
        share = max(1, batching.buffer_memory // 4)
        requested = max(BATCH_BYTES, batching.batch_size) if batching.growth else batching.batch_size
        with_header = min(requested, batching.max_request_size)
        return cls(
            batch=max(1, min(with_header - HEADER_SIZE, share)),
            record=min(batching.max_request_size, batching.buffer_memory),
            chunk=min(CHUNK_BYTES, share),
        )


class BatchQueue(Protocol):
    """The queue for a table's batches; a producer's `PartitionAppender` is one."""

    def enqueue(
        self,
        topic: str,
        partition: int,
        columns: Columns,
        *,
        sealed: SealedRecords | None = None,
        waited: float = 0.0,
        timeout: float | None = None,
        on_queued: Callable[[ProducerBatch], object] | None = None,
    ) -> ProducerBatch:
        """Queue a batch; *sealed* is its encoded form, if it was sealed.

        The call may wait *timeout* seconds altogether, None: `max.block.ms`, and has *waited* some of them already.
        No signal handler runs between queueing and *on_queued*, which gets the batch.
        """

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        """Fail records that could not be queued."""


class KnownRoutes(Protocol):
    """The routes of the topics, as a producer has them."""

    @property
    def known(self) -> Mapping[str, Route]:
        """The routes by topic."""

    def await_partition(
        self, topic: str, partition: int, *, waited: float = 0.0, timeout: float | None = None
    ) -> Route:
        """Block until the topic has this partition; return the topic's route.

        It waits as `enqueue` does, and raises TopicUnavailableError when time runs out.
        """


class FindRoute(Protocol):
    """A function that waits for a topic's route, as `KnownRoutes.await_partition` does, and returns it."""

    def __call__(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route: ...


@attrs.frozen(kw_only=True)
class TableSender:
    """Sends a producer's tables. `seal` compresses."""

    queue: BatchQueue
    routes: KnownRoutes
    partitioner: PartitionerAbilities
    encoder: RecordEncoder
    seal: Callable[[Columns], SealedRecords] | None
    find_route: FindRoute
    sizes: TableSizes
    clock: Callable[[], float] = monotonic

    def send(
        self,
        topic: str,
        route: Route,
        stream: Any,
        choice: ColumnChoice,
        *,
        waits: TableWaits | None = None,
        delivery: TableDelivery | None = None,
    ) -> TableDelivery:
        """Queue the rows of a stream. An error after the first of them were taken has their `delivery`, and so has
        KeyboardInterrupt.

        *waits* has the time that was waited for the route. *delivery*, an empty one, gets the rows and is returned.
        """
        sending = TableSending(self, topic, route, waits=waits, delivery=delivery)
        try:
            sending.send(stream, choice)
        except KeyboardInterrupt as interrupt:
            interrupt.delivery = sending.delivery  # type: ignore[attr-defined]
            raise
        except OttlaError as error:
            if not sending.delivery.rows:
                raise
            error.delivery = sending.delivery
            error.add_note(
                f"send_table had taken {sending.delivery.rows} rows from the table; those of them that were not "
                "queued are among failed_rows() of this error's `delivery`"
            )
            raise
        return sending.delivery


class TableSending:
    """The sending of one table; `delivery` has the rows that were taken."""

    def __init__(
        self,
        sender: TableSender,
        topic: str,
        route: Route,
        *,
        waits: TableWaits | None = None,
        delivery: TableDelivery | None = None,
    ) -> None:
        self._sender = sender
        self._topic = topic
        self.route = route
        self.delivery = TableDelivery(topic) if delivery is None else delivery
        self._partitions = RowPartitions(topic, partitioner=sender.partitioner, encoder=sender.encoder)
        self._compression_pool = CompressionPool(sender.seal, threads=threads())
        self._asked_for_partitions = False
        self._waits = waits or TableWaits(timeout=None, clock=sender.clock)

    def send(self, stream: Any, choice: ColumnChoice) -> None:
        """Queue the rows of a stream. When it raises, the rows that were taken and not queued have failed."""
        max_bytes = self._sender.sizes.chunk
        gathered = min(self._sender.sizes.batch, GATHERED_BYTES)
        min_bytes = min(max_bytes, gathered * (1 if choice.key is None else self.route.view.partitions))
        try:
            try:
                for chunk in _read(chunks(stream, choice, min_bytes=min_bytes, max_bytes=max_bytes)):
                    self._send(chunk)
            except (TableReadError, SerializationError, PluginError):  # rows before the error are sent
                self._queue(self._compression_pool.rest())
                raise
            self._queue(self._compression_pool.rest())
        except BaseException as cause:
            self._fail_the_rest(cause)
            raise
        finally:
            self._compression_pool.close()

    def _send(self, chunk: Chunk) -> None:
        """Queue the rows of a chunk, in order within each partition, and refuse those that cannot be records."""
        sender, waits = self._sender, self._waits
        self.route = sender.routes.known.get(self._topic) or waits.of(
            lambda: sender.find_route(self._topic, waited=waits.seconds, timeout=waits.timeout)
        )
        offset = self.delivery.begin_chunk(chunk.count)
        refused = self._refused(chunk)
        self._refuse(offset, refused)
        kept = _kept(refused, chunk.count)
        fit = chunk if kept is None else chunk.take(kept)
        if fit.count:
            self._cut_up(offset, fit, kept)

    def _cut_up(self, offset: int, chunk: Chunk, kept: Sequence[int] | None) -> None:
        sender, view = self._sender, self.route.view
        partitions = self._partitions.of(view, chunk, size=_size(chunk) + chunk.count * FRAME)
        now_ms, times = time_ns() // 1_000_000, chunk.timestamps
        rows = TableRows(
            count=chunk.count,
            now_ms=now_ms,
            keys=chunk.keys,
            values=chunk.values,
            headers=chunk.headers,
            timestamps=times if times is None or not times.null_count else pc.fill_null(times, now_ms),
        )
        topic = self.route.topic
        max_bytes = min(sender.sizes.batch, topic.max_bytes or sender.sizes.batch)
        cuts = cut_rows(sender.encoder, rows, partitions, max_bytes=max_bytes, partitions=view.partitions)
        for partition, indexes, columns in cuts:
            if partition == UNASSIGNED:
                partition = self._partitions.sticky_partition(view, columns.size_estimate())
            if kept is not None:
                indexes = [kept[index] for index in indexes]
            self._queue(self._compression_pool.put(PartitionRows(partition, offset, indexes, columns)))

    def _queue(self, pieces: Iterator[SealedPiece]) -> None:
        for sealed in pieces:
            piece = sealed.piece
            if sealed.error is not None:
                self._fail(piece.offset, piece.rows, self._left(piece.rows, sealed.error, "it could not be encoded: "))
                continue
            self._waits.of(partial(self._enqueue, sealed))
            self._waits.note_queued()

    def _enqueue(self, sealed: SealedPiece) -> ProducerBatch:
        piece, waits = sealed.piece, self._waits
        return self._sender.queue.enqueue(
            self._topic,
            piece.partition,
            piece.columns,
            sealed=sealed.section,
            waited=waits.seconds,
            timeout=waits.timeout,
            on_queued=partial(self.delivery.add, offset=piece.offset, rows=piece.rows),
        )

    def _refused(self, chunk: Chunk) -> dict[int, InvalidRecordError]:
        """The rows that cannot be records of this topic, with their errors."""
        refused: dict[int, InvalidRecordError] = {}
        for bad, error in self._objections(chunk):
            if bad is not None:
                for index in pc.indices_nonzero(bad).to_pylist():
                    refused.setdefault(index, error(index))
        return refused

    def _objections(self, chunk: Chunk) -> Iterator[tuple[Any | None, Callable[[int], InvalidRecordError]]]:
        yield (
            chunk.bad_times,
            lambda _index: InvalidRecordError(f"its timestamp is not from 0 to {TIMESTAMP_MAX} ms"),
        )
        yield chunk.bad_headers, lambda _index: InvalidRecordError("one of its headers has no name")
        max_bytes = self._sender.sizes.record - LONE_OVERHEAD
        if _size(chunk) > max_bytes and _longest(chunk) > max_bytes:  # else no row needs a check
            sizes = sums(chunk.count, [chunk.keys, chunk.values, chunk.headers])
            yield (
                pc.greater(sizes, max_bytes),
                lambda index: RecordTooLargeError(
                    f"it has {sizes[index].as_py() + LONE_OVERHEAD} bytes, above max.request.size or buffer.memory: "
                    f"{self._sender.sizes.record}"
                ),
            )
        given = chunk.partitions
        if given is not None and given.null_count < len(given):
            span = pc.min_max(given).as_py()
            if span["max"] >= self.route.view.partitions:
                self._await_partition(span["max"])
            count = self.route.view.partitions
            if span["min"] < 0 or span["max"] >= count:
                yield (
                    pc.fill_null(pc.or_(pc.less(given, 0), pc.greater_equal(given, count)), False),
                    lambda index: InvalidRecordError(
                        f"it is for partition {given[index].as_py()} of topic {self._topic!r}, which has {count}"
                    ),
                )

    def _await_partition(self, partition: int) -> None:
        """Wait for metadata, as the topic may have more partitions by now; only once for a table."""
        if self._asked_for_partitions:
            return
        self._asked_for_partitions = True
        with suppress(TopicUnavailableError):
            routes, waits = self._sender.routes, self._waits
            self.route = waits.of(
                lambda: routes.await_partition(self._topic, partition, waited=waits.seconds, timeout=waits.timeout)
            )

    def _refuse(self, offset: int, refused: Mapping[int, InvalidRecordError]) -> None:
        if not refused:
            return
        rows = sorted(refused)
        errors = {place: self._undelivered(offset + row, refused[row]) for place, row in enumerate(rows)}
        self._fail(offset, rows, Failed(error=errors[0], record_errors=errors))

    def _fail_the_rest(self, cause: BaseException) -> None:
        """Fail the rows that were taken and are not queued; the raised *cause* reports them, so `flush` need not."""
        self._compression_pool.close()
        for offset, rows in unassigned(self.delivery):
            self._fail(offset, rows, self._left(rows, cause), retrieved=True)

    def _left(self, rows: Sequence[int], cause: BaseException, why: str = "") -> Failed:
        error = DeliveryError(
            f"{counted(len(rows), 'row')} for topic {self._topic!r} {were(len(rows))} not queued: {why}{cause}",
            topic=self._topic,
            partition=UNASSIGNED,
            attempts=0,
            possibly_persisted=False,
        )
        error.__cause__ = cause
        return Failed(error=error)

    def _fail(self, offset: int, rows: Sequence[int], failed: Failed, *, retrieved: bool = False) -> None:
        with signals.Deferred():  # an interrupt in between would have the rows fail twice
            batch = self._sender.queue.refuse(self._topic, refused_columns(len(rows)), failed)
            self.delivery.add(batch, offset=offset, rows=rows)
            if retrieved:
                for index in range(len(rows)):
                    batch.mark_error_retrieved(index)

    def _undelivered(self, row: int, cause: InvalidRecordError) -> DeliveryError:
        error = DeliveryError(
            f"row {row} for topic {self._topic!r} was not queued: {cause}",
            topic=self._topic,
            partition=UNASSIGNED,
            attempts=0,
            possibly_persisted=False,
        )
        error.__cause__ = cause
        return error


def _read(stream: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks. Raises TableReadError when the stream fails."""
    while True:
        try:
            chunk = next(stream, None)
        except (SerializationError, PluginError):
            raise
        except Exception as cause:
            raise TableReadError(f"the table's stream failed: {cause}") from cause
        if chunk is None:
            return
        yield chunk


def _parts(chunk: Chunk) -> list[Any]:
    return [column for column in (chunk.keys, chunk.values, chunk.headers) if column is not None]


def _size(chunk: Chunk) -> int:
    """The bytes of all rows, and a little more: by the offsets of the first and the last row, whatever their number.

    A small table takes 100 us in all, and each function of pyarrow.compute would take 5 us.
    """
    return sum(column.nbytes for column in _parts(chunk))


def _longest(chunk: Chunk) -> int:
    """The sum of the longest key, value and headers in bytes, which need not be of one row."""
    return sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in _parts(chunk))


def _kept(refused: Mapping[int, object], count: int) -> Sequence[int] | None:
    """The rows that were not refused; None: all."""
    return [row for row in range(count) if row not in refused] if refused else None
