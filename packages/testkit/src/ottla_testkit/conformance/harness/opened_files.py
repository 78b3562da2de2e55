"""The files that a plugin opens with the functions of Python. Libraries in C may open others."""

from __future__ import annotations

import builtins
import functools
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

_PLACES: Final = (builtins, io, os)
"""The modules whose `open` is replaced. An audit hook would see more, and could not be removed: with one, Python 3.11
refuses to start threads at once under coverage or a debugger."""


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths that are opened in the block, as they are written, by any thread."""
    opened: list[str] = []
    with ExitStack() as stack:
        for place in _PLACES:
            stack.enter_context(patch.object(place, "open", _noting(place.open, opened)))
        yield opened


def _noting(original: Callable[..., Any], opened: list[str]) -> Callable[..., Any]:
    @functools.wraps(original)
    def noted(*arguments: Any, **options: Any) -> Any:
        path = arguments[0] if arguments else options.get("file", options.get("path"))
        if isinstance(path, str | bytes | os.PathLike):
            opened.append(os.fsdecode(path))
        return original(*arguments, **options)

    return noted
