"""The requests in flight on one connection: pairing with responses, and timeouts, without I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import attrs

from ottla.errors import ProtocolError
from ottla.interfaces import Buffer
from ottla.network.client_side_throttling import LONGEST
from ottla.network.request import Request
from ottla.protocol import read_response_header

_AFTER_THE_LONGEST: Final = 60.0
"""Seconds for a response after the longest pause."""


@attrs.define(kw_only=True)  # frozen takes more than twice as long to make, for each request
class InFlight:
    """A request that was passed to its connection; `number` counts all requests of the client.

    `setup`: the request belongs to the connection's setup. `bare`: it and its response have no header.
    """

    request: Request
    number: int
    version: int
    correlation_id: int
    sent_at: float
    deadline: float
    setup: bool = False
    bare: bool = False


class InFlightRequests(deque[InFlight]):
    """The requests of one connection that wait for a response, oldest first.

    A broker serves a connection in order, so a response belongs to the oldest request. It is a deque because each round
    asks every connection several times whether it is empty.
    """

    __slots__ = ("asked_to_confirm", "unconfirmed", "write_deadline", "writing")

    def __init__(self) -> None:
        super().__init__()
        self.writing = False
        """Whether the newest request is not completely written."""
        self.write_deadline = float("inf")
        """The time-out of writing the newest request; its response may arrive before the transport has finished."""
        self.unconfirmed: InFlight | None = None
        """The last request that expects no response (`acks=0`), until the response to a later request arrives."""
        self.asked_to_confirm = False
        """Whether a request was sent only because its response confirms `unconfirmed`."""

    @property
    def precedes_setup(self) -> bool:
        """Return whether the next response is for a request that was sent before a login on this connection."""
        return bool(self) and not self[0].setup

    def add(self, sent: InFlight) -> None:
        """Add a request that is being written."""
        self.append(sent)
        self.writing, self.write_deadline = True, sent.deadline

    def written(self) -> InFlight | None:
        """Note that the newest request is completely written; return and remove it if it expects no response."""
        self.writing = False
        if self and not self[-1].request.expects_response:
            return self.pop()
        return None

    def pair(self, frame: Buffer) -> tuple[InFlight, Any]:
        """Remove the oldest request; return it with its decoded response, or with the body in a connection's setup.

        Raises ProtocolError if the response does not belong to this request, or cannot be parsed.
        """
        if not self:
            raise ProtocolError("a response without a request")
        sent = self[0]
        if sent.setup and self.writing:
            raise ProtocolError(
                "a response to a request that is not written yet, unless `flush` of the transport returned False after "
                "it had written everything"
            )
        if sent.bare:
            return self.popleft(), memoryview(frame)
        message = sent.request.message
        correlation_id, offset = read_response_header(message, sent.version, frame)
        if correlation_id != sent.correlation_id:
            raise ProtocolError(
                f"response {correlation_id} arrived, but {sent.correlation_id} ({message.name}) was expected"
            )
        response: Any = memoryview(frame)[offset:]
        if not sent.setup:
            shortcut = sent.request.shortcut
            found = None if shortcut is None else shortcut(sent.version, response)
            # Bytes after a response are ignored, as in Java: librdkafka's mock cluster adds a byte to Metadata 13.
            response = message.response(sent.version).decode(response, exact=False) if found is None else found
        self.popleft()
        if self.unconfirmed is not None and sent.number > self.unconfirmed.number:
            self.forget_unconfirmed()
        return sent, response

    def forget_unconfirmed(self) -> None:
        """Note that the broker has read all requests that expect no response."""
        self.unconfirmed, self.asked_to_confirm = None, False

    def postpone(self, seconds: float, now: float) -> None:
        """Extend the time-outs of all requests by a pause of *seconds*."""
        for place, sent in enumerate(self):
            self[place] = attrs.evolve(sent, deadline=postponed(sent.deadline, seconds, now))

    def take_all(self) -> Sequence[InFlight]:
        """Remove and return the requests, in order, after the end of the connection."""
        unanswered = tuple(self)
        self.clear()
        self.writing = False
        self.forget_unconfirmed()
        return unanswered


def postponed(deadline: float, seconds: float, now: float) -> float:
    """A deadline after a pause.

    Many responses at once, each with the longest pause, extend it by no more than one longest pause.
    """
    return max(deadline, min(deadline + seconds, now + LONGEST + _AFTER_THE_LONGEST))
