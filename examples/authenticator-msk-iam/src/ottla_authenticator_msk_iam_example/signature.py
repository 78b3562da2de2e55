"""A request presigned by AWS Signature Version 4: a GET of `/` with all parameters in its query. Has no clock."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import attrs

SERVICE: Final = "kafka-cluster"
ACTION: Final = "kafka-cluster:Connect"
LIFETIME: Final = 900
"""Seconds for which the request is valid, as in AWS' own library."""

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@attrs.frozen(kw_only=True)
class Credentials:
    """AWS credentials, with a session token if they are temporary."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    session_token: str | None = attrs.field(default=None, repr=False)


def presigned(credentials: Credentials, *, host: str, region: str, at: datetime.datetime) -> Mapping[str, str]:
    """Return the query of the signed request, unencoded; *at* is in UTC."""
    time = at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{time[:8]}/{region}/{SERVICE}/aws4_request"
    query = {
        "Action": ACTION,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": time,
        "X-Amz-Expires": str(LIFETIME),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token is not None:
        query["X-Amz-Security-Token"] = credentials.session_token
    request = "\n".join(("GET", "/", _encoded(query), f"host:{host}", "", "host", _EMPTY))
    to_sign = "\n".join((_ALGORITHM, time, scope, hashlib.sha256(request.encode()).hexdigest()))
    signature = _mac(_key(credentials.secret_key, scope), to_sign).hex()
    return {**query, "X-Amz-Signature": signature}


def _key(secret_key: str, scope: str) -> bytes:
    """Return the key of this day, region and service: one HMAC for each part of the scope."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _encoded(query: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
