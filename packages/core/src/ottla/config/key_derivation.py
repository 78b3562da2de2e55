"""How often the key of an encrypted private key is hashed, read before a library does so.

The file says it, up to two thousand million times, which takes many minutes of processor time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.interfaces import Secret

MOST_ITERATIONS: Final = 5_000_000
"""Some seconds. OpenSSL and Java write 2,048 to 10,000, and careful users a million."""

_BLOCK: Final = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----([^-]*+)-----END ")
"""Each byte is read once, however many beginnings without an end there are."""

_DER: Final = b"\x30"
_INTEGER: Final = 0x02
_OCTETS: Final = 0x04
_CONSTRUCTED: Final = 0x20
_LONGEST_COUNT: Final = 9
"""Bytes of a number of iterations. Longer numbers behind octets are those of elliptic curves."""

_MOST_PARTS: Final = 200_000
"""Maximum number of elements that are read."""


def check_iterations(content: Secret[bytes]) -> None:
    """Raise ValueError if a private key in a PEM text, or a PKCS12 file, needs too many iterations."""
    if max(_counts(content.reveal()), default=0) > MOST_ITERATIONS:
        raise ValueError(
            f"its encryption needs more than {MOST_ITERATIONS:,} iterations; encrypt it again with fewer, such as "
            "600,000 (openssl pkcs8 -topk8 -iter 600000)"
        )


def _counts(content: bytes) -> Iterator[int]:
    """Yield the numbers behind salts (PBKDF2, scrypt, and the check of a PKCS12 file)."""
    waiting, parts = list(_encoded(content)), 0
    while waiting and parts < _MOST_PARTS:
        before = 0
        elements = _elements(waiting.pop())
        parts += len(elements)
        for tag, inner in elements:
            if tag == _INTEGER and before == _OCTETS and len(inner) <= _LONGEST_COUNT:
                yield int.from_bytes(inner, "big")
            if tag & _CONSTRUCTED or tag == _OCTETS:
                waiting.append(inner)
            before = tag


def _encoded(content: bytes) -> Iterator[bytes]:
    if content.startswith(_DER):
        yield content
    for block in _BLOCK.finditer(content):
        try:
            yield base64.b64decode(block[1].replace(b"\\n", b"\n"))
        except binascii.Error:
            continue  # the library will refuse it


def _elements(content: bytes) -> Sequence[tuple[int, bytes]]:
    """The elements of which the content consists; none if it is not DER, such as encrypted data."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at + 2 <= len(content) and len(found) < _MOST_PARTS:
        tag, length, at = content[at], content[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(content[at : at + size], "big"), at + size
        if at + length > len(content):
            return ()
        found.append((tag, content[at : at + length]))
        at += length
    return found if at == len(content) else ()
