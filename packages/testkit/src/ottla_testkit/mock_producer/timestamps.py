"""Timestamps that brokers refuse by default: those too far ahead of the broker's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Protocol

from ottla.concurrency.environment import SYSTEM
from ottla.errors import ErrorCode
from ottla.sender.produce_messages import PartitionRefusal

AFTER_MAX_MS: Final = 3_600_000
"""The default of `message.timestamp.after.max.ms` since Kafka 4.0: an hour."""

_BEFORE_MAX_MS: Final = 2**63 - 1
"""The default of `message.timestamp.before.max.ms`: a timestamp may be as old as it likes."""

_REJECTED: Final = "One or more records have been rejected due to invalid timestamp"


class _Timed(Protocol):
    @property
    def timestamp_ms(self) -> int: ...


def check_after_max(limit: object) -> None:
    """Raise TypeError or ValueError for what is no limit."""
    if limit is None:
        return
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"timestamp_after_max_ms={limit!r} is no number of milliseconds; None checks no timestamps")
    if limit < 0:
        raise ValueError(f"timestamp_after_max_ms={limit} is below 0")


def refusal_of(records: Sequence[_Timed], after_max_ms: int | None) -> PartitionRefusal | None:
    """Return a broker's refusal of a batch with a timestamp that is ahead by more than a limit; None checks nothing."""
    if after_max_ms is None:
        return None
    # Tests may have another clock at `time`, and records have either clock: an encoder in C has the system's.
    now_ms = max(time.time_ns(), SYSTEM.time_ns()) // 1_000_000
    earliest, latest = now_ms - _BEFORE_MAX_MS, now_ms + after_max_ms
    refused = {
        index: f"Timestamp {record.timestamp_ms} of message with offset {index} is out of range. The timestamp "
        f"should be within [{earliest}, {latest}]"
        for index, record in enumerate(records)
        if record.timestamp_ms > latest
    }
    if not refused:
        return None
    return PartitionRefusal(code=ErrorCode.INVALID_TIMESTAMP, message=_REJECTED, record_errors=refused)
