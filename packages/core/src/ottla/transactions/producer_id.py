"""A producer id for one that has no transactions: asked for once, and when the epochs of the old one are used up."""

from __future__ import annotations

import logging
from typing import Any

from ottla.accumulator.sequences import Sequences
from ottla.errors import BrokerError, ErrorCode, OttlaError, ProtocolError, UnsupportedVersionError, error_code
from ottla.network.backoff import Backoff
from ottla.recordbatch.stamp import ProducerId
from ottla.transactions.error_actions import TRANSACTION_ERROR_ACTIONS, CoordinatorRequestKind, TransactionErrorAction
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.requests import CoordinatorRequest, initialize

logger = logging.getLogger(__name__)

NO_TIMEOUT_MS = 2**31 - 1


class Idempotence:
    """Sees that `sequences` have an owner; or that they are off, where brokers know none and it was only wished."""

    def __init__(self, *, sequences: Sequences, backoff: Backoff, client_id: str) -> None:
        self._sequences = sequences
        self._backoff = backoff
        self._client_id = client_id
        self._under_way = False
        self._failures = 0
        self._retry_at = float("-inf")
        self._untold = False
        self.cause: OttlaError | None = None

    @property
    def queued_batches(self) -> QueuedBatches:
        """Records fail with what a broker refuses an id for, until it gives one."""
        return QueuedBatches.SEND if self.cause is None else QueuedBatches.FAIL

    @property
    def obstacle(self) -> OttlaError | None:
        """Why there is no id yet."""
        return self._sequences.obstacle

    @property
    def idle(self) -> bool:
        """Always: without records nobody needs an id."""
        return True

    def note_level(self, level: int) -> None:
        """It is for transactions."""

    def next_request(self, now: float, *, settled: bool) -> CoordinatorRequest | None:
        """InitProducerId, as long as there is no id."""
        sequences = self._sequences
        if sequences.owner is not None or sequences.off or self._under_way:
            return None
        if self.cause is not None and (self._untold or settled):
            self._untold = False
            return None  # what is queued fails; it is asked again when there is something more to send
        if now < self._retry_at:
            return None
        self.cause = None
        return initialize(transactional_id=None, timeout_ms=NO_TIMEOUT_MS, current=None)

    def due_at(self) -> float:
        """When to ask again."""
        waiting = self._sequences.owner is None and not self._sequences.off and not self._under_way
        return self._retry_at if waiting and self.cause is None else float("inf")

    def node(self, request: CoordinatorRequest) -> int | None:
        """Any broker can answer."""
        return None

    def begin(self, request: CoordinatorRequest) -> None:
        """The question is on its way."""
        self._under_way = True

    def on_response(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        """Take the id, or ask again, or fail what is queued."""
        self._under_way = False
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE and answer.producer_id < 0:
            self.on_disconnect(request, ProtocolError("an answer to InitProducerId has no id"), now)
            return
        if code is ErrorCode.NONE:
            self._failures = 0
            self._sequences.obstacle = None
            self._sequences.begin_epoch(ProducerId(id=answer.producer_id, epoch=answer.producer_epoch))
            logger.debug("%s: %s", self._client_id, self._sequences.owner)
            return
        error = BrokerError(code)
        if TRANSACTION_ERROR_ACTIONS[CoordinatorRequestKind.INITIALIZE][code] in (
            TransactionErrorAction.RETRY,
            TransactionErrorAction.REFIND,
        ):
            self.on_disconnect(request, error, now)
        else:
            self._retry_at = now + self._backoff.delay(self._failures)
            self._refuse(
                BrokerError(code, f"{code.meaning} It gives no producer id; enable.idempotence=false does without one")
            )

    def on_disconnect(self, request: CoordinatorRequest, error: OttlaError, now: float) -> None:
        """Ask again after a while."""
        self._under_way = False
        logger.debug("%s: no producer id yet: %s", self._client_id, error)
        self._sequences.obstacle = error
        self._retry_at = now + self._backoff.delay(self._failures)
        self._failures += 1

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Brokers before 0.11 know no producer ids."""
        self._under_way = False
        if self._sequences.required:
            self._refuse(
                UnsupportedVersionError(
                    f"enable.idempotence=true needs brokers of 0.11 or later: {error}; leave it out to do without"
                )
            )
            return
        self._sequences.off = True
        logger.info(
            "%s: idempotence is off, because the brokers are older than 0.11: a retry may write a record twice",
            self._client_id,
        )

    def _refuse(self, cause: OttlaError) -> None:
        self.cause = cause
        self._untold = True

    def fail_fatally(self, error: OttlaError) -> None:
        """Nobody waits for an id; records learn of it by themselves."""

    def recover(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """There is nothing to end."""

    def abort_pending(self, error: OttlaError) -> None:
        """Nobody waits."""
