"""A simulated network with faults. One seed decides delays, losses, late requests, crashes and leader moves.

A request may be lost before it reaches its broker, or its response afterwards, completely or in the middle. A request
of a lost connection may still reach its broker later. Brokers refuse requests with any code, before or after they
append a batch. They close connections, freeze, crash and restart; connections die silently; leaders and the coordinator
move. Brokers themselves never write a batch twice or lose one: any error in a final log is the producer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from ottla.errors import ConnectionFailedError, ErrorCode
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.txn_offset_commit import TXN_OFFSET_COMMIT
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.network import SimulatedNetwork
from ottla_testkit.simulation.pending_response import KnownResponse, Response, when_known
from ottla_testkit.simulation.produce_requests import Scripted
from ottla_testkit.simulation.refusals import RETRIABLE
from ottla_testkit.simulation.transactions import TXN_V2

COORDINATOR_REFUSALS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
COORDINATOR_REQUESTS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit")
DISTANCES = (0.0, 0.0, 0.001, 0.005, 0.02, 0.1)


def _fault(rate: float) -> float:
    """Declare a rate that `FaultRates.scaled` changes."""
    declared: float = attrs.field(default=rate, metadata={"scaled": True})
    return declared


@attrs.frozen(kw_only=True)
class FaultRates:
    """Probabilities of faults: for each request, and for brokers at each poll."""

    lost_request: float = _fault(0.02)
    lost_response: float = _fault(0.02)
    torn_response: float = _fault(0.01)
    late_request: float = 0.3
    """Share of the lost requests that arrive later."""
    refused: float = _fault(0.05)
    refusals: Sequence[Scripted] = RETRIABLE
    """Those of Produce requests."""
    delay: float = 0.3
    longest_delay: float = 0.5
    closes_connection: float = _fault(0.005)
    half_open: float = _fault(0.002)
    freeze: float = _fault(0.001)
    longest_freeze: float = 1.5
    crash: float = _fault(0.002)
    longest_crash: float = 3.0
    leader_moves: float = _fault(0.01)
    coordinator_moves: float = _fault(0.005)

    def scaled(self, factor: float) -> FaultRates:
        """Return the same rates, with all faults *factor* times as likely."""
        faults = [field.name for field in attrs.fields(FaultRates) if field.metadata.get("scaled")]
        return attrs.evolve(self, **{name: factor * getattr(self, name) for name in faults})


def random_link_conditions(chance: Chance) -> LinkConditions:
    """Return random link conditions: delays up to 100 ms, and sockets that accept all, some or no bytes of a write."""
    distance = chance.choice(DISTANCES)
    return LinkConditions(
        round_trip=distance,
        jitter=chance.choice((0.0, distance / 4)),
        setup=chance.choice((0.0, 0.0, 0.05)),
        buffer=chance.choice((None, None, 300, 5_000)),
        partial_writes=chance.choice((0.0, 0.1, 0.3)),
        nothing=chance.choice((0.0, 0.05, 0.2)),
        pieces=chance.choice((0.0, 0.1, 0.5)),
    )


class FaultyNetwork(SimulatedNetwork):
    """A network without faults while `fault_rates` is None. *random_links*: else all links are fast."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, seed: int, *, random_links: bool = True) -> None:
        super().__init__(cluster, clock, seed=seed)
        self.fault_rates: FaultRates | None = None
        if random_links:
            self.wire = random_link_conditions(self.chance)
            self.wires = {
                broker: random_link_conditions(self.chance) for broker in cluster.brokers if self.chance.happens(0.3)
            }
            for broker in cluster.brokers.values():
                broker.hints = self.chance.happens(0.5)

    def end_faults(self) -> None:
        """End the faults and repair brokers. A connection that died silently stays dead: neither side notices."""
        self.fault_rates = None
        for broker in self.cluster.brokers.values():
            broker.up = True
            broker.codes.clear()
            broker.errors_by_request.clear()
            self.thaw(broker.id)

    def poll(self, timeout: float) -> None:
        if self.fault_rates is not None:
            self._inject_faults(self.fault_rates)
        super().poll(timeout)

    def take(self, link: Link, frame: bytes) -> Response:
        fault_rates, broker, chance = self.fault_rates, link.broker, self.chance
        if fault_rates is None:
            return super().take(link, frame)
        if chance.happens(fault_rates.half_open):
            link.out_lost, link.back_lost = chance.happens(0.8), chance.happens(0.8)
        draw = chance.random()
        if draw < fault_rates.lost_request:
            self._end_connection(link)
            if chance.happens(fault_rates.late_request) and not self._breaks_every_producer(frame):
                seconds = chance.uniform(0, 2 * fault_rates.longest_delay)
                self.schedule.later(seconds, lambda: broker.take_late(frame))
            return KnownResponse()
        self._refuse(broker, fault_rates)
        response = super().take(link, frame)
        broker.codes.clear()
        broker.errors_by_request.clear()
        when_known(response, lambda known: self._answer(link, known, draw - fault_rates.lost_request, fault_rates))
        return KnownResponse()

    def _answer(self, link: Link, response: KnownResponse, draw: float, fault_rates: FaultRates) -> None:
        chance = self.chance
        if draw < fault_rates.lost_response:
            self._end_connection(link)
            return
        content = response.content
        if content is None:
            return
        if draw < fault_rates.lost_response + fault_rates.torn_response:
            self._send_part(link, content)
            return
        delay = chance.uniform(0, fault_rates.longest_delay) if chance.happens(fault_rates.delay) else 0.0
        link.answer(content, delay=delay)
        link.mute(response.muted_seconds)
        if chance.happens(fault_rates.closes_connection):
            link.hang_up()

    def _breaks_every_producer(self, frame: bytes) -> bool:
        """Return whether a late arrival of this request would break every producer.

        A late InitProducerId fences the producer that has repeated it. Before KIP-890, a late EndTxn ends the next
        transaction, and a late TxnOffsetCommit replaces that transaction's offsets by older ones.
        """
        key = int.from_bytes(frame[:2], "big")
        old = self.cluster.transaction_version < TXN_V2
        return key == INIT_PRODUCER_ID.key or (old and key in (END_TXN.key, TXN_OFFSET_COMMIT.key))

    def _refuse(self, broker: SimulatedBroker, fault_rates: FaultRates) -> None:
        if self.chance.happens(fault_rates.refused):
            broker.codes.append(self.chance.choice(fault_rates.refusals))
            for request in COORDINATOR_REQUESTS:
                broker.errors_by_request.setdefault(request, deque()).append(self.chance.choice(COORDINATOR_REFUSALS))

    def _end_connection(self, link: Link) -> None:
        link.cut(ConnectionFailedError(f"broker {link.broker.id} closed the connection"))

    def _send_part(self, link: Link, content: bytes) -> None:
        framed = len(content).to_bytes(4, "big") + content
        link.speak(framed[: self.chance.randrange(len(framed))])
        link.reset()

    def _inject_faults(self, fault_rates: FaultRates) -> None:
        chance = self.chance
        brokers = [broker for broker in self.cluster.brokers.values() if broker.up]
        if chance.happens(fault_rates.leader_moves) and brokers:
            topic = chance.choice(list(self.cluster.topics.values()))
            leader = chance.choice(brokers).id
            topic.move_leader(chance.randrange(len(topic.leaders)), leader)
        if chance.happens(fault_rates.coordinator_moves) and brokers:
            self.cluster.coordinator = chance.choice(brokers).id
        if chance.happens(fault_rates.freeze) and brokers:
            self._freeze_for(chance.choice(brokers).id, chance.uniform(0.01, fault_rates.longest_freeze))
        if chance.happens(fault_rates.crash) and len(brokers) > 1:
            self._crash(chance.choice(brokers), brokers, fault_rates)

    def _freeze_for(self, broker: int, seconds: float) -> None:
        self.freeze(broker)
        self.schedule.later(seconds, lambda: self.thaw(broker))

    def _crash(self, broker: SimulatedBroker, brokers: Sequence[SimulatedBroker], fault_rates: FaultRates) -> None:
        broker.up = False
        others = [other.id for other in brokers if other is not broker]
        for topic in self.cluster.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader == broker.id:
                    topic.move_leader(partition, self.chance.choice(others))
        if self.cluster.coordinates == broker.id:
            self.cluster.coordinator = self.chance.choice(others)
        self.schedule.later(self.chance.uniform(0.1, fault_rates.longest_crash), lambda: setattr(broker, "up", True))
