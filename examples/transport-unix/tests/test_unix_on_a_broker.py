"""Records by way of a Unix socket and a relay to a real broker, read back around both."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from ottla import Producer, TopicUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

WAIT = 60.0


class Relay:
    """Takes every connection to a path on to one address, with two threads for each."""

    def __init__(self, path: pathlib.Path, address: tuple[str, int]) -> None:
        self.path = path
        self.accepted = 0
        self._address = address
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(WAIT)
        self.cut()
        for thread in self._threads:
            thread.join(WAIT)
        for end in [self._listener, *self._ends]:
            end.close()

    def cut(self) -> None:
        """Lose every connection."""
        for end in self._ends:
            with contextlib.suppress(OSError):  # gone already
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener's end
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(self._address)
                self.accepted += 1
                self._ends += [ours, theirs]
                for source, sink in ((ours, theirs), (theirs, ours)):
                    thread = threading.Thread(target=self._pump, args=(source, sink))
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A folder of a short name, which pytest's own may not be: the path of a socket must not be long."""
    with tempfile.TemporaryDirectory(prefix="ottla-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture
def relay(kafka: KafkaCluster, folder: pathlib.Path) -> Iterator[Relay]:
    """A relay to the session's broker."""
    with Relay(folder / "kafka.sock", kafka.address(1)) as relay:
        yield relay


def producer(path: pathlib.Path, *, max_block_ms: int = 60_000) -> Producer:
    """A producer for a broker of a name that means nothing here: only the relay leads to it."""
    settings = {"bootstrap.servers": "kafka.invalid:9092", "connection.via": "unix", "unix.path": path}
    return Producer(settings, max_block_ms=max_block_ms)


def refusal(path: pathlib.Path) -> str:
    """The error for a topic that stays unknown through this path."""
    with producer(path, max_block_ms=2_000) as refused, pytest.raises(TopicUnavailableError) as caught:
        refused.send("t", b"v")
    return str(caught.value)


@pytest.mark.kafka
def test_records_arrive_through_the_relay(kafka: KafkaCluster, make_topic: MakeTopic, relay: Relay) -> None:
    topic = make_topic(partitions=3)
    values = [b"%d " % number * 100 for number in range(20_000)]

    with producer(relay.path) as through:
        for number, value in enumerate(values):
            through.send(topic, value, partition=number % 3)
        report = through.flush(WAIT)

    found = read_back(kafka.bootstrap_servers, topic, partitions=3)
    assert report.acknowledged == len(values)
    assert sorted(record.value or b"" for record in found) == sorted(values)
    assert relay.accepted == 2  # the bootstrap server and the broker that it names


@pytest.mark.kafka
def test_a_relay_that_drops_its_connections_is_used_again(
    kafka: KafkaCluster, make_topic: MakeTopic, relay: Relay
) -> None:
    topic = make_topic()

    with producer(relay.path) as through:
        through.send(topic, b"before").result(WAIT)
        relay.cut()
        through.send(topic, b"after").result(WAIT)

    assert {record.value for record in read_back(kafka.bootstrap_servers, topic)} == {b"before", b"after"}


def test_a_missing_relay_is_reported_with_the_reason_of_the_system(folder: pathlib.Path) -> None:
    assert "ENOENT" in refusal(folder / "no-listener.sock")


def test_a_relay_that_left_its_socket_behind_is_reported_differently(folder: pathlib.Path) -> None:
    path = folder / "dead.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))

    assert "ECONNREFUSED" in refusal(path)


def test_a_missing_relay_is_reported_with_its_path(folder: pathlib.Path) -> None:
    path = folder / "no-listener.sock"

    assert str(path) in refusal(path)
