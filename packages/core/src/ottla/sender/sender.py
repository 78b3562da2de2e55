"""The sender: rounds that expire, drain and send batches, and complete them by their responses.

The batches, the connections and the clock belong to other parts; what a response means for its batch is decided in
`ottla.sender.produce_response_handler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.accumulator.accumulator import Ready, RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.sequences import Sequences
from ottla.errors import (
    ConnectionFailedError,
    OttlaError,
    printable,
)
from ottla.metrics import Counters
from ottla.network import Completion, NetworkClient
from ottla.network.metadata import Metadata
from ottla.protocol import PRODUCE
from ottla.sender.batch_expiry import BatchExpiry
from ottla.sender.broker_waits import BrokerWaits
from ottla.sender.buffer_memory_log import BufferMemoryLog
from ottla.sender.coordinator_request_sender import CoordinatorRequestSender
from ottla.sender.in_flight_batches import InFlightBatches
from ottla.sender.node_latency import NodeLatencyStats
from ottla.sender.produce_messages import (
    LAST_THAT_ADDS_NOTHING,
    PartitionResponse,
    produce_request,
    read_response,
)
from ottla.sender.produce_response_handler import ProduceResponseHandler
from ottla.sender.sender_metrics import count_acknowledged, count_request, count_response
from ottla.sender.telemetry.telemetry_sender import TelemetrySender

if TYPE_CHECKING:  # producers without transactions need not import their modules
    from ottla.transactions.manager import TransactionManager


class Sender:
    """Sends the accumulator's batches to brokers, and completes them by the responses. For the I/O thread."""

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        latency_stats: NodeLatencyStats,
        response_handler: ProduceResponseHandler,
        acks: int,
        max_request_size: int,
        request_timeout: float,
        delivery_timeout: float,
        keep_order: bool,
        client_id: str,
        sequences: Sequences,
        coordinator_requests: CoordinatorRequestSender | None = None,
        transactions: TransactionManager | None = None,
        telemetry: TelemetrySender | None = None,
        counters: Counters | None = None,
    ) -> None:
        self._accumulator = accumulator
        self._client = client
        self._metadata = metadata
        self._latency_stats = latency_stats
        self._response_handler = response_handler
        self._acks = acks
        self._max_request_size = max_request_size
        self._request_timeout = request_timeout
        self._keep_order = keep_order
        self._client_id = client_id
        self._sequences = sequences
        self._coordinator_requests = coordinator_requests
        self._transactions = transactions
        self._telemetry = telemetry
        self._counters = counters or Counters()
        self._log = response_handler.log
        self._unretrieved, self._slow = accumulator.unretrieved, accumulator.slow
        self._waits = BrokerWaits(accumulator.journal, client)
        self._failures = accumulator.failures
        self._pool, self._checks = accumulator.pool, accumulator.queue_checks
        self._memory_log = BufferMemoryLog(accumulator.pool, client_id=client_id)
        self._in_flight = InFlightBatches(delivery_timeout)
        self._expiry = BatchExpiry(accumulator=accumulator, in_flight=self._in_flight, client=client, metadata=metadata)
        self.due_at = float("-inf")
        """The time of the next round, if no event comes before."""

    def run_once(self, now: float, *, until: float = float("inf"), may_skip_poll: bool = False) -> bool:
        """Run one round; it waits while nothing is due, at most until the time *until*.

        *may_skip_poll*: the caller runs another round for each event. So a round that has sent requests need not look
        for events, which would take a tenth of the time of a record that is awaited; it then returns True.
        """
        in_flight, failures = len(self._in_flight), self._failures.count
        next_at = self._send_lone_batch(now)
        if next_at is None or self._checks.has_unchecked:
            next_at = self._send_ready(now)
        if self._failures.count != failures:
            next_at = now  # the thread that runs this round may wait for a batch that has just failed
        telemetry = self._telemetry
        if telemetry is not None:
            if now >= telemetry.check_at:
                telemetry.run(now)
            if telemetry.wake_at < next_at:
                next_at = telemetry.wake_at
        log, unretrieved = self._log, self._unretrieved
        if log.active:
            next_at = min(next_at, log.due_at())
        if unretrieved.active:
            next_at = min(next_at, unretrieved.due_at())
        if self._pool.short:
            next_at = min(next_at, self._memory_log.due_at(), self._pool.pass_on_untaken(now))
        slow = self._slow
        slow_at = slow.check(now)
        if slow_at < next_at:
            next_at = slow_at
        self.due_at = next_at
        if may_skip_poll and len(self._in_flight) > in_flight and self._client.awaits_events:
            return True
        if next_at < until:
            until = next_at
        due = until if until > now else now
        now = self._client.poll(until - now, now)
        if now > due:
            self._waits.woke_late(due, now)
        if slow.active:
            slow.write(self._client_id, now)
        if self._pool.short:
            self._memory_log.note(now)
        if log.active:
            log.write(now)
        if unretrieved.active:
            unretrieved.write(self._client_id, now)
        return False

    def recover(self, cause: BaseException, now: float) -> None:
        """Repair the state after a round failed with *cause*; if this call fails itself, it is to be called again.

        All connections are closed, so that no response meets the wrong request. A batch without queue and outcome is
        sent again with the number that it has; if an attempt was made, the batch counts as maybe written.
        """
        error = ConnectionFailedError(
            f"the round of the I/O thread that was to send the batch failed: {printable(repr(cause))}"
        )
        error.__cause__ = cause
        self._client.reset(error, now)
        self._in_flight.clear()
        lost = self._accumulator.recover()
        self._sequences.recover()
        for batch in reversed(lost):  # each is put at the front of its queue
            if batch.attempts:
                batch.note_maybe_written(response_lost=True)
            batch.mark_returned(now)
            if not batch.attempts:  # it had not left yet
                self._accumulator.requeue(batch, error, now)
            elif (failed := self._response_handler.retry(batch, error, now)) is not None:
                self._accumulator.complete(batch, failed)
        if self._coordinator_requests is not None:
            self._coordinator_requests.recover(error, now)
        if self._telemetry is not None:
            self._telemetry.recover(now)
        self._metadata.on_change()  # the round may have failed between a change and this call
        self._client.close_forgotten(error)  # last: if the system keeps failing here, all other repairs are done

    @property
    def idle(self) -> bool:
        """Return whether no batch is queued or in flight, and no transaction is being ended."""
        requests = self._coordinator_requests
        return not self._accumulator.incomplete and (requests is None or requests.idle)

    @property
    def at_rest(self) -> bool:
        """Return whether nothing is to be done before the next record comes. For any thread."""
        requests = self._coordinator_requests
        return self.idle and (requests is None or requests.at_rest)

    def begin_close(self) -> None:
        """Have an open transaction aborted, because the producer closes. For any thread."""
        if self._coordinator_requests is not None:
            self._coordinator_requests.close()

    def push_last_telemetry(self, now: float, deadline: float) -> None:
        """Push the metrics of a closing producer once more to brokers that want them; blocks at most a second."""
        if self._telemetry is not None:
            self._telemetry.push_last(now, deadline)

    def end(self, error: OttlaError) -> None:
        """Raise *error* in threads that wait for coordinator requests: no round will follow."""
        if self._telemetry is not None:
            self._telemetry.end()
        self._unretrieved.write(self._client_id, 0.0, final=True)
        self._slow.write(self._client_id, float("inf"))
        if self._coordinator_requests is not None:
            self._coordinator_requests.abort_pending(error)

    def _send_lone_batch(self, now: float) -> float | None:
        """Send the only batch there is, if any, and return the time of the next round, or None if there is more to do.

        A shortcut, without which a record that is awaited takes a tenth longer: all that `_send_ready` does for a lone
        batch that is queued, and while all batches are in flight.
        """
        if now >= self._in_flight.next_expiry or self._transactions is not None or self._waits.lasting:
            return None
        requests = self._coordinator_requests
        if requests is not None and not requests.nothing_due:
            return None
        self._sequences.resolve()
        check_at = self._checks.next_check_at
        if now < check_at and len(self._in_flight) == self._accumulator.incomplete:  # as a rule, a response is due
            self._latency_stats.note(wanted=(), served=(), now=now)
            return min(check_at, self._in_flight.next_expiry)
        client = self._client
        drained = self._accumulator.drain_lone(
            self._metadata.cluster, takes=lambda node: client.takes_records(node, now), now=now
        )
        if drained is None:
            return None
        node, batches = drained
        self._latency_stats.note(wanted=(node,), served=(node,), now=now)
        if batches:
            self._produce(node, batches, max(now, batches[0].sealed_at))  # as in `_drain`
        return self._in_flight.next_expiry

    def _send_ready(self, now: float) -> float:
        """Expire, drain and send batches; returns the time of the next round."""
        until = float("inf")
        self._expiry.expire(now, reads=True)
        self._sequences.resolve()
        ready = self._find_ready(now)
        requests = self._coordinator_requests
        if requests is not None and (ready.soon or not requests.nothing_due):
            ending = not requests.idle
            until = min(until, requests.run(now))
            if ending and requests.idle:
                until = now  # the transaction ended without a request, and `close` may wait for just that
            for node in ready.soon:
                self._client.ready(node, now)  # connects meanwhile
        nodes = [node for node in ready.nodes if self._client.ready(node, now, for_records=True)]
        if not nodes and (refusal := self._client.obstacles.refused_by_all()) is not None:
            self._accumulator.fail_queued(refusal)
        self._latency_stats.note(wanted=ready.nodes, served=nodes, now=now)
        if len(nodes) != len(ready.nodes) or ready.leaderless or self._waits.lasting:
            self._waits.note(ready, nodes, now)
        # Requests that may leave follow each other before the poll: each further system call may have to wait for the
        # interpreter's lock while other threads compute, by default 5 ms.
        while nodes:
            sent = self._drain(nodes, now)
            if not self._checks.has_unchecked:
                break
            ready = self._find_ready(now)
            nodes = [node for node in ready.nodes if self._client.ready(node, now, for_records=True)]
            if nodes and not sent:  # what was ready could not be encoded, and what is behind it leaves immediately
                until = now
                break
        return min(until, self._next_round_at(ready, now))

    def _find_ready(self, now: float) -> Ready:
        """Find the brokers with batches that may leave; requests metadata for topics without a known leader."""
        ready = self._accumulator.ready(self._metadata.cluster, now)
        for topic in ready.leaderless:
            self._metadata.use(topic, now)
            self._metadata.request_update()
        return ready

    def _next_round_at(self, ready: Ready, now: float) -> float:
        """The time of the next round: after a linger, a backoff or an expiry, or when a broker may be ready again."""
        at = min(ready.next_check_at, self._in_flight.next_expiry)
        for node in ready.nodes:
            at = min(at, self._client.ready_at(node, now))
        return at

    def expire(self, now: float) -> None:
        """Fail batches whose `delivery.timeout.ms` has passed."""
        self._expiry.expire(now)

    def read_responses(self, now: float) -> None:
        """Read the responses that have arrived, before `abort` fails batches in flight and `end` a commit."""
        if not self.idle:
            self._client.read_responses(now)

    def abort(self, cause: OttlaError, now: float) -> None:
        """Fail all batches that have no outcome when the producer is closed."""
        self._expiry.abort(cause, now)

    def _drain(self, nodes: Sequence[int], now: float) -> bool:
        """Send each of these brokers one request with batches that may leave. Return whether there were any."""
        drained = self._accumulator.drain(self._metadata.cluster, nodes, max_size=self._max_request_size, now=now)
        # To compress the batches may take seconds, which are neither the broker's nor a part of request.timeout.ms.
        sent_at = max([now, *(batch.sealed_at for batches in drained.values() for batch in batches)])
        for node, batches in drained.items():
            self._produce(node, batches, sent_at)
        return bool(drained)

    def _produce(self, node: int, batches: Sequence[ProducerBatch], now: float) -> None:
        for batch in batches:
            batch.mark_sent(node, now)
            self._in_flight.add(batch)
            self._sequences.mark_sent(batch)
            if self._keep_order:
                self._accumulator.mute(batch)
        known = self._metadata.cluster.topics
        topics = dict.fromkeys([batch.topic for batch in batches])  # often one for hundreds of batches
        for topic in topics:
            self._metadata.use(topic, now)
        topic_ids = {topic: known[topic].id for topic in topics if topic in known}
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
        self._client.send(node, request, now)
        count_request(self._counters, batches, now)  # after it, while the broker works

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
            self._in_flight.remove(batch)
            self._sequences.mark_returned(batch)
            if self._keep_order:
                self._accumulator.unmute(batch, at=completion.throttled_until)
            if batch.outcome is not None:
                if responses is not None:
                    self._response_handler.on_late_response(batch, responses.get((batch.topic, batch.partition)))
                continue
            handler = self._response_handler
            if error is not None:
                outcome: Acknowledged | Failed | None = handler.on_lost_response(
                    batch, error, written=completion.written, now=completion.now
                )
            elif responses is None:
                outcome = Acknowledged(base_offset=-1)
            else:
                response = responses.get((batch.topic, batch.partition))
                outcome = handler.on_response(batch, response, completion.now)
            if outcome is not None:
                if isinstance(outcome, Acknowledged):
                    count_acknowledged(self._counters, batch, completion.now)
                yield batch, outcome
