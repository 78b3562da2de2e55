"""Quoting of text from outside (brokers, identity servers, certificates) in errors, logs and terminals.

The result is printable, on one line, at most 300 characters long, and has stars instead of our secrets. All text from
outside goes through `printable` or `quoted`; no other code escapes or cuts it.
"""

from __future__ import annotations

import itertools
import unicodedata
import weakref
from collections.abc import Collection, Iterable, Iterator
from typing import Final

LONGEST: Final = 300
"""Maximum characters of one text from outside, escapes included."""

STARS: Final = "***"
"""The replacement of a secret of any length."""

_READ: Final = 1 << 16
"""Characters of a text that are read, and searched for secrets: a broker may send megabytes."""

_MARKS_IN_A_ROW: Final = 3
"""Combining characters on one letter: written languages need no more, and lines above are not covered."""

_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are invisible although `str.isprintable` accepts them."""

_VARIATIONS: Final = frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
"""Variation selectors: also invisible, and any number of them can carry a hidden text."""


class Secrets:
    """Secrets that messages show as stars where they quote text from outside, as long as this object exists.

    Keep it as long as the secret itself. Values of keys with `secret=True` need none: the configuration has one for
    them. A plugin makes its own `Secrets` for a secret from elsewhere (a file, a callable, a token).
    """

    __slots__ = ("__weakref__", "_forms")

    def __init__(self, *texts: str | bytes) -> None:
        self._forms = _forms_of(texts)
        # Not `items`: its pairs are new objects, so the garbage collector may run, and with it finalizers and other
        # threads that change the dictionary meanwhile.
        for number in list(_held):
            reference = _held.get(number)
            if reference is None or reference() is None:
                _held.pop(number, None)
        _held[next(_numbers)] = weakref.ref(self)

    def __repr__(self) -> str:
        return "Secrets()"


_held: Final[dict[int, weakref.ref[Secrets]]] = {}
"""Not a WeakValueDictionary: the interpreter swallows a Ctrl-C in the function that removes an entry of that."""

_numbers: Final = itertools.count()


def quoted(text: str | bytes, *, secrets: Collection[str | bytes] = (), limit: int = LONGEST) -> str:
    """Text from outside between quotation marks; hides *secrets* in addition to those that a `Secrets` holds."""
    shown = printable(text, secrets=secrets, limit=limit)
    return f'"{shown}"' if "'" in shown else f"'{shown}'"


def printable(
    text: str | bytes, *, secrets: Collection[str | bytes] = (), limit: int = LONGEST, hide: bool = True
) -> str:
    """Text from outside on one line of at most *limit* characters: a name in a sentence, or a whole sentence.

    Control and format characters (escape sequences, line breaks, bidirectional overrides, zero-width characters) and
    surrogates are written as in Python's literals.

    Without *hide* secrets are not replaced: for a sentence of ours in which all text from outside is already quoted.
    Stars among known words would reveal which of them is the password.
    """
    read = text[:_READ]
    known = read.decode("utf-8", "backslashreplace") if isinstance(read, bytes) else read
    forms = _longest_first([*_forms_held(), *_forms_of(secrets)]) if hide else ()
    for form in forms:
        known = known.replace(form, STARS)
    if len(text) > _READ and forms and len(known) < limit + len(forms[0]):
        return STARS  # so full of secrets that another one may begin at the end of what was read
    if forms:
        from ottla.errors.secret_forms import ESCAPED_BY, has_escaped

        if has_escaped(forms, known[: limit + ESCAPED_BY * len(forms[0])]):
            return STARS
    shown = _escaped(known[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def _forms_of(secrets: Collection[str | bytes]) -> tuple[str, ...]:
    if not secrets:
        return ()
    from ottla.errors.secret_forms import forms_of  # imported late: most programs have no secrets

    return _longest_first(form for secret in secrets for form in forms_of(secret))


def _forms_held() -> Iterator[str]:
    for reference in list(_held.values()):
        secrets = reference()
        if secrets is not None:
            yield from secrets._forms


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    """The longest first: replacing a secret that is part of another one must not leave the rest of the other."""
    return tuple(sorted(set(forms), key=len, reverse=True))


def _escaped(text: str) -> str:
    if text.isprintable() and text.isascii():
        return text
    parts: list[str] = []
    marks = _MARKS_IN_A_ROW  # a mark without a letter would be drawn over the text before ours
    for character in text:
        is_mark = unicodedata.category(character).startswith("M")
        hidden = not character.isprintable() or character in _BLANK or character in _VARIATIONS
        if hidden or (is_mark and marks >= _MARKS_IN_A_ROW):
            parts.append(character.encode("unicode_escape").decode("ascii"))
            marks = _MARKS_IN_A_ROW
            continue
        marks = marks + 1 if is_mark else 0 if character.isalnum() else _MARKS_IN_A_ROW
        parts.append(character)
    return "".join(parts)


def class_name(thing: object) -> str:
    """The class of a plugin's object, or the plugin's function, with its module."""
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    module = getattr(kind, "__module__", None) or "builtins"  # methods of built-in types have none
    return f"{module}.{kind.__qualname__}"


def callback_name(callback: object) -> str:
    """The name of a function of the program, or the repr of another callable."""
    return str(getattr(callback, "__qualname__", callback))
