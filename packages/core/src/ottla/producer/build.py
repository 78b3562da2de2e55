"""The construction of a producer's parts from its settings: the only module that imports parts of every layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.accumulator.append_permission import CheckSendable
from ottla.accumulator.build import build_counters, build_queueing
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.io_loop_interface import EventLoop
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.sealing import Sealer
from ottla.concurrency.environment import SYSTEM, Environment, check_patches
from ottla.config import ProducerConfig
from ottla.errors.secret import hide_settings
from ottla.network.build import build_authentication, build_backoff, build_client, build_metadata, build_selector
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.selection import Plugins, choose_plugins
from ottla.producer.components import Engine, build_metric_values
from ottla.producer.send_signature import Send, weak_send
from ottla.producer.serialization import PartSerializer, RecordSerializer
from ottla.protocol import PRODUCE
from ottla.recordbatch.core_abilities import QuickSender
from ottla.sender.build import build_io_handoff, build_io_thread, build_sender, build_telemetry
from ottla.sender.node_latency import NodeLatencyStats
from ottla.sender.produce_messages import supported_formats
from ottla.transactions.build import build_transactions, watch_clusters

if TYPE_CHECKING:
    from ottla.producer.nonblocking_send import NonblockingSend, PendingSend


def build(
    settings: Mapping[str, Any],
    keywords: Mapping[str, Any],
    *,
    registry: Registry | None = None,
    environment: Environment = SYSTEM,
) -> Engine:
    """Build the parts of a producer, not started; no connection is made.

    Raises ConfigError with every problem, or PluginError when a plugin is the only problem. Raises IllegalStateError if
    threads were patched too late.
    """
    check_patches()
    settings, keywords = hide_settings(settings), hide_settings(keywords)
    objects = PluginObjects(clock=environment.clock)
    config, plugins = choose_plugins(settings, keywords, registry=registry or Registry(), objects=objects)
    try:
        return build_engine(config, plugins, environment)
    except BaseException:
        plugins.close()
        raise


def choose_send(producer: object, engine: Engine, *, overridden: bool) -> Send | None:
    """The version of `send` for a producer with these parts, or None for its own method, `Producer.send`.

    *overridden*: a subclass of Producer overrides `send`. All versions have the signature `Send`.

    | encoder     | interceptors | other settings | `producer.send` is                                |
    |-------------|--------------|----------------|---------------------------------------------------|
    | ottla-accel | none         | simple         | `QuickSend.send` of ottla-accel                   |
    | ottla-accel | some         | simple         | `Interceptors.around`, around `QuickSend.send`    |
    | any         | none         | any other      | the method, of Producer or the subclass           |
    | any         | some         | any other      | `Interceptors.around`, around the method          |

    Settings are simple if the C code does all that the method would: there are no serializers, partitions are not
    assigned for many keys at once, the partitioner has neither `on_new_batch` nor `partition_record`, `send` is not
    *overridden*, and in transactions, whose end during the call only the method notices, no plugin's code runs. It
    calls the method for every record that does not fit into an open batch.
    """
    send: Send | None = None if overridden else _quick_send(producer, engine, Delivery)
    if engine.interceptors is not None:
        send = engine.interceptors.around(send or weak_send(producer), engine.queueing.accumulator.permission)
    return send


def build_nonblocking_send(
    engine: Engine, check: CheckSendable, *, event_loop: EventLoop
) -> tuple[NonblockingSend, Callable[..., Delivery | PendingSend]]:
    """The `NonblockingSend` of a producer with these parts, and the function to call: a `send` that never blocks.

    The function is the encoder's own, if it has one. Keep a reference to the `NonblockingSend` while the function is in
    use. *check* raises if the producer takes no records. *event_loop*: see `IoLoop.batch_started`.
    """
    # Imported late: only producers in programs with an event loop need them.
    from ottla.accumulator.try_appender import TryAppender
    from ottla.producer.nonblocking_send import NonblockingSend, SendParts

    queueing, encoder = engine.queueing, engine.plugins.encoder
    delivery = encoder.awaited_delivery() if isinstance(encoder, QuickSender) else Delivery
    slow = NonblockingSend(
        SendParts(
            appender=TryAppender(
                routes=queueing.routes,
                appender=queueing.accumulator.appender,
                keyed=queueing.keyed_appender,
                partitioner=queueing.partitioner,
                event_loop=event_loop,
            ),
            serializer=build_serializer(engine),
            interceptors=engine.interceptors,
            batching=engine.config.batching,
            check=check,
            permission=queueing.accumulator.permission,
            delivery=delivery,
        )
    )
    quick = _quick_send(slow, engine, delivery) if engine.interceptors is None else None
    return slow, quick or slow.send


def _quick_send(slow: object, engine: Engine, delivery: type[Delivery]) -> Callable[..., Any] | None:
    """The encoder's own `send`, which calls that of *slow* for what is not simple, or None: it has none, see above."""
    plugins, queueing = engine.plugins, engine.queueing
    simple = (
        plugins.value_serializer is None
        and plugins.key_serializer is None
        and queueing.keyed_appender is None
        and queueing.partitioner.on_new_batch is None
        and queueing.partitioner.partition_record is None
        and (engine.transactions is None or not _calls_partitioner(queueing.partitioner))
    )
    if not simple or not isinstance(plugins.encoder, QuickSender):
        return None
    return plugins.encoder.quick_send(
        slow, delivery=delivery, routes=queueing.routes.known, partitioner=plugins.partitioner
    )


