"""The work of a task: send its rows, and wait until brokers have acknowledged all of them.

It is the same for a batch write and for a micro-batch of a stream. Both are at least once: a task that Spark runs again
sends everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter

import pyarrow as pa
from pyspark import TaskContext

from ottla import DeliveryError, InvalidRecordError, Producer
from ottla_spark.errors import WriteError
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions
from ottla_spark.sink.in_flight import InFlightTables
from ottla_spark.sink.records import RowPlace, size_of, topic_rows
from ottla_spark.sink.refused_rows import RefusedRows, is_too_large
from ottla_spark.sink.row_buffer import RowBuffer, TopicTable
from ottla_spark.sink.task_written import TaskWritten
from ottla_spark.worker import producer_cache
from ottla_spark.worker.garbage_collection import reduce_collection
from ottla_spark.worker.tcp_quickack import with_tcp_quickack
from ottla_spark.worker.traces import task_span


def write_rows(batches: Iterator[pa.RecordBatch], *, options: WriteOptions, columns: ColumnPositions) -> TaskWritten:
    """Send a task's rows with this worker's producer and wait for them. Raises WriteError."""
    options.check_version()
    with (
        task_span(options.trace, topic=options.topic),
        producer_cache.BorrowedProducer(options.producer, idle=options.idle) as borrowed,
    ):
        return send_rows(batches, borrowed.producer, options=options, columns=columns, task=task_name())


def send_rows(
    batches: Iterator[pa.RecordBatch],
    producer: Callable[[], Producer],
    *,
    options: WriteOptions,
    columns: ColumnPositions,
    task: str,
    transactional: bool = False,
) -> TaskWritten:
    """Send all rows and wait for them; *producer* is called at the first row. Raises WriteError.

    If it is *transactional*, a row that brokers refuse fails the task in any case: the transaction is to be aborted.
    """
    reduce_collection()
    in_flight = InFlightTables(task=task)
    refused = RefusedRows(options.tolerance, task=task)
    row_buffer: RowBuffer | None = None
    rows = size = 0
    reading = sending = 0.0
    started = perf_counter()
    for batch in with_tcp_quickack(batches):
        read = perf_counter()
        reading += read - started
        if batch.num_rows:
            if row_buffer is None:
                send = partial(_send, producer(), in_flight, refused=refused, transactional=transactional)
                row_buffer = RowBuffer(send, refused)
            place = RowPlace(task=task, rows_before=rows)
            valid, by_topic = topic_rows(batch, columns, options=options, place=place, refused=refused)
            for found in by_topic:
                row_buffer.put(found, place)
            row_buffer.send_many_dead_letters()
            in_flight.check_completed()
            rows, size = rows + batch.num_rows, size + size_of(valid)
        started = perf_counter()
        sending += started - read
    if row_buffer is None:
        return TaskWritten(reading=reading)
    row_buffer.send_all()
    sent = perf_counter()
    in_flight.wait()
    while row_buffer.send_dead_letters():  # of rows that only brokers refused
        in_flight.wait()
    waiting = perf_counter() - sent
    records_sent = rows - refused.skipped
    if in_flight.records != records_sent:
        raise WriteError(f"{task}: {records_sent} rows were sent, but {in_flight.records} were acknowledged")
    refused.log(rows)
    return TaskWritten(
        records=records_sent,
        bytes=size,
        partitions=dict(in_flight.partitions),
        refused=refused.count,
        reading=reading,
        sending=sending + sent - started,
        waiting=waiting,
        since_first=0.0 if in_flight.first_at is None else perf_counter() - in_flight.first_at,
    )


def _send(
    producer: Producer, in_flight: InFlightTables, table: TopicTable, *, refused: RefusedRows, transactional: bool
) -> Mapping[int, DeliveryError]:
    columns = {"value": "value", **table.parts}
    if transactional:
        # A row that is refused here does not fail the transaction, which would end the call with an error that names
        # the first row. It fails its task below, or is tolerated.
        delivery = producer._table_calls.send_tolerantly(table.topic, table.table, columns)
    else:
        delivery = producer.send_table(table.topic, table.table, **columns)
    invalid = {
        row: error for row, error in delivery.failed_rows().items() if isinstance(error.__cause__, InvalidRecordError)
    }

    def refuse(row: int, error: DeliveryError) -> bool:
        """Refuse a row that is too large for a broker or its topic. Keeps the table until its rows have an outcome."""
        if row in invalid:  # the caller gets it, and refuses it
            return True
        if transactional or table.topic == refused.dead_letter_topic or not is_too_large(error):
            return False
        refused.add(table.row(row, reason=str(error), cause=error))
        return True

    in_flight.put(delivery, table.names, refuse=refuse if refused.tolerated else None)
    return invalid


def task_name() -> str:
    """Return the task's name, as in Spark's UI."""
    context = TaskContext.get()
    return f"Spark partition {context.partitionId()}" if context is not None else "the task"
