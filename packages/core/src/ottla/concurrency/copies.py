"""Copies of what other threads change, where Python makes none in one step.

`list` of a list, a dict or a view of a dict is one step for other threads, with the GIL and without it. Anything that
goes through an iterator is several steps without it: `tuple`, `sum` or `*` of a view or a deque, and even `copy` of a
deque before CPython 3.14.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

T = TypeVar("T")


def copy_of(changing: deque[T]) -> list[T]:
    """Return the items of a deque that other threads change meanwhile, as they were at one moment."""
    while True:
        try:
            return list(changing)
        except RuntimeError:  # it has changed in between
            continue
