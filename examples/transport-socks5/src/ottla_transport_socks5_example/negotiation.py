"""Messages to a SOCKS5 proxy and their responses: RFC 1928, and RFC 1929 for the login. Owns no socket.

The proxy gets a broker's name unchanged and resolves it; the local resolver does not get it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final, NoReturn

import attrs

from ottla.errors import ConnectionFailedError, NameResolutionError, ProtocolMismatchError
from ottla.plugins.transports import Exchange, Negotiation

MAX_LENGTH: Final = 255
"""Maximum bytes of a user name, a password or a broker's name: their length is one byte."""

_VERSION: Final = 5
_LOGIN_VERSION: Final = 1
_CONNECT: Final = 1
_SUCCESS: Final = 0

_NO_LOGIN: Final = 0
_PASSWORD: Final = 2
_NONE_OF_THESE: Final = 0xFF

_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4

_REFUSALS: Final[Mapping[int, str]] = {
    1: "it failed, and does not say at what",
    2: "its rules do not allow it",
    3: "it has no way to the broker's network",
    4: "it cannot reach the host, or finds no such name",
    5: "the host refused the connection; is this the broker's port?",
    6: "the way to the broker is too long, or took too long",
    7: "it makes no connections for others",
    8: "it does not take this kind of address",
}


@attrs.frozen
class UserPassword:
    """A user name and a password, as bytes."""

    username: bytes
    password: bytes = attrs.field(repr=False)


def negotiation(host: str, port: int, *, proxy: str, login: UserPassword | None) -> Negotiation:
    """Yield exchanges and receive the responses; after its end the next byte is the broker's.

    Raises ConnectionFailedError if *proxy* refuses, and ProtocolMismatchError if it uses another protocol.
    """
    destination = _destination(host, port)
    yield from _introduce(proxy, login)
    version, reply = yield Exchange(bytes([_VERSION, _CONNECT, 0]) + destination, 2)
    _check(version, _VERSION, proxy)
    if reply != _SUCCESS:  # checked now: some proxies close after a refusal without the rest
        reason = _REFUSALS.get(reply, "for a reason that is not in RFC 1928")
        raise ConnectionFailedError(
            f"the SOCKS5 proxy {proxy} does not connect us to {host}:{port}: {reason} ({reply})"
        )
    _reserved, kind, first = yield Exchange(b"", 3)
    yield Exchange(b"", _rest(kind, first, proxy))


def _introduce(proxy: str, login: UserPassword | None) -> Negotiation:
    methods = bytes([_NO_LOGIN] if login is None else [_NO_LOGIN, _PASSWORD])
    version, method = yield Exchange(bytes([_VERSION, len(methods)]) + methods, 2)
    _check(version, _VERSION, proxy)
    if method == _PASSWORD and login is not None:
        yield from _log_in(proxy, login)
    elif method != _NO_LOGIN:
        _refuse_method(method, proxy, login)


def _log_in(proxy: str, login: UserPassword) -> Negotiation:
    said = bytes([_LOGIN_VERSION, *_counted(login.username), *_counted(login.password)])
    version, status = yield Exchange(said, 2)
    _check(version, _LOGIN_VERSION, proxy)
    if status != _SUCCESS:
        raise ConnectionFailedError(
            f"the SOCKS5 proxy {proxy} refused the login of {login.username.decode()!r} ({status}); "
            "check socks5.username and socks5.password"
        )


def _refuse_method(method: int, proxy: str, login: UserPassword | None) -> NoReturn:
    if method != _NONE_OF_THESE:
        raise ProtocolMismatchError(f"the SOCKS5 proxy {proxy} chose a kind of login that was not offered ({method})")
    if login is None:
        raise ConnectionFailedError(f"the SOCKS5 proxy {proxy} wants a login; set socks5.username and socks5.password")
    raise ConnectionFailedError(f"the SOCKS5 proxy {proxy} takes no login by user name and password")


def _check(version: int, expected: int, proxy: str) -> None:
    if version != expected:
        raise ProtocolMismatchError(
            f"{proxy} does not speak SOCKS5: its response begins with {version:#04x}, not {expected:#04x}; "
            "check socks5.proxy"
        )


def _rest(kind: int, first: int, proxy: str) -> int:
    """Return the number of remaining bytes after *first*, a successful reply's first address byte, port included."""
    lengths = {_IPV4: 4 - 1, _IPV6: 16 - 1, _NAME: first}
    if kind not in lengths:
        raise ProtocolMismatchError(
            f"the SOCKS5 proxy {proxy} answered with a kind of address that does not exist ({kind})"
        )
    return lengths[kind] + 2


def _destination(host: str, port: int) -> bytes:
    return _host(host) + port.to_bytes(2, "big")


def _host(host: str) -> bytes:
    try:
        digits = ipaddress.ip_address(host)
    except ValueError:
        return bytes([_NAME, *_counted(_name(host))])
    return bytes([_IPV4 if digits.version == 4 else _IPV6]) + digits.packed


def _name(host: str) -> bytes:
    try:
        name = host.encode("idna")
    except UnicodeError as cause:
        raise NameResolutionError(f"{host!r} cannot be the name of a host: {cause}", final=True) from cause
    if not 0 < len(name) <= MAX_LENGTH:
        raise NameResolutionError(f"{host!r} cannot be the name of a host: {len(name)} bytes", final=True)
    return name


def _counted(text: bytes) -> bytes:
    return bytes([len(text)]) + text
