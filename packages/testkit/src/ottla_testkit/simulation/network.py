"""A simulated network: a `Selectable` without sockets and threads, on the test's clock.

It is as strict as a selector with real sockets: most requests are written immediately, and then only a response ends a
wait. `test_selectable_contract.py` of the core tests the contract of both. A wait moves the clock to the next
event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ottla.errors import ConnectionFailedError, NetworkError, OttlaError
from ottla.interfaces import Buffer, Target
from ottla.network.selector_interface import Address
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation.brokers import SimulatedCluster
from ottla_testkit.simulation.chance import Chance
from ottla_testkit.simulation.hosts import SimulatedHosts
from ottla_testkit.simulation.link import Link
from ottla_testkit.simulation.link_conditions import LinkConditions
from ottla_testkit.simulation.names import SimulatedNames
from ottla_testkit.simulation.pending_response import Response
from ottla_testkit.simulation.schedule import Schedule
from ottla_testkit.simulation.threads import SimulatedThreads, StuckError
from ottla_testkit.simulation.trace import Trace

_FOREVER = 1e8
_SPINNING = 10_000


class SimulatedNetwork:
    """Move bytes between a client and simulated brokers.

    Conditions may change at any time, those of `names` and `hosts` too. New connections use the current `wire` and
    `wires`.
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
        self.names = SimulatedNames(self.schedule, wake=self.wakeup)
        self.hosts = SimulatedHosts(cluster, self.schedule, clock)
        self.holding = False  # responses of all brokers are held back
        self.held: set[int] = set()  # responses of these brokers are held back
        self.descriptor = None  # no event loop watches it, and none runs rounds
        self.awaits_events = False
        self.has_events = lambda: False
        self.connects = 0
        self.waits: list[float] = []
        """The seconds that each poll waited, of polls that had no immediate work."""
        self.wakeups = 0
        self.polls = 0
        self.threads: SimulatedThreads | None = None
        """The threads of the simulation, which run while one of them waits here; None if the test's thread is alone."""
        self._links: dict[int, Link] = {}
        self._closed_unread: dict[int, list[Link]] = {}
        """Connections that the client closed while their broker was frozen, by broker."""
        self._to_close: dict[int, OttlaError] = {}
        self._woken = False
        self._idle_polls = 0
        self._polled_at = clock()
        self._clear()
        cluster.controller.begin(self.schedule, Chance(~seed), self.hosts.frozen)

    # Actions of a test

    def cut(self, broker: int) -> None:
        """Cut every connection to a broker; bytes in flight are lost."""
        for link in _links_to(broker, self.links):
            link.cut(ConnectionFailedError(f"broker {broker} closed the connection"))

    def half_open(self, broker: int, *, out: bool = True, back: bool = True) -> None:
        """Drop all bytes of a broker's connections from now on, in these directions; neither side notices."""
        for link in _links_to(broker, self.links):
            link.out_lost |= out
            link.back_lost |= back

    def freeze(self, broker: int) -> None:
        """Make a broker read nothing until `thaw`; its system still takes bytes."""
        self.hosts.frozen.add(broker)
        self.cluster.controller.changed(broker)
        for link in _links_to(broker, self.links):
            link.freeze()

    def thaw(self, broker: int) -> None:
        """Let a frozen broker continue, with all bytes that were sent to it meanwhile.

        It reads its connections in any order, also those that the client has closed since.
        """
        self.hosts.frozen.discard(broker)
        self.cluster.controller.changed(broker)
        links = [*self._closed_unread.pop(broker, ()), *_links_to(broker, self.links)]
        self.chance.shuffle(links)
        for link in links:
            link.thaw()

    def hang_up(self, broker: int) -> None:
        """Make a broker close its connections; bytes that it sent before still arrive."""
        for link in _links_to(broker, self.links):
            link.hang_up()

    def link(self, node: int) -> Link:
        """Return the connection to a node. A test can send bytes as the broker, or break the connection."""
        return self._links[node]

    @property
    def links(self) -> Sequence[Link]:
        """The connections that the client has not closed."""
        return list(self._links.values())

    def retire(self, node: int, reason: OttlaError) -> None:
        """Close a connection on the client's side, as a selector does without a call."""
        self._to_close[node] = reason

    # Selectable

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        return self.names.resolve(host)

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        assert node not in self._links, "a connection id exists once"
        self.connects += 1
        broker = self.hosts.broker_at(host)
        link = Link(
            node=node,
            broker=broker,
            wire=self.wires.get(broker.id, self.wire),
            schedule=self.schedule,
            now=self.clock,
            chance=self.chance,
            take=self.take,
            held=lambda link: self.holding or link.broker.id in self.held,
            trace=self.trace,
            takes=self.takes,
        )
        self._links[node] = link
        self.hosts.connect(link, host, port)

    def established(self, node: int) -> bool:
        return node in self._links and self._links[node].client.established

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        link = self._links[node]
        assert link.client.established, "nothing is sent before the connection is ready"
        size = sum(map(len, chunks)) - 4
        assert size == int.from_bytes(b"".join(chunks)[:4], "big"), "a frame begins with its size"
        link.channel.send(chunks)
        return node not in self._to_close and link.channel.write()

    def close(self, node: int, reason: NetworkError) -> None:
        if node in self._links:
            self._to_close[node] = reason

    def rename(self, node: int, new: int) -> None:
        assert new not in self._links, "a connection id exists once"
        link = self._links.pop(node)
        link.node = new
        self._links[new] = link
        if node in self._to_close:
            self._to_close[new] = self._to_close.pop(node)

    def poll(self, timeout: float) -> None:
        self.polls += 1
        self._clear()
        to_close, self._to_close = self._to_close, {}
        for node, reason in to_close.items():
            self._end(node, reason)
        self._wait(max(0.0, timeout))
        self._idle_polls = 0 if self.clock() > self._polled_at else self._idle_polls + 1
        self._polled_at = self.clock()
        if self._idle_polls >= _SPINNING:
            error = StuckError("the client spins: it polls repeatedly, and no time passes")
            if self.threads is not None:
                self.threads.fail(error)  # a producer would recover from the exception, and spin on
            raise error
        self._woken = False
        for link in list(self._links.values()):
            self._serve(link)

    def wakeup(self) -> None:
        self._woken = True
        self.wakeups += 1

    def shutdown(self, *, forked: bool = False) -> None:
        for link in self._links.values():
            link.client.close()
        self._links.clear()

    # Events

    def take(self, link: Link, frame: bytes) -> Response:
        """Pass a request to its broker; return its response."""
        return link.broker.respond(link.session, frame, self.clock())

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
        if self.threads is not None:
            self.threads.wait(self._has_events, end)
            return
        self.happen()
        while not self._has_events():
            at = self.schedule.next_at
            if at > end:
                assert timeout < _FOREVER, "nothing would ever end this wait"
                self.clock.advance(end - self.clock())
                self.waits.append(timeout)
                return
            self.clock.advance(max(0.0, at - self.clock()))
            self.happen()
        if self.clock() > started_at:
            self.waits.append(self.clock() - started_at)

    def happen(self) -> None:
        """Run the events that are due."""
        self.schedule.run()
        for link in self._links.values():
            if not link.broker.up and link.client.established and link.client.ended is None:
                link.cut(ConnectionFailedError(f"broker {link.broker.id} closed the connection"))

    def _has_events(self) -> bool:
        """Return whether a poll has something to report or to process."""
        if self._woken or self._disconnected:
            return True
        for link in self._links.values():  # called for each event and each switch between threads
            client, channel = link.client, link.channel
            if client.established and not channel.ready:
                return True
            if (client.received or client.ended is not None) and client.readable:
                return True
            if channel.may_read or (client.writable and channel.sending):
                return True
        return False

    def _serve(self, link: Link) -> None:
        channel = link.channel
        try:
            if link.client.ended is not None and not link.client.established:
                raise link.client.ended
            if not channel.ready and channel.handshake():
                self._connected.append(link.node)
            if not channel.ready:
                return
            answer = channel.read() if _readable(link) else None
            if answer is not None:
                link.responses += 1
                self._received.append((link.node, answer))
            if channel.sending and channel.write():
                self._sent.append(link.node)
        except OttlaError as error:
            self._end(link.node, error)

    def _end(self, node: int, reason: OttlaError) -> None:
        link = self._links.pop(node, None)
        if link is not None:
            link.channel.close()
            if link.broker.id in self.hosts.frozen:
                self._closed_unread.setdefault(link.broker.id, []).append(link)
            self._disconnected[node] = reason


def _readable(link: Link) -> bool:
    """Return whether a read may give a response: by bytes on the link, or by some that the channel has read ahead."""
    return link.client.readable or link.channel.may_read


def _links_to(broker: int, links: Sequence[Link]) -> Sequence[Link]:
    return [link for link in links if link.broker.id == broker]
