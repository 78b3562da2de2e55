"""One way to speak to a real selector and to the simulated network: a client's side, and the peer of a connection."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from ottla.errors import OttlaError
from ottla.interfaces import Target
from ottla.network.selector_interface import Address, Selectable
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import (
    KnownResponse,
    Link,
    LinkConditions,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedNetwork,
)
from ottla_testkit.simulation.login import Session
from real_selector import HANG_GUARD, make_selector, reset

MORE_THAN_A_SOCKET_TAKES = 4_000_000


class Peer(Protocol):
    """The broker's end of a connection."""

    def send(self, data: bytes) -> None:
        """Send bytes to the client, whole frames or not."""

    def read_on(self) -> None:
        """Read what the client sends; nothing is read before."""

    def close(self) -> None:
        """End the connection behind what was sent."""

    def reset(self) -> None:
        """Break the connection."""


@attrs.define
class PollResult:
    """The results of several polls, joined."""

    connected: list[int] = attrs.field(factory=list)
    sent: list[int] = attrs.field(factory=list)
    received: list[tuple[int, bytes]] = attrs.field(factory=list)
    disconnected: dict[int, OttlaError] = attrs.field(factory=dict)

    @property
    def nothing(self) -> bool:
        return self == PollResult()


class ListeningNetwork:
    """A network with one listener. Node ids are the test's."""

    selectable: Selectable
    clock: Callable[[], float]

    def begin(self, node: int) -> None:
        """Begin to connect to the listener."""
        raise NotImplementedError

    def begin_refused(self, node: int) -> None:
        """Begin to connect to a port without a listener."""
        raise NotImplementedError

    def peer(self, node: int) -> Peer:
        """The other end of a connection that is ready."""
        raise NotImplementedError

    def requests(self, node: int, count: int) -> Sequence[bytes]:
        """The bodies of a connection's first requests, as they arrive; fails when there are fewer."""
        raise NotImplementedError

    def later(self, action: Callable[[], object]) -> None:
        """Have something happen while a poll waits, from another thread where there are threads."""
        raise NotImplementedError

    def resolve(self) -> Sequence[Address] | None:
        """Ask for the addresses of a name that takes a moment."""
        raise NotImplementedError

    def close(self) -> None:
        """Close everything."""
        raise NotImplementedError

    # The same for both

    def poll(self, timeout: float = HANG_GUARD) -> PollResult:
        """One poll, and its results."""
        it = self.selectable
        it.poll(timeout)
        received = [(node, bytes(answer)) for node, answer in it.received]
        return PollResult(list(it.connected), list(it.sent), received, dict(it.disconnected))

    def until(self, happened: Callable[[PollResult], object]) -> PollResult:
        """Poll until the condition holds; the results of all polls."""
        reported = PollResult()
        for _ in range(100_000):
            if happened(reported):
                return reported
            more = self.poll(0.05)
            reported.connected += more.connected
            reported.sent += more.sent
            reported.received += more.received
            reported.disconnected |= more.disconnected
        raise AssertionError("it never happened")

    def connect(self, node: int) -> Peer:
        """A connection that is ready."""
        self.begin(node)
        self.until(lambda reported: reported.connected)
        return self.peer(node)

    def send(self, node: int, body: bytes) -> bool:
        """Send a request with this body."""
        return self.selectable.send(node, [len(body).to_bytes(4, "big"), body])


