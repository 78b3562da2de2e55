"""Notes of errors, and errors of a clean-up as notes of the error that caused it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ottla.errors.exceptions import OttlaError
from ottla.errors.plugin_origin import faults

E = TypeVar("E", bound=BaseException)


def note_once(error: BaseException, note: str) -> None:
    """Add a note, unless the error has it already: a plugin may raise one error object again and again."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def own_copy(error: E) -> E:
    """A copy that may be changed: a plugin may raise one error object for several calls. The error, if it has none."""
    try:
        made = copy.copy(error)
    except faults():  # of a class with its own way to be copied
        return error
    if type(made) is not type(error):
        return error
    if notes := getattr(error, "__notes__", None):
        made.__notes__ = list(notes)
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def unshared(error: E) -> E:
    """A copy for one caller of an error that other callers get, too.

    Python keeps in an exception where it was raised, with the local variables of these frames, and what was being
    handled then. A program may add notes. Of one object for all, each caller would report what belongs to another.
    """
    return own_copy(error).with_traceback(None)


@contextmanager
def noted_on(
    error: BaseException | None,
    kind: type[OttlaError],
    *,
    doing: str,
    log: Callable[[OttlaError], object] = lambda _failure: None,
) -> Iterator[None]:
    """Add an error of this *kind* that the block raises to *error*, as a note, and *log* it. If *error* is None, raise
    it.

    The block cleans up, *doing* so and so, because of *error*, which need not be printed: SystemExit never is.
    """
    try:
        yield
    except kind as failure:
        if error is None:
            raise
        error.add_note(f"while {doing}: {failure}")
        log(failure)
