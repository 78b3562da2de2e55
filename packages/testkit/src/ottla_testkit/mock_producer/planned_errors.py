"""Errors that the test has planned for calls of a mock producer's methods."""

from __future__ import annotations

from collections import deque
from typing import Final

METHODS: Final = frozenset(
    {
        "send",
        "send_table",
        "send_sealed",
        "flush",
        "close",
        "init_transactions",
        "begin_transaction",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "prepare_transaction",
        "join_transaction",
        "leave_transaction",
    }
)


class PlannedErrors:
    """The errors by method, in the order in which they will be raised."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[Exception | None]] = {}

    def plan(self, method: str, error: Exception, *, after: int) -> None:
        """Plan an error for a call of this method. Raises ValueError if it has no such method, and TypeError."""
        if method not in METHODS:
            raise ValueError(
                f"{method!r} is not a producer method that can fail; these are: {', '.join(sorted(METHODS))}. To fail "
                "a record, so that its result() raises, use fail_next(error)"
            )
        check_exception("raise_next", error)
        self._planned.setdefault(method, deque()).extend(planned("raise_next", error, after=after))

    def raise_next(self, method: str) -> None:
        """Raise the next error of this method, if there is one."""
        errors = self._planned.get(method)
        error = errors.popleft() if errors else None
        if error is not None:
            raise error

    def clear(self) -> None:
        """Drop all errors."""
        self._planned.clear()


def planned(method: str, error: Exception, *, after: int) -> list[Exception | None]:
    """The error behind a None for each of *after* calls or records without one. Raises TypeError and ValueError."""
    if not isinstance(after, int) or isinstance(after, bool):
        raise TypeError(f"{method}: after={after!r} is no number")
    if after < 0:
        raise ValueError(f"{method}: after={after} is below 0")
    return [*[None] * after, error]


def check_exception(method: str, error: object) -> None:
    """Raise TypeError in the call that plans an error, rather than later in the call of the program."""
    if isinstance(error, type) and issubclass(error, BaseException):
        raise TypeError(f"{method} got the class {error.__name__}; give an error of it, {error.__name__}(...)")
    if not isinstance(error, BaseException):
        raise TypeError(f"{method} got {error!r}, which is no exception")
