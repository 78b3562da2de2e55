"""The handling of Produce responses: each batch is acknowledged, sent again, split or failed.

The action for each error code is in `ottla.sender.produce_error_actions`.
"""

from __future__ import annotations

from typing import assert_never

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery_errors import expired
from ottla.accumulator.readiness import has_new_leader
from ottla.accumulator.sequences import SequenceErrorAction, Sequences
from ottla.accumulator.splitting import Splitter
from ottla.errors import (
    BrokerError,
    ErrorCode,
    OttlaError,
    ProtocolError,
    UnsupportedVersionError,
    printable,
)
from ottla.errors.robust_logger import robust_logger
from ottla.metrics import Counters
from ottla.network.backoff import ends_transaction
from ottla.network.metadata import Metadata
from ottla.sender.delivery_log import DeliveryLog
from ottla.sender.leader_doubts import LeaderDoubts
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, SEQUENCE_ERRORS, ProduceErrorAction
from ottla.sender.produce_error_origins import REFUSED_BEFORE_APPEND
from ottla.sender.produce_messages import PartitionRefusal, PartitionResponse
from ottla.sender.produce_outcomes import failed, remedy_of, without_time_of_repeat
from ottla.sender.sender_metrics import count_retry
from ottla.sender.split_log import SplitLog

logger = robust_logger(__name__)


