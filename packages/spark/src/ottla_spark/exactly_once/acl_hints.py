"""Which right a user lacks when brokers refuse something, in the words of Kafka's access lists."""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode

_REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


def lacking(code: ErrorCode, right: str) -> str:
    """How an error goes on that ends in this code: with the right that helps, if it is for lack of one."""
    return f". The user needs the right {right}" if code in _REFUSALS else ""


def transactions_right(name: str) -> str:
    """What writing under a name takes."""
    return f"Write for transactional ids that begin with '{name}/'"
