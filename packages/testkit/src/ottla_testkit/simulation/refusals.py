"""What brokers answer to Produce instead of taking it: every code before the append, and most of them after it, too.

A second opinion on `ottla.sender.before_append`, by which the producer goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.errors import ErrorCode
from ottla_testkit.simulation.brokers import AfterAppend, Scripted

_C = ErrorCode

UNKNOWN_NUMBER: Final = 31_999

ONLY_BEFORE: Final = frozenset(
    {
        _C.MESSAGE_TOO_LARGE,
        _C.INVALID_TOPIC_EXCEPTION,
        _C.RECORD_LIST_TOO_LARGE,
        _C.NOT_ENOUGH_REPLICAS,
        _C.INVALID_REQUIRED_ACKS,
        _C.TOPIC_AUTHORIZATION_FAILED,
        _C.CLUSTER_AUTHORIZATION_FAILED,
        _C.INVALID_TIMESTAMP,
        _C.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        _C.INVALID_PRODUCER_EPOCH,
        _C.INVALID_TXN_STATE,
        _C.INVALID_PRODUCER_ID_MAPPING,
        _C.CONCURRENT_TRANSACTIONS,
        _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _C.UNSUPPORTED_COMPRESSION_TYPE,
        _C.INVALID_RECORD,
        _C.PRODUCER_FENCED,
        _C.UNKNOWN_TOPIC_ID,
        _C.TRANSACTION_ABORTABLE,
    }
)
"""Codes of checks that Kafka makes before the append and nowhere else."""

_TRUE: Final = frozenset({_C.NONE, _C.OUT_OF_ORDER_SEQUENCE_NUMBER, _C.UNKNOWN_PRODUCER_ID})
"""What no broker says unless it is so."""

_ENDING: Final = frozenset(
    {
        _C.PRODUCER_FENCED,
        _C.CLUSTER_AUTHORIZATION_FAILED,
        _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _C.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""What ends a transactional producer for good."""


def _both_ways(codes: Iterable[int]) -> Sequence[Scripted]:
    """Before the append, where that is not a lie, and after it, where that happens."""
    codes = tuple(codes)
    before = [code for code in codes if code != _C.DUPLICATE_SEQUENCE_NUMBER]
    return (*before, *(AfterAppend(code) for code in codes if code not in ONLY_BEFORE))


PASSING: Final = _both_ways(code for code in ErrorCode if code.retriable)
"""What a patient producer rides out."""

ANY: Final = _both_ways([*(code for code in ErrorCode if code not in _TRUE), UNKNOWN_NUMBER])
"""Whatever a broker may answer."""

ANY_THAT_ABORTS: Final = _both_ways([*(code for code in ErrorCode if code not in _TRUE | _ENDING), UNKNOWN_NUMBER])
"""The same, for a transactional producer that is to go on."""
