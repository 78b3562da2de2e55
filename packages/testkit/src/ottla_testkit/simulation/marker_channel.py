"""Markers of ended transactions on their way to the leaders of partitions, each at its own time, as in Kafka.

A coordinator answers EndTxn as soon as its log has the outcome. Only then does it write a marker to each partition, and
again until the leader has answered. A leader may be away, frozen with the request, or replaced by another one; its
response may be lost. So markers come late, in any order, or twice. The transactional id is busy until all are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.chance import Chance

Place: TypeAlias = "tuple[str, int]"
"""A topic and a partition."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic of groups' offsets, where a transaction with offsets gets a marker, too."""

RETRY_SECONDS: Final = 0.05
"""Seconds between two attempts for a partition without a leader that can be reached."""

REQUEST_TIMEOUT: Final = 1.0
"""Seconds after which a coordinator sends markers again to a leader that does not answer."""

LATE_SECONDS: Final = (0.05, 0.3, 3.0)
"""Seconds after which a marker may come a second time, at most, from a connection that has ended."""


@attrs.frozen(kw_only=True)
class TransactionOutcome:
    """The outcome of a transaction, as its markers have it. With KIP-890, *epoch* is the one that follows it."""

    producer_id: int
    epoch: int
    committed: bool
    strict: bool
    """Whether the epoch is a new one, so that a second marker with it ends nothing (KIP-1228)."""


@attrs.define(eq=False, kw_only=True)
class PendingMarkers:
    """An ended transaction, and the partitions whose leaders have not confirmed its marker. *done* is called last.

    *wanted*: whether the coordinator has not lost the transaction.
    """

    outcome: TransactionOutcome
    places: set[Place]
    done: Callable[[], object]
    wanted: Callable[[], bool]


@attrs.define(eq=False, kw_only=True)
class MarkerChannel:
    """Writes markers one by one.

    *leader_of* returns the leader of a partition that *exists*, None if it has none that can be reached. *write*
    writes a marker to the log of a broker, and returns its code. *runs* returns whether a broker is up, *frozen*
    whether it only takes bytes. The coordinator writes nothing unless it *serves*.
    """

    later: Callable[[float, Callable[[], object]], object]
    serves: Callable[[], bool]
    exists: Callable[[Place], bool]
    leader_of: Callable[[Place], int | None]
    runs: Callable[[int], bool]
    frozen: Callable[[int], bool]
    write: Callable[[Place, int, TransactionOutcome], ErrorCode]
    chance: Chance
    slowest: float
    """Seconds that a marker takes at most, if its leader is there."""
    lost: float = 0.0
    """The share of responses that do not arrive, and of markers that come once more later."""
    codes: dict[ErrorCode, int] = attrs.field(factory=dict)
    """How often leaders have answered with each code."""

    def send(
        self,
        outcome: TransactionOutcome,
        places: Sequence[Place],
        done: Callable[[], object],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Write the markers of a transaction to these partitions as long as they are *wanted*, then call *done*."""
        pending = PendingMarkers(outcome=outcome, places=set(places), done=done, wanted=wanted)
        for place in places:
            self.later(self._seconds(), partial(self._send, pending, place))
        if not places:
            self.later(self._seconds(), done)

    def _seconds(self) -> float:
        return self.slowest * self.chance.random()

    def _send(self, pending: PendingMarkers, place: Place) -> None:
        """Send a marker to the leader that the coordinator knows."""
        if place not in pending.places or not pending.wanted():
            return
        if not self.exists(place):
            self._confirm(pending, place)
            return
        broker = self.leader_of(place) if self.serves() else None
        if broker is None:  # or the next coordinator sends them, when it has loaded them from the log
            self.later(RETRY_SECONDS, partial(self._send, pending, place))
            return
        self._arrive(pending, place, broker)
        if self.chance.happens(self.lost):
            seconds = self.chance.choice(LATE_SECONDS) * self.chance.random()
            self.later(seconds, partial(self._arrive, pending, place, broker))
        if place in pending.places:
            seconds = REQUEST_TIMEOUT if self.frozen(broker) else RETRY_SECONDS + self._seconds()
            self.later(seconds, partial(self._send, pending, place))

    def _arrive(self, pending: PendingMarkers, place: Place, broker: int) -> None:
        """Write a marker that arrives at a broker; one that is frozen does so later, although nothing waits for it."""
        if not self.runs(broker):
            return
        if self.frozen(broker):
            self.later(RETRY_SECONDS, partial(self._arrive, pending, place, broker))
            return
        if place not in pending.places and not pending.outcome.strict:
            # It would end the next transaction of the same epoch: a fault of the protocol before KIP-890, which no
            # producer can avoid.
            return
        code = self.write(place, broker, pending.outcome)
        self.codes[code] = self.codes.get(code, 0) + 1
        if code in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH) and not self.chance.happens(self.lost):
            self._confirm(pending, place)

    def _confirm(self, pending: PendingMarkers, place: Place) -> None:
        if place in pending.places:
            pending.places.discard(place)
            if not pending.places:
                pending.done()
