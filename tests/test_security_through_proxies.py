"""Brokers behind proxies: encrypted and not, one or several in a row, with TLS in TLS, and with a name that moves."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import attrs
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.streams.tls import TLSListener
from tiny_proxy import HttpProxyHandler, Socks5ProxyHandler

from ottla import Producer, TopicUnavailableError
from ottla.doctor import examine
from ottla.doctor.findings import Examination, Status, Step
from readback import read_back
from secure_broker import SecureBroker

pytestmark = pytest.mark.kafka

WAIT = 60.0


@attrs.define
class Proxy:
    """A running proxy: its address, and the hosts and ports that it was asked for."""

    address: str
    asked: list[tuple[str, int]]
    stop: Callable[[], object]


Start = Callable[..., Proxy]


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread of its own."""
    with start_blocking_portal() as portal:
        yield portal


@contextlib.contextmanager
def serving(portal: BlockingPortal, handle: Any, certificate: Path | None) -> Iterator[str]:
    """The address on 127.0.0.1 where connections are handled like this, with TLS or without."""
    listener: Any = portal.call(functools.partial(anyio.create_tcp_listener, local_host="127.0.0.1"))
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener = TLSListener(listener, context, standard_compatible=False)
    served = portal.start_task_soon(listener.serve, handle)
    yield f"127.0.0.1:{port}"
    served.cancel()
    portal.call(listener.aclose)


@pytest.fixture
def start(portal: BlockingPortal) -> Iterator[Start]:
    """Starts a proxy of a kind, behind TLS if it gets a certificate."""
    with contextlib.ExitStack() as running:

        def start(kind: type[Any], *, certificate: Path | None = None, **login: str) -> Proxy:
            handler, asked = kind(**login), []

            def create_proxy(stream: Any) -> Any:
                proxy = kind.create_proxy(handler, stream)
                negotiate = proxy.negotiate

                async def note() -> Any:
                    asked.append(await negotiate())
                    return asked[-1]

                proxy.negotiate = note
                return proxy

            handler.create_proxy = create_proxy
            stack = running.enter_context(contextlib.ExitStack())
            address = stack.enter_context(serving(portal, handler.handle, certificate))
            return Proxy(address, asked, stack.close)

        yield start


def split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


def sent_and_read(secure: SecureBroker, settings: dict[str, Any], *, topic: str, size: int = 50) -> None:
    """Records with these settings arrive, in order."""
    secure.kafka.create_topic(topic)
    values = [b"%d " % number * size for number in range(2_000)]
    with Producer(settings) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(WAIT)

    assert [record.value for record in read_back(secure.kafka.bootstrap_servers, topic)] == values


@pytest.mark.parametrize("way", ["SSL", "MUTUAL", "SCRAM-SHA-512", "PLAINTEXT"])
def test_brokers_are_reached_through_a_proxy_behind_tls(secure: SecureBroker, start: Start, way: str) -> None:
    proxy = start(
        HttpProxyHandler, certificate=secure.security.certificates.broker, username="alice", password="secret"
    )
    settings = {"SSL": secure.tls, "MUTUAL": secure.mutual_tls, "PLAINTEXT": secure.tls}.get(
        way, functools.partial(secure.sasl, way, encrypted=True)
    )()
    if way == "PLAINTEXT":
        settings |= {"security.protocol": "PLAINTEXT", "bootstrap.servers": secure.kafka.bootstrap_servers}
    settings |= {
        "connection.via": "ssl,http-connect",
        "http.connect.proxy": proxy.address,
        "http.connect.username": "alice",
        "http.connect.password": "secret",
    }

    sent_and_read(secure, settings, topic=f"tls-in-tls-{way}")

    assert set(proxy.asked) == {split(settings["bootstrap.servers"])}


@pytest.mark.parametrize(
    "proxy_tls", [pytest.param(False, marks=pytest.mark.thorough("the gate has proxies behind TLS")), True]
)
def test_brokers_are_reached_through_two_proxies_in_a_row(secure: SecureBroker, start: Start, proxy_tls: bool) -> None:
    near = start(Socks5ProxyHandler)
    far = start(HttpProxyHandler, certificate=secure.security.certificates.broker if proxy_tls else None)
    via = "socks5,ssl,http-connect" if proxy_tls else "socks5,http-connect"
    settings = secure.tls() | {
        "connection.via": via,
        "socks5.proxy": near.address,
        "http.connect.proxy": far.address,
    }

    sent_and_read(secure, settings, topic=f"two-proxies-{proxy_tls}", size=5_000)

    assert set(near.asked) == {split(far.address)}
    assert set(far.asked) == {split(settings["bootstrap.servers"])}


