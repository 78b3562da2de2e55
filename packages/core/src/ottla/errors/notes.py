"""Errors of a clean-up, as notes of the error that caused it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.errors.exceptions import OttlaError


@contextmanager
def noted_on(error: BaseException | None, kind: type[OttlaError], *, doing: str) -> Iterator[None]:
    """Add an error of this *kind* that the block raises to *error*, as a note. If *error* is None, raise it.

    The block cleans up, *doing* so and so, because of *error*.
    """
    try:
        yield
    except kind as failure:
        if error is None:
            raise
        error.add_note(f"while {doing}: {failure}")
