"""The syntax of NAME=value files. Errors have the number of a line, and never its text: it may be a secret."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*")
_NOTHING: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A comment after a value begins with a blank and a number sign, so that a#b is a value.
_PLAIN: Final = re.compile(r"((?:(?![ \t]+#)[^\n])*)")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "\n": ""}


class MalformedFileError(Exception):
    """The text has a line that is no assignment."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line} {problem}")


def parse(text: str) -> dict[str, str]:
    """Return the values of a file. If a name occurs more than once, the last value counts, as in a shell."""
    text = text.replace("\r\n", "\n")
    values: dict[str, str] = {}
    place = 0
    while place < len(text):
        nothing = _NOTHING.match(text, place)
        if nothing is not None:
            place = nothing.end()
            continue
        line = text.count("\n", 0, place) + 1
        name = _NAME.match(text, place)
        if name is None:
            raise MalformedFileError(line, "is not NAME=value")
        values[name[1]], place = _value(text, name.end(), line)
    return values


def _value(text: str, place: int, line: int) -> tuple[str, int]:
    """Return the value that begins at *place*, and where the next line begins."""
    quote = text[place : place + 1]
    if quote in ("'", '"'):
        found = (_SINGLE if quote == "'" else _DOUBLE).match(text, place)
        if found is None:
            raise MalformedFileError(line, "has a quotation mark without its end")
        value = found[1] if quote == "'" else _ESCAPE.sub(_unescaped, found[1])
    else:
        found = _PLAIN.match(text, place)
        assert found is not None, "it matches nothing, too"
        value = "" if found[1].startswith("#") else found[1].rstrip()
        if not value:
            return "", text.find("\n", place) + 1 or len(text)
    rest = _NOTHING.match(text, found.end())
    if rest is None:
        raise MalformedFileError(line, "has text after the closing quotation mark")
    return value, rest.end()


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[0])