class ProduceResponseHandler:
    """Finds the outcome of each batch of a Produce request. For the I/O thread.

    `on_response`, `on_lost_response` and `retry` return None for a batch without an outcome: it is queued again, or its
    parts are.
    """

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        metadata: Metadata,
        sequences: Sequences,
        splitter: Splitter,
        retries: int,
        delivery_timeout: float,
        client_id: str,
        counters: Counters,
    ) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._sequences = sequences
        self._splitter = splitter
        self._retries = retries
        self._delivery_timeout = delivery_timeout
        self._client_id = client_id
        self._counters = counters
        self._leader_doubts = LeaderDoubts()
        self._split_log = SplitLog(client_id=client_id)
        self.log = DeliveryLog(client_id=client_id, retries=retries, delivery_timeout=delivery_timeout)

    def on_lost_response(self, batch: ProducerBatch, error: OttlaError, *, written: bool, now: float) -> Failed | None:
        """Handle a response that is lost, late or unreadable, as Kafka's client handles NETWORK_EXCEPTION.

        *written*: the request may have reached the broker.
        """
        self._leader_doubts.end(batch)
        if written:
            batch.note_maybe_written(response_lost=True)
        if isinstance(error, UnsupportedVersionError):
            return failed(batch, error, now)
        self._metadata.request_update()
        return self.retry(batch, error, now)

    def on_response(
        self, batch: ProducerBatch, response: PartitionResponse | None, now: float
    ) -> Acknowledged | Failed | None:
        """Handle the partition's part of a response, which is None if the response leaves the partition out."""
        if isinstance(response, PartitionRefusal) and batch.sequence is not None and response.code in SEQUENCE_ERRORS:
            return self._on_sequence_error(batch, response, now)
        self._leader_doubts.end(batch)
        if isinstance(response, Acknowledged):
            return without_time_of_repeat(batch, response) if batch.maybe_written else response
        if response is None:
            batch.note_maybe_written(response_lost=True)
            return self.retry(batch, ProtocolError("the broker's response leaves this partition out"), now)
        if response.code not in REFUSED_BEFORE_APPEND:
            batch.note_maybe_written()
        error = BrokerError(response.code, response.message)
        action = PRODUCE_ERROR_ACTIONS[response.code]
        match action:
            case ProduceErrorAction.ACKNOWLEDGED:  # by an earlier attempt; this response's offset is not the batch's
                return Acknowledged(base_offset=-1)
            case ProduceErrorAction.RETRY:
                return self.retry(batch, error, now)
            case ProduceErrorAction.REFRESH:
                self._update_leader(batch, response, now)
                return self.retry(batch, error, now)
            case ProduceErrorAction.TOO_LARGE:
                return self._split(batch, error, now)
            case ProduceErrorAction.FAIL:
                return failed(batch, error, now, why=remedy_of(batch, response, error), response=response)
            case _:
                assert_never(action)

    def on_late_response(self, batch: ProducerBatch, response: PartitionResponse | None) -> None:
        """Note that a failed batch is written after all, if the response says so."""
        written = isinstance(response, Acknowledged)
        if isinstance(response, PartitionRefusal):
            written = PRODUCE_ERROR_ACTIONS[response.code] is ProduceErrorAction.ACKNOWLEDGED
        if written:
            self._sequences.acknowledge(batch)

    def retry(
        self,
        batch: ProducerBatch,
        error: OttlaError,
        now: float,
        *,
        consequence: bool = False,
        unlimited: bool = False,
    ) -> Failed | None:
        """Queue the batch again while attempts and time are left.

        *consequence*: the error follows from that of an earlier batch, which has its own log line. *unlimited*: the
        attempt does not count to `retries`.
        """
        # While a broker ends the previous transaction, attempts follow each other faster than after other errors.
        unlimited = unlimited or ends_transaction(error)
        if not unlimited and batch.attempts - batch.unlimited_retries > self._retries:
            return failed(batch, error, now)
        if batch.has_reached_delivery_timeout(self._delivery_timeout, now):
            batch.last_error = error
            return Failed(error=expired(batch, now))
        logger.debug("%s: will retry %s-%d: %s", self._client_id, batch.topic, batch.partition, error)
        if not consequence:
            self.log.will_retry(batch, error, now)
        count_retry(self._counters, batch)
        batch.unlimited_retries += unlimited
        self._accumulator.requeue(batch, error, now)
        return None

    def _on_sequence_error(self, batch: ProducerBatch, response: PartitionRefusal, now: float) -> Failed | None:
        """Handle a batch that the broker refused for its sequence number.

        A batch that came too early is sent again unchanged. If it is the first in flight, the broker lacks the batches
        before it. Then it is renumbered in another epoch, or it fails if that could write it twice. In a transaction it
        is renumbered only if the broker has forgotten the producer. If another leader may have the batch, it is sent
        again unchanged for a while: the broker may have lost the partition without knowing it yet.
        """
        error = BrokerError(response.code, response.message)
        forgotten = response.code is ErrorCode.UNKNOWN_PRODUCER_ID
        first = self._sequences.is_first(batch)
        certain = forgotten or batch.has_newest_leader()
        if first and not certain:
            certain = self._leader_doubts.is_settled(batch, now)
            self._metadata.request_update()
        refused = self._sequences.on_sequence_error(batch, forgotten=forgotten, certain=certain)
        if refused is SequenceErrorAction.FAIL:
            return failed(batch, error, now)
        if refused is SequenceErrorAction.RENUMBER:
            # The leader lacks even the batches before it. If it has forgotten the producer, all of them may have been
            # deleted, this one included, after readers got it.
            batch.response_lost = False
            batch.maybe_written &= forgotten
            batch.maybe_at = ()
            return self.retry(batch, error, now)
        doubted = first and not certain
        return self.retry(batch, error, now, consequence=not doubted, unlimited=doubted)

    def _update_leader(self, batch: ProducerBatch, response: PartitionRefusal, now: float) -> None:
        """Take the leader that the response names (KIP-951); ask for metadata unless a new leader is known by now."""
        if response.leader is not None:
            self._metadata.move_leader(batch.topic, batch.partition, response.leader, response.leader_epoch, now)
        if has_new_leader(self._metadata.cluster, batch):
            return  # the first response has updated the leader for all batches in flight to the old one
        self._metadata.request_update()

    def _split(self, batch: ProducerBatch, error: BrokerError, now: float) -> Failed | None:
        """Send the records again in smaller batches; a batch of one record fails."""
        if batch.count == 1:
            why = f"{str(error).rstrip('.')}; raise the topic's max.message.bytes or send smaller records"
            return failed(batch, error, now, why=why)
        batch.last_error = error
        try:
            parts, max_bytes = self._splitter.split(batch, now)
        except Exception as cause:  # a faulty codec that cannot read its own output
            return failed(batch, error, now, why=f"{error}; and the batch could not be split: {printable(str(cause))}")
        self._split_log.split(batch, len(parts), now)
        if batch.forward_to(Forwarded.in_order(parts)):
            self._counters.producer.splits.add(1)
            self._accumulator.replace(batch, parts, max_bytes=max_bytes)
        return None
