"""The sender's action for each error code of a Produce response: one table with all codes.

`ottla.sender.produce_response_handler` applies the actions. It also checks whether attempts and time are left for a
retry, and handles sequence errors.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.errors import ErrorCode


class ProduceErrorAction(enum.Enum):
    """The sender's next step for a batch after a response."""

    ACKNOWLEDGED = "the broker holds the batch"
    RETRY = "send the batch again after a backoff"
    REFRESH = "send the batch again after a backoff, and ask for metadata now"
    TOO_LARGE = "split the batch: it is too large for its topic"
    FAIL = "fail the batch"


_ACKNOWLEDGED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE})


def _action(code: ErrorCode) -> ProduceErrorAction:
    if code in _ACKNOWLEDGED:
        return ProduceErrorAction.ACKNOWLEDGED
    if code in _TOO_LARGE:
        return ProduceErrorAction.TOO_LARGE
    if code.stale_metadata:
        return ProduceErrorAction.REFRESH
    return ProduceErrorAction.RETRY if code.retriable else ProduceErrorAction.FAIL


PRODUCE_ERROR_ACTIONS: Final[Mapping[ErrorCode, ProduceErrorAction]] = MappingProxyType(
    {code: _action(code) for code in ErrorCode}
)

SEQUENCE_ERRORS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Codes with which a broker reports that it lacks the batches before this one."""
