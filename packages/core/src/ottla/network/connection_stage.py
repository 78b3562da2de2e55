"""The stages of a connection."""

from __future__ import annotations

import enum


class Stage(enum.Enum):
    """The stage of a connection; DISCONNECTED may follow every stage.

    | stage          | waits for                                         | then                          |
    |----------------|---------------------------------------------------|-------------------------------|
    | RESOLVING      | addresses                                         | CONNECTING                    |
    | CONNECTING     | the socket and the transport's handshake          | NEGOTIATING                   |
    | NEGOTIATING    | the response to ApiVersions, once per connection  | AUTHENTICATING, without: READY |
    | AUTHENTICATING | SaslHandshake, SaslAuthenticate, our mechanism    | READY                         |
    | READY          | requests                                          | RENEWING, with SASL           |
    | RENEWING       | the same, after responses to earlier requests     | READY                         |
    """

    DISCONNECTED = "disconnected"
    RESOLVING = "looking up the name"
    CONNECTING = "connecting"
    NEGOTIATING = "asking for API versions"
    AUTHENTICATING = "logging in"
    READY = "ready"
    RENEWING = "logging in again"
