"""A selector on real sockets of this machine, and the results of its polls."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence

from ottla.errors import OttlaError
from ottla.interfaces import Buffer, Target, Transport
from ottla.metrics import Counters
from ottla.network.selector import Selector
from ottla_transport_plaintext import PlaintextTransport

HANG_GUARD = 20.0


class Events:
    """The results of a selector's polls, over as many as it takes."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self.polls = 0
        self.connected: list[int] = []
        self.sent: list[int] = []
        self.received: list[tuple[int, bytes]] = []
        self.disconnected: dict[int, OttlaError] = {}

    def send(self, node: int, chunks: Sequence[Buffer]) -> None:
        """Send, and note it if that is all."""
        if self._selector.send(node, chunks):
            self.sent.append(node)

    def poll(self, timeout: float = 0.2) -> None:
        """One more poll."""
        self.polls += 1
        self._selector.poll(timeout)
        self.connected += self._selector.connected
        self.sent += self._selector.sent
        self.received += [(node, bytes(frame)) for node, frame in self._selector.received]
        self.disconnected |= self._selector.disconnected

    def until(self, happened: Callable[[], object]) -> None:
        """Polls until something holds."""
        deadline = time.monotonic() + HANG_GUARD
        while not happened():
            assert time.monotonic() < deadline, "it never happened"
            self.poll()


class Waits:
    """Each wait of a selector from now on: how long it might have taken, and whether something ended it.

    A selector that waits too long fails here, and not only makes a test slower.
    """

    def __init__(self, selector: Selector) -> None:
        self.given: list[float] = []
        self.ended: list[bool] = []
        select = selector._watch.select

        def noted(timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
            events = select(timeout)
            self.given.append(timeout)
            self.ended.append(bool(events))
            return events

        selector._watch.select = noted  # type: ignore[method-assign]  # to look on


class Shutdown:
    """For `contextlib.closing`."""

    def __init__(self, selector: Selector) -> None:
        self.close = selector.shutdown


def make_selector(
    *,
    transport: Transport | None = None,
    send_buffer: int = 16_384,
    receive_buffer: int = -1,
    counters: Counters | None = None,
) -> Selector:
    """A selector with settings as a test wants them."""
    return Selector(
        transport=transport or PlaintextTransport(),
        send_buffer_bytes=send_buffer,
        receive_buffer_bytes=receive_buffer,
        max_response_size=10_000_000,
        counters=counters,
    )


def connect(selector: Selector, listener: socket.socket, node: int = 1) -> tuple[Events, socket.socket]:
    """A connection that is ready, and its other end."""
    host, port = listener.getsockname()
    selector.connect(node, Target(socket.AF_INET, (host, port)), host, port)
    events = Events(selector)
    events.until(lambda: events.connected)
    peer, _address = listener.accept()
    return events, peer


def reset(peer: socket.socket) -> None:
    """Close so that the other end gets an RST, not an end of the stream."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def framed(body: bytes) -> bytes:
    """A body behind its size."""
    return len(body).to_bytes(4, "big") + body
