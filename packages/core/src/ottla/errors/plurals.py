"""Counts and articles in errors and log lines: "1 record was", "2 records were", "an int"."""

from __future__ import annotations

from typing import Final

_TAKE_ES: Final = ("ch", "s", "sh", "x")
_VOWELS: Final = frozenset("aeiou")
_NO_VOWEL: Final = ("uni", "use", "uuid", "eu", "one")
"""Beginnings that are pronounced with a consonant: "a UnionType", "a UserDict"."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless the number is 1."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith(_TAKE_ES) else f"{number} {noun}s"


def with_article(name: str) -> str:
    """A name with "a" or "an", as it is pronounced: "an Observer", "a NoneType"."""
    return f"an {name}" if name[:1].lower() in _VOWELS and not name.lower().startswith(_NO_VOWEL) else f"a {name}"


def were(number: int) -> str:
    """The verb for a number: "was" or "were"."""
    return "was" if number == 1 else "were"
