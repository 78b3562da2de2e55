"""A network that exists only in a test: a `Selectable` without sockets, threads, or any time but the test's own.

Each poll moves frames one step; a wait in which nothing happens moves the clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import attrs

from ottla.errors import ConnectionFailed, NameResolutionFailed, NetworkError, OttlaError, WrongProtocol
from ottla.interfaces import Buffer, Target
from ottla.selectable import Address
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.login import HangUp, Session


@attrs.define
class _Link:
    broker: SimulatedBroker
    answers: deque[bytes] = attrs.field(factory=deque)
    session: Session = attrs.field(factory=Session)


class SimulatedNetwork:
    """Moves frames between a client and simulated brokers, one step for each poll; a wait moves the clock."""

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.unresolvable: set[str] = set()
        self.strangers: set[str] = set()
        self.refusing: set[str] = set()
        self.slow_names: set[str] = set()
        self.black_holes: set[str] = set()
        self.untrusted: dict[str, OttlaError] = {}
        self.connects = 0
        self.holding = False  # answers are on their way, and do not come
        self.held: set[int] = set()  # those of these brokers do not
        self.waits: list[float] = []
        self.wakeups = 0
        self._links: dict[int, _Link] = {}
        self._connecting: dict[int, SimulatedBroker | None] = {}
        self._outbox: dict[int, bytes] = {}
        self._to_close: dict[int, OttlaError] = {}
        self._woken = False
        self.connected: Sequence[int] = ()
        self.sent: Sequence[int] = ()
        self.received: Sequence[tuple[int, memoryview]] = ()
        self.disconnected: Mapping[int, OttlaError] = {}

    def cut(self, broker: int) -> None:
        """Lose every connection to a broker."""
        for node, link in self._links.items():
            if link.broker.id == broker:
                self._to_close[node] = ConnectionFailed(f"broker {broker} closed the connection")

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        if host in self.slow_names:
            return None
        if host in self.unresolvable:
            raise NameResolutionFailed(f"the name {host!r} has no address", final=True)
        return [Address(host=host, target=Target(0, host))]

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        assert node not in self._links
        assert node not in self._connecting
        self.connects += 1
        if host in self.black_holes:
            self._connecting[node] = None
            return
        brokers = self.cluster.brokers
        node_id = int(host.removeprefix("broker-")) if host.startswith("broker-") else self.cluster.seed
        broker = next(iter(brokers.values())) if node_id is None else brokers[node_id]
        if host in self.untrusted:
            self._to_close[node] = self.untrusted[host]
        elif host in self.strangers:
            self._to_close[node] = WrongProtocol(f"{host}:{port} answered with a TLS alert")
        elif broker.up and host not in self.refusing:
            self._connecting[node] = broker
        else:
            self._to_close[node] = ConnectionFailed(f"could not connect to {host}:{port}: ECONNREFUSED")

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        assert node in self._links
        assert node not in self._outbox, "one send at a time"
        frame = b"".join(chunks)
        assert len(frame) - 4 == int.from_bytes(frame[:4], "big")
        self._outbox[node] = frame[4:]
        return False

    def close(self, node: int, reason: NetworkError) -> None:
        if node in self._links or node in self._connecting:
            self._to_close[node] = reason

    def poll(self, timeout: float) -> None:
        self.connected, self.sent, self.received, self.disconnected = [], [], [], {}
        for node, link in self._links.items():
            if not link.broker.up:
                self._to_close.setdefault(node, ConnectionFailed(f"broker {link.broker.id} closed the connection"))
        lost, self._to_close = self._to_close, {}
        for node in lost:
            for table in (self._links, self._connecting, self._outbox):
                table.pop(node, None)
        self.disconnected = lost
        self.sent = list(self._outbox)
        for node in self.sent:
            link = self._links[node]
            try:
                answer = self.take(node, link.broker, self._outbox.pop(node))
            except HangUp:
                self._to_close[node] = ConnectionFailed(f"broker {link.broker.id} closed the connection")
                continue
            if answer is not None:
                link.answers.append(answer)
        self.connected = [node for node, broker in self._connecting.items() if broker is not None]
        for node in self.connected:
            broker = self._connecting.pop(node)
            assert broker is not None
            self._links[node] = _Link(broker)
        self.received = [
            (node, memoryview(link.answers.popleft()))
            for node, link in self._links.items()
            if link.answers and not self.holding and link.broker.id not in self.held
        ]
        if not (self.disconnected or self.sent or self.connected or self.received or self._woken):
            assert timeout < 1e8, "nothing would ever end this wait"
            self.waits.append(timeout)
            self.clock.advance(timeout)
        self._woken = False

    def take(self, node: int, broker: SimulatedBroker, frame: bytes) -> bytes | None:
        """A broker gets a request; what it answers at once."""
        return broker.converse(self._links[node].session, frame, self.clock())

    def wakeup(self) -> None:
        self._woken = True
        self.wakeups += 1

    def shutdown(self) -> None:
        self._links.clear()
