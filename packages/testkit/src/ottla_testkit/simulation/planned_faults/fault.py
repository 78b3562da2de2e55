"""The base of all faults of a simulation, and their plan."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class Fault:
    """A fault from the time `at`, for `seconds`. `begin` and `end` change the simulation."""

    at: float
    seconds: float = 0.0

    @property
    def until(self) -> float:
        """The time at which the fault ends."""
        return self.at + self.seconds

    def begin(self, simulation: Simulation) -> None:
        """Begin the fault."""

    def end(self, simulation: Simulation) -> None:
        """End the fault."""


def plan(simulation: Simulation, faults: Iterable[Fault]) -> None:
    """Have faults begin and end at their times."""
    for fault in faults:
        simulation.network.schedule.at(fault.at, lambda fault=fault: fault.begin(simulation))  # type: ignore[misc]
        simulation.network.schedule.at(fault.until, lambda fault=fault: fault.end(simulation))  # type: ignore[misc]
