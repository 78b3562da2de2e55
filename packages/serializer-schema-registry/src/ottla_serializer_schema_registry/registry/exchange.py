"""One HTTP exchange on a new connection, within one deadline. It decides neither on repetitions nor on statuses.

A socket's time-out starts again with each byte, so a peer that sends slowly could block forever. Here every operation
gets the time that remains. An answer has a maximum size, and redirects are not followed: they could take a password
elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

import attrs
import h11

from ottla.errors import printable
from ottla.interfaces import Secret
from ottla_serializer_schema_registry.errors import RegistryAnswerError
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.host_names import HostNames

MAX_ANSWER: Final = 4 * 1024 * 1024
"""Maximum bytes of an answer's body. Schemas have some kilobytes."""

MAX_HEADERS: Final = 64 * 1024
LONGEST_WAIT: Final = 1e6
"""Maximum seconds of one wait: sockets and locks take no number that is much larger."""

_CHUNK: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class Request:
    """A request, without the address. It has the same effect once and repeated, as all of ours."""

    method: str
    path: str
    body: bytes = attrs.field(default=b"", repr=False)

    def __str__(self) -> str:
        return printable(f"{self.method} {self.path}")  # it may have the name of a schema of the registry


@attrs.frozen(kw_only=True)
class Answer:
    """The status and the body of an answer."""

    status: int
    body: bytes = attrs.field(repr=False)
    retry_after: float = 0.0
    """The seconds that the registry asks to wait for; 0 if it does not."""
    login: Authorization | None = attrs.field(default=None, repr=False)
    """That of its request: while the answer exists, text that quotes it shows the secrets of this login as stars."""


class Deadline:
    """A time at which everything ends."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + seconds

    def remaining(self) -> float:
        """Return the seconds that remain. Raises TimeoutError if there are none."""
        seconds = self._until - self._clock()
        if seconds <= 0:
            raise TimeoutError("the time for the request is over")
        return min(seconds, LONGEST_WAIT)


def exchange(
    address: str,
    request: Request,
    *,
    authorization: Authorization | None,
    context: ssl.SSLContext | None,
    host_names: HostNames,
    deadline: Deadline,
) -> Answer:
    """Send a request and return the answer.

    Raises OSError, h11.RemoteProtocolError, and RegistryAnswerError for an answer that is too large.
    """
    parts = urlsplit(address)
    host, secure = parts.hostname or "", parts.scheme == "https"
    sock = _connected(host, parts.port or (443 if secure else 80), host_names, deadline)
    try:
        if secure:
            sock.settimeout(deadline.remaining())  # for the whole handshake
            sock = (context or ssl.create_default_context()).wrap_socket(sock, server_hostname=host)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADERS)
        written = _written(connection, parts, request, authorization)
        sock.settimeout(deadline.remaining())
        sock.sendall(written.reveal())
        return attrs.evolve(_answer(connection, sock, deadline), login=authorization)
    finally:
        sock.close()


def _written(
    connection: h11.Connection, parts: SplitResult, request: Request, authorization: Authorization | None
) -> Secret[bytes]:
    headers = [
        ("Host", parts.netloc),
        ("Connection", "close"),
        ("Accept", "application/vnd.schemaregistry.v1+json, application/json"),
    ]
    if request.body:
        headers += [
            ("Content-Type", "application/vnd.schemaregistry.v1+json"),
            ("Content-Length", str(len(request.body))),
        ]
    events = Secret[tuple[h11.Event, ...]](
        (
            h11.Request(
                method=request.method,
                target=parts.path + request.path,
                headers=[*headers, *(authorization.headers() if authorization is not None else ())],
            ),
            *([h11.Data(data=request.body)] if request.body else ()),
            h11.EndOfMessage(),
        )
    )
    return Secret(b"".join(filter(None, map(connection.send, events.reveal()))))


def _connected(host: str, port: int, host_names: HostNames, deadline: Deadline) -> socket.socket:
    """Connect to the first address that accepts. Each gets an equal share of the time that remains."""
    error: OSError | None = None
    found = host_names.addresses(host, port, timeout=deadline.remaining())
    for number, (family, kind, protocol, _name, sockaddr) in enumerate(found):
        with contextlib.ExitStack() as opened:  # closes the socket unless it is connected
            try:
                sock = opened.enter_context(socket.socket(family, kind, protocol))  # fails without IPv6
                sock.settimeout(deadline.remaining() / (len(found) - number))
                sock.connect(sockaddr)
            except OSError as refused:
                if error is None or refused.errno != errno.EAFNOSUPPORT:  # which says nothing about the registry
                    error = refused
            else:
                opened.pop_all()
                return sock
    raise error or OSError("the host name has no address")


def _answer(connection: h11.Connection, sock: socket.socket, deadline: Deadline) -> Answer:
    status, retry_after, body = 0, 0.0, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            sock.settimeout(deadline.remaining())
            connection.receive_data(sock.recv(_CHUNK))
        elif isinstance(event, h11.Response):
            status, retry_after = event.status_code, _retry_after(event)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_ANSWER:
                raise RegistryAnswerError(f"the answer of the schema registry is larger than {MAX_ANSWER} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status=status, body=bytes(body), retry_after=retry_after)


def _retry_after(response: h11.Response) -> float:
    for name, value in response.headers:
        if name == b"retry-after" and value.isdigit() and len(value) < 7:
            return float(value)
    return 0.0
