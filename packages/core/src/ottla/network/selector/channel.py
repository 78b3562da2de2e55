"""One connection: one request at a time is written, size-prefixed responses are read.

Frames bytes and keeps partial data; the transport layer moves the bytes. It never blocks and reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import ConnectionFailedError, ProtocolMismatchError, ResponseTooLargeError
from ottla.interfaces import Buffer, Interest, TransportLayer
from ottla.network.selector.wrong_protocol import NO_KAFKA, stranger

SIZE_PREFIX: Final = 4

_READ_OR_WRITE: Final = Interest.READ | Interest.WRITE

_ROOM_AT_FIRST: Final = 1 << 20
"""Bytes allocated for an announced size; a larger response gets more memory as its bytes arrive."""


class Channel:
    """A transport layer with framing on top. For the I/O thread."""

    def __init__(self, layer: TransportLayer, *, peer: str, max_answer_size: int) -> None:
        self._layer = layer
        self._peer = peer
        self._max_answer_size = max_answer_size
        self._unsent: list[Buffer] = []
        self._sending = False
        self._prefix = bytearray(SIZE_PREFIX)
        self._target = memoryview(self._prefix)
        self._filled = 0
        self._size: int | None = None  # of the response, once its prefix has arrived
        self._answered = False  # the peer has answered in Kafka's protocol
        self.ready = False

    @property
    def interest(self) -> Interest:
        """The events that the selector should watch the socket for."""
        wanted = self._layer.interest()
        if not self.ready:
            return wanted
        if self._sending:
            return _READ_OR_WRITE
        return Interest.READ if wanted is Interest.NONE else wanted | Interest.READ

    @property
    def sending(self) -> bool:
        """Return whether a send is unfinished."""
        return self._sending

    @property
    def may_read(self) -> bool:
        """Return whether the layer holds bytes for which the socket will not become readable."""
        return self.ready and self._layer.may_read()

    def handshake(self) -> bool:
        """Continue the layer's handshake; True: requests may be sent."""
        self.ready = self._layer.handshake()
        return self.ready

    def send(self, chunks: Sequence[Buffer]) -> None:
        """Queue one framed request."""
        assert not self._sending, "one send at a time"
        self._unsent = [chunk for chunk in chunks if len(chunk)]
        self._sending = True

    def write(self) -> bool:
        """Write what the layer accepts; True: the send is complete, down to the socket."""
        while self._unsent:
            taken = self._layer.write(self._unsent)
            if taken == 0:
                return False
            self._drop(taken)
        if self._sending and self._layer.flush():
            self._sending = False
            return True
        return False

    def read(self) -> memoryview | None:
        """The next whole response, or None if it has not arrived yet.

        Raises ConnectionFailedError when the peer has closed, ResponseTooLargeError for a size above the allowed one,
        and ProtocolMismatchError for a first response of such a size, or for a negative size.
        """
        while self._filled != self._size:
            if self._filled == len(self._target):
                self._make_room()
                continue
            got = self._layer.read_into(self._target[self._filled :])
            if got is None:
                return None
            if got == 0:
                raise ConnectionFailedError(f"{self._peer} closed the connection")
            self._filled += got
        answer = self._target
        self._target, self._filled, self._size = memoryview(self._prefix), 0, None
        self._answered = True
        return answer

    def close(self) -> None:
        """Close the layer and its socket."""
        self._layer.close()

    def _make_room(self) -> None:
        """Provide a buffer for the next bytes, after the prefix or a part of the response is complete."""
        if self._size is None:
            self._size = self._announced_size()
            self._target, self._filled = memoryview(bytearray(min(self._size, _ROOM_AT_FIRST))), 0
            return
        larger = bytearray(min(self._size, 2 * self._filled))
        larger[: self._filled] = self._target
        self._target = memoryview(larger)

    def _announced_size(self) -> int:
        size = int.from_bytes(self._prefix, "big", signed=True)
        if 0 <= size <= self._max_answer_size:
            return size
        if size < 0 or not self._answered:
            reason = stranger(bytes(self._prefix)) or f"announced {size} bytes; {NO_KAFKA}"
            raise ProtocolMismatchError(f"{self._peer} {reason}")
        raise ResponseTooLargeError(
            f"{self._peer} announced a response of {size} bytes, and receive.message.max.bytes allows "
            f"{self._max_answer_size}; raise it if the broker is to be trusted and its answers are that large"
        )

    def _drop(self, taken: int) -> None:
        """Drop the first *taken* unsent bytes."""
        for position, chunk in enumerate(self._unsent):
            if taken < len(chunk):
                self._unsent[:position] = []
                if taken:
                    self._unsent[0] = memoryview(chunk)[taken:]
                return
            taken -= len(chunk)
        self._unsent.clear()
