"""How deep data is nested, found without recursion: libraries in C end the process for data that holds itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

MOST_LEVELS: Final = 100
"""Levels of dicts and lists, or of messages: readers of Protobuf take no more, and threads with 512 KiB stacks can."""

_ATOMS: Final = frozenset((str, int, float, bool, bytes, type(None)))

_FEW: Final = 100
"""Dicts and lists that are not worth a search for those that are there twice."""


def levels_of(data: Any, *, maximum: int = MOST_LEVELS) -> float:
    """Return how deep dicts and lists are nested; infinity if objects that may hold others are among what they hold.

    Raises RecursionError for more levels than *maximum*, as for what holds itself.
    """
    has_others = False
    level = [data]
    for depth in range(maximum + 1):
        held = [items for each in level if (items := _items(each)) is not None]
        has_others = has_others or len(held) < len(level)
        if not held:
            return math.inf if has_others and type(data) not in _ATOMS else depth
        below = [item for items in held for item in items if type(item) not in _ATOMS]
        if not below and depth < maximum:
            return math.inf if has_others else depth + 1
        # One that is reached in many ways would be followed in each of them, again on each level.
        level = below if len(below) <= _FEW else list({id(each): each for each in below}.values())
    raise RecursionError


def _items(data: Any) -> Iterable[Any] | None:
    """What a dict or a list holds, in a copy, because another thread may change it; None for other data."""
    kind = type(data)
    if kind is dict or (kind is not list and isinstance(data, Mapping)):
        return list(data.values())
    if isinstance(data, (list, tuple)):
        return data
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes, bytearray, memoryview)):
        return list(data)
    return None


def too_deep(form: str) -> str:
    """Return why data has no form with so many levels."""
    return f"it is nested too deeply for {form} (more than {MOST_LEVELS} levels), or holds itself"
