"""The sender: rounds that expire, drain and send batches, and handle the responses.

It decides how each batch goes on; the batches, the connections and the clock belong to other parts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from ottla.accumulator.accumulator import Ready, RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery_errors import delivery_failed, expired, refused_records
from ottla.accumulator.partition_queue import FOREVER
from ottla.accumulator.readiness import has_new_leader
from ottla.accumulator.sequences import SequenceErrorAction, Sequences
from ottla.accumulator.splitting import Splitter
from ottla.errors import (
    BrokerError,
    ConnectionFailedError,
    ErrorCode,
    OttlaError,
    ProtocolError,
    SecurityError,
    UnsupportedVersionError,
    counted,
    printable,
    were,
)
from ottla.metrics import Counters
from ottla.network import Completion, NetworkClient
from ottla.network.metadata import Metadata
from ottla.protocol import PRODUCE
from ottla.sender.before_append import REFUSED_BEFORE_APPEND
from ottla.sender.coordinator_requests import CoordinatorRequestSender
from ottla.sender.delivery_log import DeliveryLog
from ottla.sender.memory_log import MemoryLog
from ottla.sender.node_latency import NodeLatencyStats
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, SEQUENCE_ERRORS, ProduceErrorAction
from ottla.sender.produce_request import (
    LAST_THAT_ADDS_NOTHING,
    PartitionRefusal,
    PartitionResponse,
    produce_request,
    read_response,
)
from ottla.sender.sender_metrics import count_request, count_response, count_retry

if TYPE_CHECKING:  # producers without transactions need not import their modules
    from ottla.transactions.manager import TransactionManager

logger = logging.getLogger(__name__)


class Sender:
    """Sends the accumulator's batches to brokers, and completes them by the responses. For the I/O thread."""

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        latency_stats: NodeLatencyStats,
        splitter: Splitter,
        acks: int,
        retries: int,
        max_request_size: int,
        request_timeout: float,
        delivery_timeout: float,
        keep_order: bool,
        client_id: str,
        sequences: Sequences,
        coordinator_requests: CoordinatorRequestSender | None = None,
        transactions: TransactionManager | None = None,
        counters: Counters | None = None,
    ) -> None:
        self._accumulator = accumulator
        self._client = client
        self._metadata = metadata
        self._latency_stats = latency_stats
        self._splitter = splitter
        self._acks = acks
        self._retries = retries
        self._max_request_size = max_request_size
        self._request_timeout = request_timeout
        self._delivery_timeout = delivery_timeout
        self._keep_order = keep_order
        self._client_id = client_id
        self._sequences = sequences
        self._coordinator_requests = coordinator_requests
        self._transactions = transactions
        self._counters = counters or Counters()
        self._log = DeliveryLog(client_id=client_id, retries=retries, delivery_timeout=delivery_timeout)
        self._unretrieved = accumulator.unretrieved
        self._pool = accumulator.pool
        self._memory_log = MemoryLog(accumulator.pool, client_id=client_id)
        self._in_flight: dict[ProducerBatch, None] = {}
        self._oldest_in_flight = FOREVER  # no batch in flight was created before this time
        self.late_responses = 0
        """The number of batches whose response came after they had failed."""

    def run_once(self, now: float, *, until: float = float("inf")) -> None:
        """Run one round; it waits while nothing is due, at most until the time *until*."""
        if self.expire(now):
            until = now  # a thread may wait for just this, so this round must not wait
        self._sequences.resolve()
        ready = self._find_ready(now)
        if self._coordinator_requests is not None:
            ending = not self._coordinator_requests.idle
            until = min(until, self._coordinator_requests.run(now))
            if ending and self._coordinator_requests.idle:
                until = now  # the transaction ended without a request, and `close` may wait for just that
            for node in ready.soon:
                self._client.ready(node, now)  # connects meanwhile
        nodes = [node for node in ready.nodes if self._client.ready(node, now)]
        if not nodes and (refusal := self._client.refused_by_all()) is not None:
            self._accumulator.fail_queued(refusal)
        self._latency_stats.note(wanted=ready.nodes, served=nodes, now=now)
        # Requests that may leave follow each other before the poll: each further system call would wait for the
        # interpreter's lock while other threads compute, by default 5 ms.
        while nodes:
            sent = self._drain(nodes, now)
            if not self._accumulator.has_unchecked:
                break
            ready = self._find_ready(now)
            nodes = [node for node in ready.nodes if self._client.ready(node, now)]
            if nodes and not sent:  # what was ready could not be encoded, and what is behind it leaves at once
                until = now
                break
        until = min(until, self._next_round_at(ready, now))
        log, unretrieved = self._log, self._unretrieved
        if log.active:
            until = min(until, log.due_at())
        if unretrieved.active:
            until = min(until, unretrieved.due_at())
        if self._pool.short:
            until = min(until, self._memory_log.due_at())
        now = self._client.poll(until - now, now)
        if self._pool.short:
            self._memory_log.note(now)
        if log.active:
            log.write(now)
        if unretrieved.active:
            unretrieved.write(self._client_id, now)

    def recover(self, cause: BaseException, now: float) -> None:
        """Repair the state after a round failed with *cause*; if this call fails itself, it is to be called again.

        All connections are closed, so that no response meets the wrong request. A batch without queue and outcome is
        sent again with the number that it has; if an attempt was made, the batch counts as maybe written.
        """
        error = ConnectionFailedError(
            f"the round of the I/O thread that was to send it failed: {printable(repr(cause))}"
        )
        error.__cause__ = cause
        self._client.reset(error, now)
        self._in_flight.clear()
        self._oldest_in_flight = FOREVER
        lost = self._accumulator.recover()
        self._sequences.recover()
        for batch in reversed(lost):  # each is put first
            if batch.attempts:
                batch.response_lost = batch.maybe_written = True
            batch.mark_returned(now)
            if not batch.attempts:  # it had not left yet
                self._accumulator.requeue(batch, error, now)
            elif (failed := self._retry(batch, error, now)) is not None:
                self._accumulator.complete(batch, failed)
        if self._coordinator_requests is not None:
            self._coordinator_requests.recover(error, now)
        self._metadata.on_change()  # the round may have failed between a change and this call
        self._client.close_forgotten(error)  # last: if the system keeps failing here, all other repairs are done

    @property
    def idle(self) -> bool:
        """Return whether no batch is queued or in flight, and no transaction is being ended."""
        requests = self._coordinator_requests
        return not self._accumulator.incomplete and (requests is None or requests.idle)

    def begin_close(self) -> None:
        """Have an open transaction aborted, because the producer closes. For any thread."""
        if self._coordinator_requests is not None:
            self._coordinator_requests.close()

    def end(self, error: OttlaError) -> None:
        """Raise *error* in threads that wait for coordinator requests: no round will follow."""
        self._unretrieved.write(self._client_id, 0.0, final=True)
        if self._coordinator_requests is not None:
            self._coordinator_requests.abort_pending(error)

    def _find_ready(self, now: float) -> Ready:
        """Find the brokers with batches that may leave; requests metadata for topics without a known leader."""
        ready = self._accumulator.ready(self._metadata.cluster, now)
        for topic in ready.leaderless:
            self._metadata.use(topic, now)
            self._metadata.request_update()
        return ready

    def _next_round_at(self, ready: Ready, now: float) -> float:
        """The time of the next round: after a linger, a backoff or an expiry, or when a broker may be ready again."""
        expiry = self._oldest_in_flight + self._delivery_timeout
        brokers = (self._client.ready_at(node, now) for node in ready.nodes)
        return min(ready.next_check_at, expiry, min(brokers, default=float("inf")))

    def expire(self, now: float) -> bool:
        """Fail batches, queued or in flight, whose `delivery.timeout.ms` has passed; True: some."""
        late = self._expired_in_flight(now)
        for batch in late:
            if batch.last_error is None and batch.last_node is not None:
                batch.last_error = self._client.quota(batch.last_node, now)  # a broker that throttles reads nothing
            self._accumulator.complete(batch, Failed(error=expired(batch, now)))
            del self._in_flight[batch]
        return self._accumulator.expire(now, obstacle=lambda batch: self._obstacle(batch, now)) or bool(late)

    def _expired_in_flight(self, now: float) -> list[ProducerBatch]:
        if self._oldest_in_flight + self._delivery_timeout > now:
            return []
        self._oldest_in_flight = min((batch.created_at for batch in self._in_flight), default=FOREVER)
        return [batch for batch in self._in_flight if batch.created_at + self._delivery_timeout <= now]

    def _obstacle(self, batch: ProducerBatch, now: float) -> OttlaError | None:
        """The error that keeps a batch from its broker: no such partition, no connection, a quota, no known broker.

        None if the batch has an error of its own, which says more; but a SecurityError and a missing partition go
        first.
        """
        missing = self._metadata.missing(batch.topic, batch.partition)
        if missing is not None:
            return missing
        cluster = self._metadata.cluster
        leader = cluster.named_leader(batch.topic, batch.partition)
        # During a rebootstrap no broker is known, but the error with which the leader was lost is.
        found = None if leader is None else self._client.failure(leader) or self._client.quota(leader, now)
        if leader not in cluster.brokers:
            found = self._metadata.last_error or found
        return found if batch.last_error is None or isinstance(found, SecurityError) else None

    def _drain(self, nodes: Sequence[int], now: float) -> bool:
        """Send each of these brokers one request with batches that may leave; False: there are none."""
        drained = self._accumulator.drain(self._metadata.cluster, nodes, max_size=self._max_request_size, now=now)
        for node, batches in drained.items():
            self._produce(node, batches, now)
        return bool(drained)

    def _produce(self, node: int, batches: Sequence[ProducerBatch], now: float) -> None:
        for batch in batches:
            batch.mark_sent(node, now)
            self._in_flight[batch] = None
            self._oldest_in_flight = min(self._oldest_in_flight, batch.created_at)
            self._sequences.mark_sent(batch)
            self._metadata.use(batch.topic, now)
            if self._keep_order:
                self._accumulator.mute(batch)
        topics = self._metadata.cluster.topics
        topic_ids = {batch.topic: topics[batch.topic].id for batch in batches if batch.topic in topics}
        transactions = self._transactions
        request = produce_request(
            batches,
            acks=self._acks,
            timeout=self._request_timeout,
            topic_ids=topic_ids,
            on_complete=lambda completion: self._handle_produce_response(batches, topic_ids, completion, sent_at=now),
            transactional_id=transactions.transactional_id if transactions is not None else None,
            newest=PRODUCE.max_version if transactions is None or transactions.uses_txn_v2 else LAST_THAT_ADDS_NOTHING,
        )
        count_request(self._counters, batches, now)
        self._client.send(node, request, now)

    def _handle_produce_response(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, bytes],
        completion: Completion,
        *,
        sent_at: float,
    ) -> None:
        """Complete or requeue every batch of a request by its response."""
        responses = None
        if completion.response is not None:
            count_response(self._counters, completion.node, completion.now - sent_at)
            responses = read_response(completion.response, batches, topic_ids)
            if self._metadata.hints:
                self._forget_hints(responses)
        self._accumulator.complete_all(self._outcomes(batches, responses, completion))
        if self._log.active:
            self._log.answered(batches, completion.now)

    def _forget_hints(self, responses: Mapping[tuple[str, int], PartitionResponse]) -> None:
        """Remove the leader hints of acknowledged partitions: they have led to the leader."""
        for place, response in responses.items():
            if isinstance(response, Acknowledged):
                self._metadata.hints.pop(place, None)

    def _outcomes(
        self,
        batches: Sequence[ProducerBatch],
        responses: Mapping[tuple[str, int], PartitionResponse] | None,
        completion: Completion,
    ) -> Iterator[tuple[ProducerBatch, Acknowledged | Failed]]:
        """The batches to complete, with their outcomes; others are requeued or split, or have an outcome already."""
        error = completion.error
        for batch in batches:
            batch.mark_returned(completion.now)
            self._in_flight.pop(batch, None)
            self._sequences.mark_returned(batch)
            if self._keep_order:
                self._accumulator.unmute(batch, at=completion.throttled_until)
            if batch.outcome is not None:
                self.late_responses += 1
                if responses is not None:
                    self._note_late_response(batch, responses.get((batch.topic, batch.partition)))
                continue
            if error is not None:
                batch.response_lost |= completion.written
                batch.maybe_written |= completion.written
                outcome: Acknowledged | Failed | None = self._handle_lost_response(batch, error, completion.now)
            elif responses is None:
                outcome = Acknowledged(base_offset=-1)
            else:
                response = responses.get((batch.topic, batch.partition))
                outcome = self._handle_partition_response(batch, response, completion.now)
            if outcome is not None:
                yield batch, outcome

    # Each of the following returns the outcome of a batch; None: the batch goes on, and is requeued or split already.

    def _handle_lost_response(self, batch: ProducerBatch, error: OttlaError, now: float) -> Failed | None:
        """Handle a response that was lost, late or unreadable, as NETWORK_EXCEPTION."""
        if isinstance(error, UnsupportedVersionError):
            return _failed(batch, error, now)
        self._metadata.request_update()
        return self._retry(batch, error, now)

    def _handle_partition_response(
        self, batch: ProducerBatch, response: PartitionResponse | None, now: float
    ) -> Acknowledged | Failed | None:
        if isinstance(response, Acknowledged):
            return response
        if response is None:
            batch.response_lost = batch.maybe_written = True
            return self._retry(batch, ProtocolError("the broker's answer leaves this partition out"), now)
        if batch.sequence is not None and response.code in SEQUENCE_ERRORS:
            return self._on_sequence_error(batch, response, now)
        batch.maybe_written |= response.code not in REFUSED_BEFORE_APPEND
        error = BrokerError(response.code, response.message)
        action = PRODUCE_ERROR_ACTIONS[response.code]
        match action:
            case ProduceErrorAction.ACKNOWLEDGED:  # by an earlier attempt; this response's offset is not the batch's
                return Acknowledged(base_offset=-1)
            case ProduceErrorAction.RETRY:
                return self._retry(batch, error, now)
            case ProduceErrorAction.REFRESH:
                self._update_leader(batch, response, now)
                return self._retry(batch, error, now)
            case ProduceErrorAction.TOO_LARGE:
                return self._split(batch, error, now)
            case ProduceErrorAction.FAIL:
                return _failed(batch, error, now, why=_remedy(batch, response, error), response=response)
            case _:
                assert_never(action)

    def _note_late_response(self, batch: ProducerBatch, response: PartitionResponse | None) -> None:
        """Note it if a batch that failed is written after all."""
        written = isinstance(response, Acknowledged)
        if isinstance(response, PartitionRefusal):
            written = PRODUCE_ERROR_ACTIONS[response.code] is ProduceErrorAction.ACKNOWLEDGED
        if written:
            self._sequences.acknowledge(batch)

    def _on_sequence_error(self, batch: ProducerBatch, response: PartitionRefusal, now: float) -> Failed | None:
        """Handle a batch that the broker refused for its sequence number.

        A batch that came too early is sent again unchanged. If it is the first in flight, the broker lacks the batches
        before it. Then it is renumbered in another epoch, or given up if that could write it twice.
        """
        error = BrokerError(response.code, response.message)
        refused = self._sequences.on_sequence_error(batch)
        if refused is SequenceErrorAction.FAIL:
            return _failed(batch, error, now)
        if refused is SequenceErrorAction.RENUMBER:  # the leader lacks even the batches before it
            batch.response_lost = batch.maybe_written = False
        return self._retry(batch, error, now)

    def _update_leader(self, batch: ProducerBatch, response: PartitionRefusal, now: float) -> None:
        """Take the leader that the answer names (KIP-951); ask for metadata unless a new leader is known by now."""
        if response.leader is not None:
            self._metadata.move_leader(batch.topic, batch.partition, response.leader, response.leader_epoch, now)
        if has_new_leader(self._metadata.cluster, batch):
            return  # the first response has updated the leader for all batches in flight to the old one
        self._metadata.request_update()

    def _retry(self, batch: ProducerBatch, error: OttlaError, now: float) -> Failed | None:
        """Queue the batch again while attempts and time are left."""
        if batch.attempts > self._retries:
            return _failed(batch, error, now)
        if now - batch.created_at >= self._delivery_timeout:
            batch.last_error = error
            return Failed(error=expired(batch, now))
        logger.debug("%s: will retry %s-%d: %s", self._client_id, batch.topic, batch.partition, error)
        self._log.will_retry(batch, error, now)
        count_retry(self._counters, batch)
        self._accumulator.requeue(batch, error, now)
        return None

    def _split(self, batch: ProducerBatch, error: BrokerError, now: float) -> Failed | None:
        """Send the records again in smaller batches; a batch of one record fails."""
        if batch.count == 1:
            why = f"{error}; raise the topic's max.message.bytes or send smaller records"
            return _failed(batch, error, now, why=why)
        batch.last_error = error
        try:
            parts, max_bytes = self._splitter.split(batch, now)
        except Exception as cause:  # a faulty codec that cannot read its own output
            return _failed(batch, error, now, why=f"{error}; and it could not be split: {printable(str(cause))}")
        logger.info(
            "%s: %s-%d does not take a batch of %d records: sending them in %s",
            self._client_id,
            batch.topic,
            batch.partition,
            batch.count,
            counted(len(parts), "part"),
        )
        if batch.forward_to(Forwarded.in_order(parts)):
            self._counters.producer.splits.add(1)
            self._accumulator.replace(batch, parts, max_bytes=max_bytes)
        return None


def _failed(
    batch: ProducerBatch,
    cause: OttlaError,
    now: float,
    *,
    why: str | None = None,
    response: PartitionRefusal | None = None,
) -> Failed:
    named = refused_records(batch, response.record_errors) if response is not None else {}
    if named and why is None:
        others = f"{counted(len(named), 'other record')} of the batch {were(len(named))} refused"
        why = f"{cause}; {others}, and it is written whole or not"
    for each in named.values():
        each.__cause__ = cause
    return Failed(error=delivery_failed(batch, cause, now, why=why), record_errors=named)


def _remedy(batch: ProducerBatch, response: PartitionRefusal, error: BrokerError) -> str | None:
    """Advice for a refusal, where the error code's own message has none."""
    if response.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT and batch.sequence is not None:
        return f"{error} It has no place for a producer's numbers: set enable.idempotence=false for such topics"
    return None
