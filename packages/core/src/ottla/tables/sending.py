"""Sending of a table: its stream is read in chunks, partitioned, encoded, and queued batch by batch.

All of it runs on the caller's thread, which blocks where `send` would; only compression has other threads.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic, time_ns
from typing import Any, Final, Protocol, Self, TypeVar

import attrs
import pyarrow.compute as pc

from ottla.accumulator.batch import UNASSIGNED
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.topic_routes import Route
from ottla.config import BatchingConfig
from ottla.errors import (
    InvalidRecordError,
    OttlaError,
    PluginError,
    RecordTooLargeError,
    SerializationError,
    TableReadError,
    TopicUnavailableError,
    counted,
)
from ottla.errors.notes import own_copy
from ottla.interfaces import Columns, RecordEncoder, TableRows
from ottla.recordbatch.arrow_varints import sums
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.record_limits import MAX_FRAME, RECORD_OVERHEAD, TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.tables.chunk_memory import ChunkMemory, SparePool
from ottla.tables.columns import ColumnChoice
from ottla.tables.compression_pool import PartitionRows
from ottla.tables.encoder_calls import cut_rows
from ottla.tables.partitioning import RowPartitions
from ottla.tables.piece_queue import BatchQueue, FindTopics, PieceQueue
from ottla.tables.reading import Chunk, chunks
from ottla.tables.table_delivery import TableDelivery
from ottla.tables.table_waits import TableWaits

T = TypeVar("T")

BATCH_BYTES: Final = 896 * 1024
"""Target size of a table's batches: below the default limit of requests and topics, a megabyte."""

GATHERED_BYTES: Final = 512 * 1024
"""Size to which small batches of a stream are joined; with keys, for each partition."""

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of rows that are partitioned and encoded at once, unless memory for more is reserved."""


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
    """Sends a producer's tables. `seal` compresses. Without a `pool`, no chunk is larger than usual.

    Unless `invalid_rows_count`, rows that cannot be records fail no transaction.
    """

    queue: BatchQueue
    routes: KnownRoutes
    partitioner: PartitionerAbilities
    encoder: RecordEncoder
    seal: Callable[[Columns], SealedRecords] | None
    find_route: FindRoute
    sizes: TableSizes
    pool: SparePool | None = None
    clock: Callable[[], float] = monotonic
    invalid_rows_count: bool = True

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
        KeyboardInterrupt, or SystemExit of the table's generator.

        *waits* holds the time that was waited for the route. *delivery*, an empty one, gets the rows and is returned.
        """
        delivery = TableDelivery(topic) if delivery is None else delivery
        queue = self.piece_queue(delivery, waits, topics=lambda _offset, rows: [(topic, rows)])
        sending = TableSending(self, topic, route, queue)
        return with_delivery(delivery, lambda: queue.run(lambda: sending.queue_rows(stream, choice)))

    def piece_queue(self, delivery: TableDelivery, waits: TableWaits | None, *, topics: FindTopics) -> PieceQueue:
        """The queue for the pieces of one table."""
        waits = waits or TableWaits(timeout=None, clock=self.clock)
        return PieceQueue(
            self.queue,
            self.seal,
            delivery=delivery,
            waits=waits,
            topics=topics,
            invalid_rows_count=self.invalid_rows_count,
        )


def with_delivery(delivery: TableDelivery, send: Callable[[], object]) -> TableDelivery:
    """Call *send* and return *delivery*. If it raises after rows were taken, the error has their delivery."""
    try:
        send()
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as interrupt:
        interrupt.delivery = delivery  # type: ignore[union-attr]
        raise
    except OttlaError as raised:
        if not delivery.rows:
            raise
        error = own_copy(raised)
    else:
        return delivery
    error.delivery = delivery
    error.add_note(
        f"send_table had taken {counted(delivery.rows, 'row')} from the table; those of them that were not queued are "
        "among failed_rows() of this error's `delivery`"
    )
    try:
        raise error  # outside the except block, so that it has the context of the original
    finally:
        del error  # it has this frame in its traceback


class NewRows(Protocol):
    """The numbers of the rows of the next chunk."""

    def __call__(self, count: int) -> tuple[int, Sequence[int] | None]:
        """Return the number of their first row and, unless they follow each other, their places from there."""


