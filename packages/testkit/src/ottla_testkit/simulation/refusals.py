"""Error codes of brokers for Produce: every code is returned before the append, and most also after it.

An independent list to check `ottla.sender.produce_error_origins`, which the producer uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.errors import ErrorCode
from ottla_testkit.simulation.produce_requests import AfterAppend, Scripted

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
"""Codes of checks that Kafka runs only before the append."""

_TRUE: Final = frozenset({_C.NONE, _C.OUT_OF_ORDER_SEQUENCE_NUMBER, _C.UNKNOWN_PRODUCER_ID})
"""Codes that a broker returns only if they are true."""

_ENDING: Final = frozenset(
    {
        _C.PRODUCER_FENCED,
        _C.CLUSTER_AUTHORIZATION_FAILED,
        _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _C.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Codes that end a transactional producer for good."""


def _both_ways(codes: Iterable[int]) -> Sequence[Scripted]:
    """Return for each code a refusal before the append, and one after it, where a broker can send them."""
    codes = tuple(codes)
    before = [code for code in codes if code != _C.DUPLICATE_SEQUENCE_NUMBER]
    return (*before, *(AfterAppend(code) for code in codes if code not in ONLY_BEFORE))


RETRIABLE: Final = _both_ways(code for code in ErrorCode if code.retriable)
"""Actions that a producer survives by retries."""

ANY: Final = _both_ways([*(code for code in ErrorCode if code not in _TRUE), UNKNOWN_NUMBER])
"""All actions that a broker may take."""

ANY_THAT_ABORTS: Final = _both_ways([*(code for code in ErrorCode if code not in _TRUE | _ENDING), UNKNOWN_NUMBER])
"""All actions that a transactional producer survives."""
