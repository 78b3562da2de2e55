"""`close(timeout)` is back within its time whatever the cluster does, and every record has an outcome by then."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from distance_kit import near_or_distant
from ottla import (
    Delivery,
    DeliveryError,
    DeliveryTimeoutError,
    OttlaError,
    Producer,
    ProducerClosedError,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic
from program_runs import HANG_GUARD, program

kafka = near_or_distant

WAIT = 60.0
MINUTES = 600_000
LEEWAY = 5.0  # for a busy machine; less than any wait that would be wrong here
TIMEOUTS = [0.0, 0.4]


def _seconds(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


def _free(producer: Producer) -> tuple[int, int]:
    """Bytes of buffer.memory that are free, and all of them."""
    pool = producer._accumulator.pool
    return pool.free, pool.capacity


def _close_in_time(producer: Producer, pending: list[Delivery], timeout: float) -> None:
    """Close, and see that it was in time and left nothing open."""
    errors: list[OttlaError | None] = []
    for delivery in pending:
        delivery.add_done_callback(lambda done: errors.append(done.exception(0)))

    seconds = _seconds(lambda: producer.close(timeout))

    assert timeout <= seconds < timeout + LEEWAY
    assert all(delivery.done() for delivery in pending)
    assert len(errors) == len(pending)
    assert all("the producer was closed" in str(error) for error in errors)
    free, capacity = _free(producer)
    assert free == capacity


# Not there any more


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_close_ends_in_time_with_the_cluster_down(mock_cluster: MockCluster, timeout: float) -> None:
    mock_cluster.create_topic("t", partitions=3)
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, delivery_timeout_ms=MINUTES)
    for partition in range(3):
        producer.send("t", b"known", partition=partition).result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)

    pending = [producer.send("t", bytes(1_000), partition=number % 3) for number in range(3_000)]

    _close_in_time(producer, pending, timeout)


@pytest.mark.parametrize(
    ("delivery_timeout_ms", "timeout", "kind", "text"),
    [
        (1_500, None, DeliveryTimeoutError, "not delivered within delivery.timeout.ms"),
        (MINUTES, 1.5, DeliveryError, "the producer was closed before they could be sent"),
    ],
)
def test_records_that_close_cannot_send_name_what_kept_them(
    mock_cluster: MockCluster, delivery_timeout_ms: int, timeout: float | None, kind: type[DeliveryError], text: str
) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        delivery_timeout_ms=delivery_timeout_ms,
        request_timeout_ms=1_000,
    )
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    delivery = producer.send("t", b"value")
    with pytest.raises(UndeliveredError, match="ECONNREFUSED"):
        producer.close(timeout)

    error = delivery.exception(0)
    assert type(error) is kind
    assert text in str(error)
    assert "last error: could not connect to" in str(error)


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_close_ends_in_time_with_responses_that_take_a_minute(mock_cluster: MockCluster, timeout: float) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, delivery_timeout_ms=MINUTES)
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.set_rtt(broker, WAIT)

    pending = [producer.send("t", bytes(1_000)) for _ in range(3_000)]

    _close_in_time(producer, pending, timeout)


@pytest.mark.distance
@pytest.mark.kafka
@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_close_ends_in_time_with_a_paused_broker(kafka: KafkaCluster, make_topic: MakeTopic, timeout: float) -> None:
    topic = make_topic()
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, delivery_timeout_ms=MINUTES)
    producer.send(topic, b"known").result(WAIT)
    kafka.pause(1)
    try:
        pending = [producer.send(topic, bytes(1_000)) for _ in range(3_000)]

        _close_in_time(producer, pending, timeout)
    finally:
        kafka.resume(1)


# Never reached: `send` waits for its topic when the end comes


@pytest.fixture
def closed_port() -> int:
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def silence() -> Iterator[int]:
    """The port of something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that answers no connection: the queue of those not yet accepted is full, and the system drops others."""
    with contextlib.ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(16):
            caller = sockets.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.parametrize("timeout", TIMEOUTS)
@pytest.mark.parametrize("end", ["closed_port", "silence", "black_hole"])
def test_close_ends_in_time_with_an_unreachable_cluster(
    request: pytest.FixtureRequest, end: str, timeout: float
) -> None:
    """Nothing is queued, so that there is nothing to wait for; `send` calls in progress raise at once."""
    port: int = request.getfixturevalue(end)
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", max_block_ms=MINUTES, delivery_timeout_ms=MINUTES)
    waiting = _Senders(producer)
    with pytest.raises(TimeoutError):
        waiting.join(0.1)

    seconds = _seconds(lambda: producer.close(timeout))
    waiting.join(WAIT)

    assert seconds < LEEWAY
    assert [type(error) for error in waiting.errors] == [ProducerClosedError] * 4


@pytest.mark.parametrize("end", ["closed_port", "silence", "black_hole"])
def test_close_without_records_waits_for_nothing(request: pytest.FixtureRequest, end: str) -> None:
    port: int = request.getfixturevalue(end)
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}")

    assert _seconds(producer.close) < LEEWAY


@pytest.mark.parametrize("end", ["silence", "black_hole"])
def test_close_after_a_failed_first_send_is_immediate(request: pytest.FixtureRequest, end: str) -> None:
    port: int = request.getfixturevalue(end)
    producer = Producer(bootstrap_servers=f"127.0.0.1:{port}", max_block_ms=50)
    with pytest.raises(TopicUnavailableError):
        producer.send("t", b"v")

    assert _seconds(lambda: producer.close(WAIT)) < LEEWAY


class _Senders:
    """Four threads in `send`; what it raised there."""

    def __init__(self, producer: Producer) -> None:
        self.errors: list[Exception] = []
        self._producer = producer
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(4)]
        for thread in self._threads:
            thread.start()

    def join(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"a thread is still in send after {timeout} s")

    def _send(self) -> None:
        try:
            while True:
                self._producer.send("t", bytes(1_000))
        except Exception as error:
            self.errors.append(error)


# Under pressure


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_close_ends_in_time_with_threads_that_wait_for_memory(mock_cluster: MockCluster, timeout: float) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        buffer_memory=100_000,
        max_request_size=50_000,
        max_block_ms=MINUTES,
        delivery_timeout_ms=MINUTES,
    )
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    waiting = _Senders(producer)
    while producer._accumulator.pool.waiting < 4:
        with pytest.raises(TimeoutError):
            waiting.join(0.01)

    seconds = _seconds(lambda: _close(producer, timeout))
    waiting.join(WAIT)

    assert seconds < timeout + LEEWAY
    assert [type(error) for error in waiting.errors] == [ProducerClosedError] * 4
    free, capacity = _free(producer)
    assert free == capacity


# Several ends at once, and ends from within


@pytest.fixture
def cut_off(mock_cluster: MockCluster) -> Iterator[Producer]:
    """A producer that knows its topic, and whose cluster has gone."""
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, delivery_timeout_ms=MINUTES)
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    yield producer
    _close(producer, 0)


def test_of_concurrent_closes_the_shortest_timeout_applies(cut_off: Producer) -> None:
    pending = cut_off.send("t", b"v")
    patient = threading.Thread(target=_close, args=(cut_off, WAIT), daemon=True)
    patient.start()
    patient.join(0.1)
    assert patient.is_alive()

    seconds = _seconds(lambda: _close(cut_off, 0.2))
    patient.join(LEEWAY)

    assert seconds < 0.2 + LEEWAY
    assert not patient.is_alive()
    assert "the producer was closed" in str(pending.exception(0))


def test_close_without_a_timeout_takes_at_most_the_delivery_timeout(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=1_000
    )
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    pending = producer.send("t", b"v")

    assert _seconds(lambda: _close(producer, None)) < 1.0 + LEEWAY
    assert isinstance(pending.exception(0), DeliveryError)


def test_a_close_with_a_long_timeout_in_a_callback_does_not_wait(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    producer = Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=1_000
    )
    for partition in range(2):
        producer.send("t", b"known", partition=partition).result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    seconds: list[float] = []

    def close(_delivery: Delivery) -> None:
        seconds.append(_seconds(lambda: producer.close(WAIT)))

    first = producer.send("t", b"expires", partition=0, on_delivery=close)
    with pytest.raises(TimeoutError):
        first.result(0.2)
    second = producer.send("t", b"has time left", partition=1)

    assert "the producer was closed" in str(second.exception(WAIT))
    assert _seconds(lambda: _close(producer, WAIT)) < LEEWAY
    assert len(seconds) == 1
    assert seconds[0] < LEEWAY


def test_callbacks_of_a_forced_close_get_errors_from_blocking_calls(cut_off: Producer) -> None:
    reported: list[str] = []

    def ask(_delivery: Delivery) -> None:
        for act in (lambda: cut_off.send("t", b"again"), cut_off.flush):
            try:
                act()
            except OttlaError as error:
                reported.append(type(error).__name__)
        cut_off.close(WAIT)
        reported.append("closed")

    for _ in range(3):
        cut_off.send("t", b"v", on_delivery=ask)

    assert _seconds(lambda: cut_off.close(0)) < LEEWAY
    assert reported == ["ProducerClosedError", "IllegalStateError", "closed"] * 3


# Where the I/O thread itself is held up


def test_a_callback_that_never_returns_does_not_delay_the_end(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers)
    called, released = threading.Event(), threading.Event()

    def linger(_delivery: Delivery) -> None:
        called.set()
        released.wait(WAIT)

    producer.send("t", b"v", on_delivery=linger)
    assert called.wait(WAIT)
    pending = producer.send("t", b"behind it")
    try:
        closing = threading.Thread(target=_close, args=(producer, 0.2), daemon=True)
        closing.start()
        closing.join(0.2 + LEEWAY)
        assert not closing.is_alive()
        assert pending.done()
    finally:
        released.set()


def test_a_close_waits_in_parts_of_which_a_stop_takes_one(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not more if each ends late, as when a callback keeps the GIL."""
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers)
    called, released, waits = threading.Event(), threading.Event(), list[float]()
    join = producer._lifecycle._io_thread.join

    def late(timeout: float) -> bool:
        waits.append(timeout)
        ended = join(timeout)
        time.sleep(0.1)
        return ended

    def linger(_delivery: Delivery) -> None:
        called.set()
        released.wait(WAIT)

    monkeypatch.setattr(producer._lifecycle._io_thread, "join", late)
    producer.send("t", b"v", on_delivery=linger)
    assert called.wait(WAIT)
    try:
        _close(producer, 0.4)
    finally:
        released.set()

    assert waits == [0.4, 0.25, 0.25]


