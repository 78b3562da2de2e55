"""Tables sealed into batches in one process and sent from another, which neither encodes nor compresses them.

For a shuffle, for instance: rows become batches where they are, and the process that owns a partition numbers and sends
its batches.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType, TracebackType
from typing import Any, Final, Self

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.topic_routes import Route
from ottla.errors import DeliveryError, IllegalStateError, TopicUnavailableError
from ottla.errors.secret import hide_settings
from ottla.interfaces import Columns, Headers, TopicView
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose_plugins
from ottla.recordbatch.sealed_records import SealedBatch, SealedRecords
from ottla.tables.columns import UsedColumns
from ottla.tables.columns import choose as choose_columns
from ottla.tables.constant_headers import WithHeaders, take_constant_headers
from ottla.tables.piece_queue import refused_batch
from ottla.tables.sending import BATCH_BYTES, TableSender, TableSizes
from ottla.tables.sources import close_stream, open_stream


@attrs.frozen(kw_only=True, eq=False)
class SealedTable:
    """The batches of a table, in the order to send them, and the errors of rows that are in no batch, by row."""

    batches: Sequence[SealedBatch]
    refused: Mapping[int, DeliveryError]


class TableSealer:
    """Seals tables into batches as a producer with these settings would. For one thread at a time.

    Close it when it is not used any more; a `with` block does. Without that, its plugins are closed when it is dropped.
    *partitions* gives the number of partitions of each topic. Batches have at most *max_bytes* bytes before
    compression, unless a single record is larger. Raises ConfigError or PluginError, and IllegalStateError for
    interceptors, which could not get the outcome of the rows.
    """

    def __init__(
        self, config: Mapping[str, Any], /, partitions: Mapping[str, int], *, max_bytes: int = BATCH_BYTES
    ) -> None:
        if empty := [topic for topic, count in partitions.items() if count < 1]:
            raise ValueError(f"these topics have no partition, but need at least one: {', '.join(empty)}")
        config = hide_settings(config)
        objects = PluginObjects(name_client=lambda configured: configured)
        chosen, plugins = choose_plugins(config, registry=Registry(), objects=objects)
        self._close = weakref.finalize(self, plugins.close)
        self._close.atexit = False  # no thread can be started then
        if plugins.interceptors:
            raise IllegalStateError(
                "interceptors cannot get the outcome of batches that another producer sends: leave "
                "interceptor.classes out"
            )
        sizes = TableSizes.of(chosen.batching)
        sealer = Sealer(plugins.compressor, level=plugins.compression_level)
        self._queue = _Queue()
        self._routes = _Routes({topic: _route(topic, count) for topic, count in partitions.items()})
        self._sender = TableSender(
            queue=self._queue,
            routes=self._routes,
            partitioner=PartitionerAbilities.of(plugins.partitioner),
            encoder=plugins.encoder,
            seal=None if plugins.compressor is None else sealer.seal_columns,
            find_route=self._routes.find,
            sizes=attrs.evolve(sizes, batch=max(1, min(sizes.batch, max_bytes))),
        )

    def seal(
        self,
        topic: str,
        table: Any,
        *,
        value: str | None = "value",
        key: str | EllipsisType | None = ...,
        headers: str | Headers | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
    ) -> SealedTable:
        """Seal the rows of *table*, given as to `Producer.send_table`, without a value format.

        Raises InvalidRecordError if the table as a whole cannot be sent, TopicUnavailableError for a topic that is not
        in the *partitions* of the sealer.
        """
        route = self._routes.find(topic)
        columns, constant = take_constant_headers(
            {"value": value, "key": key, "headers": headers, "partition": partition, "timestamp": timestamp}
        )
        opened = stream = open_stream(table, UsedColumns(columns=columns))
        try:
            choice = choose_columns(stream.schema, **columns)
            if constant:
                stream = with_headers = WithHeaders(stream=stream, headers=constant, max_bytes=self._sender.sizes.chunk)
                choice = with_headers.choice(choice)
            delivery = self._sender.send(topic, route, stream, choice)
        finally:
            batches = self._queue.take()
            close_stream(opened)
        return SealedTable(batches=batches, refused=delivery.failed_rows())

    def close(self) -> None:
        """Close the plugins. Called again, it does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_plain: Final = Sealer(None)


class _Queue:
    """Keeps the batches that a producer would send."""

    def __init__(self) -> None:
        self._batches: list[SealedBatch] = []

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
        if sealed is None:
            sealed = _plain.seal_columns(columns)
        whole = attrs.evolve(sealed, chunks=[b"".join(sealed.chunks)])  # memoryviews cannot be pickled
        self._batches.append(SealedBatch(topic=topic, partition=partition, sealed=whole))
        batch = ProducerBatch(topic=topic, partition=partition, columns=columns, now=0.0)
        if on_queued is not None:
            on_queued(batch)
        return batch

    def refuse(self, topic: str, columns: Columns, failed: Failed) -> ProducerBatch:
        return refused_batch(topic, columns, failed)

    def take(self) -> Sequence[SealedBatch]:
        """Return the batches since the last call."""
        taken, self._batches = self._batches, []
        return taken


@attrs.frozen
class _Routes:
    """Routes of topics that do not change."""

    known: Mapping[str, Route]

    def find(self, topic: str, *, waited: float = 0.0, timeout: float | None = None) -> Route:
        route = self.known.get(topic)
        if route is None:
            raise TopicUnavailableError(f"topic {topic!r} is not in the given topics: {', '.join(self.known)}")
        return route

    def await_partition(
        self, topic: str, partition: int, *, waited: float = 0.0, timeout: float | None = None
    ) -> Route:
        raise TopicUnavailableError(f"topic {topic!r} has no partition {partition}, according to the given topics")


def _route(topic: str, partitions: int) -> Route:
    queues = TopicQueues(topic)
    queues.view = TopicView(partitions=partitions, available=range(partitions), queued_bytes=[0] * partitions)
    return Route(queues)
