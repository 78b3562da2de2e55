"""What each error code means to each of a transaction's requests: one table, total over all codes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.errors import ErrorCode


class ErrandKind(enum.Enum):
    """The requests by what they are for."""

    INITIALIZE = "InitProducerId"
    FIND_COORDINATOR = "FindCoordinator"
    FIND_GROUP = "FindCoordinator for the group"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class Ruling(enum.Enum):
    """The ways to go on after an answer."""

    DONE = "it is done"
    RETRY = "ask again after a backoff"
    REFIND = "find the coordinator, then ask again"
    REFUSED = "the producer is not initialized; it may be tried again once the cause is mended"
    ABORTABLE = "the transaction can only be aborted"
    FENCED = "another producer has taken the transactional id over: fatal"
    FATAL = "the producer can do nothing more"


_C = ErrorCode
_FENCED: Final = (_C.INVALID_PRODUCER_EPOCH, _C.PRODUCER_FENCED)
_LOST: Final = (_C.COORDINATOR_NOT_AVAILABLE, _C.NOT_COORDINATOR)

_SPECIAL: Final[Mapping[ErrandKind, Mapping[Ruling, tuple[ErrorCode, ...]]]] = {
    ErrandKind.INITIALIZE: {
        Ruling.REFIND: _LOST,
        Ruling.FENCED: _FENCED,
        Ruling.REFUSED: (
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.CLUSTER_AUTHORIZATION_FAILED,
            _C.INVALID_TRANSACTION_TIMEOUT,
            _C.UNSUPPORTED_VERSION,  # Kafka 4.3 takes no prepared transactions over, though it lists the version
        ),
        Ruling.ABORTABLE: (_C.TRANSACTION_ABORTABLE,),
    },
    ErrandKind.FIND_COORDINATOR: {
        Ruling.REFUSED: (_C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,),
        Ruling.ABORTABLE: (_C.TRANSACTION_ABORTABLE,),
    },
    ErrandKind.FIND_GROUP: {Ruling.ABORTABLE: (_C.GROUP_AUTHORIZATION_FAILED, _C.TRANSACTION_ABORTABLE)},
    ErrandKind.ADD_PARTITIONS: {
        Ruling.REFIND: _LOST,
        Ruling.FENCED: _FENCED,
        Ruling.FATAL: (
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_ID_MAPPING,
        ),
    },
    ErrandKind.ADD_OFFSETS: {
        Ruling.REFIND: _LOST,
        Ruling.FENCED: _FENCED,
        Ruling.ABORTABLE: (
            _C.GROUP_AUTHORIZATION_FAILED,
            _C.TRANSACTION_ABORTABLE,
            _C.UNKNOWN_PRODUCER_ID,
        ),
    },
    ErrandKind.COMMIT_OFFSETS: {
        Ruling.REFIND: (*_LOST, _C.REQUEST_TIMED_OUT),
        Ruling.RETRY: (_C.UNKNOWN_TOPIC_OR_PARTITION, _C.COORDINATOR_LOAD_IN_PROGRESS),
        Ruling.FENCED: _FENCED,
        Ruling.ABORTABLE: (
            _C.GROUP_AUTHORIZATION_FAILED,
            _C.FENCED_INSTANCE_ID,
            _C.UNKNOWN_MEMBER_ID,
            _C.ILLEGAL_GENERATION,
            _C.STALE_MEMBER_EPOCH,
            _C.TRANSACTION_ABORTABLE,
        ),
    },
    ErrandKind.END: {
        Ruling.REFIND: _LOST,
        Ruling.FENCED: _FENCED,
        Ruling.ABORTABLE: (_C.TRANSACTION_ABORTABLE, _C.UNKNOWN_PRODUCER_ID),
    },
}


def _ruling(kind: ErrandKind, code: ErrorCode) -> Ruling:
    if code is ErrorCode.NONE:
        return Ruling.DONE
    for ruling, codes in _SPECIAL[kind].items():
        if code in codes:
            return ruling
    if code.retriable:
        return Ruling.RETRY
    # What else is wrong with a partition concerns that partition alone.
    return Ruling.ABORTABLE if kind is ErrandKind.ADD_PARTITIONS else Ruling.FATAL


RULINGS: Final[Mapping[ErrandKind, Mapping[ErrorCode, Ruling]]] = MappingProxyType(
    {kind: MappingProxyType({code: _ruling(kind, code) for code in ErrorCode}) for kind in ErrandKind}
)

_WEIGHTS: Final = {ruling: weight for weight, ruling in enumerate(Ruling)}


def last_word(kind: ErrandKind, codes: Iterable[ErrorCode]) -> ErrorCode:
    """Of one answer's several codes the one that decides: whose ruling stands later among the rulings."""
    return max(codes, key=lambda code: _WEIGHTS[RULINGS[kind][code]])


FATAL_FOR_A_TRANSACTION: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes of a Produce answer after which no abort helps; after any other the transaction can be aborted."""
