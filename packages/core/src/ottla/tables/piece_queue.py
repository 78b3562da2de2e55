"""The queueing of a table's pieces in their order, after their compression; pieces that cannot be queued fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.concurrency import signals
from ottla.errors import (
    DeliveryError,
    InvalidRecordError,
    PluginError,
    SerializationError,
    TableReadError,
    counted,
    were,
)
from ottla.errors.plugin_origin import text_of
from ottla.interfaces import Columns
from ottla.recordbatch.finished_columns import refused_columns
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.tables.compression_pool import CompressionPool, PartitionRows, SealedPiece, threads
from ottla.tables.table_delivery import TableDelivery, unassigned
from ottla.tables.table_waits import TableWaits


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
        check: Callable[[], object] | None = None,
        on_queued: Callable[[ProducerBatch], object] | None = None,
    ) -> ProducerBatch:
        """Queue a batch, unless *check* raises; *sealed* is its encoded form, if it was sealed.

        The call may wait *timeout* seconds in all (`max.block.ms` if None), of which *waited* are over.
        No signal handler runs between queueing and *on_queued*, which gets the batch.
        """

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        """Fail records that could not be queued."""


FindTopics = Callable[[int, Sequence[int]], Iterable[tuple[str, Sequence[int]]]]
"""A function that splits rows of the chunk that begins at an offset by their topics."""


class PieceQueue:
    """The pieces of one table on their way into *queue*; `delivery` is that of the rows that were taken.

    *topics* splits rows that are in no piece by topic. Unless *invalid_rows_count*, rows that cannot be records do not
    count among the failed records of the producer, which fail its transaction.
    """

    def __init__(
        self,
        queue: BatchQueue,
        seal: Callable[[Columns], SealedRecords] | None,
        *,
        delivery: TableDelivery,
        waits: TableWaits,
        topics: FindTopics,
        invalid_rows_count: bool = True,
    ) -> None:
        self.delivery = delivery
        self.waits = waits
        self._queue = queue
        self._pool = CompressionPool(seal, threads=threads())
        self._topics = topics
        self._invalid_rows_count = invalid_rows_count

    def run(self, queue_rows: Callable[[], object]) -> None:
        """Call *queue_rows*, then queue what is left. When it raises, rows that were taken and not queued have failed.

        It may be called once.
        """
        try:
            try:
                queue_rows()
            except (TableReadError, SerializationError, PluginError):  # rows before the error are sent
                self.rest()
                raise
            self.rest()
        except BaseException as cause:
            try:
                self._fail_the_rest(cause)
            except BaseException:
                self._fail_the_rest(cause)  # a signal handler may have raised as the first call began: Ctrl-C twice
                raise
            raise
        finally:
            self._pool.close()  # after the rows have failed: it waits for codecs, and a signal handler raises then

    def put(self, piece: PartitionRows) -> None:
        """Compress a piece, and queue pieces that are compressed."""
        self._enqueue_all(self._pool.put(piece))

    def rest(self) -> None:
        """Queue all other pieces."""
        self._enqueue_all(self._pool.rest())

    def refuse(self, topic: str, offset: int, errors: Mapping[int, InvalidRecordError]) -> None:
        """Fail rows that cannot be records, each with its error; their numbers count from *offset*."""
        if not errors:
            return
        rows = sorted(errors)
        failures = {place: _undelivered(topic, offset + row, errors[row]) for place, row in enumerate(rows)}
        failed = Failed(error=failures[0], record_errors=failures)
        self._fail(topic, offset, rows, failed, counts=self._invalid_rows_count)

    def _enqueue_all(self, pieces: Iterator[SealedPiece]) -> None:
        for finished in pieces:
            piece = finished.piece
            if finished.error is not None:
                failed = _failure(piece.topic, piece.rows, finished.error, "it could not be encoded: ")
                self._fail(piece.topic, piece.offset, piece.rows, failed)
                continue
            self.waits.of(partial(self._enqueue, finished))
            self.waits.note_queued()
            self.delivery.report_progress()

    def _enqueue(self, finished: SealedPiece) -> ProducerBatch:
        piece = finished.piece
        return self._queue.enqueue(
            piece.topic,
            piece.partition,
            piece.columns,
            sealed=finished.sealed,
            waited=self.waits.seconds,
            timeout=self.waits.timeout,
            check=self.waits.check,
            on_queued=partial(self.delivery.add, offset=piece.offset, rows=piece.rows),
        )

    def _fail_the_rest(self, cause: BaseException) -> None:
        """Fail the rows that were taken and are not queued; the raised *cause* reports them, so `flush` need not."""
        with signals.Deferred():  # one handler has raised perhaps, and another one would leave rows without an outcome
            for offset, every in unassigned(self.delivery):
                for topic, rows in self._topics(offset, every):
                    self._fail(topic, offset, rows, _failure(topic, rows, cause), retrieved=True)

    def _fail(
        self,
        topic: str,
        offset: int,
        rows: Sequence[int],
        failed: Failed,
        *,
        retrieved: bool = False,
        counts: bool = True,
    ) -> None:
        columns = refused_columns(len(rows))
        with signals.Deferred():  # an interrupt in between would have the rows fail twice
            if self.waits.given_up or not counts:  # these would fail a transaction that they are not in
                batch = refused_batch(topic, columns, failed)
            else:
                batch = self._queue.refuse(topic, columns, failed)
            self.delivery.add(batch, offset=offset, rows=rows)
            if retrieved:
                batch.failed_reads.read_all()


def refused_batch(topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
    """A failed batch of records that no producer counts."""
    batch = ProducerBatch(topic=topic, partition=UNASSIGNED, columns=columns, now=0.0)
    batch.complete_and_call_back(failed)
    return batch


def _failure(topic: str, rows: Sequence[int], cause: BaseException, why: str = "") -> Failed:
    reason = (text_of(cause) or type(cause).__name__) if isinstance(cause, Exception) else f"interrupted by {cause!r}"
    error = DeliveryError(
        f"{counted(len(rows), 'row')} for topic {topic!r} {were(len(rows))} not queued: {why}{reason}",
        topic=topic,
        partition=UNASSIGNED,
        attempts=0,
        possibly_persisted=False,
    )
    error.__cause__ = cause
    return Failed(error=error)


def _undelivered(topic: str, row: int, cause: InvalidRecordError) -> DeliveryError:
    error = DeliveryError(
        f"row {row} for topic {topic!r} was not queued: {cause}",
        topic=topic,
        partition=UNASSIGNED,
        attempts=0,
        possibly_persisted=False,
    )
    error.__cause__ = cause
    return error
