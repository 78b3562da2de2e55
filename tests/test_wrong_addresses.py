"""Addresses that lead to no broker: configured ones are an error at once, advertised ones a warning at once.

Every limit but the one that a test is about is ten minutes, so an error that comes at all did not wait for them.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from wrong_addresses import NOWHERE, Misdirecting, black_hole, refused, unroutable, web_server, without_a_name

from ottla import DeliveryTimeoutError, OttlaError, Producer, TopicUnavailableError
from ottla.errors import (
    BrokersUnreachableError,
    NameResolutionError,
    NetworkError,
    ProtocolMismatchError,
    RequestTimeoutError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back
from wrong_peers import Conduct, says, serving, stays_silent

MINUTES = 600_000
HANG_GUARD = 60.0
LONG_TIMEOUTS: dict[str, Any] = {
    "delivery_timeout_ms": MINUTES,
    "max_block_ms": MINUTES,
    "request_timeout_ms": MINUTES // 2,
}
SETUP_MS = 1_000
SETUP: dict[str, Any] = {
    "socket_connection_setup_timeout_ms": SETUP_MS,
    "socket_connection_setup_timeout_max_ms": SETUP_MS,
}

TLS_ALERT = bytes.fromhex("15030300020246")


def greets(banner: bytes) -> Conduct:
    """Speak first, as a login server does."""
    return lambda peer: peer.sendall(banner)


def _refusal(bootstrap_servers: str, **settings: int) -> TopicUnavailableError:
    """The error of `send`, in a thread that does not wait for its end."""
    pool = ThreadPoolExecutor(1)
    producer = Producer(bootstrap_servers=bootstrap_servers, **LONG_TIMEOUTS | settings)
    try:
        error = pool.submit(producer.send, "t", b"v").exception(HANG_GUARD)
    finally:
        producer.close(0)
        pool.shutdown()
    assert isinstance(error, TopicUnavailableError)
    return error


@pytest.mark.parametrize(
    ("conduct", "reported"),
    [
        (says(TLS_ALERT), "this listener expects TLS; set security.protocol=SSL"),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "this is a web server; check the ports in bootstrap.servers"),
        (greets(b"SSH-2.0-OpenSSH_9.6\r\n"), "as an SSH server"),
        (greets(b"220 mail.example ESMTP\r\n"), "as a mail or file server"),
        (says(b"\xff\xff\xff\xff and so on"), "no Kafka listener"),
    ],
    ids=["tls", "http", "ssh", "smtp", "noise"],
)
def test_a_bootstrap_server_of_another_protocol_is_reported(conduct: Conduct, reported: str) -> None:
    with serving(conduct) as (host, port):
        error = _refusal(f"{host}:{port}")

    assert isinstance(error.__cause__, ProtocolMismatchError)
    assert f"{host}:{port}" in str(error)
    assert reported in str(error)


@pytest.mark.parametrize("name", [NOWHERE, f"{'n' * 64}.invalid", "no..such.invalid"])
def test_a_bootstrap_server_without_an_address_is_reported(name: str) -> None:
    error = _refusal(f"{name}:9092", max_block_ms=20_000)  # a resolver that cannot answer now may do so later

    assert isinstance(error.__cause__, NameResolutionError)
    assert name in str(error)


def test_a_silent_bootstrap_server_is_reported_with_its_timeout() -> None:
    with serving(stays_silent) as (host, port):
        error = _refusal(f"{host}:{port}", max_block_ms=3 * SETUP_MS, **SETUP)

    assert isinstance(error.__cause__, RequestTimeoutError)
    assert f"{host}:{port} was not ready within socket.connection.setup.timeout.ms" in str(error)


def test_an_unreachable_bootstrap_server_is_reported_with_its_timeout() -> None:
    with black_hole() as address:
        error = _refusal(address, max_block_ms=3 * SETUP_MS, **SETUP)

    assert isinstance(error.__cause__, RequestTimeoutError)
    assert (
        f"{address} was not ready within socket.connection.setup.timeout.ms (the client was still connecting)"
        in str(error)
    )
    assert "a firewall, a VPN or a wrong address drops packets without a response" in str(error)


@pytest.mark.kafka
def test_one_good_bootstrap_server_among_bad_ones_is_enough(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    bad = (refused, unroutable, without_a_name, web_server, black_hole)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(each()) for each in bad] + [kafka.bootstrap_servers]
        with Producer(bootstrap_servers=",".join(servers), **LONG_TIMEOUTS, **SETUP) as producer:
            producer.send(topic, b"v").result(HANG_GUARD)

    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"v"]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "cause", "reported"),
    [
        ("refused", NetworkError, "ECONNREFUSED"),
        ("unroutable", NetworkError, "ENETUNREACH"),
        ("without a name", NameResolutionError, "has no address"),
        ("web server", ProtocolMismatchError, "this is a web server"),
        (
            "black hole",
            RequestTimeoutError,
            "was not ready within socket.connection.setup.timeout.ms (the client was still connecting)",
        ),
    ],
    ids=["refused", "unroutable", "without a name", "web server", "black hole"],
)
def test_a_wrong_advertised_address_is_named_at_once_and_kept_retried(
    misdirecting_kafka: Misdirecting,
    address: str,
    cause: type[OttlaError],
    reported: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    waits: dict[str, Any] = {
        "delivery_timeout_ms": 5 * SETUP_MS // 2,
        "max_block_ms": MINUTES,
        "request_timeout_ms": SETUP_MS,
    }
    advertised = misdirecting_kafka.advertised[address]
    misdirecting_kafka.kafka.create_topic("t")
    producer = Producer(bootstrap_servers=misdirecting_kafka.listener(address), **waits, **SETUP)
    try:
        error = producer.send("t", b"v").exception(HANG_GUARD)
    finally:
        producer.close(0)

    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and reported in r.getMessage()]
    assert "check the broker's advertised.listeners" in warning
    assert f"broker 1 at {advertised}" in warning
    assert type(error) is DeliveryTimeoutError
    assert isinstance(error.__cause__, BrokersUnreachableError)
    assert isinstance(error.__cause__.__cause__, cause)
    assert "advertised.listeners" in str(error)
    assert f"broker 1 at {advertised}" in str(error)
    assert reported in str(error)
    assert not error.possibly_persisted
