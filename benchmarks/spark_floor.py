"""The minimum work of a sink in Python that sends records: `format("discards")`.

It does what Ottla's sink does, with the same encoder and codec, except what needs Kafka: it writes the record batches
to a socket whose other end discards them. It waits for no acknowledgement and keeps no record for a retry.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from spark_frames import Direction

from ottla.tables.sealed import TableSealer
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.columns import ColumnPositions, find_columns
from ottla_spark.sink.records import RowPlace, by_topic, records_of
from ottla_spark.sink.refused_rows import RefusedRows
from ottla_spark.sink.row_buffer import RowBuffer, TopicTable
from ottla_spark.worker.garbage_collection import reduce_collection
from ottla_spark.worker.tcp_quickack import with_tcp_quickack

DISCARDS: Final = Direction(name="the floor", format="discards", to_kafka=False)
ADDRESS: Final = "address"
PARTITIONS: Final = "partitions"
SECONDS: Final = 60.0


class Discards(DataSource):
    """Options are those of `format("ottla")`, the address to write to, and the number of the topic's partitions."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return DISCARDS.format

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch."""
        given = dict(self.options)
        address, partitions = given.pop(ADDRESS), int(given.pop(PARTITIONS))
        problems: list[str] = []
        options = read_options(given, problems=problems)
        columns = find_columns(schema, topic=options.topic, problems=problems, formats=options.formats)
        if problems:
            raise ValueError(problems)
        return DiscardingWriter(options, columns, address=address, partitions=partitions)


class DiscardingWriter(DataSourceArrowWriter):
    """Encode, compress and send a task's rows; `commit` and `abort` do nothing."""

    def __init__(self, options: WriteOptions, columns: ColumnPositions, *, address: str, partitions: int) -> None:
        self._options = options
        self._columns = columns
        self._address = address
        self._partitions = partitions

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send all rows, in tables as large as those of Ottla's sink."""
        reduce_collection()
        topic, (host, port) = str(self._options.topic), self._address.split(":")
        refused = RefusedRows(None, task="the task")
        with (
            TableSealer(self._options.producer, {topic: self._partitions}) as sealer,
            socket.create_connection((host, int(port)), timeout=SECONDS) as discarding,
        ):

            def send(table: TopicTable) -> Mapping[int, Any]:
                sealed = sealer.seal(table.topic, table.table, **table.parts)
                for batch in sealed.batches:
                    for chunk in batch.sealed.wire_chunks():
                        discarding.sendall(chunk)
                return sealed.refused

            tables = RowBuffer(send, refused)
            place = RowPlace(task="the task", rows_before=0)
            for batch in with_tcp_quickack(iterator):
                records, _refused, _headers = records_of(batch, self._columns, options=self._options)
                for rows in by_topic(records, topic=topic, indexes=None):
                    tables.put(rows, place)
            tables.send_all()
        return WriterCommitMessage()


@contextmanager
def discarding_address() -> Iterator[str]:
    """The address of a server that reads everything and keeps nothing, while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_discard_all, args=(server,), daemon=True).start()
        host, port = server.getsockname()
        yield f"{host}:{port}"


def _discard_all(server: socket.socket) -> None:
    with suppress(OSError):  # the server was closed
        while True:
            connection, _address = server.accept()
            threading.Thread(target=_discard, args=(connection,), daemon=True).start()


def _discard(connection: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    with connection, suppress(OSError):
        while connection.recv_into(buffer):
            pass
