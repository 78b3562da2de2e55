"""The controller of a simulated cluster: which brokers it hears from, how fast they replicate, and new leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.schedule import Schedule

SESSION_TIMEOUT: Final = 0.6
"""Seconds without a heartbeat after which the controller fences a broker."""

MAX_LAG: Final = 1.0
"""Seconds after which a follower that has not caught up is no longer in sync: `replica.lag.time.max.ms`."""

_UNFENCED_AFTER: Final = 0.1
_SLOWEST_NOTICE: Final = 0.3
_SLOWEST_FETCH: Final = 0.02


class Member(Protocol):
    """A replicated partition, as the controller knows it."""

    def fence(self, broker: int) -> None:
        """Take a broker out of the replicas that are in sync; elect another leader if it was the leader."""

    def unfence(self, broker: int) -> None:
        """Let a broker follow, or lead if it is the only replica that has everything."""


@attrs.define(eq=False, kw_only=True)
class Controller:
    """The brokers as the controller sees them. *is_up* returns whether a broker runs."""

    is_up: Callable[[int], bool]
    partitions: list[Member] = attrs.field(factory=list)
    isolated: set[int] = attrs.field(factory=set)
    """Brokers that clients reach, but neither the controller nor other brokers do."""
    frozen: set[int] = attrs.field(factory=set)
    """Brokers that do nothing."""
    lags: dict[int, float] = attrs.field(factory=dict)
    """Seconds that these brokers' fetches take, instead of a moment."""
    _schedule: Schedule | None = None
    _chance: Chance = attrs.field(factory=lambda: Chance(0))

    def begin(self, schedule: Schedule, chance: Chance, frozen: set[int]) -> None:
        """Use a simulation's time; without it, everything happens immediately."""
        self._schedule, self._chance, self.frozen = schedule, chance, frozen

    def reaches(self, broker: int) -> bool:
        """Return whether the controller and other brokers reach a broker."""
        return self.is_up(broker) and broker not in self.isolated and broker not in self.frozen

    def changed(self, broker: int) -> None:
        """Note that a broker has crashed, frozen, was isolated, or is back."""
        if self.reaches(broker):
            self.later(_UNFENCED_AFTER, lambda: self._unfence(broker))
        else:
            self.later(SESSION_TIMEOUT, lambda: self._fence(broker))

    def isolate(self, broker: int) -> None:
        """Cut a broker from the controller and the other brokers, not from clients."""
        self.isolated.add(broker)
        self.changed(broker)

    def rejoin(self, broker: int) -> None:
        """Undo `isolate`."""
        self.isolated.discard(broker)
        self.changed(broker)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something after a while."""
        if self._schedule is None:
            action()
        else:
            self._schedule.later(seconds, action)

    def notice_seconds(self) -> float:
        """Return the seconds until a broker knows of an election."""
        return self._chance.choice((0.0, 0.01, _SLOWEST_NOTICE)) * self._chance.random()

    def fetch_seconds(self, follower: int) -> float:
        """Return the seconds of a follower's fetch."""
        return self.lags.get(follower, _SLOWEST_FETCH * self._chance.random())

    def _fence(self, broker: int) -> None:
        if not self.reaches(broker):
            for partition in self.partitions:
                partition.fence(broker)

    def _unfence(self, broker: int) -> None:
        if self.reaches(broker):
            for partition in self.partitions:
                partition.unfence(broker)
