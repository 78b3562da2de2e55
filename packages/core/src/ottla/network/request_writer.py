"""Writing of requests to connections: header, correlation id, size prefix."""

from __future__ import annotations

from ottla.errors import UnsupportedVersionError
from ottla.metrics import Counters
from ottla.network.api_versions import api_versions_request
from ottla.network.authentication import Ask, Token
from ottla.network.connection import Connection
from ottla.network.in_flight_requests import InFlight
from ottla.network.request import Completion, Request
from ottla.network.selector_interface import Selectable
from ottla.protocol import choose_version, request_header


class RequestWriter:
    """Passes requests to the selector and records them as in flight."""

    def __init__(self, *, selector: Selectable, counters: Counters, client_id: str, request_timeout: float) -> None:
        self._selector = selector
        self._counters = counters
        self._client_id = client_id
        self._request_timeout = request_timeout
        self._requests = 0
        self.written: list[int] = []
        """Nodes with a written request that expects no response; the next poll completes it."""

    def write(
        self,
        connection: Connection,
        request: Request,
        version: int,
        now: float,
        *,
        setup: bool = False,
        bare: bool = False,
    ) -> None:
        """Begin to send a request on a connection that takes one; never blocks. `setup` and `bare` as for `InFlight`.

        Nodes whose request is written and expects no response are added to `written`.
        """
        body = request.body(version)
        self._requests += 1
        correlation_id = self._requests & 0x7FFFFFFF
        header = b"" if bare else request_header(request.message, version, correlation_id, self._client_id)
        size = len(header) + sum(map(len, body))
        in_flight = connection.in_flight
        in_flight.add(
            InFlight(
                request=request,
                version=version,
                number=self._requests,
                correlation_id=correlation_id,
                sent_at=now,
                deadline=now + self._request_timeout,
                setup=setup,
                bare=bare,
            )
        )
        written = self._selector.send(connection.broker.id, [size.to_bytes(4, "big") + header, *body])
        self._counters.node(connection.broker.id).requests.add(size + 4)  # after it, while the broker works
        if written:
            if request.expects_response:
                in_flight.writing = False
            else:
                self.written.append(connection.broker.id)  # completed by the next poll, not within this call

    def write_step(self, connection: Connection, step: Ask | Token, now: float) -> None:
        """Send a message of a connection's setup."""
        if isinstance(step, Ask):
            self.write(connection, _own_request(step, step.body), step.version, now, setup=True)
        else:
            self.write(connection, _own_request(step, step.data), 0, now, setup=True, bare=True)

    def ask_to_confirm(self, connection: Connection, now: float) -> None:
        """Send a request only because its response confirms all earlier requests with `acks=0`."""
        connection.in_flight.asked_to_confirm = True
        self.write(connection, api_versions_request(), 0, now)  # a version that every broker supports


def version_for(connection: Connection, request: Request) -> int:
    """The highest version of a request that both sides support. Raises UnsupportedVersionError if there is none."""
    message = request.message
    supported = connection.versions.get(message.key)
    if supported is None:
        raise UnsupportedVersionError(f"{connection.broker} does not offer {message.name} requests")
    return choose_version(message, *supported, floor=request.floor, ceiling=request.ceiling)


def _own_request(step: Ask | Token, data: bytes) -> Request:
    expects_response = isinstance(step, Ask) or not step.last
    return Request(
        message=step.message,
        body=lambda _version: [data],
        on_complete=_completed_by_setup,
        expects_response=expects_response,
    )


def _completed_by_setup(_completion: Completion) -> None:
    """Do nothing: `ConnectionSetup` handles the response."""
