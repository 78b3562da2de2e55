"""The responses on one connection: size-prefixed frames, cut out of the bytes of the transport layer."""

from __future__ import annotations

from typing import Final

from ottla.errors import ConnectionFailedError, ProtocolMismatchError, ResponseTooLargeError
from ottla.interfaces import TransportLayer
from ottla.network.selector.transport_plugin_faults import wrong_count
from ottla.network.selector.wrong_protocol import NO_KAFKA, other_protocol

SIZE_PREFIX: Final = 4

_READ_AHEAD: Final = 4_096
"""Bytes read at once. Most responses are smaller, and each further system call may cost a busy process 5 ms: it gives
up the interpreter's lock, and may get it back only when another thread's time is over."""

_ALLOCATED_AT_FIRST: Final = 1 << 20
"""Bytes allocated for an announced size; a larger response gets more memory as its bytes arrive."""


class Receive:
    """Reads one response at a time; bytes of the next one wait in its buffer. For the I/O thread."""

    def __init__(self, layer: TransportLayer, *, peer: str, max_response_size: int) -> None:
        self._layer = layer
        self._peer = peer
        self._max_response_size = max_response_size
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = self._end = 0  # of the bytes read ahead
        self._response: memoryview | None = None  # its size was announced, and not all of it has arrived
        self._filled = 0
        self._size = 0
        self._answered = False  # the peer has answered in Kafka's protocol
        self.received = 0
        """The bytes that the layer has returned."""

    @property
    def may_read(self) -> bool:
        """Return whether a size prefix was read ahead, valid or not: `read` then makes progress without the socket."""
        return self._end - self._start >= SIZE_PREFIX

    def read(self) -> memoryview | None:
        """The next whole response, without its size, or None if it has not arrived yet. Never blocks.

        Raises ConnectionFailedError when the peer has closed the connection, ResponseTooLargeError for a size above the
        allowed one, ProtocolMismatchError for a first response of such a size, or for a negative size, and
        WrongResultError for a number of bytes that the layer cannot have read.
        """
        while True:
            if self._response is None and self._end - self._start >= SIZE_PREFIX:
                self._begin()
            if self._response is not None and self._filled == self._size:
                response, self._response = self._response, None
                return response
            free = self._free()
            got = self._layer.read_into(free)
            if got is None:
                return None
            if type(got) is not int or not 0 <= got <= len(free):
                raise wrong_count("read_into", got, len(free))
            if got == 0:
                raise ConnectionFailedError(f"{self._peer} closed the connection")
            self.received += got
            if self._response is None:
                self._end += got
            else:
                self._filled += got

    def _begin(self) -> None:
        """Allocate the response whose size was read, and move to it what was read ahead."""
        self._size = self._announced_size(self._ahead[self._start : self._start + SIZE_PREFIX])
        self._answered = True
        start = self._start + SIZE_PREFIX
        self._filled = min(self._size, self._end - start)
        self._response = memoryview(bytearray(min(self._size, _ALLOCATED_AT_FIRST)))
        self._response[: self._filled] = self._ahead[start : start + self._filled]
        self._start = start + self._filled
        if self._start == self._end:
            self._start = self._end = 0

    def _free(self) -> memoryview:
        """Return the buffer for the next bytes."""
        if self._response is None:
            if self._start:  # fewer bytes than a size prefix are left, so there is little to move
                rest = bytes(self._ahead[self._start : self._end])
                self._ahead[: len(rest)] = rest
                self._start, self._end = 0, len(rest)
            return self._ahead[self._end :]
        if self._filled == len(self._response):
            larger = bytearray(min(self._size, 2 * self._filled))
            larger[: self._filled] = self._response
            self._response = memoryview(larger)
        return self._response[self._filled :]

    def _announced_size(self, prefix: memoryview) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if 0 <= size <= self._max_response_size:
            return size
        if size < 0 or not self._answered:
            reason = other_protocol(bytes(prefix)) or f"announced {size} bytes; {NO_KAFKA}"
            raise ProtocolMismatchError(f"{self._peer} {reason}")
        raise ResponseTooLargeError(
            f"{self._peer} announced a response of {size} bytes, and receive.message.max.bytes allows "
            f"{self._max_response_size}; raise it if the broker is to be trusted and its responses are that large"
        )