def _calls_partitioner(partitioner: PartitionerAbilities) -> bool:
    """Return whether a `send` may call `partition` of the plugin; the C code hashes by murmur2 itself."""
    return partitioner.hashes != "murmur2" and not (partitioner.sticky and partitioner.ignores_keys)


def build_serializer(engine: Engine) -> RecordSerializer:
    """The serializer of a producer's records."""
    return RecordSerializer(
        key=PartSerializer("key", engine.plugins.key_serializer),
        value=PartSerializer("value", engine.plugins.value_serializer),
        max_block=engine.max_lookup,
        clock=engine.clock,
    )


def build_engine(config: ProducerConfig, plugins: Plugins, environment: Environment) -> Engine:
    """Build the parts of a producer from its configuration and its plugins."""
    client_id = plugins.client_id
    backoff = build_backoff(config.delivery.retry_backoff, config.delivery.retry_backoff_max, environment)
    counters = build_counters(config)
    selector = build_selector(config.connection, plugins.transport, environment, counters=counters)
    authentication = build_authentication(plugins.mechanism, client_id, selector.wakeup, environment)
    io_handoff = build_io_handoff(
        config, selector, environment, sender=lambda: sender, client=lambda: client, queueing=lambda: queueing
    )
    metadata = build_metadata(config, io_handoff.wake, backoff, environment)
    transactions = build_transactions(config, backoff, client_id, metadata.cluster_ids, environment)
    latency_stats = NodeLatencyStats(config.partitioning.availability_timeout)
    queueing = build_queueing(
        config,
        plugins,
        metadata=metadata,
        sealer=Sealer(
            plugins.compressor,
            level=plugins.compression_level,
            formats_of=lambda node: supported_formats(client.supported_versions(node, PRODUCE)),
        ),
        backoff=backoff,
        slow=lambda: latency_stats.slow,
        sequences=transactions.sequences,
        transactions=transactions.manager,
        io_loop=io_handoff,
        environment=environment,
        counters=counters,
    )
    latency_stats.on_change = queueing.routes.forget
    accumulator = queueing.accumulator
    client = build_client(config, selector, metadata, authentication, client_id, environment, counters=counters)
    watch_clusters(transactions, metadata, client, recovery=config.metadata.recovery)
    metric_values = build_metric_values(
        plugins,
        queueing,
        metadata,
        in_flight=client.in_flight,
        oldest_sent_at=client.oldest_sent_at,
        environment=environment,
    )
    telemetry = build_telemetry(config, plugins, client, metric_values, io_handoff.wake, environment)
    sender = build_sender(
        config, plugins, queueing, transactions, metadata, client, latency_stats, client_id, telemetry=telemetry
    )
    io_thread = build_io_thread(sender, accumulator, client, metadata, io_handoff, client_id, environment)
    return Engine.build(
        config,
        plugins,
        queueing,
        metadata=metadata,
        io_thread=io_thread,
        manager=transactions.manager,
        metric_values=metric_values,
        telemetry=telemetry,
        wake=io_handoff.wake,
        max_lookup=config.batching.max_block,
        environment=environment,
    )
