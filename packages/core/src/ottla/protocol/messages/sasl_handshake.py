"""SaslHandshake: the mechanism to authenticate with, as the first request or the second after ApiVersions.

The version determines what follows. After 0 the mechanism's messages are sent bare with a length of 4 bytes, without
any Kafka header; after 1 they are sent in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

import attrs

from ottla.protocol.message import Message
from ottla.protocol.notation import Int16, String, Struct


@attrs.define(kw_only=True, eq=False, repr=False)
class SaslHandshakeRequest(Struct):
    """Mechanisms have their IANA names, such as SCRAM-SHA-256."""

    mechanism: String = ""


@attrs.define(kw_only=True, eq=False, repr=False)
class SaslHandshakeResponse(Struct):
    """With error 33 `mechanisms` are those that the broker accepts."""

    error_code: Int16 = 0
    mechanisms: list[String] = attrs.Factory(list)


SASL_HANDSHAKE = Message(
    name="SaslHandshake",
    key=17,
    min_version=0,
    max_version=1,
    flexible_from=None,
    request_type=SaslHandshakeRequest,
    response_type=SaslHandshakeResponse,
)
