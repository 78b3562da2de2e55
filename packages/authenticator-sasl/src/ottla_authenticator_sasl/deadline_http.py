"""One POST over HTTP or HTTPS within one deadline, from the look-up of the host name to the response's last byte.

A socket's own time-out starts again with each byte, so a peer that sends slowly could block forever. Here every
operation gets the time that remains until the deadline. The response has a maximum size, redirects are not followed,
and errors contain no part of the response.
"""

from __future__ import annotations

import base64
import errno
import http
import http.client
import io
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import attrs

from ottla_authenticator_sasl.deadline import Deadline
from ottla_authenticator_sasl.host_names import HostNames, SocketAddress
from ottla_authenticator_sasl.web_address import Address

MAX_ANSWER: Final = 1024 * 1024
"""Maximum bytes of a response, its headers included."""

_CHUNK: Final = 64 * 1024

MAX_INTERIM: Final = 64
"""Maximum interim responses (1xx) before the final one; servers send one or two."""


class HttpResponseTooLargeError(Exception):
    """The response has more than `MAX_ANSWER` bytes."""


class TooManyInterimResponsesError(Exception):
    """The server sends too many interim responses (1xx), and no final one."""


class HttpProxyError(OSError):
    """The proxy that the environment names cannot be used, or refused the connection."""


@attrs.frozen(kw_only=True)
class Answer:
    """The server's response."""

    status: int
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Limits:
    """Maximum seconds: to open the connection, TLS included; and to send the request and read the whole response."""

    connect: float
    answer: float

    @property
    def whole(self) -> float:
        """The seconds for the whole exchange."""
        return self.connect + self.answer


def post(
    address: Address,
    *,
    headers: Mapping[str, str],
    body: str,
    limits: Limits,
    deadline: Deadline,
    context: Callable[[], ssl.SSLContext],
    names: HostNames,
) -> Answer:
    """Send one request and return the response.

    Raises OSError (ssl.SSLError among it), http.client.HTTPException, HttpResponseTooLargeError,
    TooManyInterimResponsesError, or ConnectionFailedError if too many look-ups of the name are running.
    """
    proxy = proxy_for(address)
    until = Deadline(deadline.remaining(limits.connect))
    with _connected(address, proxy=proxy, deadline=until, context=context, names=names) as sock:
        timed: Any = _TimedSocket(sock, Deadline(deadline.remaining(limits.answer)))
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.response_class = _Response
        connection.sock = timed  # so that http.client never connects by itself
        all_headers = {"Host": address.authority, "Connection": "close", **headers}
        target = address.target
        if proxy is not None and not address.secure:
            target, all_headers = address.url, all_headers | proxy.headers()
        connection.request("POST", target, body=body, headers=all_headers)
        response = connection.getresponse()
        return Answer(status=response.status, body=_body(response))


class _Response(http.client.HTTPResponse):
    """The final response. Interim responses (RFC 9110 section 15.2), such as 103 Early Hints, are skipped.

    http.client skips only 100, without a limit, and treats any other 1xx as final.
    """

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MAX_INTERIM + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise TooManyInterimResponsesError


def _body(response: http.client.HTTPResponse) -> bytes:
    body = bytearray()
    while chunk := response.read1(_CHUNK):
        body += chunk
    return bytes(body)


# The proxy


