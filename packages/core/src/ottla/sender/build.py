"""Construction of the sender from a configuration."""

from __future__ import annotations

from ottla.accumulator.build import Queueing
from ottla.accumulator.splitting import Splitter
from ottla.config import ProducerConfig
from ottla.network import NetworkClient
from ottla.network.metadata import Metadata
from ottla.plugins.selection import Plugins
from ottla.sender.coordinator_requests import CoordinatorRequestSender
from ottla.sender.node_latency import NodeDelays
from ottla.sender.sender import Sender
from ottla.transactions.build import Numbering


def build_sender(
    config: ProducerConfig,
    plugins: Plugins,
    queueing: Queueing,
    numbering: Numbering,
    metadata: Metadata,
    client: NetworkClient,
    delays: NodeDelays,
    client_id: str,
) -> Sender:
    """Build the sender of a producer, with the coordinator requests that its transactions or idempotence need."""
    batching, delivery, accumulator = config.batching, config.delivery, queueing.accumulator
    coordination = (
        None
        if numbering.request_source is None
        else CoordinatorRequestSender(
            request_source=numbering.request_source,
            client=client,
            metadata=metadata,
            accumulator=accumulator,
            client_id=client_id,
        )
    )
    return Sender(
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        delays=delays,
        splitter=Splitter(target=batching.batch_size, columns=plugins.columns, records=queueing.sealer.records),
        acks=delivery.acks,
        retries=delivery.retries,
        max_request_size=batching.max_request_size,
        request_timeout=config.connection.request_timeout,
        delivery_timeout=delivery.delivery_timeout,
        keep_order=delivery.max_in_flight == 1,
        client_id=client_id,
        sequences=numbering.sequences,
        coordination=coordination,
        transactions=numbering.manager,
        counters=queueing.counters,
    )
