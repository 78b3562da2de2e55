"""Faults of the process with the producer."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class InterruptedProgram(Fault):
    """Ctrl-C raises KeyboardInterrupt in a program, if it waits in a call of a producer."""

    program: int

    def begin(self, simulation: Simulation) -> None:
        simulation.threads.interrupt(self.program)


@attrs.frozen(kw_only=True)
class StoppedProcess(Fault):
    """No thread of the process runs, as after SIGSTOP, or while its machine sleeps."""

    def begin(self, simulation: Simulation) -> None:
        simulation.threads.suspend(self.seconds)