class SocketPeer:
    """A socket that reads on a thread of its own, once it is asked what came."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._pieces: list[bytes] = []
        self._reading = False

    @property
    def read(self) -> bytes:
        """What has come; without the GIL, no bytearray may grow while it is copied."""
        return b"".join(tuple(self._pieces))

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        reset(self.sock)

    def read_on(self) -> None:
        if not self._reading:
            self._reading = True
            threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        try:
            while piece := self.sock.recv(1 << 16):
                self._pieces.append(piece)
        except OSError:
            pass  # the test has closed it


class Sockets(ListeningNetwork):
    """The real selector over loopback."""

    def __init__(self) -> None:
        self.clock = time.monotonic
        self.selectable = make_selector(send_buffer=65_536)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: dict[int, SocketPeer] = {}

    def begin(self, node: int) -> None:
        host, port = self._listener.getsockname()
        self.selectable.connect(node, Target(socket.AF_INET, (host, port)), host, port)

    def begin_refused(self, node: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            host, port = closed.getsockname()
        self.selectable.connect(node, Target(socket.AF_INET, (host, port)), host, port)

    def peer(self, node: int) -> SocketPeer:
        if node not in self._peers:
            accepted, _address = self._listener.accept()
            self._peers[node] = SocketPeer(accepted)
        return self._peers[node]

    def requests(self, node: int, count: int) -> Sequence[bytes]:
        peer = self.peer(node)
        peer.read_on()
        deadline = time.monotonic() + HANG_GUARD
        while len(found := _frames(peer.read)) < count:
            assert time.monotonic() < deadline, f"{len(found)} requests arrived"
            self.poll(0.01)
        return found

    def later(self, action: Callable[[], object]) -> None:
        threading.Timer(0.02, action).start()

    def resolve(self) -> Sequence[Address] | None:
        return self.selectable.resolve("localhost", 9092)

    def close(self) -> None:
        self.selectable.shutdown()
        self._listener.close()
        for peer in self._peers.values():
            peer.sock.close()


@attrs.define
class SimulatedPeer:
    """A link as its broker sees it. It reads nothing before it is asked what came."""

    link: Link

    def send(self, data: bytes) -> None:
        self.link.speak(data)

    def read_on(self) -> None:
        self.link.thaw()

    def close(self) -> None:
        self.link.hang_up()

    def reset(self) -> None:
        self.link.reset()


@attrs.define(kw_only=True, slots=False)
class Listening(SimulatedBroker):
    """A broker that answers nothing, and keeps what it was asked by session."""

    asked: dict[int, list[bytes]] = attrs.field(factory=dict)

    def respond(self, session: Session, frame: bytes, now: float) -> KnownResponse:
        self.asked.setdefault(id(session), []).append(frame)
        return KnownResponse()


class Simulated(ListeningNetwork):
    """The simulated network, at some distance."""

    def __init__(self, wire: LinkConditions) -> None:
        cluster = SimulatedCluster()
        self._broker = Listening(cluster=cluster, id=1)
        cluster.brokers = {1: self._broker, 2: SimulatedBroker(cluster=cluster, id=2, up=False)}
        self.clock = ManualClock()
        self.network = SimulatedNetwork(cluster, self.clock, seed=1)
        self.network.wire = attrs.evolve(wire, buffer=1_000_000)
        self.network.names.seconds["localhost"] = 0.02
        self.selectable = self.network
        self._links: dict[int, Link] = {}

    def begin(self, node: int) -> None:
        self.network.connect(node, Target(0, "broker-1"), "broker-1", 9092)
        self._links[node] = self.network.link(node)

    def begin_refused(self, node: int) -> None:
        self.network.connect(node, Target(0, "broker-2"), "broker-2", 9092)

    def peer(self, node: int) -> SimulatedPeer:
        link = self._links[node]
        link.freeze()
        return SimulatedPeer(link)

    def requests(self, node: int, count: int) -> Sequence[bytes]:
        link = self._links[node]
        link.thaw()
        for _ in range(10_000):
            if len(found := self._broker.asked.get(id(link.session), [])) >= count:
                return found
            self.poll(0.01)
        raise AssertionError("fewer requests arrived")

    def later(self, action: Callable[[], object]) -> None:
        self.network.schedule.later(0.02, action)

    def resolve(self) -> Sequence[Address] | None:
        return self.network.resolve("localhost", 9092)

    def close(self) -> None:
        self.network.shutdown()


def _frames(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found
