"""Validation of host names and addresses, and their form with a port.

Hosts come from the configuration, from brokers' metadata and from name servers. A text that cannot be a host name is
refused before a resolver, a proxy or TLS reads it. The C library ends a name at a NUL, so it would look up
`kafka\\0.example.com` as `kafka`.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 255
"""Maximum characters of a host. RFC 1035 allows 253 and a dot at the end; an IPv6 address may have a zone."""

_MARKS: Final = frozenset("-._:%")
"""Allowed characters besides letters and digits. IPv6 addresses have `:` and `%`; some names have `_`."""


def illegal(host: str) -> str | None:
    """The reason why a text cannot be a host's name or address; None if it can."""
    if not host:
        return "the host is empty"
    if len(host) > LONGEST:
        return f"it has {len(host)} characters; a host has at most {LONGEST}"
    for character in host:
        if not _is_allowed(character):
            return f"the character {character!a} is not allowed in a host"
    return None


def with_port(host: str, port: int) -> str:
    """`host:port` as the configuration has it, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_allowed(character: str) -> bool:
    # Beyond ASCII every visible character may belong to an internationalized name; IDNA checks it later.
    return character in _MARKS or (character.isalnum() if character.isascii() else character.isprintable())
