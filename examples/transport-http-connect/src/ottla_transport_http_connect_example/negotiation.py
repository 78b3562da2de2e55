"""The request CONNECT to an HTTP proxy and its response: RFC 9110, RFC 9112, and RFC 7617 for the login.

Owns no socket. The proxy gets a broker's name unchanged and resolves it; the local resolver does not get it.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Generator, Mapping
from typing import Final

import attrs

from ottla.errors import ConnectionFailedError, NameResolutionError, ProtocolMismatchError, quoted
from ottla.plugins.transports import Exchange, Negotiation

MAX_HEAD: Final = 16 * 1024
"""Bytes of a response's head: status line and fields. The longest known ones have some hundred."""

MAX_INTERIM: Final = 64
"""Interim responses (1xx) before the final one; servers send one or two. A proxy that sends more would never let the
I/O thread go on."""

OTHER_PROTOCOL: Final = "check http.connect.proxy, and whether it wants TLS: then set connection.via=ssl,http-connect"
"""The remedy for a server that does not answer in HTTP, or closes the connection."""

_BEGINNING: Final = b"HTTP/"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9]{2})(?: ([^\r\n]*))?\r?\n")
_ENDS: Final = (b"\n\r\n", b"\n\n")  # RFC 9112, 2.2: a line may end without CR

_SCHEME: Final = "Basic "
_LOGIN_WANTED: Final = frozenset({401, 407})  # 401 is wrong for a proxy, and some send it
_REMEDIES: Final[Mapping[int, str]] = {
    400: "it does not understand the request; is it an HTTP proxy?",
    403: "its rules do not allow it; have the brokers' hosts and ports allowed",
    404: "it is a web server and no proxy; check http.connect.proxy",
    405: "it takes no CONNECT; check http.connect.proxy",
    429: "it has too much to do",
    500: "it failed",
    502: "it cannot reach the host, or finds no such name",
    503: "it cannot reach the host, or has too much to do",
    504: "the host did not answer in time",
}


@attrs.frozen
class Login:
    """A user name and a password."""

    username: str
    password: str = attrs.field(repr=False)

    def credentials(self) -> str:
        """The value of the field `Proxy-Authorization`."""
        return _SCHEME + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def negotiation(host: str, port: int, *, proxy: str, login: Login | None) -> Negotiation:
    """Yield exchanges and receive the responses; after its end the next byte is the broker's.

    Raises ConnectionFailedError if *proxy* refuses, and ProtocolMismatchError if it uses another protocol.
    """
    to = f"{_host(host)}:{port}"
    fields = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
    if login is not None:
        fields.append(f"Proxy-Authorization: {login.credentials()}")
    request = "\r\n".join([*fields, "", ""]).encode()
    beginning = yield Exchange(request, len(_BEGINNING))
    code, reason = yield from _response(beginning, proxy)
    interim = 0
    while code < 200:  # interim responses come before the final one
        interim += 1
        if interim > MAX_INTERIM:
            raise ProtocolMismatchError(
                f"the HTTP proxy {proxy} sends too many interim responses, the last one with status {code}, and no "
                "final one; check http.connect.proxy"
            )
        code, reason = yield from _response(b"", proxy)
    if code >= 300:
        raise _refusal(code, reason, to=to, proxy=proxy, login=login)


def _response(head: bytes, proxy: str) -> Generator[Exchange, bytes, tuple[int, str]]:
    """Read the head of a response, of which *head* has come, and no byte more; return its code and reason."""
    if head and head != _BEGINNING:
        raise ProtocolMismatchError(f"{proxy} does not speak HTTP: its response begins with {head!r}; {OTHER_PROTOCOL}")
    while not head.endswith(_ENDS):
        if len(head) > MAX_HEAD:
            raise ProtocolMismatchError(f"the response of the HTTP proxy {proxy} has no end; check http.connect.proxy")
        # At least so many bytes are missing: an end of two bytes, or its second one.
        head += yield Exchange(b"", 1 if head.endswith((b"\n", b"\n\r")) else 2)
    found = _STATUS_LINE.match(head)
    if found is None:
        line = head.split(b"\n", 1)[0].decode(errors="replace")
        raise ProtocolMismatchError(f"the HTTP proxy {proxy} answered {quoted(line.strip())}, which is no status line")
    return int(found[1]), (found[2] or b"").decode(errors="replace").strip()


def _refusal(code: int, reason: str, *, to: str, proxy: str, login: Login | None) -> ConnectionFailedError:
    # A proxy might echo what it got.
    secrets = [] if login is None else [login.password, login.credentials().removeprefix(_SCHEME)]
    said = f"{code} {quoted(reason, secrets=secrets)}" if reason else str(code)
    if code in _LOGIN_WANTED:
        if login is None:
            remedy = "it wants a login; set http.connect.username and http.connect.password"
        else:
            remedy = (
                f"it refused the login of {login.username!r}; check http.connect.username and http.connect.password"
            )
    else:
        remedy = _REMEDIES.get(code, "its log may say why")
    return ConnectionFailedError(f"the HTTP proxy {proxy} does not connect us to {to} ({said}); {remedy}")


def _host(host: str) -> str:
    try:
        digits = ipaddress.ip_address(host)
    except ValueError:
        return _name(host)
    return str(digits) if digits.version == 4 else f"[{digits}]"


def _name(host: str) -> str:
    """The name as it may stand in a request line: in ASCII, without what could end the line."""
    try:
        name = host.encode("idna").decode("ascii")
    except UnicodeError as cause:
        raise NameResolutionError(f"{quoted(host)} cannot be the name of a host: {cause}", final=True) from cause
    if not name or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise NameResolutionError(f"{quoted(host)} cannot be the name of a host", final=True)
    return name
