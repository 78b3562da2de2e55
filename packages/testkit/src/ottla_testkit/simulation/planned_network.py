"""A simulated network that treats single requests as planned: refused, lost, late, unanswered, answered in part."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable

import attrs

from ottla.errors import ConnectionFailedError
from ottla.protocol import PRODUCE
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.pending_response import KnownResponse, PendingResponse, Response, changed, when_known
from ottla_testkit.simulation.produce_requests import AfterAppend, Scripted


class RequestFault(enum.Enum):
    """What happens to a request."""

    REFUSED = "the broker answers with an error code"
    LOST = "the connection ends before the request arrives"
    LATE = "the connection ends, and the request arrives later"
    UNANSWERED = "the connection ends before the response"
    TORN = "the connection ends in the middle of the response"
    DELAYED = "the response comes later"
    IGNORED = "no response ever comes"


@attrs.frozen(kw_only=True)
class PlannedRequestFault:
    """The fault of one request. `seconds` delay a late request or response. `part` of a torn response arrives."""

    kind: RequestFault
    code: Scripted = 0
    seconds: float = 0.0
    part: float = 0.5

    def __str__(self) -> str:
        match self.kind:
            case RequestFault.REFUSED if isinstance(self.code, AfterAppend):
                return f"code {self.code.code} after the append"
            case RequestFault.REFUSED:
                return f"code {self.code}"
            case RequestFault.LATE | RequestFault.DELAYED:
                return f"{self.kind.name.lower()} by {self.seconds:.3f} s"
            case _:
                return self.kind.name.lower()


class PlannedNetwork(SimulatedNetwork):
    """A network whose `request_faults` are those of the next Produce requests to each broker, in turn."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, seed: int = 0) -> None:
        super().__init__(cluster, clock, seed=seed)
        self.request_faults: dict[int, deque[PlannedRequestFault]] = {broker: deque() for broker in cluster.brokers}
        self.on_request: Callable[[Link, bytes], object] = lambda _link, _frame: None
        """Called for each request that arrives, before its fault."""

    def take(self, link: Link, frame: bytes) -> Response:
        self.on_request(link, frame)
        broker = link.broker
        request_faults = self.request_faults[broker.id]
        if not request_faults or int.from_bytes(frame[:2], "big") != PRODUCE.key:
            return super().take(link, frame)
        planned = request_faults.popleft()
        match planned.kind:
            case RequestFault.REFUSED:
                broker.codes.append(planned.code)
                response = super().take(link, frame)
                broker.codes.clear()
                return response
            case RequestFault.LOST:
                self._end_connection(link)
            case RequestFault.LATE:
                self._end_connection(link)
                self.schedule.later(planned.seconds, lambda: broker.take_late(frame))
            case RequestFault.IGNORED:
                super().take(link, frame)
                return PendingResponse()  # for good
            case RequestFault.UNANSWERED:
                return changed(super().take(link, frame), lambda _content: self._end_connection(link))
            case RequestFault.DELAYED:
                return self._delayed(super().take(link, frame), planned.seconds)
            case RequestFault.TORN:
                return changed(super().take(link, frame), lambda content: _send_part(link, content, planned.part))
        return KnownResponse()

    def _delayed(self, response: Response, seconds: float) -> Response:
        late = PendingResponse()
        when_known(response, lambda known: self.schedule.later(seconds, lambda: late.give(known)))
        return late

    def _end_connection(self, link: Link) -> None:
        link.cut(ConnectionFailedError(f"broker {link.broker.id} closed the connection"))


def _send_part(link: Link, content: bytes | None, part: float) -> None:
    """Send a part of a response, and end the connection."""
    if content is not None:
        framed = len(content).to_bytes(4, "big") + content
        link.speak(framed[: int(part * len(framed))])
    link.reset()


def random_request_fault(chance: Chance, refusals: list[Scripted], *, longest: float) -> PlannedRequestFault:
    """Return a random fault with one of these *refusals*, and delays of at most *longest* seconds."""
    kind = chance.choice((*RequestFault, RequestFault.REFUSED, RequestFault.REFUSED, RequestFault.DELAYED))
    return PlannedRequestFault(
        kind=kind,
        code=chance.choice(refusals) if kind is RequestFault.REFUSED else 0,
        seconds=chance.uniform(0.0, longest) if kind in (RequestFault.LATE, RequestFault.DELAYED) else 0.0,
        part=chance.random() if kind is RequestFault.TORN else 0.5,
    )
