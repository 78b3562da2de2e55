"""Encryption and a login inside a proxy that knows of neither: the plugins stand around each other."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.from_thread import start_blocking_portal
from tiny_proxy import Socks5ProxyHandler

from ottla import Producer
from readback import read_back
from secure_broker import SecureBroker

pytestmark = pytest.mark.kafka


@pytest.fixture
def proxy() -> Iterator[str]:
    """The address of a SOCKS5 server on 127.0.0.1."""
    with start_blocking_portal() as portal:
        listener: Any = portal.call(functools.partial(anyio.create_tcp_listener, local_host="127.0.0.1"))
        served = portal.start_task_soon(listener.serve, Socks5ProxyHandler().handle)
        yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        served.cancel()
        portal.call(listener.aclose)


@pytest.mark.parametrize("way", ["SSL", "MUTUAL", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_records_are_sent_encrypted_through_a_proxy(secure: SecureBroker, proxy: str, way: str) -> None:
    settings = {"SSL": secure.tls, "MUTUAL": secure.mutual_tls}.get(
        way, functools.partial(secure.sasl, way, encrypted=True)
    )()
    topic = f"through-socks5-{way}"
    secure.kafka.create_topic(topic)
    values = [b"%d" % number * 50 for number in range(1_000)]

    with Producer({**settings, "connection.via": "socks5", "socks5.proxy": proxy}) as producer:
        for value in values:
            producer.send(topic, value)

    assert [record.value for record in read_back(secure.kafka.bootstrap_servers, topic)] == values
