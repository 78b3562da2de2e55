"""SaslAuthenticate: one message of the mechanism in each direction (KIP-152).

From version 1 on the response has the lifetime of the session. Before its end the client has to authenticate again on
the same connection, or the broker closes it (KIP-368).
"""

from __future__ import annotations

from typing import Annotated

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Bytes, Ignorable, In, Int16, Int64, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class SaslAuthenticateRequest(Struct):
    """`auth_bytes` belong to the mechanism and are never in a repr: they may have a password."""

    auth_bytes: Bytes = attrs.field(default=b"", repr=False)


@attrs.define(kw_only=True, eq=False, repr=False)
class SaslAuthenticateResponse(Struct):
    """`session_lifetime_ms=0` is a session that does not expire."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = attrs.field(default=b"", repr=False)
    session_lifetime_ms: Annotated[Int64, In(1), Ignorable()] = 0


SASL_AUTHENTICATE = Message(
    name="SaslAuthenticate",
    key=36,
    min_version=0,
    max_version=2,
    flexible_from=2,
    request_type=SaslAuthenticateRequest,
    response_type=SaslAuthenticateResponse,
)
