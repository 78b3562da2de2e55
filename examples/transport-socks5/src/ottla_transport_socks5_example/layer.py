"""One connection: first a negotiation with the proxy, then the inner transport's layer on the same socket."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence

from ottla.errors import ConnectionFailedError
from ottla.interfaces import Buffer, Interest, TransportLayer
from ottla_transport_socks5_example.negotiation import Negotiation


class Socks5Layer:
    """Negotiate, then delegate to the layer that *open_inner* returns. Reads no byte after the proxy's."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        negotiation: Negotiation,
        proxy: str,
        open_inner: Callable[[], TransportLayer],
    ) -> None:
        self._sock = sock
        self._negotiation = negotiation
        self._proxy = proxy
        self._open_inner = open_inner
        self._inner: TransportLayer | None = None
        self._unsaid, self._missing = next(negotiation)
        self._heard = b""

    def handshake(self) -> bool:
        """Complete the proxy's handshake, then the inner layer's."""
        while self._inner is None:
            if not self._take_turn():
                return False
            self._go_on()
        return self._inner.handshake()

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Write to the broker."""
        return self._broker.write(chunks)

    def flush(self) -> bool:
        """Flush the inner layer."""
        return self._broker.flush()

    def read_into(self, buffer: memoryview) -> int | None:
        """Read from the broker."""
        return self._broker.read_into(buffer)

    def interest(self) -> Interest:
        """Return the negotiation's events, afterwards the inner layer's."""
        if self._inner is not None:
            return self._inner.interest()
        return Interest.WRITE if self._unsaid else Interest.READ

    def may_read(self) -> bool:
        """Return the inner layer's result."""
        return self._broker.may_read()

    def details(self) -> Sequence[tuple[str, str]]:
        """Return the inner layer's details, if it has any."""
        details = getattr(self._inner, "details", None)
        return tuple(details()) if details is not None else ()

    def close(self) -> None:
        """Close the inner layer, if it is open already, else the socket."""
        if self._inner is not None:
            self._inner.close()
            return
        with contextlib.suppress(OSError):  # the proxy may have closed already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    @property
    def _broker(self) -> TransportLayer:
        assert self._inner is not None, "bytes flow once the handshake is done"
        return self._inner

    def _take_turn(self) -> bool:
        """Write and read as much as the socket allows; return True when the turn is complete."""
        try:
            if self._unsaid:
                self._unsaid = self._unsaid[self._sock.send(self._unsaid) :]
            while self._missing:
                heard = self._sock.recv(self._missing)
                if not heard:
                    raise ConnectionFailedError(
                        f"the SOCKS5 proxy {self._proxy} hung up before its answer was complete"
                    )
                self._heard += heard
                self._missing -= len(heard)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as cause:
            raise ConnectionFailedError(
                f"the connection to the SOCKS5 proxy {self._proxy} was lost: {cause}"
            ) from cause
        return not self._unsaid

    def _go_on(self) -> None:
        """Process the proxy's response, or open the inner layer at the end."""
        heard, self._heard = self._heard, b""
        try:
            self._unsaid, self._missing = self._negotiation.send(heard)
        except StopIteration:
            self._inner = self._open_inner()
