"""Invalid host names are refused from every source: configuration, metadata, name servers, the doctor."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

import pytest
from broker_on_a_socket import SocketBroker

from ottla import Producer
from ottla.config import ConfigDraft
from ottla.config.hosts import LONGEST, illegal
from ottla.doctor.bounds import Bounds
from ottla.doctor.names import Server, Unresolved, look_up
from ottla.errors import BrokersUnreachableError, ConfigError, NameResolutionError
from ottla.interfaces import Target, TransportLayer
from ottla.network.selector.resolver import Resolver
from ottla_testkit.simulation import SimulatedCluster
from real_selector import HANG_GUARD, Shutdown, make_selector

ILLEGAL = [
    "localhost\0",
    "localhost\0.example.com",
    "127.0.0.1\0",
    "kafka\n",
    "kafka\x1b[2J",
    "kafka example",
    "kafka\u202emoc",
    "kafka\ufeff",
    "kafka/path",
    "user@kafka",
    "kafka'",
    "",
    "k" * (LONGEST + 1),
]


@pytest.mark.parametrize("host", ILLEGAL)
def test_an_impossible_host_name_is_refused(host: str) -> None:
    assert illegal(host)


@pytest.mark.parametrize(
    "host",
    [
        "kafka",
        "kafka_1",
        "b-1.x.kafka.eu-1.amazonaws.com.",
        "10.0.0.1",
        "::1",
        "fe80::1%eth0.1",
        "bücher.example",
        "例え",
    ],
)
def test_valid_host_names_and_addresses_are_accepted(host: str) -> None:
    assert illegal(host) is None


def test_the_reason_shows_an_invisible_character() -> None:
    assert illegal("kafka\0") == r"the character '\x00' is not allowed in a host"
    assert illegal("kafka\u202e") == r"the character '\u202e' is not allowed in a host"


@pytest.mark.parametrize(
    "server", ["localhost\0:9092", "localhost\0.example.com:9092", "[fe80::1%a\0b]:9092", "a\x1b:1"]
)
def test_the_configuration_refuses_a_host_with_an_invalid_character(server: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: .*has no valid host: the character ") as caught:
        ConfigDraft.read({"bootstrap.servers": [server]}).finish()

    assert str(caught.value).isprintable()


class Proxy:
    """A transport that would hand any name to a proxy."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def targets(self, host: str, port: int) -> Sequence[Target]:
        self.asked.append(host)
        return [Target(socket.AF_INET, ("127.0.0.1", port))]

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        raise AssertionError("nothing connects here")


@pytest.mark.parametrize("host", ILLEGAL)
def test_no_resolver_and_no_proxy_gets_an_invalid_host(host: str) -> None:
    proxy = Proxy()
    selector = make_selector(transport=proxy)
    with contextlib.closing(Shutdown(selector)), pytest.raises(NameResolutionError) as caught:
        selector.resolve(host, 9092)

    assert caught.value.final
    assert str(caught.value).isprintable()
    assert proxy.asked == []


class Talkative(Proxy):
    """A transport that passes on what the other side said."""

    def targets(self, host: str, port: int) -> Sequence[Target]:
        raise ValueError("no way to " + 1_000 * "\x1b[2J")


def test_host_text_of_a_transport_is_printable_and_bounded() -> None:
    selector = make_selector(transport=Talkative())
    with contextlib.closing(Shutdown(selector)), pytest.raises(NameResolutionError) as caught:
        selector.resolve("kafka", 9092)

    assert str(caught.value).startswith(f"the transport {__name__}.Talkative failed to resolve 'kafka': ValueError: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 450


def test_a_dns_response_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", lambda *_arguments: ("kafka\x1b[2J.example.com", "9092"))
    answered = threading.Event()
    resolver = Resolver(answered.set)
    assert resolver.resolve("127.0.0.1", 9092, canonical=True) is None
    assert answered.wait(HANG_GUARD)

    with pytest.raises(NameResolutionError, match="its canonical name is") as caught:
        resolver.resolve("127.0.0.1", 9092, canonical=True)
    assert str(caught.value).isprintable()


def test_a_broker_that_advertises_an_invalid_host_is_unreachable(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    broker = SocketBroker(cluster.brokers[1])
    limits = {"delivery.timeout.ms": 1_500, "request.timeout.ms": 1_000, "linger.ms": 0, "max.block.ms": 60_000}
    with broker.serving() as servers:
        port = int(servers.rpartition(":")[2])
        cluster.address = ("127.0.0.1\0.example.com", port)
        with Producer({"bootstrap.servers": servers, **limits}) as producer:
            error = producer.send("t", b"v").exception(HANG_GUARD)

    assert error is not None
    assert isinstance(error.__cause__, BrokersUnreachableError)
    assert isinstance(error.__cause__.__cause__, NameResolutionError)
    assert r"'127.0.0.1\x00.example.com' has no address: the character" in caplog.text
    assert "Traceback" not in caplog.text


def test_the_doctor_reports_an_invalid_host_and_sends_it_to_no_proxy() -> None:
    proxy = Proxy()
    [found] = look_up(
        [Server("kafka\0", 9092)],
        transport=proxy,
        canonical=False,
        setting="bootstrap.servers",
        bounds=Bounds.of(5, time.monotonic),
    )

    assert isinstance(found, Unresolved)
    assert "is not allowed in a host" in str(found.problem)
    assert proxy.asked == []
