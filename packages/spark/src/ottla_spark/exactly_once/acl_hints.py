"""Hints in error messages about the ACL that a user lacks."""

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


def naming_right(message: str, code: ErrorCode, right: str) -> str:
    """Return an error message with the missing right at its end if *code* is an authorization error."""
    return f"{message.rstrip('.')}. The user needs the right {right}" if code in _REFUSALS else message


def transactions_right(name: str) -> str:
    """Return the rights that writing under a name requires."""
    return f"Write for transactional ids that begin with '{name}/'"
