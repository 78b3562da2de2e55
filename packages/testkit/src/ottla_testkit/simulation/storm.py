"""A simulated network in bad weather: from one seed, the same delays, losses, late requests, crashes and moves.

A request may be lost before its broker sees it or its answer after; a request of a lost connection may still reach its
broker later; brokers crash and come back; leaders and the coordinator move. Nothing is written twice or forgotten by
the brokers themselves: whatever is wrong in a log in the end, the producer did.
"""

from __future__ import annotations

import heapq
import random
from collections import deque

import attrs

from ottla.errors import ConnectionFailed, ErrorCode
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.transactions import NEW_GENERATION

PRODUCE_REFUSALS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
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
    delay: float = 0.3
    longest_delay: float = 0.5
    crash: float = 0.002
    longest_crash: float = 3.0
    leader_moves: float = 0.01
    coordinator_moves: float = 0.005


class StormyNetwork(SimulatedNetwork):
    """Calm while `weather` is None."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, seed: int) -> None:
        super().__init__(cluster, clock)
        self.random = random.Random(seed)
        self.weather: Weather | None = None
        self._due: list[tuple[float, int, int, object]] = []  # what happens later: at, number, node or broker, what
        self._numbers = 0
        self._held: dict[int, float] = {}  # when the last answer of a connection may come

    def calm(self) -> None:
        """No more bad weather; what was broken is mended."""
        self.weather = None
        for broker in self.cluster.brokers.values():
            broker.up = True
            broker.codes.clear()
            broker.errand_codes.clear()

    def poll(self, timeout: float) -> None:
        self._happen()
        if self.weather is not None:
            self._worsen(self.weather)
        soonest = self._due[0][0] - self.clock() if self._due else float("inf")
        super().poll(max(0.0, min(timeout, soonest)))

    def take(self, node: int, broker: SimulatedBroker, frame: bytes) -> bytes | None:
        weather = self.weather
        if weather is None:
            return self._in_order(node, super().take(node, broker, frame))
        draw = self.random.random()
        if draw < weather.lost_request:
            self._lose(node, broker)
            if self.random.random() < weather.late_request and not self._too_harsh(frame):
                self._later(self.random.uniform(0, 2 * weather.longest_delay), broker.id, frame)
            return None
        if self.random.random() < weather.refused:
            self._refuse(broker)
        answer = super().take(node, broker, frame)
        broker.codes.clear()
        broker.errand_codes.clear()
        if draw < weather.lost_request + weather.lost_answer:
            self._lose(node, broker)
            return None
        return self._in_order(node, answer)

    def _too_harsh(self, frame: bytes) -> bool:
        """Whether no producer could survive this, had it come late.

        InitProducerId fences whoever asked again, and before KIP-890 EndTxn ends the transaction after its own, and
        TxnOffsetCommit takes that one's offsets back.
        """
        key = int.from_bytes(frame[:2], "big")
        old = self.cluster.transaction_version < NEW_GENERATION
        return key == INIT_PRODUCER_ID.key or (old and key in (END_TXN.key, TXN_OFFSET_COMMIT.key))

    def _in_order(self, node: int, answer: bytes | None) -> bytes | None:
        """Hold an answer back, perhaps; never past the next one of its connection."""
        now, weather = self.clock(), self.weather
        at = max(now, self._held.get(node, now))
        if weather is not None and self.random.random() < weather.delay:
            at = max(at, now + self.random.uniform(0, weather.longest_delay))
        if answer is None or at <= now:
            return answer
        self._held[node] = at
        self._later(at - now, node, (self._links.get(node), answer))
        return None

    def _refuse(self, broker: SimulatedBroker) -> None:
        broker.codes.append(self.random.choice(PRODUCE_REFUSALS))
        for errand in ERRANDS:
            broker.errand_codes.setdefault(errand, deque()).append(self.random.choice(ERRAND_REFUSALS))

    def _lose(self, node: int, broker: SimulatedBroker) -> None:
        self._to_close[node] = ConnectionFailed(f"broker {broker.id} closed the connection")

    def _later(self, seconds: float, node: int, what: object) -> None:
        self._numbers += 1
        heapq.heappush(self._due, (self.clock() + seconds, self._numbers, node, what))

    def _happen(self) -> None:
        now = self.clock()
        while self._due and self._due[0][0] <= now:
            _at, _number, node, what = heapq.heappop(self._due)
            match what:
                case bytes():
                    broker = self.cluster.brokers[node]
                    if broker.up:
                        broker.answer(what)  # to nobody
                case "up":
                    self.cluster.brokers[node].up = True
                case (link, bytes(answer)):
                    current = self._links.get(node)
                    if current is not None and current is link:
                        current.answers.append(answer)

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
            self._later(self.random.uniform(0.1, weather.longest_crash), broker.id, "up")
