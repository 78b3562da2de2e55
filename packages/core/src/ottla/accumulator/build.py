"""Construction of the parts that records pass until they are sealed; the sender is built elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.append_permission import OpenTransaction
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.io_loop_interface import IoLoop
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.keyed_appender import KeyedAppender
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.time_settings import TimeSettings
from ottla.accumulator.topic_routes import Routes
from ottla.concurrency.environment import Environment
from ottla.config import ProducerConfig
from ottla.interfaces import RecordEncoder
from ottla.metrics import Counters
from ottla.network.backoff import Backoff
from ottla.network.metadata import Metadata
from ottla.plugins.selection import Plugins
from ottla.recordbatch.core_abilities import QuickSender

SEALING_SECONDS: Final = 0.000_5
"""Seconds before the end of its linger at which a batch is sealed and put into a request, which takes about as long.

So the request leaves within `linger.ms`, which is the longest that a batch waits. For a short linger, it is a tenth of
that.
"""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Queueing:
    """The parts of a producer that a record passes, from the lookup of its topic until its batch is sealed.

    `keyed_appender` queues records with keys until their partitions are chosen. It is None if `send` chooses them.
    """

    routes: Routes
    accumulator: RecordAccumulator
    keyed_appender: KeyedAppender | None
    partitioner: PartitionerAbilities
    pool: BufferPool
    sealer: Sealer
    counters: Counters


def build_counters(config: ProducerConfig) -> Counters:
    """Build the counters of a producer."""
    return Counters(samples=config.observation.samples, window=config.observation.window)


def build_queueing(
    config: ProducerConfig,
    plugins: Plugins,
    *,
    metadata: Metadata,
    sealer: Sealer,
    backoff: Backoff,
    slow: Callable[[], frozenset[int]] = frozenset,
    keys_may_wait: bool = True,
    sequences: Sequences,
    transactions: OpenTransaction | None = None,
    io_loop: IoLoop,
    environment: Environment,
    counters: Counters | None = None,
) -> Queueing:
    """Build the parts for a configuration; *metadata* reports every change to the routes.

    *keys_may_wait*: the partitions of records with keys may be chosen later, for many at once.
    """
    batching = config.batching
    counters = counters or build_counters(config)
    pool = BufferPool(batching.buffer_memory, counters=counters, environment=environment, wake=io_loop.wake)
    sizes = _sizes(config, plugins, sealer)
    partitioner = PartitionerAbilities.of(plugins.partitioner)
    key_partitioner = _key_partitioner(partitioner, plugins, sizes) if keys_may_wait else None
    accumulator = RecordAccumulator(
        sizes=sizes,
        times=TimeSettings(
            linger=batching.linger - min(SEALING_SECONDS, batching.linger / 10),
            delivery_timeout=config.delivery.delivery_timeout,
            max_block=batching.max_block,
            retry_backoff=backoff,
            slow_record_threshold=config.observation.slow_record_threshold,
        ),
        pool=pool,
        columns=plugins.columns,
        seal=sealer.seal,
        key_partitioner=key_partitioner,
        sequences=sequences,
        transactions=transactions,
        counters=counters,
        io_loop=io_loop,
        environment=environment,
    )
    routes = Routes(
        metadata=metadata,
        appender=accumulator.appender,
        partitioner=partitioner,
        slow=slow,
        max_block=batching.max_block,
    )
    metadata.on_change = routes.forget
    accumulator.failures.on_failure = routes.drop_failed_batches
    return Queueing(
        routes=routes,
        accumulator=accumulator,
        keyed_appender=accumulator.keyed_appender if key_partitioner is not None else None,
        partitioner=partitioner,
        pool=pool,
        sealer=sealer,
        counters=counters,
    )


def _sizes(config: ProducerConfig, plugins: Plugins, sealer: Sealer) -> BatchSizes:
    batching = config.batching
    return BatchSizes(
        target=min(batching.batch_size, batching.max_request_size),
        max_bytes=batching.max_request_size,
        growing=batching.growth,
        ratio=sealer.ratio,
        record_cost=plugins.encoder.record_cost,
    )


def _key_partitioner(partitioner: PartitionerAbilities, plugins: Plugins, sizes: BatchSizes) -> KeyPartitioner | None:
    """The key partitioner, for many keys in one call, or None if the plugin chooses partitions one by one."""
    one_by_one = partitioner.ignores_keys or partitioner.on_new_batch is not None
    if partitioner.partition_column is None or one_by_one or _hashes_quickly(partitioner, plugins.encoder):
        return None
    return KeyPartitioner(
        partition=partitioner.partition,
        partition_column=partitioner.partition_column,
        appended=partitioner.appended,
        sizes=sizes,
        columns=plugins.columns,
    )


def _hashes_quickly(partitioner: PartitionerAbilities, encoder: RecordEncoder) -> bool:
    """Return whether the encoder computes the partition of each key at no cost while it stores the record."""
    return partitioner.hashes == "murmur2" and isinstance(encoder, QuickSender)