def test_a_name_lookup_in_progress_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, released = threading.Event(), threading.Event()

    def stuck(*_question: object, **_more: object) -> NoReturn:
        asked.set()
        released.wait(WAIT)
        raise socket.gaierror("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    producer = Producer(bootstrap_servers="slow.example:9092", max_block_ms=50)
    with pytest.raises(TopicUnavailableError):
        producer.send("t", b"v")
    assert asked.wait(WAIT)
    try:
        closing = threading.Thread(target=_close, args=(producer, 0.2), daemon=True)
        closing.start()
        closing.join(0.2 + LEEWAY)
        assert not closing.is_alive()
    finally:
        released.set()


def _close(producer: Producer, timeout: float | None) -> None:
    """Close, and ignore errors of records that were lost."""
    with contextlib.suppress(OttlaError):
        producer.close(timeout)


# Stopped itself


STOPPED = """
    import os, signal, sys, time
    from ottla import Producer

    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=0)
    producer.send("t", b"first", partition=0).result(60)
    deliveries = [producer.send("t", b"%d" % number, partition=0) for number in range(5)]
    time.sleep(0.2)
    print("closing", flush=True)
    print(producer.close(1.5))
    print([delivery.exception(0) for delivery in deliveries])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs the signals of POSIX")
@pytest.mark.parametrize("seconds", [1.91, 3.0])
def test_a_process_that_is_stopped_while_it_closes_loses_nothing(mock_cluster: MockCluster, seconds: float) -> None:
    """As a container that is frozen until after the time-out: responses have arrived meanwhile."""
    mock_cluster.create_topic("t")
    mock_cluster.set_rtt(1, 1.0)
    with program(STOPPED, mock_cluster.bootstrap_servers) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "closing\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        child.send_signal(signal.SIGCONT)
        out, log = child.communicate(timeout=HANG_GUARD)

    assert out == "6 acknowledged, 0 failed, 0 pending\n[None, None, None, None, None]\n", log
