"""A DER parser for certificates: element by element, with every length checked, and without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

BOOLEAN: Final = 0x01
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
OBJECT: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4


class Element(NamedTuple):
    """A tag and its content."""

    tag: int
    content: bytes


def elements(content: bytes) -> Iterator[Element]:
    """Yield all elements in *content*, to its last byte. Raises ValueError if that is not DER."""
    at = 0
    while at < len(content):
        tag, start = content[at], at + 1
        if tag & 0x1F == 0x1F:
            raise ValueError("a tag of more than one byte")
        length, start = _length(content, start)
        at = start + length
        if at > len(content):
            raise ValueError("an element reaches beyond its end")
        yield Element(tag, content[start:at])


def only(content: bytes, tag: int) -> bytes:
    """Return the content of the only element, which must have this tag."""
    found = list(elements(content))
    if len(found) != 1:
        raise ValueError(f"{len(found)} elements instead of one")
    return inside(found[0], tag)


def inside(element: Element, tag: int) -> bytes:
    """Return the content of an element, which must have this tag."""
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#04x} instead of {tag:#04x}")
    return element.content


def _length(content: bytes, at: int) -> tuple[int, int]:
    """Return a length, and the position after it."""
    if at >= len(content):
        raise ValueError("an element without a length")
    first = content[at]
    if first < _LONG:
        return first, at + 1
    size = first - _LONG
    if not 0 < size <= _MAX_LENGTH_BYTES:
        raise ValueError("an invalid length")
    return int.from_bytes(content[at + 1 : at + 1 + size], "big"), at + 1 + size
