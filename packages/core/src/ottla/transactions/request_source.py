"""The interface that chooses coordinator requests, and the treatment of queued batches meanwhile."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

from ottla.errors import OttlaError
from ottla.transactions.coordinator_request import CoordinatorRequest


class QueuedBatches(enum.Enum):
    """The treatment of queued batches."""

    SEND = "they are sent"
    ABORT = "they fail, because their transaction cannot be committed"
    FAIL = "they fail, because the producer has failed"


class RequestSource(Protocol):
    """Chooses the coordinator requests that the I/O thread sends, one by one; each is repeated until it succeeds."""

    @property
    def queued_batches(self) -> QueuedBatches:
        """Whether queued batches are sent, aborted or failed now."""

    @property
    def cause(self) -> OttlaError | None:
        """The error with which queued batches fail."""

    @property
    def obstacle(self) -> OttlaError | None:
        """The error because of which the last request has to be repeated, or None if it succeeded."""

    @property
    def idle(self) -> bool:
        """Return whether nothing is in progress that an orderly close should wait for."""

    @property
    def at_rest(self) -> bool:
        """Return whether no request is to be sent, or in flight, that is not for queued records."""

    @property
    def nothing_due(self) -> bool:
        """Return whether no request is due, and queued batches are sent, until a batch changes that."""

    def note_level(self, level: int) -> None:
        """Note the cluster's `transaction.version`."""

    def next_request(self, now: float, *, all_complete: Callable[[], bool]) -> CoordinatorRequest | None:
        """The request to send now, or None; *all_complete* returns whether every queued record has its outcome."""

    def due_at(self) -> float:
        """The time at which to call `next_request` again, also if it gave a request; infinity: only after an event."""

    def node(self, request: CoordinatorRequest) -> int | None:
        """The broker that a request is for, or None for any."""

    def begin(self, request: CoordinatorRequest) -> None:
        """Note that a request is in flight; there is no other until it is answered or lost."""

    def on_response(self, request: CoordinatorRequest, response: Any, now: float) -> None:
        """Handle a response."""

    def on_disconnect(
        self, request: CoordinatorRequest, error: OttlaError, now: float, *, written: bool = True
    ) -> None:
        """Handle a request whose response did not arrive; one that was not *written* has not reached a broker."""

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Handle a request that the broker does not support, in any suitable version."""

    def fail_fatally(self, error: OttlaError) -> None:
        """Handle a fatal error: no broker accepts us, for a reason that a retry cannot fix."""

    def recover(self) -> None:
        """After a failed round, wake the callers whose results were decided, in case it did not get that far."""

    def close(self) -> None:
        """The producer is closing: abort an open transaction; a prepared one stays. For any thread."""

    def abort_pending(self, error: OttlaError) -> None:
        """Fail all waiting callers with *error*; no further requests are sent."""
