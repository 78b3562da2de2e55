"""One connection with blocking requests: the transport plugin's layer, a loop and a deadline.

A producer does this with many connections at the same time; the framing is the selector's.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from typing import Final

from ottla.doctor.bounds import Bounds
from ottla.errors import ConnectionFailedError, ProtocolError, RequestTimeoutError
from ottla.interfaces import Buffer, Interest, SupportsDetails, Transport, supports
from ottla.network import Request
from ottla.network.selector.channel import Channel
from ottla.network.selector.response_frames import SIZE_PREFIX
from ottla.protocol import read_response_header, request_header

CLIENT_ID: Final = "ottla-doctor"
PEER: Final = "the server"


class BrokerSession:
    """A session on a connected socket, which it owns. Raises OttlaError and OSError; always `close` it."""

    def __init__(self, sock: socket.socket, *, transport: Transport, host: str, port: int, bounds: Bounds) -> None:
        self._sock = sock
        self._bounds = bounds
        self._layer = transport.open(sock, host, port)
        self._channel = Channel(self._layer, peer=PEER, max_response_size=bounds.answer_bytes)
        self._asked = 0

    def begin(self) -> None:
        """Complete the layer's handshake."""
        deadline = self._bounds.deadline()
        while not self._channel.handshake():
            self._wait(self._channel.interest, deadline)

    def ask(self, request: Request, version: int) -> memoryview:
        """Send a request; return the body of its response."""
        self._asked += 1
        self._send(_framed(request, version, self._asked))
        answer = self.read_frame()
        correlation_id, start = read_response_header(request.message, version, answer)
        if correlation_id != self._asked:
            raise ProtocolError(f"{PEER} responded to request {correlation_id}, not to {self._asked}")
        return answer[start:]

    def send_frame(self, data: bytes) -> None:
        """Send bytes after their length, without a header."""
        self._send([len(data).to_bytes(SIZE_PREFIX, "big"), data])

    def read_frame(self) -> memoryview:
        """The next whole frame."""
        deadline = self._bounds.deadline()
        while (answer := self._channel.read()) is None:
            self._wait(self._channel.interest, deadline)
        return answer

    def details(self) -> Sequence[tuple[str, str]]:
        """The layer's details of its handshake; may be empty."""
        return tuple(self._layer.details()) if supports(self._layer, SupportsDetails) else ()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()
        self._sock.close()

    def _send(self, chunks: Sequence[Buffer]) -> None:
        deadline = self._bounds.deadline()
        self._channel.send(chunks)
        while not self._channel.write():
            self._wait(self._channel.interest, deadline)

    def _wait(self, interest: Interest, deadline: float) -> None:
        remaining = deadline - self._bounds.clock()
        if remaining <= 0:
            raise RequestTimeoutError(f"{PEER} was silent for {self._bounds.timeout:.1f} s")
        if self._sock.fileno() < 0:
            raise ConnectionFailedError("the transport closed the connection")
        events = selectors.EVENT_WRITE if interest & Interest.WRITE else 0
        if interest & Interest.READ or not events:
            events |= selectors.EVENT_READ
        with selectors.DefaultSelector() as watch:
            watch.register(self._sock, events)
            watch.select(remaining)


def _framed(request: Request, version: int, correlation_id: int) -> Sequence[Buffer]:
    header = request_header(request.message, version, correlation_id, CLIENT_ID)
    body = request.body(version)
    size = len(header) + sum(len(chunk) for chunk in body)
    return [size.to_bytes(SIZE_PREFIX, "big"), header, *body]
