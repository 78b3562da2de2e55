"""Faults of single requests: those of producers that are planned, and refusals of coordinators."""

from __future__ import annotations

from collections import deque

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.planned_network import PlannedNetwork, PlannedTreatment
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class TreatedRequests(Fault):
    """The next Produce requests to a broker are treated as planned; those that do not come in time, as usual."""

    broker: int
    treatments: tuple[PlannedTreatment, ...]

    def begin(self, world: Simulation) -> None:
        _planned(world).treatments[self.broker].extend(self.treatments)

    def end(self, world: Simulation) -> None:
        _planned(world).treatments[self.broker].clear()

    def __str__(self) -> str:
        planned = ", ".join(map(str, self.treatments))
        return f"Produce requests to broker {self.broker} within {self.seconds:.1f} s: {planned}"


@attrs.frozen(kw_only=True)
class CoordinatorRefusals(Fault):
    """A broker refuses the next requests of this name, with these codes."""

    broker: int
    request: str
    codes: tuple[ErrorCode, ...]

    def begin(self, world: Simulation) -> None:
        broker = world.cluster.brokers[self.broker]
        for code in self.codes:
            broker.errors_by_request.setdefault(self.request, deque()).append(code)

    def end(self, world: Simulation) -> None:
        world.cluster.brokers[self.broker].errors_by_request.clear()


def _planned(world: Simulation) -> PlannedNetwork:
    assert isinstance(world.network, PlannedNetwork), "this fault needs a PlannedNetwork"
    return world.network