class TableSending:
    """The sending of a table's rows to one topic, through *queue*."""

    def __init__(self, sender: TableSender, topic: str, route: Route, queue: PieceQueue) -> None:
        self._sender = sender
        self._topic = topic
        self.route = route
        self._queue = queue
        self._partitions = RowPartitions(topic, partitioner=sender.partitioner, encoder=sender.encoder)
        self._asked_for_partitions = False

    def queue_rows(self, stream: Any, choice: ColumnChoice, *, new_rows: NewRows | None = None) -> None:
        """Queue the rows of a stream, for a call of `PieceQueue.run`. By default, the delivery counts them.

        *new_rows* numbers rows that it has counted already, among those of other topics.
        """
        number = new_rows or self._count
        sizes = self._sender.sizes
        gathered = min(sizes.batch, GATHERED_BYTES)
        memory = ChunkMemory(
            pool=self._sender.pool,
            usual=sizes.chunk,
            wanted=gathered * (1 if choice.key is None else self.route.view.partitions),
            max_record=sizes.record,
        )
        with memory.returned():
            for chunk in read(chunks(stream, choice, is_enough=memory.is_enough, max_bytes=sizes.chunk)):
                self._queue.waits.check()
                self._send(chunk, number)
                del chunk  # before the next one is gathered

    def _count(self, count: int) -> tuple[int, None]:
        return self._queue.delivery.begin_chunk(count), None

    def _send(self, chunk: Chunk, number: NewRows) -> None:
        """Queue the rows of a chunk, in order within each partition, and refuse those that cannot be records."""
        sender, waits = self._sender, self._queue.waits
        self.route = sender.routes.known.get(self._topic) or waits.of(
            lambda: sender.find_route(self._topic, waited=waits.seconds, timeout=waits.timeout)
        )
        offset, places = number(chunk.count)
        refused = self._refused(chunk)
        kept = _kept(refused, chunk.count)
        fit = chunk if kept is None else chunk.take(kept)
        if places is not None:
            refused = {places[row]: error for row, error in refused.items()}
            kept = places if kept is None else [places[row] for row in kept]
        self._queue.refuse(self._topic, offset, refused)
        if fit.count:
            self._cut_up(offset, fit, kept)

    def _cut_up(self, offset: int, chunk: Chunk, kept: Sequence[int] | None) -> None:
        sender, view = self._sender, self.route.view
        partitions = self._partitions.of(view, chunk, size=_size(chunk) + chunk.count * MAX_FRAME)
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
                indexes = _picked(kept, indexes)
            self._queue.put(PartitionRows(self._topic, partition, offset, indexes, columns))

    def _refused(self, chunk: Chunk) -> dict[int, InvalidRecordError]:
        """The rows that cannot be records of this topic, with their errors."""
        refused: dict[int, InvalidRecordError] = {}
        for bad, error in self._failed_checks(chunk):
            if bad is not None:
                for index in pc.indices_nonzero(bad).to_pylist():
                    refused.setdefault(index, error(index))
        return refused

    def _failed_checks(self, chunk: Chunk) -> Iterator[tuple[Any | None, Callable[[int], InvalidRecordError]]]:
        yield (
            chunk.bad_times,
            lambda _index: InvalidRecordError(f"its timestamp is not from 0 to {TIMESTAMP_MAX} ms"),
        )
        yield chunk.bad_headers, lambda _index: InvalidRecordError("one of its headers has no name")
        max_bytes = self._sender.sizes.record - RECORD_OVERHEAD
        if _size(chunk) > max_bytes and _longest(chunk) > max_bytes:  # else no row needs a check
            sizes = sums(chunk.count, [chunk.keys, chunk.values, chunk.headers])
            yield (
                pc.greater(sizes, max_bytes),
                lambda index: RecordTooLargeError(
                    f"it has {sizes[index].as_py() + RECORD_OVERHEAD} bytes, above max.request.size or buffer.memory: "
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
            routes, waits = self._sender.routes, self._queue.waits
            self.route = waits.of(
                lambda: routes.await_partition(self._topic, partition, waited=waits.seconds, timeout=waits.timeout)
            )


def read(stream: Iterator[T]) -> Iterator[T]:
    """Yield the parts of a stream. Raises TableReadError when the stream fails."""
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
        del chunk  # before the next one is read


def _parts(chunk: Chunk) -> list[Any]:
    return [column for column in (chunk.keys, chunk.values, chunk.headers) if column is not None]


def _size(chunk: Chunk) -> int:
    """The bytes of all rows, and a little more: by the offsets of the first and the last row, whatever their number.

    A small table takes 100 µs in all, and each function of pyarrow.compute would take 5 µs.
    """
    return sum(column.nbytes for column in _parts(chunk))


def _longest(chunk: Chunk) -> int:
    """The sum of the longest key, value and headers in bytes, which need not be of one row."""
    return sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in _parts(chunk))


def _picked(rows: Sequence[int], indexes: Sequence[int]) -> Sequence[int]:
    """The rows at these indexes. Without keys these follow each other, and a slice needs no object for each."""
    if isinstance(indexes, range) and indexes.step == 1:
        return array("i", rows[indexes.start : indexes.stop])
    return array("i", [rows[index] for index in indexes])


def _kept(refused: Mapping[int, object], count: int) -> Sequence[int] | None:
    """The rows that were not refused, or None if none was refused."""
    return [row for row in range(count) if row not in refused] if refused else None
