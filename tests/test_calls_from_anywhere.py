"""Calls of a producer where programs do not expect them: near the recursion limit, in `__del__`, while logging."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Self

import pytest

from ottla import Delivery, DeliveryError, Producer
from ottla.errors import FlushTimeoutError, IllegalStateError
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.processes.free_ports import free_ports
from transactions_kit import await_true

WAIT = 60.0


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("t", partitions=1)
    mock_cluster.create_topic("log", partitions=1)
    return mock_cluster


@pytest.fixture
def producer(cluster: MockCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, request_timeout_ms=1_000) as made:
        made.send("t", b"first").result(WAIT)
        yield made


def depth() -> int:
    frame, frames = sys._getframe(), 0
    while frame is not None:
        frame, frames = frame.f_back, frames + 1  # type: ignore[assignment]
    return frames


@pytest.mark.parametrize("call", ["send", "flush"])
def test_a_recursion_error_anywhere_in_a_call_leaves_a_working_producer(producer: Producer, call: str) -> None:
    usual = sys.getrecursionlimit()
    deliveries: list[Delivery] = []

    def deeper() -> None:
        deliveries.append(producer.send("t", b"v"))
        if call == "flush":
            producer.flush(WAIT)
        deeper()

    for room in range(40, 80):  # the limit is met in another frame of the call each time
        sys.setrecursionlimit(depth() + room)
        try:
            with pytest.raises(RecursionError):
                deeper()
        finally:
            sys.setrecursionlimit(usual)

    assert producer.flush(WAIT).pending == 0
    offsets = [delivery.result(WAIT).offset for delivery in deliveries]
    assert sorted(set(offsets)) == sorted(offsets)
    assert producer.send("t", b"last").result(WAIT).offset > max(offsets)


def test_a_destructor_may_send_or_gets_an_error_at_once(producer: Producer) -> None:
    sent: list[Delivery] = []
    refused: list[IllegalStateError] = []

    class Sends:
        def __init__(self) -> None:
            self.cycle = self  # so that only the collector finds it, in the middle of any call

        def __del__(self) -> None:
            try:
                sent.append(producer.send("t", b"from __del__"))
            except IllegalStateError as error:
                refused.append(error)

    usual = gc.get_threshold()
    gc.set_threshold(3)
    try:
        deliveries = []
        for number in range(2_000):
            Sends()
            deliveries.append(producer.send("t", b"%d" % number, key=b"key"))
    finally:
        gc.set_threshold(*usual)

    def all_collected() -> bool:
        gc.collect()  # again and again: it does nothing while another thread, such as the I/O thread, collects
        return len(sent) + len(refused) == len(deliveries)

    await_true(all_collected)

    assert producer.flush(WAIT).pending == 0
    offsets = [delivery.result(WAIT).offset for delivery in (*deliveries, *sent)]
    assert len(set(offsets)) == len(deliveries) + len(sent)
    assert len(sent) > 100
    assert all("__del__" in str(error) for error in refused)


class Handling(logging.Handler):
    """Calls a function with the text of each line, within the block, at INFO and above."""

    def __init__(self, handle: Callable[[str], object]) -> None:
        super().__init__(logging.INFO)
        self._handle = handle
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        self._handle(record.getMessage())

    def __enter__(self) -> Self:
        logger = logging.getLogger("ottla")
        self._level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, *_error: object) -> None:
        logger = logging.getLogger("ottla")
        logger.removeHandler(self)
        logger.setLevel(self._level)


def send_during_an_outage(producer: Producer, cluster: MockCluster) -> list[int]:
    """Send while the broker is down; return the offsets."""
    cluster.broker_down(1)
    deliveries = [producer.send("t", b"%d" % number) for number in range(100)]
    with contextlib.suppress(FlushTimeoutError):
        producer.flush(1)
    cluster.broker_up(1)
    assert producer.flush(WAIT).topics["t"].pending == 0  # lines of the log may have been sent since the flush began
    return [delivery.result(WAIT).offset for delivery in deliveries]


def test_a_logging_handler_may_send_its_lines_with_the_producer(producer: Producer, cluster: MockCluster) -> None:
    lines: list[Delivery] = []
    producer.send("log", b"first").result(WAIT)

    with Handling(lambda line: lines.append(producer.send("log", line.encode()))):
        assert send_during_an_outage(producer, cluster) == list(range(1, 101))

    assert producer.flush(WAIT).failed == 0
    assert lines
    assert all(line.exception(WAIT) is None for line in lines)


def test_a_logging_handler_that_sends_does_not_stop_the_io_thread(cluster: MockCluster) -> None:
    """The handler holds its lock while `send` waits for metadata, and the I/O thread has a line for it."""
    [closed] = free_ports(1)
    lines: list[Delivery] = []
    for _ in range(4):  # the servers are tried in any order
        servers = f"127.0.0.1:{closed},{cluster.bootstrap_servers}"
        with (
            Producer(bootstrap_servers=servers, max_block_ms=10_000) as producer,
            Handling(lambda line: lines.append(producer.send("log", line.encode()))),
        ):
            logging.getLogger("ottla").warning("a line of the program")
            assert lines.pop(0).result(WAIT)
            producer.flush(WAIT)


def test_a_logging_handler_that_raises_costs_no_record(producer: Producer, cluster: MockCluster) -> None:
    def fail(line: str) -> None:
        if handling.lines <= 4:
            raise ValueError(f"no room for: {line}")

    with Handling(fail) as handling:
        offsets = send_during_an_outage(producer, cluster)

    assert handling.lines > 4
    assert offsets == list(range(1, 101))


def test_a_logging_handler_that_always_raises_keeps_no_record_open(cluster: MockCluster) -> None:
    def fail(line: str) -> None:
        raise type(f"Error{handling.lines}", (Exception,), {})(f"no room for: {line}")  # another error each time

    settings = {"linger.ms": 0, "request.timeout.ms": 500, "delivery.timeout.ms": 1_500, "io.handoff.enable": False}
    producer = Producer(settings, bootstrap_servers=cluster.bootstrap_servers)
    producer.send("t", b"first").result(WAIT)

    with Handling(fail) as handling:
        cluster.broker_down(1)
        deliveries = [producer.send("t", b"%d" % number) for number in range(10)]
        for delivery in deliveries:
            assert isinstance(delivery.exception(WAIT), DeliveryError)
    producer.close(WAIT)

    assert handling.lines
