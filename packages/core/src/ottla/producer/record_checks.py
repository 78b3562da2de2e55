"""Checks of what a program passes to `send`, besides its headers and its callback. Each raises InvalidRecordError."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.config import BatchingConfig
from ottla.config.values import brief
from ottla.errors import InvalidRecordError, RecordTooLargeError
from ottla.recordbatch.record_limits import RECORD_OVERHEAD, TIMESTAMP_MAX

TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def check_record(topic: str, partition: int | None, size: int, batching: BatchingConfig) -> None:
    """Raise for a record that cannot be sent. If there are several reasons, it names the first of this order."""
    check_topic_name(topic)
    if partition is not None:
        check_partition(partition)
    check_size(topic, size, batching)


def check_topic_name(topic: object) -> None:
    """Raise unless it is a name that a topic can have."""
    if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
        shown = brief(topic) if isinstance(topic, str) else type(topic).__name__  # it may be the record, or a table
        raise InvalidRecordError(
            f"{shown} is not a topic name: a name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', "
            "and is not '.' or '..'"
        )


def check_partition(partition: object) -> None:
    """Raise unless it is a partition that a topic can have."""
    if type(partition) is not int or partition < 0:
        hint = "; leave it out, or pass None, to let the partitioner choose" if partition == -1 else ""
        raise InvalidRecordError(f"partition must be an int of at least 0, not {brief(partition)}{hint}")


def timestamp_of(given: object) -> int:
    """The milliseconds since 1970 of a timestamp that `send` was given. Raises unless a record can have it."""
    found = _milliseconds(given) if isinstance(given, datetime) else given
    if type(found) is not int or not 0 <= found <= TIMESTAMP_MAX:
        raise InvalidRecordError(
            f"timestamp_ms must be an int from 0 to {TIMESTAMP_MAX}, or a datetime with a time zone, not {brief(given)}"
        )
    return found


def _milliseconds(given: datetime) -> int:
    try:
        zone = given.utcoffset()
    except ValueError:  # pandas.NaT is a datetime, and none
        raise InvalidRecordError(f"timestamp_ms={brief(given)} is no time") from None
    if zone is None:
        raise InvalidRecordError(
            f"timestamp_ms={brief(given)} has no time zone: pass datetime.now(UTC), or astimezone() of a local time"
        )
    return (given - _EPOCH) // _MILLISECOND


def check_size(topic: str, size: int, batching: BatchingConfig) -> None:
    """Raise RecordTooLargeError for a record that no request, or not the whole memory, could hold."""
    limit = batching.buffer_memory if batching.buffer_memory <= batching.max_request_size else batching.max_request_size
    if size + RECORD_OVERHEAD > limit:
        name = "buffer.memory" if limit == batching.buffer_memory else "max.request.size"
        raise RecordTooLargeError(
            f"a record of {size + RECORD_OVERHEAD} bytes for topic {topic!r} is above {name}={limit}; "
            "nothing was queued"
        )
