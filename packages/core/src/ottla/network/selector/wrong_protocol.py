"""Peers that do not speak plaintext Kafka: recognised by their first four bytes, with the setting to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_KAFKA: Final = "it is no Kafka listener, or one for another security.protocol"

_USE_TLS: Final = "set security.protocol=SSL, or SASL_SSL if it wants a login"
_OTHER_PORT: Final = "check the ports in bootstrap.servers and advertised.listeners"

_TLS: Final[Mapping[int, str]] = {
    0x15: f"answered with a TLS alert: this listener expects TLS; {_USE_TLS}",
    0x16: f"answered with a TLS handshake: this listener expects TLS; {_USE_TLS}",
}

_GREETINGS: Final[Mapping[bytes, str]] = {
    b"HTTP": f"answered in HTTP: this is a web server; {_OTHER_PORT}",
    b"<htm": f"answered with a web page: this is a web server; {_OTHER_PORT}",
    b"SSH-": f"answered as an SSH server; {_OTHER_PORT}",
    b"220 ": f"answered as a mail or file server; {_OTHER_PORT}",
    b"-ERR": f"answered as a Redis server; {_OTHER_PORT}",
}


def other_protocol(first: bytes) -> str | None:
    """A description of a peer that speaks another protocol, by the first bytes of a response; None if unknown."""
    if first[1:2] == b"\x03" and first[0] in _TLS:
        return _TLS[first[0]]
    return _GREETINGS.get(first)
