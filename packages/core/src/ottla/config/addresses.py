"""Lists of bootstrap servers: `host:port`, IPv6 addresses in brackets."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from ottla.config.hosts import illegal
from ottla.config.value_types import NAMES, ValueType, items
from ottla.config.values import HIDDEN, brief

Address: TypeAlias = tuple[str, int]

_CREDENTIALS: Final = re.compile(r"(?<![^/@\s])[^/@\s]*@")  # each search begins where a name may begin
_PORTS: Final = range(1, 65536)
_PORT: Final = re.compile(r"[0-9]{1,5}")
_PROTOCOL: Final = re.compile(r"(?i)(sasl_)?(plaintext|ssl)")


def addresses() -> ValueType:
    """The type of a setting with one or more addresses; duplicates are removed. Errors name every invalid entry."""
    return ValueType(allowed='"host:port,host:port" or a list of such', parse=_parse, annotation=NAMES)


def _parse(raw: object) -> tuple[Address, ...]:
    found: list[Address] = []
    reasons: list[str] = []
    for entry in items().parse(raw):
        try:
            found.append(_address(entry))
        except ValueError as error:
            reasons.append(str(error))
    if not found and not reasons:
        reasons.append("the list is empty; name at least one server as host:port")
    if reasons:
        raise ValueError(*reasons)
    return tuple(dict.fromkeys(found))


def _address(entry: object) -> Address:
    if not isinstance(entry, str):
        raise ValueError(f"{brief(entry)} is not a string; write host:port")
    written = entry.strip()
    shown = brief(_CREDENTIALS.sub(HIDDEN + "@", written))
    scheme, found, _ = written.rpartition("://")
    if found:
        protocol = f", and {scheme} as security.protocol" if _PROTOCOL.fullmatch(scheme) else ""
        raise ValueError(f"{shown} has a scheme; write only host:port{protocol}")
    host, found, port = written.rpartition(":")
    if not found or port.endswith("]"):
        raise ValueError(f"{shown} has no port; write host:port, usually with port 9092")
    if not _PORT.fullmatch(port) or int(port) not in _PORTS:
        raise ValueError(f"{shown} has no valid port; a port is a number from 1 to 65535")
    return _host(host, shown), int(port)


def _host(host: str, shown: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        import ipaddress

        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(f"{shown} has no valid IPv6 address in its brackets") from None
        if reason := illegal(host[1:-1]):  # Python allows any text as a zone
            raise ValueError(f"{shown} has no valid host: {reason}; write host:port")
        return host[1:-1]
    if ":" in host:
        raise ValueError(f"{shown} has more than one colon; write an IPv6 address in brackets, [::1]:9092")
    if reason := illegal(host) or ("it has a zone" if "%" in host else None):
        raise ValueError(f"{shown} has no valid host: {reason}; write host:port")
    return host
