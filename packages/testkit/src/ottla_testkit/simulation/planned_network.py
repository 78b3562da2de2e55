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
from ottla_testkit.simulation.pending_response import PendingResponse, Response, changed, when_known
from ottla_testkit.simulation.produce_requests import AfterAppend, Scripted


class Treatment(enum.Enum):
    """What happens to a request."""

    REFUSED = "the broker answers with an error code"
    LOST = "the connection ends before the request arrives"
    LATE = "the connection ends, and the request arrives later"
    UNANSWERED = "the connection ends before the response"
    TORN = "the connection ends in the middle of the response"
    DELAYED = "the response comes later"
    IGNORED = "no response ever comes"


@attrs.frozen(kw_only=True)
class PlannedTreatment:
    """One request's treatment: `seconds` delay a late request or response, and this `part` of a torn response comes."""

    treatment: Treatment
    code: Scripted = 0
    seconds: float = 0.0
    part: float = 0.5

    def __str__(self) -> str:
        match self.treatment:
            case Treatment.REFUSED if isinstance(self.code, AfterAppend):
                return f"code {self.code.code} after the append"
            case Treatment.REFUSED:
                return f"code {self.code}"
            case Treatment.LATE | Treatment.DELAYED:
                return f"{self.treatment.name.lower()} by {self.seconds:.3f} s"
            case _:
                return self.treatment.name.lower()


class PlannedNetwork(SimulatedNetwork):
    """A network whose `treatments` are those of the next Produce requests to each broker, in turn."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, seed: int = 0) -> None:
        super().__init__(cluster, clock, seed=seed)
        self.treatments: dict[int, deque[PlannedTreatment]] = {broker: deque() for broker in cluster.brokers}
        self.on_request: Callable[[Link, bytes], object] = lambda _link, _frame: None
        """Called for each request that arrives, before it is treated."""

    def take(self, link: Link, frame: bytes) -> Response:
        self.on_request(link, frame)
        broker = link.broker
        treatments = self.treatments[broker.id]
        if not treatments or int.from_bytes(frame[:2], "big") != PRODUCE.key:
            return super().take(link, frame)
        planned = treatments.popleft()
        match planned.treatment:
            case Treatment.REFUSED:
                broker.codes.append(planned.code)
                response = super().take(link, frame)
                broker.codes.clear()
                return response
            case Treatment.LOST:
                self._lose(link)
            case Treatment.LATE:
                self._lose(link)
                self.schedule.later(planned.seconds, lambda: broker.up and broker.answer(frame))
            case Treatment.IGNORED:
                super().take(link, frame)
                return PendingResponse()  # for good
            case Treatment.UNANSWERED:
                return changed(super().take(link, frame), lambda _response: self._lose(link))
            case Treatment.DELAYED:
                return self._delayed(super().take(link, frame), planned.seconds)
            case Treatment.TORN:
                return changed(super().take(link, frame), lambda response: _tear(link, response, planned.part))
        return None

    def _delayed(self, response: Response, seconds: float) -> Response:
        late = PendingResponse()
        when_known(response, lambda content: self.schedule.later(seconds, lambda: late.give(content)))
        return late

    def _lose(self, link: Link) -> None:
        link.cut(ConnectionFailedError(f"broker {link.broker.id} closed the connection"))


def _tear(link: Link, response: bytes | None, part: float) -> None:
    """Send a part of a response, and end the connection."""
    if response is not None:
        framed = len(response).to_bytes(4, "big") + response
        link.speak(framed[: int(part * len(framed))])
    link.reset()


def some_treatment(chance: Chance, refusals: list[Scripted], *, longest: float) -> PlannedTreatment:
    """Return a random treatment with one of these *refusals*, and delays of at most *longest* seconds."""
    treatment = chance.choice((*Treatment, Treatment.REFUSED, Treatment.REFUSED, Treatment.DELAYED))
    return PlannedTreatment(
        treatment=treatment,
        code=chance.choice(refusals) if treatment is Treatment.REFUSED else 0,
        seconds=chance.uniform(0.0, longest) if treatment in (Treatment.LATE, Treatment.DELAYED) else 0.0,
        part=chance.random() if treatment is Treatment.TORN else 0.5,
    )
