"""The files that a plugin opens, by the audit events of Python. Libraries in C may open others."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_lists: Final[list[list[str]]] = []
"""A list for each block that is running; every thread's files are in it, as a plugin may read on one of its own."""


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths that are opened in the block, as they are written."""
    _add_hook()
    opened: list[str] = []
    _lists.append(opened)
    try:
        yield opened
    finally:
        _lists.remove(opened)


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_note)  # once, because a hook cannot be removed


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _lists and event == "open" and isinstance(arguments[0], str | bytes):
        for each in _lists:
            each.append(os.fsdecode(arguments[0]))