def test_a_producer_follows_a_proxy_whose_name_moves(
    secure: SecureBroker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = start(HttpProxyHandler), start(HttpProxyHandler)
    system, now = socket.getaddrinfo, [before]

    def getaddrinfo(host: str, port: int, *more: Any, **others: Any) -> Any:
        if host != "proxy.example.com" or others.get("flags"):
            return system(host, port, *more, **others)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", split(now[0].address))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    settings = secure.tls() | {"connection.via": "http-connect", "http.connect.proxy": "proxy.example.com:3128"}
    secure.kafka.create_topic("moved-proxy")
    with Producer(settings) as producer:
        producer.send("moved-proxy", b"before").result(WAIT)
        now[0] = after
        before.stop()
        producer.send("moved-proxy", b"after").result(WAIT)

    found = read_back(secure.kafka.bootstrap_servers, "moved-proxy")
    assert [record.value for record in found] == [b"before", b"after"]
    assert before.asked
    assert after.asked


def test_a_refused_proxy_login_is_reported_with_its_keys(secure: SecureBroker, start: Start) -> None:
    proxy = start(HttpProxyHandler, username="alice", password="secret")
    login = {"http.connect.username": "alice", "http.connect.password": "wrong-password"}
    settings = secure.tls() | {"connection.via": "http-connect", "http.connect.proxy": proxy.address} | login

    with (
        Producer(settings, max_block_ms=3_000) as producer,
        pytest.raises(TopicUnavailableError, match=r"refused the login of 'alice'.*http\.connect\.password") as caught,
    ):
        producer.send("t", b"v")

    assert "wrong-password" not in str(caught.value)


# The doctor


def examined(settings: dict[str, Any]) -> Examination:
    return examine(settings, timeout=60)


def test_the_doctor_names_the_proxies_and_both_certificates(secure: SecureBroker, start: Start) -> None:
    near = start(Socks5ProxyHandler)
    far = start(HttpProxyHandler, certificate=secure.security.certificates.broker)
    settings = secure.tls() | {
        "connection.via": "socks5,ssl,http-connect",
        "socks5.proxy": near.address,
        "http.connect.proxy": far.address,
    }
    examination = examined(settings)

    said = {finding.step: finding.message for finding in examination.findings if finding.status is Status.OK}
    assert examination.cause is None
    assert said[Step.HANDSHAKE] == f"done, through the SOCKS5 proxy {near.address}, the HTTP proxy {far.address}"
    assert said[Step.TLS].startswith("proxy's protocol: TLSv1.3; proxy's cipher:")
    assert "; protocol: TLSv1.3; cipher:" in said[Step.TLS]
    for name in ("transport ssl", "transport socks5", "transport http-connect"):
        assert name in said[Step.CONFIGURATION]


def test_the_doctor_shows_the_tls_of_a_proxy_for_plaintext_brokers(secure: SecureBroker, start: Start) -> None:
    proxy = start(HttpProxyHandler, certificate=secure.security.certificates.broker)
    settings = secure.tls() | {
        "security.protocol": "PLAINTEXT",
        "bootstrap.servers": secure.kafka.bootstrap_servers,
        "connection.via": "ssl,http-connect",
        "http.connect.proxy": proxy.address,
    }
    examination = examined(settings)

    said = {finding.step: finding.message for finding in examination.findings if finding.status is Status.OK}
    assert examination.cause is None
    assert said[Step.TLS].startswith("proxy's protocol: TLSv1.3")
    assert "; protocol: " not in said[Step.TLS]


@pytest.mark.parametrize(
    ("change", "step", "words"),
    [
        ({"http.connect.proxy": "no-such-proxy.invalid:3128"}, Step.NAMES, "the transport's own settings"),
        ({"connection.via": "http-connect"}, Step.HANDSHAKE, "connection.via=ssl,http-connect"),
        ({"ssl.truststore.location": "another"}, Step.HANDSHAKE, "is not trusted"),
        ({"bootstrap.servers": "127.0.0.1:1"}, Step.HANDSHAKE, "it cannot reach the host"),
    ],
)
def test_the_doctor_finds_the_part_of_the_way_that_fails(
    secure: SecureBroker, start: Start, change: dict[str, str], step: Step, words: str
) -> None:
    proxy = start(HttpProxyHandler, certificate=secure.security.certificates.broker)
    settings = secure.tls() | {"connection.via": "ssl,http-connect", "http.connect.proxy": proxy.address} | change
    if settings["ssl.truststore.location"] == "another":
        settings["ssl.truststore.location"] = str(secure.security.certificates.another_authority)
    examination = examined(settings)

    assert examination.cause is not None
    assert examination.cause.step is step, examination.cause.sentence
    assert words in examination.cause.sentence


def test_the_doctor_reports_a_proxy_that_does_not_run(secure: SecureBroker, start: Start) -> None:
    proxy = start(HttpProxyHandler)
    proxy.stop()
    settings = secure.tls() | {"connection.via": "http-connect", "http.connect.proxy": proxy.address}
    examination = examined(settings)

    assert examination.cause is not None
    assert examination.cause.step is Step.TCP
    assert "check that the proxy is running" in examination.cause.sentence
    assert proxy.address in examination.cause.subject
