"""Waits of ready batches for brokers and for leaders, noted round by round for the stories of records."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from ottla.accumulator.accumulator import Ready
from ottla.network import NetworkClient
from ottla.results.stories import WaitKind
from ottla.results.stories.waits import Interval, Journal, lasting


class BrokerWaits:
    """Notes in a journal which brokers have ready batches and take none, and why. For the I/O thread."""

    def __init__(self, journal: Journal, client: NetworkClient) -> None:
        self._journal = journal
        self._client = client

    @property
    def lasting(self) -> bool:
        """Return whether a wait lasts, so that `note` has to be called."""
        return self._journal.waiting

    def note(self, ready: Ready, served: Collection[int], now: float) -> None:
        """Note the state of a round: *served* are the brokers that take a request now."""
        waiting: dict[Hashable, Interval] = {}
        for node in ready.nodes:
            found = None if node in served else self._client.obstacles.waits_for(node, now)
            if found is not None:
                kind, detail = found
                waiting[node] = lasting(kind, now, node=node, detail=detail)
        for topic in ready.leaderless:
            waiting[topic] = lasting(self._client.obstacles.waits_for_leaders(), now, topic=topic)
        self._journal.update(now, waiting)

    def woke_late(self, until: float, now: float) -> None:
        """Note that the thread ran later than it had asked the system for."""
        self._journal.add(WaitKind.PROCESS, until, now)
