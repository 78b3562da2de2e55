"""The producer id of a producer without transactions: requested at the start, and when the epochs are used up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.accumulator.sequences import Sequences
from ottla.errors import BrokerError, ErrorCode, OttlaError, UnsupportedVersionError
from ottla.errors.robust_logger import robust_logger
from ottla.network.backoff import Backoff
from ottla.transactions.coordinator_request import CoordinatorRequest, InitProducerId
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.response_actions import ProducerIdAssigned, RequestFailed
from ottla.transactions.transaction_error_actions import TransactionErrorAction

logger = robust_logger(__name__)

NO_TIMEOUT_MS = 2**31 - 1


class ProducerIdRequestSource:
    """The requests for the producer id of *sequences*.

    Turns idempotence off if brokers have no producer ids and it is not required.
    """

    def __init__(self, *, sequences: Sequences, backoff: Backoff, client_id: str) -> None:
        self._sequences = sequences
        self._backoff = backoff
        self._client_id = client_id
        self._in_flight = False
        self._given = False  # the request waits for a broker that takes it
        self._outdated = False  # the request in flight went to another cluster
        self._requested_at = float("-inf")
        self._failures = 0
        self._retry_at = float("-inf")
        self._unreported = False
        self.cause: OttlaError | None = None

    @property
    def queued_batches(self) -> QueuedBatches:
        """FAIL while brokers refuse an id, so that queued batches fail with that error."""
        return QueuedBatches.SEND if self.cause is None else QueuedBatches.FAIL

    @property
    def obstacle(self) -> OttlaError | None:
        """The error that has prevented a producer id so far, or None."""
        return self._sequences.obstacle

    @property
    def idle(self) -> bool:
        """Always True: without records no id is needed."""
        return True

    @property
    def at_rest(self) -> bool:
        """Always True: the records that wait for an id are queued."""
        return True

    @property
    def nothing_due(self) -> bool:
        """Return whether there is a producer id, or none is needed."""
        sequences = self._sequences
        return sequences.producer_id_and_epoch is not None or sequences.off

    def note_level(self, level: int) -> None:
        """Ignore the level; only transactions need it."""

    def next_request(self, now: float, *, all_complete: Callable[[], bool]) -> CoordinatorRequest | None:
        """An InitProducerId request, while there is no id."""
        sequences, self._given = self._sequences, False
        if sequences.producer_id_and_epoch is not None or sequences.off or self._in_flight:
            return None
        if self.cause is not None and (self._unreported or all_complete()):
            self._unreported = False
            return None  # queued batches fail; the next request follows once there is more to send
        if now < self._retry_at:
            return None
        self.cause = None
        self._given, self._requested_at = True, now
        return InitProducerId(transactional_id=None, timeout_ms=NO_TIMEOUT_MS)

    def due_at(self) -> float:
        """The time of the next attempt."""
        sequences = self._sequences
        if sequences.producer_id_and_epoch is not None or sequences.off or self._in_flight or self._given:
            return float("inf")
        return self._retry_at if self.cause is None else float("inf")

    def node(self, request: CoordinatorRequest) -> int | None:
        """Always None: any broker can answer."""
        return None

    def begin(self, request: CoordinatorRequest) -> None:
        """Note that a request is in flight."""
        self._in_flight = True

    def begin_in_other_cluster(self) -> None:
        """Request another id: the one that this producer has, or is about to get, is of another cluster."""
        self._outdated = self._in_flight
        self._sequences.renew()
        self._sequences.leave_earlier_ids()

    def begin_with_other_topics(self, same_since: float) -> bool:
        """Do the same if the id was requested before the time since when the cluster is the same; return whether.

        Otherwise it is an id of this cluster, in which some topics were created again. Its batches that may be written
        keep it: with another one, they could be written twice. But batches with an id of before get this one.
        """
        if self._requested_at >= same_since:
            return self._sequences.leave_earlier_ids()
        self.begin_in_other_cluster()
        return True

    def renew_unused(self, opened_at: float) -> None:
        """Request another id if no batch has one yet, and it was requested before a connection was *opened_at*.

        The cluster may have been set up again between the two, and have given the id to another producer. An older
        connection, which has not ended, shows that this is not so.
        """
        if self._sequences.unused:
            self.renew(opened_at)

    def renew(self, opened_at: float) -> None:
        """Request another id, for all but batches in flight, if it was requested before a connection was *opened_at*.

        The cluster may have been set up again, without the topics that were in use so far.
        """
        if self._requested_at < opened_at and not self._sequences.off:
            self._outdated = self._in_flight
            self._sequences.renew()

    def on_response(self, request: CoordinatorRequest, response: Any, now: float) -> None:
        """Use the producer id, or retry, or fail queued batches."""
        self._in_flight = False
        if self._outdated:
            self._outdated = False
            return
        match request.handle(response):
            case ProducerIdAssigned(producer_id_and_epoch=producer_id_and_epoch):
                self._failures = 0
                self._sequences.obstacle = None
                self._sequences.take_producer_id(producer_id_and_epoch)
                logger.debug("%s: %s", self._client_id, producer_id_and_epoch)
            case RequestFailed(action=TransactionErrorAction.RETRY | TransactionErrorAction.REFIND, error=error):
                self.on_disconnect(request, error, now)
            case RequestFailed(error=error):
                assert isinstance(error, BrokerError), "other errors are retriable"
                self._retry_at = now + self._backoff.delay(self._failures)
                self._refuse(BrokerError(error.code, _without_id(error.code)))

    def on_disconnect(
        self, request: CoordinatorRequest, error: OttlaError, now: float, *, written: bool = True
    ) -> None:
        """Retry after a backoff."""
        self._in_flight = self._given = self._outdated = False
        logger.debug("%s: no producer id yet: %s", self._client_id, error)
        self._sequences.obstacle = error
        self._retry_at = now + self._backoff.delay(self._failures)
        self._failures += 1

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Continue without an id, or fail queued batches if one is required: the broker is older than 0.11."""
        self._in_flight = False
        if self._sequences.required:
            self._refuse(
                UnsupportedVersionError(
                    f"enable.idempotence=true needs brokers of 0.11 or later: {error}; leave it out to send without ids"
                )
            )
            return
        self._sequences.off = True
        self._sequences.obstacle = None
        logger.info(
            "%s: idempotence is off: %s, as brokers before 0.11; a retry may write a record twice",
            self._client_id,
            error,
        )

    def _refuse(self, cause: OttlaError) -> None:
        self.cause = cause
        self._unreported = True

    def fail_fatally(self, error: OttlaError) -> None:
        """Do nothing: no caller waits for an id, and records fail by other means."""

    def recover(self) -> None:
        """Do nothing: no caller waits."""

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def abort_pending(self, error: OttlaError) -> None:
        """Do nothing: no caller waits."""


def _without_id(code: ErrorCode) -> str:
    """Why records fail without a producer id, and what helps."""
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # Since 2.8 (KIP-679) Write for any topic is enough: who lacks it can write nothing without idempotence either.
        return (
            "This user gets no producer id, which idempotence takes: it needs Write for a topic, or IdempotentWrite "
            "for the cluster if the brokers are older than 2.8"
        )
    return f"{code.meaning} The broker assigns no producer id; enable.idempotence=false needs none"
