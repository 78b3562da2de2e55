"""The ACL that is missing when a broker refuses a request: the error code names its kind, the caller its resource."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import ErrorCode, quoted


def needed(
    code: ErrorCode, *, transactional_id: str | None = None, group: str | None = None, read: Iterable[str] = ()
) -> str:
    """The end of an error message that names the missing ACL; empty if *code* is not about authorization.

    *read*: the topics whose offsets were to be committed.
    """
    match code:
        case ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional_id is not None:
            return f" This user needs Write for transactional id {quoted(transactional_id)}."
        case ErrorCode.GROUP_AUTHORIZATION_FAILED if group is not None:
            return f" This user needs Read for group {quoted(group)}."
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED if read:
            return f" To commit offsets, this user needs Read for topic {', '.join(map(repr, read))}."
        case _:
            return ""
