"""A negotiation with a proxy or a gateway, then the inner transport's layer over the same connection.

The negotiation is a generator without I/O; the layer moves its bytes without waiting.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias

from ottla.errors import ConnectionFailedError, printable
from ottla.interfaces import Buffer, Interest, SupportsCipher, Transport, TransportLayer, supports
from ottla.plugins.transports.layer_details import THROUGH, details, lower_details
from ottla.plugins.transports.opening import open_layer


class Exchange(NamedTuple):
    """Bytes to send, and the exact number of bytes to wait for then.

    Wait for no more than the peer must send: the bytes after its last response belong to the inner layer.
    """

    send: bytes
    receive: int


Negotiation: TypeAlias = Generator[Exchange, bytes, None]
"""Yields exchanges, gets the bytes of each response, and ends when the next byte is the inner layer's.

It raises a NetworkError of `ottla.errors` for a peer that refuses.
"""


class TunnelLayer:
    """A layer that negotiates over *lower*, then opens the layer of *inner* for a broker's host and port.

    *peer* names the other side of the negotiation in errors, such as "the proxy proxy.example.com:3128"; *remedy* is
    what to check when it closes the connection.
    """

    def __init__(
        self,
        lower: TransportLayer,
        *,
        negotiation: Negotiation,
        peer: str,
        remedy: str = "",
        inner: Transport,
        host: str,
        port: int,
    ) -> None:
        self._lower = lower
        self._negotiation = negotiation
        self._peer = peer
        self._remedy = f"; {remedy}" if remedy else ""
        self._inner = inner
        self._destination = host, port
        self._begun = False  # the lower layer's handshake is done
        self._opened: TransportLayer | None = None
        send, receive = next(negotiation)
        self._unsent = memoryview(send)
        self._received = memoryview(bytearray(receive))
        self._missing = receive

    def handshake(self) -> bool:
        """Complete the lower layer's handshake, the negotiation, then the inner layer's handshake."""
        if self._opened is None:
            opened = self._negotiate()
            if opened is None:
                return False
            self._opened = opened
        return self._opened.handshake()

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Write to the inner layer."""
        return self._inside.write(chunks)

    def flush(self) -> bool:
        """Flush the inner layer."""
        return self._inside.flush()

    def read_into(self, buffer: memoryview) -> int | None:
        """Read from the inner layer."""
        return self._inside.read_into(buffer)

    def interest(self) -> Interest:
        """Return the negotiation's events, afterwards the inner layer's."""
        if self._opened is not None:
            return self._opened.interest()
        if not self._begun:
            return self._lower.interest()
        return self._lower.interest() | (Interest.WRITE if self._unsent else Interest.READ)

    def may_read(self) -> bool:
        """Return the inner layer's result."""
        return self._inside.may_read()

    def details(self) -> Sequence[tuple[str, str]]:
        """Return the proxies on the way, the nearest first, with details of the layers to them, then the inner ones."""
        inside = details(self._opened)
        if self._opened is self._lower:
            return [*lower_details(self._lower), (THROUGH, self._peer)]
        return [(THROUGH, self._peer), *inside]

    def cipher(self) -> tuple[str, str] | None:
        """Return the inner layer's cipher: the lower one ends at the proxy."""
        inside = self._inside
        return None if inside is self._lower or not supports(inside, SupportsCipher) else inside.cipher()

    def close(self) -> None:
        """Close the inner layer, if it is open already, else the lower one."""
        (self._opened or self._lower).close()

    @property
    def _inside(self) -> TransportLayer:
        assert self._opened is not None, "bytes flow once the handshake is done"
        return self._opened

    def _negotiate(self) -> TransportLayer | None:
        """Return the inner layer after the last exchange, or None while it waits for the peer's bytes."""
        try:
            if not self._begun:
                if not self._lower.handshake():
                    return None
                self._begun = True
            while self._take_turn():
                try:
                    send, receive = self._negotiation.send(bytes(self._received))
                except StopIteration:
                    return open_layer(self._inner, self._lower, *self._destination)
                self._unsent, self._received, self._missing = memoryview(send), memoryview(bytearray(receive)), receive
        except OSError as cause:
            raise ConnectionFailedError(f"the connection to {self._peer} was lost: {printable(str(cause))}") from cause
        return None

    def _take_turn(self) -> bool:
        """Write and read as much as possible now, and return whether the exchange is complete."""
        while self._unsent:
            taken = self._lower.write([self._unsent])
            if not taken:
                return False
            self._unsent = self._unsent[taken:]
        if not self._lower.flush():
            return False
        while self._missing:
            got = self._lower.read_into(self._received[-self._missing :])
            if got is None:
                return False
            if got == 0:
                raise ConnectionFailedError(
                    f"{self._peer} closed the connection before its response was complete{self._remedy}"
                )
            self._missing -= got
        return True
