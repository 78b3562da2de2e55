"""A request of idempotence or transactions as a value: content and receiver; nothing is sent here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from ottla.protocol.message import Message
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.recordbatch.stamp import ProducerId
from ottla.transactions.error_actions import CoordinatorRequestKind
from ottla.transactions.offsets import TopicPartition

_FIRST_THAT_BUMPS: Final = 3
_LAST_STABLE: Final = 5
_TWO_PHASE: Final = 6


class Target(enum.Enum):
    """The receiver of a request."""

    ANY = "any broker"
    COORDINATOR = "the transaction's coordinator"
    GROUP = "the group's coordinator"


@attrs.frozen(kw_only=True)
class CoordinatorRequest:
    """One request: `content` builds its struct for a version from `floor` to `ceiling`.

    `key` is the id of a group, or in FindCoordinator also the transactional id.
    """

    kind: CoordinatorRequestKind
    target: Target
    message: Message[Any, Any]
    content: Callable[[int], Any]
    floor: int = 0
    ceiling: int | None = None
    key: str = ""
    partitions: Sequence[TopicPartition] = ()


def initialize(
    *,
    transactional_id: str | None,
    timeout_ms: int,
    current: ProducerId | None,
    two_phase: bool = False,
    keep_prepared: bool = False,
) -> CoordinatorRequest:
    """InitProducerId; with *current* it asks for the same producer id with another epoch."""

    def content(version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1 if current is None else current.id,
            producer_epoch=-1 if current is None else current.epoch,
            enable_2pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )

    newest = two_phase or keep_prepared
    return CoordinatorRequest(
        kind=CoordinatorRequestKind.INITIALIZE,
        target=Target.ANY if transactional_id is None else Target.COORDINATOR,
        message=INIT_PRODUCER_ID,
        content=content,
        floor=_TWO_PHASE if newest else 0 if current is None else _FIRST_THAT_BUMPS,
        ceiling=_TWO_PHASE if newest else _LAST_STABLE,
    )
