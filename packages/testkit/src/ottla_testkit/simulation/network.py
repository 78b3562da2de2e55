"""A simulated network: a `Selectable` without sockets and threads, on the test's clock.

It is as strict as a selector with real sockets: a request is mostly written immediately, and then only a response
ends a wait. `test_selectable_contract.py` of the core tests the contract of both. A wait moves the clock to the next
event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ottla.errors import ConnectionFailedError, NameResolutionError, NetworkError, OttlaError, ProtocolMismatchError
from ottla.interfaces import Buffer, Target
from ottla.network.selector_interface import Address
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.link import Link, LinkConditions
from ottla_testkit.simulation.schedule import Schedule
from ottla_testkit.simulation.trace import Trace

_FOREVER = 1e8
_SPINNING = 50_000


class SimulatedNetwork:
    """Move bytes between a client and simulated brokers.

    Conditions may change at any time. New connections use the current `wire` and `wires`.
    """

    def __init__(self, cluster: SimulatedCluster, clock: ManualClock, *, seed: int = 0) -> None:
        self.cluster = cluster
        self.clock = clock
        self.chance = Chance(seed)
        self.schedule = Schedule(clock)
        self.trace = Trace()
        self.wire = LinkConditions()
        self.wires: dict[int, LinkConditions] = {}
        """Link conditions of brokers that differ from `wire`."""
        self.takes: deque[int] = deque()
        """Numbers of bytes that the next writes take, in turn; afterwards the link's conditions decide."""
        self.unresolvable: set[str] = set()
        self.slow_names: set[str] = set()
        """Names that are not resolved while they are in this set."""
        self.names: dict[str, float] = {}
        """Seconds that these names take to resolve."""
        self.other_protocol: set[str] = set()
        """Hosts that answer with a TLS alert."""
        self.refusing: set[str] = set()
        self.black_holes: set[str] = set()
        """Hosts that never answer a connection's first packet."""
        self.untrusted: dict[str, OttlaError] = {}
        self.frozen: set[int] = set()
        """Brokers that read nothing: `freeze` and `thaw`. Their systems still accept connections."""
        self.broker_idle = float("inf")
        """Seconds after which brokers close unused connections."""
        self.holding = False  # responses of all brokers are held back
        self.held: set[int] = set()  # responses of these brokers are held back
        self.connects = 0
        self.waits: list[float] = []
        """The time that each poll without immediate work waited."""
        self.wakeups = 0
        self._links: dict[int, Link] = {}
        self._to_close: dict[int, OttlaError] = {}
        self._resolving: dict[str, bool] = {}  # whether it is resolved
        self._woken = False
        self._still = 0
        self._polled_at = clock()
        self._clear()

    # Actions of a test

    def cut(self, broker: int) -> None:
        """Cut every connection to a broker; bytes in flight are lost."""
        for link in self._links.values():
            if link.broker.id == broker:
                link.cut(ConnectionFailedError(f"broker {broker} closed the connection"))

    def half_open(self, broker: int, *, out: bool = True, back: bool = True) -> None:
        """Drop all bytes of a broker's connections from now on, in these directions; neither side notices."""
        for link in self._links.values():
            if link.broker.id == broker:
                link.out_vanishes |= out
                link.back_vanishes |= back

    def freeze(self, broker: int) -> None:
        """Make a broker read nothing until `thaw`; its system still takes bytes."""
        self.frozen.add(broker)
        for link in self._links.values():
            if link.broker.id == broker:
                link.freeze()

    def thaw(self, broker: int) -> None:
        """Let a frozen broker continue, with all bytes that were sent to it meanwhile."""
        self.frozen.discard(broker)
        for link in self._links.values():
            if link.broker.id == broker:
                link.thaw()

    def hang_up(self, broker: int) -> None:
        """Make a broker close its connections; bytes that it sent before still arrive."""
        for link in self._links.values():
            if link.broker.id == broker:
                link.hang_up()

    def link(self, node: int) -> Link:
        """Return the connection of a node, to send as its broker or to break it."""
        return self._links[node]

    @property
    def links(self) -> Sequence[Link]:
        """The connections that the client has not closed."""
        return list(self._links.values())

    def retire(self, node: int, reason: OttlaError) -> None:
        """End a connection from the client's side, as a selector does on its own."""
        self._to_close[node] = reason

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action after this number of seconds."""
        self.schedule.later(seconds, action)

    # Selectable

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        if host in self.slow_names or not self._resolved(host):
            return None
        if host in self.unresolvable:
            raise NameResolutionError(f"the name {host!r} has no address", final=True)
        return [Address(host=host, target=Target(0, host))]

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        assert node not in self._links, "a connection id exists once"
        self.connects += 1
        broker = self._broker_at(host)
        wire = self.wires.get(broker.id, self.wire)
        link = Link(
            node=node,
            broker=broker,
            wire=wire,
            schedule=self.schedule,
            now=self.clock,
            chance=self.chance,
            take=self.take,
            held=self._held,
            trace=self.trace,
            takes=self.takes,
        )
        self._links[node] = link
        if host not in self.black_holes:
            self.schedule.later(wire.round_trip + wire.setup, lambda: self._establish(link, host, port))

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        link = self._links[node]
        assert link.established, "nothing is sent before the connection is ready"
        size = sum(map(len, chunks)) - 4
        assert size == int.from_bytes(b"".join(chunks)[:4], "big"), "a frame begins with its size"
        link.channel.send(chunks)
        return node not in self._to_close and link.channel.write()

    def close(self, node: int, reason: NetworkError) -> None:
        if node in self._links:
            self._to_close[node] = reason

    def poll(self, timeout: float) -> None:
        self._clear()
        to_close, self._to_close = self._to_close, {}
        for node, reason in to_close.items():
            self._end(node, reason)
        self._wait(max(0.0, timeout))
        self._still = 0 if self.clock() > self._polled_at else self._still + 1
        self._polled_at = self.clock()
        assert self._still < _SPINNING, "the client spins: polls without end, and no time passes"
        self._woken = False
        for link in list(self._links.values()):
            self._serve(link)

    def wakeup(self) -> None:
        self._woken = True
        self.wakeups += 1

    def shutdown(self) -> None:
        for link in self._links.values():
            link.forget()
        self._links.clear()

    # Events

    def take(self, link: Link, frame: bytes) -> bytes | None:
        """Pass a request to its broker; return an immediate response."""
        return link.broker.converse(link.session, frame, self.clock())

    def _clear(self) -> None:
        self._connected: list[int] = []
        self._sent: list[int] = []
        self._received: list[tuple[int, memoryview]] = []
        self._disconnected: dict[int, OttlaError] = {}
        self.connected: Sequence[int] = self._connected
        self.sent: Sequence[int] = self._sent
        self.received: Sequence[tuple[int, memoryview]] = self._received
        self.disconnected: Mapping[int, OttlaError] = self._disconnected

    def _wait(self, timeout: float) -> None:
        """Let time pass until the client would be called, or until the time-out."""
        started_at = self.clock()
        end = started_at + timeout
        self._happen()
        while not self._stirred():
            at = self.schedule.next_at
            if at > end:
                assert timeout < _FOREVER, "nothing would ever end this wait"
                self.clock.advance(end - self.clock())
                self.waits.append(timeout)
                return
            self.clock.advance(max(0.0, at - self.clock()))
            self._happen()
        if self.clock() > started_at:
            self.waits.append(self.clock() - started_at)

    def _happen(self) -> None:
        self.schedule.run()
        for link in self._links.values():
            if not link.broker.up and link.established and link.ended is None:
                link.cut(ConnectionFailedError(f"broker {link.broker.id} closed the connection"))

    def _stirred(self) -> bool:
        """Return whether a poll has something to report or to process."""
        if self._woken or self._disconnected:
            return True
        return any(
            _readable(link) or link.writable or (link.established and not link.channel.ready)
            for link in self._links.values()
        )

    def _serve(self, link: Link) -> None:
        channel = link.channel
        try:
            if link.ended is not None and not link.established:
                raise link.ended
            if not channel.ready and channel.handshake():
                self._connected.append(link.node)
            if not channel.ready:
                return
            answer = channel.read() if _readable(link) else None
            if answer is not None:
                self._received.append((link.node, answer))
            if channel.sending and channel.write():
                self._sent.append(link.node)
        except OttlaError as error:
            self._end(link.node, error)

    def _end(self, node: int, reason: OttlaError) -> None:
        link = self._links.pop(node, None)
        if link is not None:
            link.channel.close()
            self._disconnected[node] = reason

    def _establish(self, link: Link, host: str, port: int) -> None:
        """Handle the response to a connection's first packet."""
        if host in self.untrusted:
            link.ended = self.untrusted[host]
        elif host in self.other_protocol:
            link.ended = ProtocolMismatchError(f"{host}:{port} answered with a TLS alert")
        elif link.broker.up and host not in self.refusing:
            link.established, link.used_at = True, self.clock()
            if link.broker.id in self.frozen:
                link.freeze()
            self._watch_idle(link)
        else:
            link.ended = ConnectionFailedError(f"could not connect to {host}:{port}: ECONNREFUSED")

    def _watch_idle(self, link: Link) -> None:
        if self.broker_idle == float("inf") or link.ended is not None:
            return
        remaining = link.used_at + self.broker_idle - self.clock()
        if remaining > 0:
            self.schedule.later(remaining, lambda: self._watch_idle(link))
        else:
            link.hang_up()

    def _broker_at(self, host: str) -> SimulatedBroker:
        brokers = self.cluster.brokers
        node_id = int(host.removeprefix("broker-")) if host.startswith("broker-") else self.cluster.seed
        return next(iter(brokers.values())) if node_id is None else brokers[node_id]

    def _held(self, link: Link) -> bool:
        return self.holding or link.broker.id in self.held

    def _resolved(self, host: str) -> bool:
        seconds = self.names.get(host, 0.0)
        if not seconds:
            return True
        if host not in self._resolving:
            self._resolving[host] = False
            self.schedule.later(seconds, lambda: self._find(host))
        if self._resolving[host]:
            del self._resolving[host]  # as with a resolver: the next call asks again
            return True
        return False

    def _find(self, host: str) -> None:
        self._resolving[host] = True
        self._woken = True


def _readable(link: Link) -> bool:
    """Return whether a read may give a response: by bytes on the link, or by some that the channel has read ahead."""
    return link.readable or link.channel.may_read
