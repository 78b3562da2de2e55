"""A simulated broker behind a real socket on 127.0.0.1, and a third-party mechanism as if it were installed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint

import attrs
import pytest

from ottla.plugins.registry.installed import announced
from ottla_testkit.simulation import Session, SimulatedBroker, SimulatedCluster, SimulatedLogin
from ottla_testkit.simulation.login import HangUpError
from ottla_testkit.simulation.pending_response import content_of
from wrong_peers import serving

SECRET = "the ducks fly south"


@attrs.define
class SocketBroker:
    """One broker with topic t; `connections` counts those that were made.

    `loses` is called with each request after it was carried out: if True, the connection ends without the response.
    """

    broker: SimulatedBroker
    loses: Callable[[bytes], bool] = lambda _frame: False
    connections: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    sockets: list[socket.socket] = attrs.field(factory=list)

    @classmethod
    def secured(cls, login: SimulatedLogin) -> SocketBroker:
        """One that wants a login."""
        cluster = SimulatedCluster.of(1)
        cluster.create("t", 1)
        broker = cluster.brokers[1]
        broker.require(login)
        return cls(broker)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, for as long as the block lasts."""
        with serving(self.serve) as (host, port):
            self.broker.cluster.address = (host, port)
            yield f"{host}:{port}"

    def serve(self, peer: socket.socket) -> None:
        """Answer the requests of one connection until it ends."""
        self.connections += 1
        self.sockets.append(peer)
        session = Session()
        with contextlib.suppress(HangUpError):
            while True:
                [size] = struct.unpack(">i", _exactly(peer, 4))
                frame = _exactly(peer, size)
                with self.lock:
                    content = content_of(self.broker.respond(session, frame, time.monotonic()))
                if self.loses(frame):
                    break
                if content is not None:
                    peer.sendall(struct.pack(">i", len(content)) + content)
        peer.close()


@pytest.fixture
def third_party_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mechanism X-PLAIN, announced like an installed one."""
    third_party = EntryPoint("X-PLAIN", "third_party_mechanism", "ottla.authenticators")

    def with_third_party() -> Sequence[EntryPoint]:
        return [*announced(), third_party]

    monkeypatch.setattr("ottla.plugins.registry.lookup.announced", with_third_party)


def settings(servers: str, *, password: str = SECRET, **others: object) -> Mapping[str, object]:
    """The settings that a producer needs to log in."""
    dotted = {key.replace("_", "."): value for key, value in others.items()}
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "x-plain",
        "x.plain.password": password,
        **dotted,
    }


def _exactly(peer: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = peer.recv(size - len(got))
        if not more:
            raise OSError("the other side is gone")
        got += more
    return bytes(got)
