"""A simulated network in bad weather: from one seed, the same delays, losses, late requests, crashes and moves.

A request may be lost before its broker sees it or its answer after; a request of a lost connection may still reach its
broker later; brokers refuse requests with any code, before they append a batch or after it; they crash and come back;
leaders and the coordinator move. Nothing is written twice or forgotten by the brokers themselves: whatever is wrong in
a log in the end, the producer did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from ottla.errors import ConnectionFailed, ErrorCode
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import Scripted, SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.refusals import PASSING
from ottla_testkit.simulation.transactions import NEW_GENERATION

ERRAND_REFUSALS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
ERRANDS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")


@attrs.frozen(kw_only=True)
class Weather:
    """How likely what is: of each request, and of each poll for what happens to brokers."""

    lost_request: float = 0.02
    lost_answer: float = 0.02
    late_request: float = 0.3  # of those lost
    refused: float = 0.05
    refusals: Sequence[Scripted] = PASSING  # of Produce requests
    delay: float = 0.3
    longest_delay: float = 0.5
    crash: float = 0.002
    longest_crash: float = 3.0
    leader_moves: float = 0.01
    coordinator_moves: float = 0.005


class StormyNetwork(SimulatedNetwork):
    """Calm while `weather` is None."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, seed: int) -> None:
        super().__init__(cluster, clock, seed=seed)
        self.random = self.chance
        self.weather: Weather | None = None

    def calm(self) -> None:
        """No more bad weather; what was broken is mended."""
        self.weather = None
        for broker in self.cluster.brokers.values():
            broker.up = True
            broker.codes.clear()
            broker.errand_codes.clear()

    def poll(self, timeout: float) -> None:
        if self.weather is not None:
            self._worsen(self.weather)
        super().poll(timeout)

    def take(self, link: Link, frame: bytes) -> bytes | None:
        weather, broker = self.weather, link.broker
        if weather is None:
            return super().take(link, frame)
        draw = self.random.random()
        if draw < weather.lost_request:
            self._lose(link)
            if self.random.random() < weather.late_request and not self._too_harsh(frame):
                seconds = self.random.uniform(0, 2 * weather.longest_delay)
                self.later(seconds, lambda: broker.up and broker.answer(frame))  # to nobody
            return None
        if self.random.random() < weather.refused:
            self._refuse(broker, weather)
        answer = super().take(link, frame)
        broker.codes.clear()
        broker.errand_codes.clear()
        if draw < weather.lost_request + weather.lost_answer:
            self._lose(link)
            return None
        if answer is not None and self.random.random() < weather.delay:
            link.answer(answer, delay=self.random.uniform(0, weather.longest_delay))
            return None
        return answer

    def _too_harsh(self, frame: bytes) -> bool:
        """Whether no producer could survive this, had it come late.

        InitProducerId fences whoever asked again, and before KIP-890 EndTxn ends the transaction after its own, and
        TxnOffsetCommit takes that one's offsets back.
        """
        key = int.from_bytes(frame[:2], "big")
        old = self.cluster.transaction_version < NEW_GENERATION
        return key == INIT_PRODUCER_ID.key or (old and key in (END_TXN.key, TXN_OFFSET_COMMIT.key))

    def _refuse(self, broker: SimulatedBroker, weather: Weather) -> None:
        broker.codes.append(self.random.choice(weather.refusals))
        for errand in ERRANDS:
            broker.errand_codes.setdefault(errand, deque()).append(self.random.choice(ERRAND_REFUSALS))

    def _lose(self, link: Link) -> None:
        link.cut(ConnectionFailed(f"broker {link.broker.id} closed the connection"))

    def _worsen(self, weather: Weather) -> None:
        draw = self.random.random
        brokers = [broker for broker in self.cluster.brokers.values() if broker.up]
        if draw() < weather.leader_moves and brokers:
            topic = self.random.choice(list(self.cluster.topics.values()))
            topic.leaders[self.random.randrange(len(topic.leaders))] = self.random.choice(brokers).id
            topic.epoch += 1
        if draw() < weather.coordinator_moves and brokers:
            self.cluster.coordinator = self.random.choice(brokers).id
        if draw() < weather.crash and len(brokers) > 1:
            broker = self.random.choice(brokers)
            broker.up = False
            others = [other.id for other in brokers if other is not broker]
            for topic in self.cluster.topics.values():
                topic.leaders[:] = [
                    self.random.choice(others) if leader == broker.id else leader for leader in topic.leaders
                ]
                topic.epoch += 1
            if self.cluster.coordinates == broker.id:
                self.cluster.coordinator = self.random.choice(others)
            self.later(self.random.uniform(0.1, weather.longest_crash), lambda: setattr(broker, "up", True))
