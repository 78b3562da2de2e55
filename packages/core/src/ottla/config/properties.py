r"""Java's properties files, as `java.util.Properties` reads them, so that a file of Kafka's own tools works here.

`key=value`, `key: value` or `key value`; `#` or `!` begins a comment; a backslash at the end of a line joins the
next line to it, elsewhere it escapes (`\t`, `\n`, `\u00e9`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_COMMENT: Final = ("#", "!")
_ENTRY: Final = re.compile(rf"(?P<key>(?:\\.|[^\\=:{_BLANK}])*)[{_BLANK}]*(?:[=:][{_BLANK}]*)?(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<character>.)|$)", re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = {ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord("\f"): "\\f"}
_PEM: Final = "-----"
_PEM_BEGIN: Final = "-----BEGIN "
_PEM_END: Final = "-----END "
_MARKS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

MAX_NAME: Final = 200
"""Maximum characters of a setting's name in a file; Kafka's have at most 60."""

_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """The entries; the last one counts if a key is repeated. Raises ValueError, which quotes no value."""
    return {key: value for _line, key, value in numbered_entries(text)}


def numbered_entries(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each entry with the number of its first line. Raises ValueError, which quotes no value."""
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "the expression takes any line"
        try:
            key, value = _unescaped(entry["key"]), _unescaped(entry["value"])
        except ValueError:
            raise ValueError(rf"line {number} has a \u without four hexadecimal digits") from None
        yield number, key, value


def numbered_settings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each entry of a file of settings as `numbered_entries` does.

    Raises ValueError, which quotes nothing, for a PEM text whose lines are not joined, and for a name that is too long.
    """
    for number, key, value in numbered_entries(text):
        if key.startswith(_PEM) or (_PEM_BEGIN in value and _PEM_END not in value):
            raise ValueError(
                f"line {number} has a part of a PEM text, such as a key or certificate, because its lines are not "
                r"joined; write \n\ at the end of each of them but the last, or name a file in another setting"
            )
        if len(key) > MAX_NAME:
            raise ValueError(f"the name in line {number} has {len(key)} characters")
        yield number, key, value


def check_encoding(content: bytes) -> None:
    """Raise ValueError for a file that begins with a byte order mark, which would be a part of the first name."""
    if content.startswith(_MARKS):
        raise ValueError(
            "it begins with a byte order mark (BOM), as some Windows editors write it; save it as UTF-8 without BOM"
        )


def escaped_value(text: str) -> str:
    """Return a value as a line of a properties file has it: `read_properties` returns the same text."""
    written = text.translate(_ESCAPED)
    return f"\\{written}" if written.startswith(" ") else written


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined at trailing backslashes, with the number of the first line; without comments and empty lines.

    For a backslash without anything behind it at the end of a file, Java has an entry without a name; here is none.
    """
    joined, first = "", 0
    for number, line in enumerate(_LINE_END.split(text), start=1):
        rest = line.lstrip(_BLANK)
        if not joined:  # an entry begins, also behind a line that is nothing but a backslash
            if not rest or rest.startswith(_COMMENT):
                continue
            first = number
        joined += rest
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(_meant, text)
    if plain.isascii() or not _SURROGATE.search(plain):
        return plain
    # Java escapes a character outside of the Basic Multilingual Plane as two surrogates.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _meant(escape: re.Match[str]) -> str:
    if escape["code"]:
        return chr(int(escape["code"], 16))
    character = escape["character"] or ""
    if character == "u":
        raise ValueError("not four hexadecimal digits")
    return _CONTROLS.get(character, character)
