"""Metrics of the I/O thread and of the program: waits for sockets, reads and writes, version and start."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla import MetricName, Producer
from ottla.metrics import Counters, MetricValues
from ottla.metrics.catalogue import APP, CONNECTIONS, PRODUCER
from ottla.network.selector import Selector
from ottla.plugins.transports import SocketLayer
from ottla_testkit.manual_clock import ManualClock
from ottla_transport_plaintext import PlaintextTransport
from real_selector import Events, Shutdown, connect, framed, make_selector
from simulated_producer import simulated


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def selector(counters: Counters) -> Iterator[Selector]:
    made = make_selector(counters=counters)
    yield made
    made.shutdown()


@pytest.fixture
def ready(selector: Selector, listener: socket.socket) -> Iterator[tuple[Events, socket.socket]]:
    events, peer = connect(selector, listener)
    yield events, peer
    peer.close()


def test_a_wait_and_the_reads_after_it_are_timed_apart(
    selector: Selector, counters: Counters, ready: tuple[Events, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    events, peer = ready
    clock, of = ManualClock(), counters.producer
    select, advance = selector._watch.select, selector._advance
    monkeypatch.setattr(selector, "_clock", clock)

    def slow_select(timeout: float) -> Any:
        clock.advance(3.0)
        return select(timeout)

    def slow_advance(connection: Any, mask: int) -> None:
        clock.advance(0.25)
        advance(connection, mask)

    monkeypatch.setattr(selector._watch, "select", slow_select)
    monkeypatch.setattr(selector, "_advance", slow_advance)
    waits, io = of.io_waits.total, of.io.total
    peer.sendall(framed(b"response"))
    events.until(lambda: events.received)
    rounds = events.polls - 1  # the first one of `connect` is over

    assert (of.io_waits.total - waits) % 3.0 == 0
    assert 3.0 <= of.io_waits.total - waits <= 3.0 * rounds
    assert of.io.total - io == pytest.approx(0.25)


def test_reads_and_writes_are_counted(counters: Counters, ready: tuple[Events, socket.socket]) -> None:
    events, peer = ready
    before = counters.producer.operations.count
    events.send(1, [framed(b"request")])
    assert counters.producer.operations.count == before + 1

    peer.sendall(framed(b"response"))
    events.until(lambda: events.received)
    assert counters.producer.operations.count >= before + 2


def test_a_producer_with_sockets_reports_its_waits() -> None:
    with Producer({"bootstrap.servers": "127.0.0.1:1"}) as producer:
        deadline = time.monotonic() + 20
        while math.isnan(producer.metrics("io-wait-time-ns-avg")):
            assert time.monotonic() < deadline, "it never waited"
        values = producer.metrics()

    by_name = {name.name: value for name, value in values.items()}
    assert by_name["io-wait-time-ns-avg"] > 0
    assert by_name["io-time-ns-total"] >= 0
    assert 0 <= by_name["io-ratio"] <= 1.1
    assert 0 <= by_name["io-wait-ratio"] <= 1.1


def test_the_version_is_a_tag_and_the_start_a_time() -> None:
    before = time.time() * 1000 - 1
    with simulated(1, client_id="me") as simulation:
        values = simulation.producer.metrics()

    tags = (("client-id", "me"), ("version", ottla.__version__))
    assert values[MetricName(APP, "version", tags)] == 1
    assert before <= values[MetricName(APP, "start-time-ms", tags)] <= time.time() * 1000


class Encrypted(SocketLayer):
    def cipher(self) -> tuple[str, str] | None:
        return "AES", "TLSv1.3"


def test_encrypted_connections_are_counted_by_cipher_while_they_are_open(listener: socket.socket) -> None:
    class Transport(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> SocketLayer:
            return Encrypted(sock)

    counters = Counters()
    values = MetricValues(counters=counters, client_id="me", gauges={}, clock=time.monotonic)
    selector = make_selector(transport=Transport(), counters=counters)
    name = MetricName(PRODUCER, CONNECTIONS, (("client-id", "me"), ("cipher", "AES"), ("protocol", "TLSv1.3")))
    with contextlib.closing(Shutdown(selector)):
        assert name not in values.snapshot()
        _events, one = connect(selector, listener, node=1)
        events, other = connect(selector, listener, node=2)
        assert (values.snapshot()[name], values.value(CONNECTIONS)) == (2, 2)
        one.close()
        events.until(lambda: events.disconnected)
        assert values.snapshot()[name] == 1
        other.close()
    assert values.snapshot()[name] == 0


def test_connections_without_encryption_have_no_cipher(counters: Counters, ready: tuple[Events, socket.socket]) -> None:
    assert counters.ciphers == {}
    assert ready[0].connected == [1]
