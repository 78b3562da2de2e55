"""What there is to ask of brokers besides writing records, and what becomes of queued records meanwhile."""

from __future__ import annotations

import enum
from typing import Any, Protocol

from ottla.errors import OttlaError
from ottla.transactions.requests import CoordinatorRequest


class QueuedBatches(enum.Enum):
    """What happens to records that are queued."""

    SEND = "they leave as they may"
    ABORT = "their transaction cannot be committed"
    FAIL = "they can never be sent"


class RequestSource(Protocol):
    """One request after the other, for the I/O thread; the same one again until its answer is good."""

    @property
    def queued_batches(self) -> QueuedBatches:
        """What happens to queued records now."""

    @property
    def cause(self) -> OttlaError | None:
        """Why they are not sent."""

    @property
    def obstacle(self) -> OttlaError | None:
        """Why the last request has to be repeated; None: it has not."""

    @property
    def idle(self) -> bool:
        """Whether nothing is under way that an orderly end should wait for."""

    def note_level(self, level: int) -> None:
        """What the cluster has agreed on as `transaction.version`."""

    def next_request(self, now: float, *, settled: bool) -> CoordinatorRequest | None:
        """What to ask now, if anything; *settled*: every record that was queued has its outcome."""

    def due_at(self) -> float:
        """When the next request may be asked for."""

    def node(self, request: CoordinatorRequest) -> int | None:
        """The broker that a request is for; None: any."""

    def begin(self, request: CoordinatorRequest) -> None:
        """A request is under way; there is no other until it is answered or lost."""

    def on_response(self, request: CoordinatorRequest, answer: Any, now: float) -> None:
        """Take what a broker said."""

    def on_disconnect(self, request: CoordinatorRequest, error: OttlaError, now: float) -> None:
        """The request came to no broker, or its answer never came."""

    def on_unsupported_version(self, request: CoordinatorRequest, error: OttlaError) -> None:
        """Its broker does not know such requests, or knows no version that will do."""

    def fail_fatally(self, error: OttlaError) -> None:
        """No broker takes us, for a reason that waiting does not mend."""

    def recover(self) -> None:
        """A round was broken off in here, perhaps: tell those who wait for what is over."""

    def close(self) -> None:
        """The producer closes: end what should not stay open. For any thread."""

    def abort_pending(self, error: OttlaError) -> None:
        """Nothing is asked any more; whoever waits learns of *error*."""