@attrs.frozen(kw_only=True)
class Proxy:
    """An HTTP proxy. Its repr contains neither user nor password."""

    host: str
    port: int
    login: str | None = attrs.field(default=None, repr=False)

    def headers(self) -> dict[str, str]:
        """Return the headers for the proxy: its authorization, if it needs one."""
        return {} if self.login is None else {"Proxy-Authorization": f"Basic {self.login}"}

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_for(address: Address) -> Proxy | None:
    """Return the environment's proxy for this address: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, except for NO_PROXY.

    On Windows and macOS, the system's settings apply, too, as in urllib. Raises HttpProxyError.
    """
    proxies = urllib.request.getproxies()
    written = proxies.get("https" if address.secure else "http") or proxies.get("all")
    if not written or urllib.request.proxy_bypass(address.authority):
        return None
    variable = f"the environment's {'HTTPS_PROXY' if address.secure else 'HTTP_PROXY'} (or ALL_PROXY)"
    try:
        parts = urllib.parse.urlsplit(written if "://" in written else f"http://{written}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    # What follows the port may be the end of a password with a / ? or # that is not percent-encoded: then the host and
    # the port are its beginning, which errors would quote.
    if not host or parts.scheme != "http" or parts.path.strip("/") or parts.query or parts.fragment:
        raise HttpProxyError(
            f"{variable} must be http://host:port, with or without a user, whose name and password are "
            "percent-encoded; other kinds of proxy are not supported"
        )
    return Proxy(host=host, port=port, login=_login(parts))


def _login(parts: urllib.parse.SplitResult) -> str | None:
    if parts.username is None:
        return None
    user, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _open_tunnel(sock: socket.socket, proxy: Proxy, address: Address, deadline: Deadline) -> None:
    """Open a tunnel through the proxy (RFC 9110 section 9.3.6)."""
    timed: Any = _TimedSocket(sock, deadline)
    target = address.host_and_port
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{k}: {v}" for k, v in proxy.headers().items())]
    timed.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    response = _Response(timed, method="CONNECT")
    response.begin()
    if response.status != 200:
        raise HttpProxyError(f"the proxy {proxy} refused the connection, with status {response.status}")


# The connection


@contextmanager
def _connected(
    address: Address,
    *,
    proxy: Proxy | None,
    deadline: Deadline,
    context: Callable[[], ssl.SSLContext],
    names: HostNames,
) -> Iterator[socket.socket]:
    host, port = (address.host, address.port_or_default) if proxy is None else (proxy.host, proxy.port)
    try:
        sock = _first_that_answers(names.look_up(host, port, deadline), deadline)
    except OSError as error:
        if proxy is None:
            raise
        raise HttpProxyError(f"the proxy {proxy}, which the environment names, cannot be reached: {error}") from error
    try:
        if address.secure:
            if proxy is not None:
                _open_tunnel(sock, proxy, address, deadline)
            sock.settimeout(deadline.remaining())  # Python's ssl applies it to the whole handshake
            sock = context().wrap_socket(sock, server_hostname=address.host)
        yield sock
    finally:
        sock.close()


def _first_that_answers(found: Sequence[SocketAddress], deadline: Deadline) -> socket.socket:
    """Connect to the first address that accepts. Each gets an equal share of the time that remains."""
    error: OSError | None = None
    for number, (family, kind, protocol, _, sockaddr) in enumerate(found):
        with ExitStack() as opened:  # closes the socket unless it is connected
            try:
                sock = opened.enter_context(socket.socket(family, kind, protocol))  # fails without IPv6
                sock.settimeout(deadline.remaining() / (len(found) - number))
                sock.connect(sockaddr)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as refused:
                if error is None or refused.errno != errno.EAFNOSUPPORT:  # which says nothing about the server
                    error = refused
            else:
                opened.pop_all()
                return sock
    raise error or OSError("the host name has no address")


class _TimedSocket:
    """The part of a socket that http.client uses. Each operation gets the time that remains until the deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        """Write all bytes."""
        view = memoryview(data)
        while view:
            self._sock.settimeout(self._deadline.remaining())
            view = view[self._sock.send(view) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader for the response."""
        return io.BufferedReader(_TimedReader(self._sock, self._deadline))

    def close(self) -> None:
        """Do nothing: the owner closes the socket after reading the response."""


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._remaining = MAX_ANSWER

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._sock.settimeout(self._deadline.remaining())
        count = self._sock.recv_into(buffer)
        self._remaining -= count
        if self._remaining < 0:
            raise HttpResponseTooLargeError
        return count
