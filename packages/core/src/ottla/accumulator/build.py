"""Construction of the parts that records pass until they are sealed; the sender is built elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.io_loop import IoLoop
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.routes import Routes
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.sequences import Sequences
from ottla.config import ProducerConfig
from ottla.metrics import Counters
from ottla.network.backoff import Backoff
from ottla.network.metadata import Metadata
from ottla.plugins.selection import Plugins

TO_SEAL: Final = 0.000_5
"""Seconds before the end of its linger at which a batch is sealed and put into a request, which takes about as long.

So the request leaves within `linger.ms`, the most that a batch waits; of a short linger, a tenth is used for that.
"""


@attrs.frozen(kw_only=True)
class Queueing:
    """A producer's parts from the name of a topic to a sealed batch.

    `deals`: records with keys wait in unassigned batches until many of them are partitioned at once.
    """

    routes: Routes
    accumulator: RecordAccumulator
    pool: BufferPool
    sealer: Sealer
    counters: Counters
    deals: bool

    @classmethod
    def of(
        cls,
        config: ProducerConfig,
        plugins: Plugins,
        *,
        metadata: Metadata,
        sealer: Sealer,
        backoff: Backoff,
        slow: Callable[[], frozenset[int]] = frozenset,
        may_deal: bool = True,
        sequences: Sequences | None = None,
        admit: Callable[[], object] | None = None,
        io_loop: IoLoop,
        clock: Callable[[], float],
    ) -> Self:
        """Build the parts for a configuration; *metadata* reports every change to the routes."""
        batching = config.batching
        counters = Counters(samples=config.observation.samples, window=config.observation.window)
        pool = BufferPool(batching.buffer_memory, clock=clock, counters=counters)
        sizes = BatchSizes(
            target=min(batching.batch_size, batching.max_request_size),
            max_bytes=batching.max_request_size,
            growing=batching.growth,
            ratio=sealer.ratio,
            record_cost=plugins.encoder.record_cost,
        )
        key_partitioner = _dealer(plugins, sizes) if may_deal else None
        accumulator = RecordAccumulator(
            sizes=sizes,
            linger=batching.linger - min(TO_SEAL, batching.linger / 10),
            delivery_timeout=config.delivery.delivery_timeout,
            max_block=batching.max_block,
            retry_backoff=backoff,
            pool=pool,
            columns=plugins.columns,
            seal=sealer.seal,
            key_partitioner=key_partitioner,
            sequences=sequences,
            admit=admit,
            counters=counters,
            io_loop=io_loop,
            clock=clock,
        )
        routes = Routes(
            metadata=metadata,
            appender=accumulator.appender,
            partitioner=plugins.partitioner,
            slow=slow,
            max_block=batching.max_block,
        )
        metadata.on_change = routes.forget
        accumulator.on_failure(routes.let_go_of_failed)
        return cls(
            routes=routes,
            accumulator=accumulator,
            pool=pool,
            sealer=sealer,
            counters=counters,
            deals=key_partitioner is not None,
        )


def _dealer(plugins: Plugins, sizes: BatchSizes) -> KeyPartitioner | None:
    """The key partitioner, for many keys at once; None: the plugin chooses partitions one by one."""
    partitioner = plugins.partitioner
    partition_column = getattr(partitioner, "partition_column", None)
    one_by_one = getattr(partitioner, "ignores_keys", False) or hasattr(partitioner, "on_new_batch")
    if partition_column is None or one_by_one or _hashes_quickly(plugins):
        return None
    return KeyPartitioner(
        partition=partitioner.partition,
        partition_column=partition_column,
        appended=getattr(partitioner, "appended", None),
        sizes=sizes,
        columns=plugins.columns,
    )


def _hashes_quickly(plugins: Plugins) -> bool:
    """Return whether the encoder finds the partition of each key at no cost, as its record is sent."""
    return hasattr(plugins.encoder, "quick_send") and getattr(plugins.partitioner, "hashes", None) == "murmur2"
