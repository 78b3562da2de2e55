"""Expiry: batches fail that have no outcome `delivery.timeout.ms` after they were opened.

Each round calls `BatchExpiry.expire`. `ProducerBatch.has_reached_delivery_timeout` compares the times,
`RecordAccumulator.expire` takes expired batches out of their queues, and `InFlightBatches.take_expired` takes those in
flight. An attempt that fails after that time is the batch's last one (`ProduceResponseHandler.retry`).
"""

from __future__ import annotations

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.delivery_errors import expired
from ottla.errors import BrokerError, ErrorCode, OttlaError, SecurityError
from ottla.network import NetworkClient
from ottla.network.metadata import Metadata
from ottla.sender.in_flight_batches import InFlightBatches


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchExpiry:
    """Fails expired batches, with the error that kept each of them from its broker. For the I/O thread."""

    accumulator: RecordAccumulator
    in_flight: InFlightBatches
    client: NetworkClient
    metadata: Metadata

    def expire(self, now: float, *, reads: bool = False) -> None:
        """Fail expired batches, queued or in flight.

        If it *reads*, responses that have arrived are read before batches in flight expire: the process may have been
        stopped, also in the last poll, or a callback may have kept the thread, for longer than `delivery.timeout.ms`.
        """
        in_flight = self.in_flight
        if reads and now >= in_flight.next_expiry:
            self.client.read_responses(now)
        if now >= in_flight.next_expiry:
            for batch in in_flight.take_expired(now):
                if batch.last_error is None and batch.last_node is not None:
                    batch.last_error = self.client.obstacles.quota(
                        batch.last_node, now
                    )  # a broker that throttles reads nothing
                self.accumulator.complete(batch, Failed(error=expired(batch, now)))
        self.accumulator.expire(now, obstacle=lambda batch: self._obstacle(batch, now))

    def abort(self, cause: OttlaError, now: float) -> None:
        """Fail all batches at the end of the producer. Those that expire at the same time have expired."""
        self.expire(now)
        self.accumulator.abort(cause, obstacle=lambda batch: self._obstacle(batch, now))

    def _obstacle(self, batch: ProducerBatch, now: float) -> OttlaError | None:
        """Return what keeps a batch from its broker: no such partition, no connection, a quota, no known broker.

        Returns None if the batch has its own error, which says more; but a SecurityError and a missing partition
        take precedence, and so does any obstacle over UNKNOWN_TOPIC_ID, which brokers of another cluster answer.
        """
        missing = self.metadata.missing(batch.topic, batch.partition)
        if missing is not None:
            return missing
        cluster = self.metadata.cluster
        leader = batch.wanted_node = cluster.named_leader(batch.topic, batch.partition)
        # During a rebootstrap no broker is known, but the error that ended the connection to the leader is.
        found = (
            None
            if leader is None
            else self.client.obstacles.failure(leader) or self.client.obstacles.quota(leader, now)
        )
        if leader not in cluster.brokers:
            found = self.metadata.last_error or found
        own = batch.last_error
        unknown_topic = isinstance(own, BrokerError) and own.code is ErrorCode.UNKNOWN_TOPIC_ID
        return found if own is None or unknown_topic or isinstance(found, SecurityError) else None
