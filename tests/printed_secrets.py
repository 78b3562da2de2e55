"""A search for the tests' secrets in a text, plain or encoded."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest

from secure_broker import ODD_PASSWORD, PASSWORD

WRONG_PASSWORD: Final = "secret-that-is-wrong"
ERRORS: Final = pytest.StashKey[list[str]]()
"""The key of a test's item for the messages of created errors."""

_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----(?:\\n|\s)+([A-Za-z0-9+/=\s]{16,}?)-----END")


def leaked(text: str, *, keys: Collection[str] = ()) -> str | None:
    """The kind of secret in the text, without the secret; None if there is none."""
    for name, secret in (("alice's", PASSWORD), ("bob's", ODD_PASSWORD), ("a wrong", WRONG_PASSWORD)):
        if any(form in text for form in _forms(secret)):
            return f"{name} password"
    if "PRIVATE KEY-----" in text or any(line in text for line in keys):
        return "a private key"
    return None


def key_lines(folder: Path) -> set[str]:
    """The lines of every private key in the PEM files below a folder, but for the short last ones."""
    blocks = [block for file in folder.rglob("*.pem") for block in _KEY.findall(file.read_text())]
    return {line for _kind, body in blocks for line in body.split() if len(line) > 40}


def _forms(secret: str) -> list[str]:
    raw = secret.encode()
    return [secret, ascii(secret)[1:-1], repr(raw)[2:-1], base64.b64encode(raw).decode().rstrip("=")[:-1], raw.hex()]
