"""Copies of data that plugins get, to see whether they change it."""

from __future__ import annotations

import copy
from typing import TypeVar

T = TypeVar("T")


def copied(data: T) -> T:
    """Return a copy, or the data itself if it cannot be copied, such as a memoryview."""
    try:
        return copy.deepcopy(data)
    except Exception:
        return data
