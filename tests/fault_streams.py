"""A stream of numbered records under a fault, and the check of what another client's consumer finds afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from long_forms import LONG

from ottla import Delivery, DeliveryReport, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from readback import read_back

WAIT: Final = 120.0
MINUTES: Final = 600_000
PAUSE: Final = 0.002


def encoders(short: str) -> pytest.MarkDecorator:
    """Run a test with both encoders in the long form, and with one of them in the short form."""
    return pytest.mark.parametrize("encoder", ["python", "native"] if LONG else [short])


class Stream:
    """A thread that sends 0, 1, 2 ... to the partitions in turn, until `stop`."""

    def __init__(self, producer: Producer, topic: str, *, partitions: int, padding: bytes) -> None:
        self.deliveries: list[Delivery] = []
        self.error: BaseException | None = None
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._padding = padding
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, more: int = 20) -> None:
        """Wait until so many records have been acknowledged that are sent from now on."""
        first = len(self.deliveries)
        deadline = time.monotonic() + WAIT
        while len(self.deliveries) < first + more:
            assert time.monotonic() < deadline, f"no more records are sent: {self.error!r}"
            time.sleep(PAUSE)
        for delivery in self.deliveries[first : first + more]:
            delivery.result(WAIT)

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records."""
        return sum(delivery.done() and delivery.error is None for delivery in self.deliveries)

    def stop(self) -> DeliveryReport:
        """Send no more, and wait for all."""
        self.end()
        assert self.error is None
        return self._producer.flush(WAIT)

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join(WAIT)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._ended.wait(PAUSE):
                number = len(self.deliveries)
                value = b"%d" % number + self._padding
                sent = self._producer.send(self._topic, value, partition=number % self._partitions)
                self.deliveries.append(sent)
        except BaseException as error:
            self.error = error
            raise


@contextmanager
def stream(
    servers: str, topic: str, *, encoder: str, partitions: int = 1, padding: bytes = b"", **settings: Any
) -> Iterator[Stream]:
    """A stream of an idempotent producer, which has acknowledged records already."""
    usual: dict[str, Any] = {"delivery_timeout_ms": MINUTES, "max_block_ms": MINUTES, "linger_ms": 5}
    with Producer(bootstrap_servers=servers, record_encoder=encoder, **(usual | settings)) as producer:
        running = Stream(producer, topic, partitions=partitions, padding=padding)
        try:
            running.wait_for()
            yield running
        finally:
            running.end()


def assert_once_and_in_order(kafka: KafkaCluster, topic: str, running: Stream, *, partitions: int = 1) -> None:
    """All records of a stopped stream are in the topic, once and in order."""
    count = len(running.deliveries)
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    for record in read_back(kafka.near_servers, topic, partitions=partitions):
        found[record.partition].append(int((record.value or b"").rstrip(b"x")))
    assert found == {partition: list(range(partition, count, partitions)) for partition in range(partitions)}
