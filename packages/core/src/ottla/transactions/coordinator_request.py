"""A request of idempotence or transactions: content, receiver, and the meaning of its response; no I/O."""

from __future__ import annotations

import abc
import enum
from typing import Any, Final

import attrs

from ottla.errors import BrokerError, ErrorCode, ProtocolError, error_code
from ottla.protocol.message import Message
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.transactions.response_actions import ProducerIdAssigned, RequestFailed, ResponseAction
from ottla.transactions.transaction_error_actions import (
    TRANSACTION_ERROR_ACTIONS,
    CoordinatorRequestKind,
    TransactionErrorAction,
)

_FIRST_THAT_BUMPS: Final = 3
_LAST_STABLE: Final = 5
_TWO_PHASE: Final = 6


class Target(enum.Enum):
    """The receiver of a request."""

    ANY = "any broker"
    COORDINATOR = "the transaction's coordinator"
    GROUP = "the group's coordinator"


class CoordinatorRequest(abc.ABC):
    """One request, sent in a version from `floor` to `ceiling`."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def kind(self) -> CoordinatorRequestKind:
        """The kind of the request: its row in the table of error actions."""

    @property
    @abc.abstractmethod
    def message(self) -> Message[Any, Any]:
        """The protocol message of the request, in all versions."""

    @property
    @abc.abstractmethod
    def target(self) -> Target:
        """The receiver of the request."""

    @property
    def floor(self) -> int:
        """The first version that contains all fields of the request."""
        return 0

    @property
    def ceiling(self) -> int | None:
        """The last version to use, or None for the last one that both sides know."""
        return None

    @property
    def key(self) -> str:
        """The group id of the request; in FindCoordinator also the transactional id."""
        return ""

    @property
    def doubted(self) -> int | None:
        """A broker to send the request to only if no other one can be asked."""
        return None

    @abc.abstractmethod
    def build(self, version: int) -> Any:
        """Return the request as a protocol struct for a version."""

    @abc.abstractmethod
    def handle(self, response: Any) -> ResponseAction:
        """Return what a response means for the transaction; changes no state."""

    def failure(self, code: ErrorCode) -> RequestFailed | None:
        """The action for an error code; None if it is not an error."""
        action = TRANSACTION_ERROR_ACTIONS[self.kind][code]
        return None if action is TransactionErrorAction.DONE else RequestFailed(action, BrokerError(code))


@attrs.frozen(kw_only=True)
class InitProducerId(CoordinatorRequest):
    """Get a producer id; with *current*, the same producer id with another epoch (KIP-360)."""

    transactional_id: str | None
    timeout_ms: int
    current: ProducerIdAndEpoch | None = None
    two_phase: bool = False
    keep_prepared: bool = False

    kind = CoordinatorRequestKind.INITIALIZE
    message = INIT_PRODUCER_ID

    @property
    def target(self) -> Target:
        """The coordinator; without a transactional id any broker."""
        return Target.ANY if self.transactional_id is None else Target.COORDINATOR

    @property
    def floor(self) -> int:
        """The version of KIP-939 or KIP-360, if the request needs their fields."""
        if self.two_phase or self.keep_prepared:
            return _TWO_PHASE
        return 0 if self.current is None else _FIRST_THAT_BUMPS

    @property
    def ceiling(self) -> int:
        """The last version that is not in development, unless the request needs KIP-939."""
        return _TWO_PHASE if self.two_phase or self.keep_prepared else _LAST_STABLE

    def build(self, version: int) -> InitProducerIdRequest:
        """Return the struct for a version."""
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=-1 if self.current is None else self.current.id,
            producer_epoch=-1 if self.current is None else self.current.epoch,
            enable_2pc=self.two_phase,
            keep_prepared_txn=self.keep_prepared,
        )

    def handle(self, response: Any) -> ProducerIdAssigned | RequestFailed:
        """Return the producer id, or the failure."""
        failure = self.failure(error_code(response.error_code))
        if failure is not None:
            return failure
        if response.producer_id < 0 or response.producer_epoch < 0:
            error = ProtocolError("a response to InitProducerId has no producer id")
            return RequestFailed(TransactionErrorAction.RETRY, error)
        return ProducerIdAssigned(
            producer_id_and_epoch=ProducerIdAndEpoch(id=response.producer_id, epoch=response.producer_epoch),
            transaction_open=response.ongoing_txn_producer_id >= 0,
        )
