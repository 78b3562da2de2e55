"""Sending of the requests for idempotence and transactions, and their effects on queued batches.

`RequestSource` decides which request is next, and what a response means.
"""

from __future__ import annotations

from typing import assert_never

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.errors import AbortableTransactionError, ConnectionFailedError, OttlaError, UnsupportedVersionError
from ottla.network import Completion, NetworkClient, Request
from ottla.network.metadata import Metadata
from ottla.sender.coordinator_log import CoordinatorLog
from ottla.transactions.coordinator_request import CoordinatorRequest
from ottla.transactions.request_source import QueuedBatches, RequestSource


class CoordinatorRequestSender:
    """Sends one coordinator request at a time. For the I/O thread."""

    def __init__(
        self,
        *,
        request_source: RequestSource,
        client: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        client_id: str = "",
    ) -> None:
        self._request_source = request_source
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._log = CoordinatorLog(client_id=client_id)
        self._in_flight: CoordinatorRequest | None = None

    @property
    def idle(self) -> bool:
        """Return whether nothing is in progress that an orderly close should wait for."""
        return self._request_source.idle

    @property
    def at_rest(self) -> bool:
        """Return whether no request is to be sent, or in flight, that is not for queued records. For any thread."""
        return self._request_source.at_rest

    @property
    def nothing_due(self) -> bool:
        """Return whether a call of `run` now would do nothing."""
        return self._request_source.nothing_due and not self._log.active

    def close(self) -> None:
        """Abort an open transaction, because the producer closes. For any thread."""
        self._request_source.close()

    def abort_pending(self, error: OttlaError) -> None:
        """Fail pending requests with *error*: no round will follow."""
        self._request_source.abort_pending(error)

    def recover(self, error: OttlaError, now: float) -> None:
        """Repair the state after a failed round. A request is sent again unless its response was accepted."""
        request = self._in_flight
        if request is not None:
            self._request_source.on_disconnect(request, error, now)
            self._in_flight = None
        self._request_source.recover()

    def run(self, now: float) -> float:
        """Send the request that is due, fail queued batches that cannot be sent, and return the next time to run."""
        request_source = self._request_source
        if self._log.active:
            self._log.write(now)
        request_source.note_level(self._client.features.levels.get("transaction.version", 0))
        if self._metadata.fatal_error is not None:
            request_source.fail_fatally(self._metadata.fatal_error)
        if request_source.queued_batches is QueuedBatches.ABORT:
            self._fail_queued()  # first: EndTxn may be sent only when no batch of the transaction is left
        request = request_source.next_request(now, all_complete=lambda: not self._accumulator.incomplete)
        self._fail_queued()  # `next_request` may have ended the transaction
        sent = float("inf") if request is None else self._send(request, now)
        # Also with a request: batches may be sent now that did not need one, or offsets expire before its response.
        due_at = min(sent, request_source.due_at())
        return min(due_at, self._log.due_at()) if self._log.active else due_at

    def _fail_queued(self) -> None:
        """Fail queued batches that cannot be sent."""
        queued_batches, cause = self._request_source.queued_batches, self._request_source.cause
        match queued_batches:
            case QueuedBatches.SEND:
                pass
            case QueuedBatches.ABORT:
                self._accumulator.abort_undrained(cause or AbortableTransactionError("the transaction was aborted"))
            case QueuedBatches.FAIL:
                assert cause is not None
                self._accumulator.fail_queued(cause)
            case _:
                assert_never(queued_batches)

    def _send(self, coordinator_request: CoordinatorRequest, now: float) -> float:
        node = self._request_source.node(coordinator_request)
        if node is None:
            node = self._client.least_loaded(now, doubted=coordinator_request.doubted)
            if node is None:
                return self._client.next_try(now)
        elif not self._client.ready(node, now):
            if node in self._metadata.cluster.brokers and not self._client.obstacles.down(node):
                return self._client.ready_at(node, now)
            self._metadata.request_update()
            error = self._client.obstacles.failure(node) or ConnectionFailedError(f"broker {node} cannot be reached")
            self._request_source.on_disconnect(coordinator_request, error, now, written=False)
            self._log.note(coordinator_request.message.name, self._request_source, now)
            return self._request_source.due_at()
        if self._client.supported_versions(node, coordinator_request.message) is None:
            server = f"broker {node}" if node >= 0 else "a bootstrap server"
            missing = UnsupportedVersionError(f"{server} does not offer {coordinator_request.message.name} requests")
            return self._on_unsupported_version(coordinator_request, missing, node, now)
        self._in_flight = coordinator_request
        self._request_source.begin(coordinator_request)
        request = Request(
            message=coordinator_request.message,
            body=lambda version: [
                coordinator_request.message.request(version).encode(coordinator_request.build(version))
            ],
            on_complete=lambda completion: self._on_response(coordinator_request, completion),
            floor=coordinator_request.floor,
            ceiling=coordinator_request.ceiling,
        )
        self._client.send(node, request, now)
        return float("inf")

    def _on_unsupported_version(
        self, request: CoordinatorRequest, error: UnsupportedVersionError, node: int, now: float
    ) -> float:
        """Retry at a broker if a bootstrap server lacks a request; else the cluster lacks it. Returns the next time.

        A bootstrap server may be no broker of the cluster: idempotence would be off because of one wrong address.
        """
        if node < 0:
            self._request_source.on_disconnect(request, error, now, written=False)
            return self._request_source.due_at()
        self._request_source.on_unsupported_version(request, error)
        return now

    def _on_response(self, request: CoordinatorRequest, completion: Completion) -> None:
        if isinstance(completion.error, UnsupportedVersionError):
            self._on_unsupported_version(request, completion.error, completion.node, completion.now)
        elif completion.error is not None:
            self._request_source.on_disconnect(request, completion.error, completion.now, written=completion.written)
        else:
            self._request_source.on_response(request, completion.response, completion.now)
        self._log.note(request.message.name, self._request_source, completion.now)
        self._in_flight = None
