"""Records through a SOCKS5 server that is not ours, to a real broker, read back around both."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from tiny_proxy import Socks5ProxyHandler

from ottla import Producer, TopicUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

WAIT = 60.0
HANG_GUARD_MS = 300_000


class Proxy(Socks5ProxyHandler):  # type: ignore[misc]  # tiny-proxy has no annotations
    """tiny-proxy, which records the targets of its connections, and knows names that no other resolver knows."""

    def __init__(self, **login: str) -> None:
        super().__init__(**login)
        self.asked: list[tuple[str, int]] = []
        self.names: dict[str, str] = {}
        self.address = ""

    def create_proxy(self, stream: Any) -> Any:
        proxy = super().create_proxy(stream)
        negotiate = proxy.negotiate

        async def note() -> tuple[str, int]:
            host, port = await negotiate()
            self.asked.append((host, port))
            return self.names.get(host, host), port

        proxy.negotiate = note
        return proxy


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread of its own."""
    with start_blocking_portal() as portal:
        yield portal


@contextlib.contextmanager
def serving(portal: BlockingPortal, handle: Callable[[Any], Awaitable[None]]) -> Iterator[str]:
    """The address on 127.0.0.1 where connections are handled like this."""
    listener: Any = portal.call(functools.partial(anyio.create_tcp_listener, local_host="127.0.0.1"))
    served = portal.start_task_soon(listener.serve, handle)
    yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    served.cancel()
    portal.call(listener.aclose)


@pytest.fixture
def start(portal: BlockingPortal) -> Iterator[Callable[..., Proxy]]:
    """Starts a proxy, with a login or without."""
    with contextlib.ExitStack() as running:

        def start(**login: str) -> Proxy:
            proxy = Proxy(**login)
            proxy.address = running.enter_context(serving(portal, proxy.handle))
            return proxy

        yield start


def producer(bootstrap_servers: str, proxy: str, **settings: Any) -> Producer:
    """A producer that knows the brokers only by way of the proxy."""
    return Producer(
        {"bootstrap.servers": bootstrap_servers, "connection.via": "socks5", "socks5.proxy": proxy},
        **settings,
    )


def refusal(
    proxy: str, *, bootstrap_servers: str = "kafka.invalid:9092", max_block_ms: int = 2_000, **login: str
) -> str:
    """The error for a topic that stays unknown through this proxy."""
    with (
        producer(bootstrap_servers, proxy, max_block_ms=max_block_ms, **login) as refused,
        pytest.raises(TopicUnavailableError) as caught,
    ):
        refused.send("t", b"v")
    return str(caught.value)


@pytest.mark.kafka
@pytest.mark.parametrize("login", [{}, {"username": "alice", "password": "sécret"}])
def test_records_arrive_through_a_proxy_with_and_without_a_login(
    kafka: KafkaCluster, make_topic: MakeTopic, start: Callable[..., Proxy], login: dict[str, str]
) -> None:
    topic, proxy = make_topic(partitions=3), start(**login)
    settings = {f"socks5_{key}": value for key, value in login.items()}
    values = [b"%d " % number * 100 for number in range(20_000)]

    with producer(kafka.bootstrap_servers, proxy.address, **settings) as through:
        for number, value in enumerate(values):
            through.send(topic, value, partition=number % 3)
        report = through.flush(WAIT)

    found = read_back(kafka.bootstrap_servers, topic, partitions=3)
    assert report.acknowledged == len(values)
    assert sorted(record.value or b"" for record in found) == sorted(values)
    assert set(proxy.asked) == {kafka.address(1)}


@pytest.mark.kafka
def test_the_proxy_resolves_names_that_are_unknown_here(
    kafka: KafkaCluster, make_topic: MakeTopic, start: Callable[..., Proxy]
) -> None:
    topic, proxy = make_topic(), start()
    host, port = kafka.address(1)
    proxy.names["kafka.invalid"] = host

    with producer(f"kafka.invalid:{port}", proxy.address) as through:
        assert through.send(topic, b"v").result(WAIT).offset == 0

    assert proxy.asked == [("kafka.invalid", port), (host, port)]
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"v"]


@pytest.mark.parametrize(("username", "password"), [("alice", "wrong"), ("bob", "secret")])
def test_a_wrong_login_is_reported_with_the_keys_and_no_password(
    start: Callable[..., Proxy], username: str, password: str
) -> None:
    proxy = start(username="alice", password="secret")
    message = refusal(proxy.address, socks5_username=username, socks5_password=password)

    assert f"the SOCKS5 proxy {proxy.address} refused the login of {username!r}" in message
    assert password not in message
    assert proxy.asked == []


def test_a_required_login_that_is_not_set_is_reported(start: Callable[..., Proxy]) -> None:
    proxy = start(username="alice", password="secret")

    assert "wants a login; set socks5.username and socks5.password" in refusal(proxy.address)


def test_an_unreachable_broker_differs_from_an_unreachable_proxy(
    start: Callable[..., Proxy],
) -> None:
    proxy = start()
    proxy.names["kafka.invalid"] = "127.0.0.1"
    port = free_ports(1)[0]
    message = refusal(proxy.address, bootstrap_servers=f"kafka.invalid:{port}")

    said = f"the SOCKS5 proxy {proxy.address} does not connect us to kafka.invalid:{port}: the host refused"
    assert said in message
    assert "ECONNREFUSED" in refusal(f"127.0.0.1:{port}")


def test_an_unreachable_proxy_is_reported_with_its_port() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"

    assert address in refusal(address)


def test_a_server_that_is_no_proxy_is_reported_without_a_timeout(portal: BlockingPortal) -> None:
    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(portal, answer) as address:
        message = refusal(address, max_block_ms=HANG_GUARD_MS)

    assert f"{address} does not speak SOCKS5: its response begins with 0x48" in message
