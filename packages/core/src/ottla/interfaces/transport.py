"""Transports: the addresses of connections, and their bytes."""

from __future__ import annotations

import enum
import socket
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from ottla.interfaces.records import Buffer
from ottla.results.value_methods import ValueMethods


class Interest(enum.Flag):
    """The socket events that a layer itself waits for."""

    NONE = 0
    READ = 1
    WRITE = 2


@attrs.frozen(eq=False, repr=False)
class Target(ValueMethods):
    """An address to connect to: a `socket.AF_*` family and the address that `connect` takes for it."""

    family: int
    sockaddr: Any


@attrs.frozen(eq=False, repr=False)
class HostTarget(ValueMethods):
    """A host and port to connect to, such as those of a proxy. The core resolves the name again for each attempt."""

    host: str
    port: int


@runtime_checkable
class TransportLayer(Protocol):
    """One connection's bytes. Called by one thread at a time, mostly the I/O thread; no method blocks.

    Optional abilities: `SupportsDetails`, `SupportsCipher`.
    """

    def handshake(self) -> bool:
        """Return True when bytes may flow; called again at any time until then. OSError: the connection failed."""

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Take over bytes from the front of *chunks* and return how many, or 0 if no more fit now.

        At most about 256 kB are taken ahead of the socket.
        """

    def flush(self) -> bool:
        """Return True when no byte that was taken over still waits for the socket."""

    def read_into(self, buffer: memoryview) -> int | None:
        """Read into *buffer* and return the number of bytes: None if there are none now, 0 if the peer has closed."""

    def interest(self) -> Interest:
        """The events that the layer itself waits for, apart from the channel's own reads and writes."""

    def may_read(self) -> bool:
        """Return whether a read may return bytes without the socket becoming readable.

        If that read then returns None, the selector reads again once the socket is readable.
        """

    def close(self) -> None:
        """Close the socket, with a best-effort shutdown of the protocol; returns immediately and never raises."""


class SupportsDetails(Protocol):
    """An optional ability of transport layers: text about the connection, for `ottla doctor`."""

    def details(self) -> Sequence[tuple[str, str]]:
        """Return pairs of a label and a text, such as ("protocol", "TLSv1.3"), without secrets.

        Called after the handshake. A pair with the label "warning" is a warning.
        """


class SupportsCipher(Protocol):
    """An optional ability of transport layers: the cipher of the connection, for the metric `connections`."""

    def cipher(self) -> tuple[str, str] | None:
        """Return the names of the cipher suite and of the protocol, such as ("TLS_AES_256_GCM_SHA384", "TLSv1.3").

        Returns None if the connection to the broker is not encrypted. Called once, after the handshake, on the I/O
        thread.
        """


@runtime_checkable
class Transport(Protocol):
    """Opens the connections of one producer.

    Optional abilities: `SupportsOpenOver`, `SupportsClose`.
    """

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget] | None:
        """Return the addresses to connect to for this broker, or None to resolve the name as usual.

        Called for each attempt.
        """

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        """Wrap a connected, non-blocking socket, which the layer owns from now on; host and port are the broker's."""


class SupportsOpenOver(Protocol):
    """An optional ability of transports: a layer over another layer, such as TLS through a proxy behind TLS."""

    def open_over(self, lower: TransportLayer, host: str, port: int) -> TransportLayer:
        """Like `open`, with a layer in place of a socket: its bytes go to this host and port. The new layer owns it.

        The new layer calls `lower.handshake()` until it returns True, and only then reads and writes. Its own
        `interest` includes the lower one's, its `flush` also flushes, and its `may_read` is true if the lower one's is.
        Its `read_into` returns None only once the lower one has.
        """
