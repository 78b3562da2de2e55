"""Errors that are copies of each other: each caller gets its own."""

from __future__ import annotations


def same(error: BaseException | None, other: BaseException | None) -> bool:
    """Return whether both say the same, because of the same cause; two that are None do, too."""
    return type(error) is type(other) and str(error) == str(other) and _cause(error) is _cause(other)


def _cause(error: BaseException | None) -> BaseException | None:
    return None if error is None else error.__cause__
