"""The claims of a token, if it is a JWT: used for its expiry and its principal, never to trust it.

Nothing is verified here; the broker does that. Unreadable claims count as missing.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any, Final

import attrs

MAX_PAYLOAD: Final = 64 * 1024
"""Maximum characters of the encoded claims; longer ones are ignored."""

_LATEST: Final = 1e11
"""Seconds since the epoch, some 3,000 years; later times are invalid."""


@attrs.frozen(kw_only=True)
class Claims:
    """The claims that Ottla uses; times in seconds since the epoch."""

    expires_at: float | None = None
    issued_at: float | None = None
    subject: str | None = None
    scope: str | None = None


def claims(token: str, *, subject: str = "sub", scope: str = "scope") -> Claims:
    """Return the claims of a JWT; *subject* and *scope* name two of them. All are None for anything but a JWT."""
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
    """Return a string, or an array's strings joined."""
    if isinstance(value, list):
        return " ".join(word for word in value if isinstance(word, str)) or None
    return value if isinstance(value, str) and value else None
