"""One connection, which writes one request at a time and reads size-prefixed responses.

Frames bytes and keeps partial data; the transport layer moves the bytes. It never blocks and reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.interfaces import Buffer, Interest, SupportsCipher, TransportLayer, supports
from ottla.network.selector.response_frames import Receive
from ottla.network.selector.transport_plugin_faults import check_cipher, check_finished, check_interest, wrong_count

# Constants, because the look-up of an enum's member is a call on CPython 3.11 (`ottla.network.connection_stage`).
_NONE: Final = Interest.NONE
_READ: Final = Interest.READ
_READ_OR_WRITE: Final = Interest.READ | Interest.WRITE


class Channel:
    """A transport layer with framing on top. For the I/O thread."""

    def __init__(self, layer: TransportLayer, *, peer: str, max_response_size: int) -> None:
        self._layer = layer
        self._receive = Receive(layer, peer=peer, max_response_size=max_response_size)
        self.read: Final = self._receive.read
        self._unsent: list[Buffer] = []
        self._sending = False
        self._written = 0
        self.ready = False

    @property
    def moved(self) -> int:
        """A counter that grows with every byte that the layer wrote or read, and with every request that is sent."""
        return self._written + self._receive.received

    @property
    def interest(self) -> Interest:
        """The events that the selector should watch the socket for. Raises WrongResultError."""
        wanted = self._layer.interest()
        check_interest(wanted)
        if not self.ready:
            return wanted
        if self._sending:
            return _READ_OR_WRITE
        return _READ if wanted is _NONE else wanted | _READ

    @property
    def sending(self) -> bool:
        """Return whether a send is unfinished."""
        return self._sending

    @property
    def may_read(self) -> bool:
        """Return whether unread bytes are buffered, for which the socket will not become readable."""
        return self.ready and (self._receive.may_read or self._layer.may_read())

    def handshake(self) -> bool:
        """Continue the layer's handshake. Return True once it is finished, so that requests may be sent."""
        self.ready = check_finished("handshake", self._layer.handshake())
        return self.ready

    def cipher(self) -> tuple[str, str] | None:
        """Return cipher suite and protocol, or None if there is no encryption, or the layer does not say.

        Called after the handshake. Raises WrongResultError.
        """
        return check_cipher(self._layer.cipher()) if supports(self._layer, SupportsCipher) else None

    def send(self, chunks: Sequence[Buffer]) -> None:
        """Queue one framed request."""
        assert not self._sending, "one send at a time"
        self._unsent = [chunk for chunk in chunks if len(chunk)]
        self._sending = True

    def write(self) -> bool:
        """Write what the layer accepts, and return whether the send is complete, down to the socket.

        Raises WrongResultError.
        """
        while self._unsent:
            taken = self._layer.write(self._unsent)
            if taken == 0:
                return False
            self._drop(taken)
            self._written += taken
        if self._sending and check_finished("flush", self._layer.flush()):
            self._sending = False
            self._written += 1
            return True
        return False

    def close(self) -> None:
        """Close the layer and its socket."""
        self._layer.close()

    def _drop(self, taken: int) -> None:
        """Drop the first *taken* unsent bytes."""
        rest = taken
        if type(taken) is int and taken > 0:
            if taken == sum(map(len, self._unsent)):  # as usual
                self._unsent.clear()
                return
            for position, chunk in enumerate(self._unsent):
                if rest < len(chunk):
                    self._unsent[:position] = []
                    if rest:
                        self._unsent[0] = memoryview(chunk)[rest:]
                    return
                rest -= len(chunk)
        if rest != 0:
            raise wrong_count("write", taken, sum(map(len, self._unsent)))
        self._unsent.clear()
