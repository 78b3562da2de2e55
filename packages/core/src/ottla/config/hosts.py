"""Validation of host names and addresses, and their form with a port.

Hosts come from the configuration, from brokers' metadata and from name servers. A text that cannot be a host name is
refused before a resolver, a proxy or TLS reads it. The C library ends a name at a NUL, so it would look up
`kafka\\0.example.com` as `kafka`.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 255
"""Characters: RFC 1035 allows 253, and a dot at the end; a zone may follow an IPv6 address."""

_MARKS: Final = frozenset("-._:%")
"""Characters allowed besides letters and digits; the last two in IPv6 addresses. Names with an underscore exist."""


def illegal(host: str) -> str | None:
    """The reason why a text cannot be the name or the address of a host; None: it can."""
    if not host:
        return "a host needs a name"
    if len(host) > LONGEST:
        return f"its {len(host)} characters are more than the {LONGEST} that a host's name may have"
    for character in host:
        if not _may_stand(character):
            return f"no host's name has the character {character!a}"
    return None


def with_port(host: str, port: int) -> str:
    """The form in the configuration: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _may_stand(character: str) -> bool:
    # Beyond ASCII every visible character may belong to an internationalized name; IDNA checks it later.
    return character in _MARKS or (character.isalnum() if character.isascii() else character.isprintable())
