"""The forms in which a secret may be echoed, and the search for those that are escaped.

`ottla.errors.quoting` imports this module for the first secret of a program.
"""

from __future__ import annotations

import base64
import html
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator
from typing import Final

_ENOUGH_FOR_BASE64: Final = 4
"""Bytes of a secret from which on its base64 form is searched: shorter forms occur in ordinary words."""

_ESCAPE: Final = re.compile(
    r"""\\(?:U00(0[0-9A-F]{5}|10[0-9A-F]{4})|u([0-9A-F]{4})|x([0-9A-F]{2})|([nrtbf"'/\\]))""", re.IGNORECASE
)
"""An escaped character in JSON or in a literal of Java or Python: by its code, or by a letter."""

_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}

ESCAPED_BY: Final = 8
"""Maximum length of an escaped text relative to the longest form of a secret: so much is searched after the end."""

_ESCAPED_TIMES: Final = 3
"""Maximum number of times that a text may have been escaped: JSON within JSON within a URL."""


def forms_of(secret: str | bytes) -> Iterator[str]:
    """The forms in which a secret may be echoed: plain, in a URL, in base64 at three offsets, in hexadecimal."""
    raw = secret if isinstance(secret, bytes) else secret.encode("utf-8", "surrogatepass")
    text = raw.decode("utf-8", "backslashreplace")
    if not text:
        return
    yield from (text, raw.decode("latin-1"), repr(text)[1:-1])
    yield from (urllib.parse.quote(raw), urllib.parse.quote_plus(raw))
    if len(raw) >= _ENOUGH_FOR_BASE64:
        for digits in (raw.hex(), raw.hex(":"), raw.hex(" "), raw.hex("-")):
            yield from (digits, digits.upper())
        for offset in range(3):
            # Only the digits that depend on the secret alone, whatever precedes and follows it.
            encoded = base64.b64encode(bytes(offset) + raw).rstrip(b"=")
            whole = encoded[(8 * offset + 5) // 6 : 8 * (offset + len(raw)) // 6].decode()
            yield from (whole, whole.replace("+", "-").replace("/", "_"))


def has_escaped(forms: Collection[str], text: str) -> bool:
    """Return whether a form appears in a text once its escapes (JSON, HTML, URLs) are undone."""
    for _ in range(_ESCAPED_TIMES):
        before = text
        for decode in _DECODERS:
            # Check after each step: a secret may have characters that the next step takes for an escape.
            text = decode(text)
            if any(form in text for form in forms):
                return True
        if text == before:
            return False
    return False


def _without_literals(text: str) -> str:
    plain = _ESCAPE.sub(_unescaped_character, text)
    # JSON writes a character beyond 16 bits as two surrogates.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped_character(escape: re.Match[str]) -> str:
    digits, letter = escape[1] or escape[2] or escape[3], escape[4]
    return chr(int(digits, 16)) if digits else _LETTERS.get(letter, letter)


_DECODERS: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text.replace("\0", ""),  # between the letters of UTF-16
    lambda text: urllib.parse.unquote(text, errors="backslashreplace"),
    html.unescape,
    _without_literals,
    lambda text: text.replace("\r", "").replace("\n", ""),  # after each 76 digits of base64
)
