"""Queueing of records without blocking, for callers on an event loop.

A record waits for metadata of its topic, for a partition that its topic does not have yet, or for memory.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ottla.accumulator.batch import UNASSIGNED, NewRecord, ProducerBatch, size_of
from ottla.accumulator.io_loop_interface import EventLoop
from ottla.accumulator.keyed_appender import KeyedAppender
from ottla.accumulator.partition_appender import PartitionAppender
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.partitioner_calls import ask_partitioner
from ottla.accumulator.record_appender import MemoryWait, Placed, RecordAppender
from ottla.accumulator.topic_routes import Route, Routes
from ottla.network.nonblocking_metadata_wait import MetadataWait

Wait: TypeAlias = MemoryWait | MetadataWait
"""The wait of a record; `on_ready` notifies when `append` should be called again, `cancel` ends the wait."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TryAppender:
    """Chooses partitions as `Producer.send` does, and never blocks. For any thread.

    *keyed*: see `Queueing.keyed_appender`. *event_loop*: see `IoLoop.batch_started`.
    """

    routes: Routes
    appender: PartitionAppender
    keyed: KeyedAppender | None
    partitioner: PartitionerAbilities
    event_loop: EventLoop | None = None

    def append(
        self,
        topic: str,
        partition: int | None,
        record: NewRecord,
        *,
        wait: Wait | None = None,
        transaction: int | None = None,
    ) -> Placed | Wait:
        """Queue a record, or return what it waits for; *partition* None: the partitioner chooses.

        *transaction*: see `RecordAppender.append`.

        Call it again with the same arguments and that *wait* once it is ready, or `cancel` the wait.
        """
        route = self.routes.try_find(topic, partition=partition)
        memory = wait if isinstance(wait, MemoryWait) else None
        if isinstance(route, MetadataWait):
            if memory is not None:
                memory.cancel()
            return route
        if memory is None:
            return self.append_to(route, topic, record, partition, transaction=transaction)
        placed = self._appender_of(memory).try_append(
            topic, memory.queue.partition, record, size_of(record), wait=memory, event_loop=self.event_loop
        )
        return self._note_sticky(partition, record, route, placed)

    def append_to(
        self,
        route: Route,
        topic: str,
        record: NewRecord,
        partition: int | None = None,
        *,
        transaction: int | None = None,
    ) -> Placed | MemoryWait:
        """Queue a record of a topic whose route is known, or return its wait for memory."""
        size = size_of(record)
        if partition is not None:
            if self.keyed is not None:
                self.keyed.assign_partitions(route.topic)  # the records of the unassigned batch came first
            return self.appender.try_append(
                topic, partition, record, size, event_loop=self.event_loop, transaction=transaction
            )
        if self._is_sticky(record) and route.unassigned.open is None:
            batch = route.sticky_batch
            index = None if batch is None else batch.append(*record)
            if batch is not None and index is not None:
                return batch, index
            chosen = self.routes.next_sticky_partition(topic, route)
        elif self.keyed is not None:
            return self.keyed.try_append(
                topic, UNASSIGNED, record, size, event_loop=self.event_loop, transaction=transaction
            )
        else:
            chosen = self.partitioner.choose(topic, record, route.view)
        if self.partitioner.on_new_batch is not None:
            opened = self.appender.append_to_open(topic, chosen, record, size, transaction=transaction)
            if opened is not None:
                return opened
            ask_partitioner(self.partitioner.on_new_batch, topic, chosen, route.view)
            chosen = self.partitioner.choose(topic, record, route.view)
        placed = self.appender.try_append(
            topic, chosen, record, size, event_loop=self.event_loop, transaction=transaction
        )
        return self._note_sticky(None, record, route, placed)

    def open_batch(self, route: Route, key: bytes | None) -> ProducerBatch | None:
        """The batch for a record without a partition, if there is one that needs no call of the partitioner."""
        if self.partitioner.sticky and (key is None or self.partitioner.ignores_keys) and route.unassigned.open is None:
            return route.sticky_batch
        return None if self.keyed is None else route.unassigned.open

    def time_out(self, wait: Wait, *, waited: float = 0.0, timeout: float | None = None) -> None:
        """End a wait whose time has run out: raises what `Producer.send` raises then; returns if it is over."""
        if isinstance(wait, MetadataWait):
            self.routes.time_out(wait, timeout=timeout)
        else:
            self._appender_of(wait).time_out(wait, waited=waited, timeout=timeout)

    def _appender_of(self, wait: MemoryWait) -> RecordAppender:
        """The appender in which a record waits: each closes its own batches in its own way, to free their memory."""
        return self.keyed if self.keyed is not None and wait.queue.partition == UNASSIGNED else self.appender

    def _is_sticky(self, record: NewRecord) -> bool:
        return self.partitioner.sticky and (record[0] is None or self.partitioner.ignores_keys)

    def _note_sticky(
        self, partition: int | None, record: NewRecord, route: Route, placed: Placed | MemoryWait
    ) -> Placed | MemoryWait:
        """If the record was queued by the sticky partitioner, make its batch the sticky batch."""
        if not isinstance(placed, MemoryWait) and partition is None and self._is_sticky(record):
            batch, _index = placed
            if batch.partition != UNASSIGNED:
                route.set_sticky_batch(batch)
        return placed
