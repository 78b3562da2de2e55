"""Faults of single requests: those of producers that are planned, and refusals of coordinators."""

from __future__ import annotations

from collections import deque

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.planned_network import PlannedNetwork, PlannedRequestFault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class FaultyRequests(Fault):
    """The next Produce requests to a broker have these faults; faults that are not used in time are dropped."""

    broker: int
    request_faults: tuple[PlannedRequestFault, ...]

    def begin(self, simulation: Simulation) -> None:
        _planned(simulation).request_faults[self.broker].extend(self.request_faults)

    def end(self, simulation: Simulation) -> None:
        _planned(simulation).request_faults[self.broker].clear()

    def __str__(self) -> str:
        planned = ", ".join(map(str, self.request_faults))
        return f"Produce requests to broker {self.broker} within {self.seconds:.1f} s: {planned}"


@attrs.frozen(kw_only=True)
class CoordinatorRefusals(Fault):
    """A broker refuses the next requests of this name, with these codes."""

    broker: int
    request: str
    codes: tuple[ErrorCode, ...]

    def begin(self, simulation: Simulation) -> None:
        broker = simulation.cluster.brokers[self.broker]
        for code in self.codes:
            broker.errors_by_request.setdefault(self.request, deque()).append(code)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.brokers[self.broker].errors_by_request.clear()


@attrs.frozen(kw_only=True)
class UnconfirmedWrite(Fault):
    """The coordinator writes the next request of this name to its log, but answers with a code, and is replaced.

    The next one, `broker`, has carried out the request. So it is with COORDINATOR_NOT_AVAILABLE if followers confirm
    nothing in time, and with NOT_COORDINATOR if another broker leads the log by then.
    """

    broker: int
    request: str
    code: ErrorCode

    def begin(self, simulation: Simulation) -> None:
        simulation.cluster.unconfirmed[self.request] = (self.code, self.broker)

    def end(self, simulation: Simulation) -> None:
        simulation.cluster.unconfirmed.pop(self.request, None)


def _planned(simulation: Simulation) -> PlannedNetwork:
    assert isinstance(simulation.network, PlannedNetwork), "this fault needs a PlannedNetwork"
    return simulation.network
