"""Errors for topics and partitions that cannot be used."""

from __future__ import annotations

from typing import Final

from ottla.config.wait_limit import WaitLimit
from ottla.errors import BrokerError, ErrorCode, OttlaError, TopicUnavailableError, counted
from ottla.network.cluster import Topic

FINAL_TOPIC_ERRORS: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Codes that waiting cannot fix: `send` raises them at once. Records that are queued wait for new metadata."""


def not_available(
    topic: str,
    known: Topic | None,
    partition: int | None,
    limit: WaitLimit,
    *,
    last_error: OttlaError | None,
    setup: str,
) -> TopicUnavailableError:
    """The error after the seconds of *limit*, in which metadata did not have the topic or the partition.

    *setup* says what a connection waits for, if no attempt has failed yet.
    """
    cause = last_error
    if known is not None and known.leaders:
        why = f"partition {partition} does not exist; the topic has {len(known.leaders)}, counted from 0"
    elif known is not None and known.error is not ErrorCode.NONE:
        cause = refusal(known.error)
        why = str(cause).rstrip(".")
    elif cause is not None:
        why = f"no broker answered; last error: {cause}"
    elif limit.seconds > 0:
        why = "no broker answered" + (f"; {setup}" if setup else "")
    else:
        why = "its metadata has not arrived yet, and the call does not wait for it"
    # Without a wait the limit explains nothing, and is 0 in a MockProducer whatever the settings say.
    state = f"was not available within {limit.name} ({limit.seconds:g} s)" if limit.seconds > 0 else "is not available"
    error = TopicUnavailableError(f"topic {topic!r} {state}: {why}")
    error.__cause__ = cause
    return error


def refusal(code: ErrorCode) -> BrokerError:
    """The error for a topic's code in metadata, where a missing right has more causes than in other responses."""
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        # Also the code for a topic that does not exist, if brokers create topics and this user may not.
        return BrokerError(
            code, "This user lacks a right for the topic; it needs Write, and Create if the topic does not exist"
        )
    return BrokerError(code)


def no_servers(topic: str, fatal_error: OttlaError) -> TopicUnavailableError:
    """The error when every server refuses us."""
    error = TopicUnavailableError(f"topic {topic!r} is not available: {fatal_error}")
    error.__cause__ = fatal_error
    return error


def missing_partition(known: Topic, partition: int) -> TopicUnavailableError | None:
    """The error for records whose topic or partition no longer exists; None if both exist."""
    if known.error is not ErrorCode.NONE and not known.leaders:
        cause = refusal(known.error)
        error = TopicUnavailableError(
            f"topic {known.name!r} cannot be used: {str(cause).rstrip('.')}; it may have been deleted, or this user "
            "may no longer describe it"
        )
        error.__cause__ = cause
        return error
    if known.leaders and partition >= len(known.leaders):
        return TopicUnavailableError(
            f"partition {partition} of topic {known.name!r} no longer exists: the topic was created again with "
            f"{counted(len(known.leaders), 'partition')}, counted from 0; send these records again"
        )
    return None
