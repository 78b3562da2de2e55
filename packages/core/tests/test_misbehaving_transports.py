"""Transports that break their contract while they run: named with their package, and never an endless round."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import pytest
from broker_on_a_socket import SocketBroker

from ottla import Producer
from ottla.concurrency.environment import SYSTEM
from ottla.errors import NameResolutionError, OttlaError
from ottla.errors.plugin_origin import PluginOrigin, note_origin
from ottla.interfaces import HostTarget, Interest, Target, Transport
from ottla.network.selector import Selector, event_pauses
from ottla.network.selector.event_pauses import EventUse
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose
from ottla.plugins.transports import SocketLayer
from ottla.producer.build import build_engine
from ottla_testkit.simulation import SimulatedCluster
from ottla_transport_plaintext import PlaintextTransport
from real_selector import HANG_GUARD, Events, Shutdown, Waits, connect, framed, make_selector, reset

ORIGIN: Final = PluginOrigin("transport 'acme' of acme 1.2 (acme.plugin)", "report it to the authors of acme")


def transport_with(**methods: Callable[..., object]) -> PlaintextTransport:
    """A transport whose layer has these methods in place of the right ones."""
    layer = type("Layer", (SocketLayer,), methods)

    class Broken(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> Any:
            return layer(sock)

    return Broken()


def returning(value: object) -> Callable[..., object]:
    return lambda *_arguments: value


def raising(error: BaseException) -> Callable[..., object]:
    def fail(*_arguments: object) -> None:
        raise error

    return fail


def selector_of(transport: Transport) -> Selector:
    note_origin(transport, ORIGIN)
    return make_selector(transport=transport)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def check_named(error: OttlaError, said: str) -> None:
    """The error names the plugin and its package, what it did, and what helps."""
    assert re.fullmatch(
        rf"the {re.escape(ORIGIN.name)} failed on the connection to 127\.0\.0\.1:\d+: {said}; {ORIGIN.remedy}",
        str(error),
    )


# Wrong results


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(
    ("write", "said"),
    [
        (returning(-1), r"write returned -1 \(int\), which is not a number of bytes from 0 to 11"),
        (returning(12), r"write returned 12 \(int\), which is not a number of bytes from 0 to 11"),
        (returning(10**30), r"write returned 10+ \(int\), which is .*"),
        (returning(None), "write returned NoneType, which is .*"),
        (returning("11"), "write returned str, which is .*"),
        (returning(11.0), "write returned float, which is .*"),
        (returning(True), r"write returned True \(bool\), which is .*"),
        (raising(KeyError("boom")), "KeyError: 'boom'"),
        (raising(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_a_wrong_write_ends_its_connection(write: Any, said: str, listener: socket.socket) -> None:
    selector = selector_of(transport_with(write=write))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.send(1, [b"a ", b"request", b"  "])
        events.until(lambda: events.disconnected)
        peer.close()

    check_named(events.disconnected[1], said)


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(("answer", "said"), [("no", "str"), (None, "None")])
def test_a_flush_without_an_answer_ends_its_connection(answer: object, said: str, listener: socket.socket) -> None:
    selector = selector_of(transport_with(flush=returning(answer)))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.send(1, [b"request"])
        events.until(lambda: events.disconnected)
        peer.close()

    check_named(events.disconnected[1], f"flush returned {said}, which is neither True nor False")


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(
    ("read", "said"),
    [
        (returning(-1), r"read_into returned -1 \(int\), which is not a number of bytes from 0 to 4096"),
        (returning(10**9), r"read_into returned 10+ \(int\), which is not a number of bytes from 0 to 4096"),
        (returning(b"x"), "read_into returned bytes, which is .*"),
        (returning(False), r"read_into returned False \(bool\), which is .*"),
        (raising(KeyError("boom")), "KeyError: 'boom'"),
        (raising(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_a_wrong_read_ends_its_connection(read: Any, said: str, listener: socket.socket) -> None:
    selector = selector_of(transport_with(read_into=read))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        peer.sendall(framed(b"response"))
        events.until(lambda: events.disconnected)
        peer.close()

    check_named(events.disconnected[1], said)


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("error", [KeyError("boom"), SystemExit(3)])
def test_a_may_read_that_raises_ends_its_connection(error: BaseException, calls: int, listener: socket.socket) -> None:
    results = iter([False] * calls)

    def may_read(_layer: object) -> bool:
        for result in results:
            return result
        raise error

    selector = selector_of(transport_with(may_read=may_read))
    with contextlib.closing(Shutdown(selector)):
        host, port = listener.getsockname()
        selector.connect(1, Target(socket.AF_INET, (host, port)), host, port)
        events = Events(selector)
        events.until(lambda: events.disconnected)

    check_named(events.disconnected[1], f"{type(error).__name__}: {re.escape(str(error))}")


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"interest": returning(0)}, r"interest returned 0 \(int\), which is not an ottla\.interfaces\.Interest"),
        ({"interest": returning(None)}, "interest returned NoneType, which is .*"),
        ({"interest": raising(SystemExit(3))}, "SystemExit: 3"),
        ({"handshake": raising(KeyError("boom"))}, "KeyError: 'boom'"),
        ({"handshake": raising(SystemExit(3))}, "SystemExit: 3"),
        ({"handshake": raising(GeneratorExit())}, "GeneratorExit"),
        ({"handshake": returning(object())}, "handshake returned object, which is neither True nor False"),
        ({"handshake": returning(None)}, "handshake returned None, which is neither True nor False"),
        ({"cipher": raising(KeyError("boom"))}, "KeyError: 'boom'"),
        ({"cipher": returning("TLSv1.3")}, "cipher returned str, which is not a tuple of two names or None"),
        ({"cipher": returning(("TLS_AES_128_GCM_SHA256",))}, "cipher returned tuple, which is .*"),
        ({"cipher": returning(("TLS_AES_128_GCM_SHA256", 1.3))}, "cipher returned tuple, which is .*"),
    ],
)
def test_a_wrong_layer_never_gets_ready(
    methods: Mapping[str, Any], said: str, listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    error = ended_while_connecting(transport_with(**methods), listener)

    check_named(error, said)
    assert [record.name for record in caplog.records if record.levelno > logging.ERROR] == []


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(
    ("opened", "said"),
    [
        (returning(None), r"open returned NoneType, which is not an ottla\.interfaces\.TransportLayer"),
        (returning(object()), "open returned object, which is .*"),
        (raising(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_a_transport_that_opens_no_layer_is_named(opened: Any, said: str, listener: socket.socket) -> None:
    transport = type("Broken", (PlaintextTransport,), {"open": opened})()

    check_named(ended_while_connecting(transport, listener), said)


def ended_while_connecting(transport: Transport, listener: socket.socket) -> OttlaError:
    """The error of a connection that does not get as far as a request."""
    selector = selector_of(transport)
    with contextlib.closing(Shutdown(selector)):
        host, port = listener.getsockname()
        selector.connect(1, Target(socket.AF_INET, (host, port)), host, port)
        events = Events(selector)
        events.until(lambda: events.disconnected)
    return events.disconnected[1]


@pytest.mark.rule("selector.transport.checked")
@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (
            returning([("127.0.0.1", 9092)]),
            "targets returned a sequence with an item of type tuple; each item must be a Target or a HostTarget",
        ),
        (returning("127.0.0.1"), "targets returned str, which is not a sequence of targets"),
        (returning(9092), r"targets returned 9092 \(int\), which is not a sequence of targets"),
        (
            returning([HostTarget("localhost", 1), None]),
            "targets returned a sequence with an item of type NoneType; .*",
        ),
        (
            returning([HostTarget(5, "9092")]),  # type: ignore[arg-type]
            "targets returned a HostTarget of int and str; it takes a host as str and a port as int",
        ),
        (
            returning([Target("inet", ("127.0.0.1", 9092))]),  # type: ignore[arg-type]
            "targets returned a Target whose family is of type str; it is one of socket.AF_INET and its like",
        ),
        (raising(KeyError("boom")), "KeyError: 'boom'"),
        (raising(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_wrong_targets_are_an_error_that_names_the_transport(targets: Any, said: str) -> None:
    selector = selector_of(type("Broken", (PlaintextTransport,), {"targets": targets})())
    with contextlib.closing(Shutdown(selector)), pytest.raises(NameResolutionError) as caught:
        selector.resolve("kafka-1", 9092)

    where = f"the {re.escape(ORIGIN.name)} failed to resolve 'kafka-1': {said}; {ORIGIN.remedy}"
    assert re.fullmatch(where, str(caught.value))


def test_no_targets_are_an_error_that_names_the_transport() -> None:
    selector = selector_of(type("Broken", (PlaintextTransport,), {"targets": returning([])})())
    with contextlib.closing(Shutdown(selector)), pytest.raises(NameResolutionError) as caught:
        selector.resolve("kafka-1", 9092)

    assert str(caught.value) == f"the {ORIGIN.name} knows no address of 'kafka-1'; check its own settings"


@pytest.mark.parametrize("error", [KeyError("boom"), SystemExit(3)])
def test_an_error_of_a_layer_in_close_is_logged_and_stops_nothing(
    error: BaseException, listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    selector = selector_of(transport_with(close=raising(error)))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        reset(peer)
        events.until(lambda: events.disconnected)

    assert f"the {ORIGIN.name} failed to close the connection to 127.0.0.1:" in caplog.text


# Events without end


@pytest.mark.rule("selector.transport.events")
@pytest.mark.parametrize(
    "methods",
    [
        {"interest": returning(Interest.WRITE)},
        {"interest": returning(Interest.READ | Interest.WRITE)},
        {"read_into": returning(None)},
    ],
    ids=["always WRITE", "always both", "never reads"],
)
def test_a_layer_that_wants_events_without_end_is_slowed_down(
    methods: Mapping[str, Any], listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    selector = selector_of(transport_with(**methods))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        peer.sendall(b"\0")
        events.until(lambda: caplog.records)
        waits = Waits(selector)
        for _ in range(4):
            events.poll(10.0)
        peer.close()

    assert events.disconnected == {}
    assert sum(waits.ended) <= 1  # the others ended with a pause
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"the {ORIGIN.name} asks for events on the connection to 127.0.0.1:")


@pytest.mark.rule("selector.transport.events")
def test_a_slowed_layer_still_sends_and_receives(listener: socket.socket, caplog: pytest.LogCaptureFixture) -> None:
    selector = selector_of(transport_with(interest=returning(Interest.WRITE)))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.until(lambda: caplog.records)
        for number in range(3):
            events.send(1, [b"request %d" % number])
            assert peer.recv(100) == b"request %d" % number
            peer.sendall(framed(b"%d" % number))
            events.until(lambda expected=number: len(events.received) > expected)  # type: ignore[misc]
        peer.close()

    assert events.received == [(1, b"0"), (1, b"1"), (1, b"2")]
    assert len(caplog.records) == 1


def test_events_that_move_bytes_are_never_counted() -> None:
    use = EventUse()

    assert not any(use.count(moved) for moved in range(1, 10 * event_pauses.MAX_UNUSED))


def test_a_connection_that_ends_in_its_pause_is_forgotten(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    selector = selector_of(transport_with(interest=returning(Interest.WRITE)))
    with contextlib.closing(Shutdown(selector)):
        events, peer = connect(selector, listener)
        events.until(lambda: caplog.records)
        reset(peer)
        events.until(lambda: events.disconnected)
        waits = Waits(selector)
        events.poll(0.2)

    assert waits.given == [0.2]


# A producer


def producer_with(transport: Transport, servers: str, **settings: object) -> Producer:
    """A producer with this transport, as if the package acme had made it."""
    registry = Registry()
    given = {"bootstrap.servers": servers, **{key.replace("_", "."): value for key, value in settings.items()}}
    config, plugins = choose(read_draft(given, {}, registry=registry), registry)
    note_origin(transport, ORIGIN)
    plugins = attrs.evolve(plugins, transport=transport)
    producer = Producer.__new__(Producer)
    producer._begin(build_engine(config, plugins, SYSTEM))
    return producer


def one_broker() -> SocketBroker:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return SocketBroker(cluster.brokers[1])


@pytest.mark.rule("selector.transport.events")
@pytest.mark.parametrize("acks", ["0", "all"])
def test_a_flush_that_never_says_true_meets_the_request_timeout(acks: str, caplog: pytest.LogCaptureFixture) -> None:
    """The broker answers, for it has every byte; only the layer claims that some are left."""
    works = [True]

    class Layer(SocketLayer):
        def flush(self) -> bool:
            return works[0] and super().flush()

    class Broken(PlaintextTransport):
        def open(self, sock: socket.socket, host: str, port: int) -> Any:
            return Layer(sock)

    settings = {"acks": acks, "enable_idempotence": "false", "request_timeout_ms": 300, "delivery_timeout_ms": 2_000}
    with one_broker().serving() as servers:
        producer = producer_with(Broken(), servers, linger_ms=0, **settings)
        try:
            producer.send("t", b"one").result(HANG_GUARD)
            works[0] = False
            for number in range(2):
                producer.send("t", b"%d" % number).exception(HANG_GUARD)
        finally:
            producer.close(0)

    assert "did not read a whole request within request.timeout.ms (0.3 s)" in caplog.text


@pytest.mark.rule("selector.transport.checked")
def test_a_fault_of_a_transport_is_no_hint_at_tls(caplog: pytest.LogCaptureFixture) -> None:
    with one_broker().serving() as servers:
        producer = producer_with(transport_with(write=returning(-1)), servers, max_block_ms=2_000)
        try:
            with pytest.raises(OttlaError) as caught:
                producer.send("t", b"value")
        finally:
            producer.close(0)

    assert "write returned -1 (int)" in str(caught.value)
    assert ORIGIN.name in str(caught.value)
    assert "TLS" not in str(caught.value) + caplog.text
