"""Construction of the sender and its I/O thread from a configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.build import Queueing
from ottla.accumulator.splitting import Splitter
from ottla.concurrency.environment import Environment
from ottla.config import ProducerConfig
from ottla.interfaces import MetricsRegistry
from ottla.network import NetworkClient
from ottla.network.metadata import Metadata
from ottla.network.selector_interface import Selectable
from ottla.plugins.selection import Plugins
from ottla.sender.coordinator_request_sender import CoordinatorRequestSender
from ottla.sender.io_handoff import IoHandoff, NoHandoff
from ottla.sender.io_thread import IoThread
from ottla.sender.loop_rounds import LoopRounds
from ottla.sender.node_latency import NodeLatencyStats
from ottla.sender.produce_response_handler import ProduceResponseHandler
from ottla.sender.round_recovery import Rounds
from ottla.sender.sender import Sender
from ottla.sender.telemetry.telemetry_sender import TelemetrySender
from ottla.transactions.build import TransactionParts

if TYPE_CHECKING:
    from ottla.sender.telemetry.payload import PayloadBuilder


def build_sender(
    config: ProducerConfig,
    plugins: Plugins,
    queueing: Queueing,
    transactions: TransactionParts,
    metadata: Metadata,
    client: NetworkClient,
    latency_stats: NodeLatencyStats,
    client_id: str,
    *,
    telemetry: TelemetrySender | None = None,
) -> Sender:
    """Build the sender of a producer, with the coordinator requests that its transactions or idempotence need."""
    batching, delivery, accumulator = config.batching, config.delivery, queueing.accumulator
    coordinator_requests = (
        None
        if transactions.request_source is None
        else CoordinatorRequestSender(
            request_source=transactions.request_source,
            client=client,
            metadata=metadata,
            accumulator=accumulator,
            client_id=client_id,
        )
    )
    response_handler = ProduceResponseHandler(
        accumulator=accumulator,
        metadata=metadata,
        sequences=transactions.sequences,
        splitter=Splitter(target=batching.batch_size, columns=plugins.columns, records=queueing.sealer.records),
        retries=delivery.retries,
        delivery_timeout=delivery.delivery_timeout,
        client_id=client_id,
        counters=queueing.counters,
    )
    return Sender(
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        latency_stats=latency_stats,
        response_handler=response_handler,
        acks=delivery.acks,
        max_request_size=batching.max_request_size,
        request_timeout=config.connection.request_timeout,
        delivery_timeout=delivery.delivery_timeout,
        keep_order=delivery.max_in_flight == 1,
        client_id=client_id,
        sequences=transactions.sequences,
        coordinator_requests=coordinator_requests,
        transactions=transactions.manager,
        telemetry=telemetry,
        counters=queueing.counters,
    )


def build_telemetry(
    config: ProducerConfig,
    plugins: Plugins,
    client: NetworkClient,
    registry: MetricsRegistry,
    wake: Callable[[], object],
    environment: Environment,
) -> TelemetrySender | None:
    """Build the sender of a producer's metrics, or return None if they are not pushed to brokers."""
    if not config.observation.metrics_push:
        return None
    labels = {"transactional_id": config.transactions.transactional_id, "client_rack": config.partitioning.rack}

    @functools.cache
    def payloads() -> PayloadBuilder:
        # Imported late: only brokers that collect metrics need them.
        from ottla.sender.telemetry.compression import TelemetryCompressors
        from ottla.sender.telemetry.metric_reading import MetricReader
        from ottla.sender.telemetry.payload import PayloadBuilder

        return PayloadBuilder(
            reader=MetricReader(registry, clock_ns=environment.time_ns),
            compressors=TelemetryCompressors(plugins.compressor),
            resource=tuple((label, of) for label, of in labels.items() if of),
            client_id=plugins.client_id,
            wake=wake,
            environment=environment,
        )

    return TelemetrySender(client=client, payloads=payloads, client_id=plugins.client_id, environment=environment)


def build_io_handoff(
    config: ProducerConfig,
    selector: Selectable,
    environment: Environment,
    *,
    sender: Callable[[], Sender],
    client: Callable[[], NetworkClient],
    queueing: Callable[[], Queueing],
) -> IoHandoff | NoHandoff:
    """Build the hand-off of rounds. The functions return parts that are built after it, and use it."""
    if not config.delivery.io_handoff:
        return NoHandoff(selector.wakeup)
    sender, client, queueing = functools.cache(sender), functools.cache(client), functools.cache(queueing)
    return IoHandoff(
        run=lambda now, until: sender().run_once(now, until=until),
        idle=lambda: sender().at_rest and not client().in_flight(),
        pending=lambda: queueing().accumulator.incomplete > 0,
        wake=selector.wakeup,
        loop_rounds=LoopRounds(
            run=lambda now, may_skip_poll: sender().run_once(now, until=now, may_skip_poll=may_skip_poll),
            network=selector,
            awaits_events=lambda: client().awaits_events,
            queued_bytes=lambda: queueing().pool.capacity - queueing().pool.free,
            due_at=lambda: sender().due_at,
        ),
        environment=environment,
    )


def build_io_thread(
    sender: Sender,
    accumulator: RecordAccumulator,
    client: NetworkClient,
    metadata: Metadata,
    io_handoff: IoHandoff | NoHandoff,
    client_id: str,
    environment: Environment,
) -> IoThread:
    """Build the I/O thread of a producer, which runs the sender's rounds; it is not started."""
    return IoThread(
        sender=sender,
        rounds=Rounds(sender=sender, name=client_id, environment=environment),
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        io_handoff=io_handoff,
        name=f"ottla-io-{client_id}",
        environment=environment,
    )
