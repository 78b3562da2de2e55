"""Arrow types and the paths of columns, for all formats."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

LISTS: Final = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
"""The names of the types whose cells are lists, for `is_one_of`."""


def is_one_of(kind: Any, *names: str) -> bool:
    """Return whether pyarrow has one of these names for a type, such as "list" for `is_list`."""
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def within(path: str, name: str) -> str:
    """Return the path of a field of the column at *path*; the path of the whole row is empty."""
    return f"{path}.{name}" if path else name


def shown(path: str) -> str:
    """Return the column at *path* as the subject of a sentence."""
    return f"column {path!r}" if path else "it"
