"""The blocks of a PEM text, reformatted: inline values are often on one line, or have "\\n" spelt out."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

import attrs

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([^-]*+(?:-(?!----)[^-]*+)*+)-----END \1-----")
"""Each byte is read once, however many beginnings without an end there are: headers have single dashes."""

_HEADER: Final = re.compile(rb"^[A-Za-z-]+: .*$", re.MULTILINE)
_CERTIFICATES: Final = frozenset({"CERTIFICATE", "X509 CERTIFICATE"})
_COLUMNS: Final = 64  # after headers OpenSSL takes no longer lines
_ENCRYPTED: Final = "ENCRYPTED PRIVATE KEY"


@attrs.frozen(kw_only=True)
class Block:
    """One block of a PEM text, such as a certificate or a key. `body` is the decoded content."""

    label: str
    body: bytes = attrs.field(repr=False)
    headers: bytes = attrs.field(default=b"", repr=False)

    @property
    def is_certificate(self) -> bool:
        return self.label in _CERTIFICATES

    @property
    def is_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether the block is an encrypted key, in PKCS#8 or in OpenSSL's older format."""
        return self.label == _ENCRYPTED or b"ENCRYPTED" in self.headers

    def written(self) -> bytes:
        """Return the block as OpenSSL reads it."""
        headers = self.headers + b"\n\n" if self.headers else b""
        text = base64.b64encode(self.body)
        lines = b"".join(text[at : at + _COLUMNS] + b"\n" for at in range(0, len(text), _COLUMNS))
        label = self.label.encode()
        return b"-----BEGIN " + label + b"-----\n" + headers + lines + b"-----END " + label + b"-----\n"


def blocks(text: bytes) -> Iterator[Block]:
    """Yield the blocks in order, without the text between them. ValueError: one is not base64."""
    for found in _BLOCK.finditer(text):
        label, inner = found[1].decode(), found[2].replace(b"\\n", b"\n").replace(b"\r", b"")
        headers = b"\n".join(_HEADER.findall(inner))
        try:
            body = base64.b64decode(b"".join(_HEADER.sub(b"", inner).split()), validate=True)
        except binascii.Error:
            raise ValueError(f"its {label} block is damaged: it is not base64") from None
        yield Block(label=label, body=body, headers=headers)
