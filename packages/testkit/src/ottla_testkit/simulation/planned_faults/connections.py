"""Faults of connections: ended, half-open, distant, refused."""

from __future__ import annotations

import attrs

from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.planned_faults.fault import Fault
from ottla_testkit.simulation.simulation import Simulation


@attrs.frozen(kw_only=True)
class CutConnections(Fault):
    """The connections to a broker end; *graceful*: bytes that the broker has sent still arrive."""

    broker: int
    graceful: bool = False

    def begin(self, simulation: Simulation) -> None:
        (simulation.network.hang_up if self.graceful else simulation.network.cut)(self.broker)


@attrs.frozen(kw_only=True)
class HalfOpenConnections(Fault):
    """All bytes of a broker's connections are lost, in one direction or both, and neither side notices."""

    broker: int
    out: bool
    back: bool

    def begin(self, simulation: Simulation) -> None:
        simulation.network.half_open(self.broker, out=self.out, back=self.back)


@attrs.frozen(kw_only=True)
class UnreachableBroker(Fault):
    """A broker's host refuses new connections or, as a *black_hole*, never answers their first packet."""

    broker: int
    black_hole: bool

    def begin(self, simulation: Simulation) -> None:
        self._hosts(simulation).add(f"broker-{self.broker}")

    def end(self, simulation: Simulation) -> None:
        self._hosts(simulation).discard(f"broker-{self.broker}")

    def _hosts(self, simulation: Simulation) -> set[str]:
        return simulation.network.hosts.black_holes if self.black_hole else simulation.network.hosts.refusing


@attrs.frozen(kw_only=True)
class DistantBroker(Fault):
    """New connections to a broker have this round trip time, and this number of bytes per second."""

    broker: int
    round_trip: float
    bandwidth: float | None = None

    def begin(self, simulation: Simulation) -> None:
        simulation.network.wires[self.broker] = LinkConditions(round_trip=self.round_trip, bandwidth=self.bandwidth)
        simulation.network.cut(self.broker)

    def end(self, simulation: Simulation) -> None:
        simulation.network.wires.pop(self.broker, None)
        simulation.network.hang_up(self.broker)
