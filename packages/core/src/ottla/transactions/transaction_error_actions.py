"""The action for each error code of each transactional request: one table, total over all codes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.errors import ErrorCode


class CoordinatorRequestKind(enum.Enum):
    """Transactional requests by purpose."""

    INITIALIZE = "InitProducerId"
    FIND_COORDINATOR = "FindCoordinator"
    FIND_GROUP = "FindCoordinator for the group"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class TransactionErrorAction(enum.Enum):
    """Actions of the transaction manager for an error code; later members take precedence."""

    DONE = "the request has succeeded"
    RETRY = "send the request again after a backoff"
    REFIND = "find the coordinator, then send the request again"
    REFUSED = "the producer is not initialized; init_transactions may be called again"
    ABORTABLE = "the transaction can only be aborted"
    FENCED = "another producer has the transactional id: fatal"
    FATAL = "the producer can only be closed"


ADDING: Final = (CoordinatorRequestKind.ADD_PARTITIONS, CoordinatorRequestKind.ADD_OFFSETS)
"""Requests with which a transaction begins at its coordinator, before KIP-890."""

MAYBE_WRITTEN: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""Codes of a coordinator whose log did not confirm what it wrote (`TransactionStateManager.appendTransactionToLog`).

The next coordinator may read it there, and then the request was carried out.
"""

_C = ErrorCode
_FENCED: Final = (_C.INVALID_PRODUCER_EPOCH, _C.PRODUCER_FENCED)

_SPECIAL: Final[Mapping[CoordinatorRequestKind, Mapping[TransactionErrorAction, tuple[ErrorCode, ...]]]] = {
    CoordinatorRequestKind.INITIALIZE: {
        TransactionErrorAction.REFIND: MAYBE_WRITTEN,
        TransactionErrorAction.FENCED: _FENCED,
        TransactionErrorAction.REFUSED: (
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.CLUSTER_AUTHORIZATION_FAILED,
            _C.INVALID_TRANSACTION_TIMEOUT,
            _C.UNSUPPORTED_VERSION,  # Kafka 4.3 does not support keep_prepared, but lists the version
        ),
        TransactionErrorAction.ABORTABLE: (_C.TRANSACTION_ABORTABLE,),
    },
    CoordinatorRequestKind.FIND_COORDINATOR: {
        TransactionErrorAction.REFUSED: (_C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,),
        TransactionErrorAction.ABORTABLE: (_C.TRANSACTION_ABORTABLE,),
    },
    CoordinatorRequestKind.FIND_GROUP: {
        TransactionErrorAction.ABORTABLE: (_C.GROUP_AUTHORIZATION_FAILED, _C.TRANSACTION_ABORTABLE)
    },
    CoordinatorRequestKind.ADD_PARTITIONS: {
        TransactionErrorAction.REFIND: MAYBE_WRITTEN,
        TransactionErrorAction.FENCED: _FENCED,
        TransactionErrorAction.FATAL: (
            _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _C.INVALID_TXN_STATE,
            _C.INVALID_PRODUCER_ID_MAPPING,
        ),
    },
    CoordinatorRequestKind.ADD_OFFSETS: {
        TransactionErrorAction.REFIND: MAYBE_WRITTEN,
        TransactionErrorAction.FENCED: _FENCED,
        TransactionErrorAction.ABORTABLE: (
            _C.GROUP_AUTHORIZATION_FAILED,
            _C.TRANSACTION_ABORTABLE,
            _C.UNKNOWN_PRODUCER_ID,
        ),
    },
    CoordinatorRequestKind.COMMIT_OFFSETS: {
        TransactionErrorAction.REFIND: (*MAYBE_WRITTEN, _C.REQUEST_TIMED_OUT),
        TransactionErrorAction.RETRY: (_C.UNKNOWN_TOPIC_OR_PARTITION, _C.COORDINATOR_LOAD_IN_PROGRESS),
        TransactionErrorAction.FENCED: _FENCED,
        TransactionErrorAction.ABORTABLE: (
            _C.GROUP_AUTHORIZATION_FAILED,
            _C.FENCED_INSTANCE_ID,
            _C.UNKNOWN_MEMBER_ID,
            _C.ILLEGAL_GENERATION,
            _C.STALE_MEMBER_EPOCH,
            _C.GROUP_ID_NOT_FOUND,
            # Java's producer fails for good after these three. They only concern an offset: nothing else is in doubt.
            _C.TOPIC_AUTHORIZATION_FAILED,
            _C.OFFSET_METADATA_TOO_LARGE,
            _C.INVALID_COMMIT_OFFSET_SIZE,
            _C.TRANSACTION_ABORTABLE,
        ),
    },
    CoordinatorRequestKind.END: {
        TransactionErrorAction.REFIND: MAYBE_WRITTEN,
        TransactionErrorAction.FENCED: _FENCED,
        TransactionErrorAction.ABORTABLE: (_C.TRANSACTION_ABORTABLE, _C.UNKNOWN_PRODUCER_ID),
    },
}


def _action(kind: CoordinatorRequestKind, code: ErrorCode) -> TransactionErrorAction:
    if code is ErrorCode.NONE:
        return TransactionErrorAction.DONE
    for action, codes in _SPECIAL[kind].items():
        if code in codes:
            return action
    if code.retriable:
        return TransactionErrorAction.RETRY
    # Any other error of a partition concerns only that partition.
    return (
        TransactionErrorAction.ABORTABLE
        if kind is CoordinatorRequestKind.ADD_PARTITIONS
        else TransactionErrorAction.FATAL
    )


TRANSACTION_ERROR_ACTIONS: Final[Mapping[CoordinatorRequestKind, Mapping[ErrorCode, TransactionErrorAction]]] = (
    MappingProxyType(
        {kind: MappingProxyType({code: _action(kind, code) for code in ErrorCode}) for kind in CoordinatorRequestKind}
    )
)

_PRECEDENCE: Final = {action: place for place, action in enumerate(TransactionErrorAction)}


def deciding_code(kind: CoordinatorRequestKind, codes: Iterable[ErrorCode]) -> ErrorCode:
    """The one of several error codes in a response whose action comes last in `TransactionErrorAction`."""
    return max(codes, key=lambda code: _PRECEDENCE[TRANSACTION_ERROR_ACTIONS[kind][code]])


FATAL_FOR_A_TRANSACTION: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes of a Produce response after which an abort does not help; after any other the transaction can be aborted."""
