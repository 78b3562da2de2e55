"""Counts in errors and log lines: "1 record was", "2 records were"."""

from __future__ import annotations

from typing import Final

_TAKE_ES: Final = ("ch", "s", "sh", "x")


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless the number is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith(_TAKE_ES) else f"{number} {noun}s"


def were(number: int) -> str:
    """The verb for a number: "was" or "were"."""
    return "was" if number == 1 else "were"
