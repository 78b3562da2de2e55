"""Signed numbers in zigzag form, seven bits in a byte, the lowest first."""

from __future__ import annotations

from typing import Final

_KNOWN: Final = 4096
"""Numbers from 0 to this one are looked up: lengths, indexes and most differences of times are small."""


def varint(number: int) -> bytes:
    """Return *number* as a varint."""
    return _TABLE[number] if 0 <= number < _KNOWN else _encoded(number)


def _encoded(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (~number << 1) | 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_TABLE: Final = tuple(map(_encoded, range(_KNOWN)))

NULL: Final = _encoded(-1)
"""The length of a part that is null."""
EMPTY: Final = _encoded(0)
"""The number of headers, or the length of a part, that is 0."""
