"""The claims of a token, if it is a JWT: read for when it expires and whom it names, never to trust it.

Nothing is verified here; that is the broker's business. Whatever cannot be read is simply not known.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any, Final

import attrs

MAX_PAYLOAD: Final = 64 * 1024
"""Characters of the claims, encoded; no broker takes as much in a header."""

_LATEST: Final = 1e11
"""Seconds since the epoch, some 3,000 years; a later time is none."""


@attrs.frozen(kw_only=True)
class Claims:
    """What a token says of itself; times in seconds since the epoch."""

    expires_at: float | None = None
    issued_at: float | None = None
    subject: str | None = None
    scope: str | None = None


def claims(token: str, *, subject: str = "sub", scope: str = "scope") -> Claims:
    """The claims of a JWT, the names of two of them given; all None for anything else."""
    payload = _payload(token)
    return Claims(
        expires_at=_time(payload.get("exp")),
        issued_at=_time(payload.get("iat")),
        subject=_words(payload.get(subject)),
        scope=_words(payload.get(scope)),
    )


def _payload(token: str) -> dict[str, Any]:
    parts = token.split(".", 3)
    if len(parts) != 3 or len(parts[1]) > MAX_PAYLOAD:
        return {}
    try:
        decoded = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        payload = json.loads(decoded)
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < _LATEST and math.isfinite(value) else None


def _words(value: object) -> str | None:
    """A string, or an array of strings in a row."""
    if isinstance(value, list):
        return " ".join(word for word in value if isinstance(word, str)) or None
    return value if isinstance(value, str) and value else None
