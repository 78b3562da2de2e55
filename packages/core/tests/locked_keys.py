"""Encrypted private keys that ask for any number of iterations; there is no key in them."""

from __future__ import annotations

import base64
from typing import Final

_PBES2: Final = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
_PBKDF2: Final = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c"
_SHA256: Final = b"\x30\x0c\x06\x08\x2a\x86\x48\x86\xf7\x0d\x02\x09\x05\x00"
_AES: Final = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x01\x2a"


def locked_pem(iterations: int) -> bytes:
    """A key in PKCS#8, encrypted with PBKDF2 and AES."""
    count = iterations.to_bytes(iterations.bit_length() // 8 + 1, "big")
    derivation = _sequence(_PBKDF2, _sequence(_element(0x04, b"saltsalt"), _element(0x02, count), _SHA256))
    cipher = _sequence(_AES, _element(0x04, bytes(16)))
    whole = _sequence(_sequence(_PBES2, _sequence(derivation, cipher)), _element(0x04, bytes(64)))
    text = base64.encodebytes(whole)
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + text + b"-----END ENCRYPTED PRIVATE KEY-----\n"


def _sequence(*parts: bytes) -> bytes:
    return _element(0x30, b"".join(parts))


def _element(tag: int, content: bytes) -> bytes:
    length = len(content)
    return bytes([tag, length] if length < 0x80 else [tag, 0x82, length >> 8, length & 0xFF]) + content
