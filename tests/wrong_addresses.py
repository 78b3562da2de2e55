"""Addresses that lead to no broker, and a broker that sends its clients there: one listener for each."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import attrs

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.kafka_cluster.security import Security
from ottla_testkit.processes.free_ports import HOST, free_ports
from ottla_testkit.pytest_plugin import go_without
from wrong_peers import says, serving

NOWHERE: Final = "no-such-broker.invalid"
DISCARDED: Final = "127.0.0.1:9"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """An address whose connections are never accepted nor refused: its queue is full."""
    with socket.socket() as listener, contextlib.ExitStack() as queue:
        listener.bind((HOST, 0))
        listener.listen(0)
        for _ in range(4):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"{HOST}:{listener.getsockname()[1]}"


@contextlib.contextmanager
def refused() -> Iterator[str]:
    """An address where nothing listens, and nothing can begin to: the port is taken."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield f"{HOST}:{taken.getsockname()[1]}"


@contextlib.contextmanager
def unroutable() -> Iterator[str]:
    """The broadcast address, to which no connection can be made from anywhere."""
    yield "255.255.255.255:9092"


@contextlib.contextmanager
def without_a_name() -> Iterator[str]:
    """An address whose name does not resolve."""
    yield f"{NOWHERE}:9092"


@contextlib.contextmanager
def web_server() -> Iterator[str]:
    """An address that answers like a web server."""
    with serving(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as (host, port):
        yield f"{host}:{port}"


@contextlib.contextmanager
def reserved() -> Iterator[str]:
    """The port of a service that no machine has today."""
    yield DISCARDED


ADDRESSES: Final[Mapping[str, Callable[[], AbstractContextManager[str]]]] = {
    "refused": refused,
    "unroutable": unroutable,
    "without a name": without_a_name,
    "web server": web_server,
    "black hole": black_hole,
    "reserved": reserved,
}


@attrs.define(kw_only=True)
class MisdirectingListeners(Security):
    """Listeners in plain text, each of which advertises another address."""

    advertised: Mapping[str, str]

    def __attrs_post_init__(self) -> None:
        self.choose_ports()

    def choose_ports(self) -> None:
        self.ports = dict(zip(self.advertised, free_ports(len(self.advertised)), strict=True))

    def broker_settings(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        listeners = [f"{name}://{HOST}:{port}" for name, port in self.ports.items()]
        advertised = [f"{name}://{address}" for name, address in self.advertised.items()]
        protocols = [f"{name}:PLAINTEXT" for name in self.ports]
        return {
            **settings,
            "listeners": ",".join([str(settings["listeners"]), *listeners]),
            "advertised.listeners": ",".join([str(settings["advertised.listeners"]), *advertised]),
            "listener.security.protocol.map": ",".join([str(settings["listener.security.protocol.map"]), *protocols]),
            "inter.broker.listener.name": "PLAINTEXT",
        }


@attrs.frozen
class Misdirecting:
    """A broker with a listener for each of `ADDRESSES`, and where each sends its clients."""

    kafka: KafkaCluster
    advertised: Mapping[str, str]

    def listener(self, address: str) -> str:
        """`host:port` of the listener that sends its clients to one of `ADDRESSES`."""
        return self.kafka.listener(_listener(address))


def _listener(address: str) -> str:
    return address.upper().replace(" ", "_")


@contextlib.contextmanager
def misdirecting() -> Iterator[Misdirecting]:
    """A broker that runs with all its wrong addresses; without Java the test is skipped."""
    with contextlib.ExitStack() as stack:
        advertised = {name: stack.enter_context(address()) for name, address in ADDRESSES.items()}
        listeners = MisdirectingListeners(
            folder=Path(), users={}, advertised={_listener(name): address for name, address in advertised.items()}
        )
        try:
            kafka = stack.enter_context(KafkaCluster(security=listeners))
        except KafkaUnavailableError as error:
            go_without(error)
        yield Misdirecting(kafka, advertised)
