"""Many threads, many partitions, little memory: every record has an outcome, and the books balance."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest
from long_forms import LONG

from ottla import Delivery, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import ROUND_TRIP

THREADS = 16
PARTITIONS = 200
SECONDS = float(os.environ.get("OTTLA_SOAK_SECONDS", "3"))
BUFFER_MEMORY = 8_000_000
MARGIN = 64_000_000
HANG_GUARD = 300.0


@pytest.mark.thorough("test_rules_pool.py has the balance, and simulated histories have threads")
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.rule("pool.balance")
@pytest.mark.parametrize("round_trip", [None, *([ROUND_TRIP] if LONG else [])])
def test_sixteen_threads_and_200_partitions_lose_no_delivery_or_memory(round_trip: float | None) -> None:
    with KafkaCluster(heap="512m", round_trip=round_trip) as kafka:
        kafka.create_topic("t", partitions=PARTITIONS)
        with Producer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=BUFFER_MEMORY) as producer:
            producer.send("t", b"first").result(HANG_GUARD)
            before = psutil.Process().memory_info().rss
            senders = [Sender(producer, number) for number in range(THREADS)]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join(HANG_GUARD)
            assert not any(sender.is_alive() for sender in senders)
            grown = psutil.Process().memory_info().rss - before
            report = producer.flush(HANG_GUARD)
            pool = producer._accumulator.pool
            assert (pool.free, pool.waiting) == (pool.capacity, 0)
        ends = sum(kafka.end_offset("t", partition) for partition in range(PARTITIONS))

    sent = sum(sender.sent for sender in senders)
    assert sent > 10_000
    assert report.acknowledged == sent + 1
    assert ends == sent + 1
    assert all(delivery.done() for sender in senders for delivery in sender.deliveries)
    assert sum(sender.called_back for sender in senders) == sum(sender.with_callback for sender in senders)
    assert grown < BUFFER_MEMORY + MARGIN


class Sender(threading.Thread):
    """Sends records with keys, without, with partitions, some with callbacks, and keeps some deliveries."""

    def __init__(self, producer: Producer, number: int) -> None:
        super().__init__(daemon=True)
        self._producer = producer
        self._number = number
        self.sent = 0
        self.with_callback = 0
        self.called_back = 0
        self.deliveries: list[Delivery] = []

    def run(self) -> None:
        ends_at = time.monotonic() + SECONDS
        while time.monotonic() < ends_at:
            self._send_some()

    def _send_some(self) -> None:
        send, value = self._producer.send, bytes(self._number * 20)
        for step in range(50):
            match step % 4:
                case 0:
                    delivery = send("t", value, key=b"%d" % self.sent)
                case 1:
                    delivery = send("t", value)
                case 2:
                    delivery = send("t", value, partition=(self.sent * 7 + self._number) % PARTITIONS)
                case _:
                    delivery = send("t", value, on_delivery=self._count)
                    self.with_callback += 1
            self.sent += 1
        self.deliveries.append(delivery)

    def _count(self, _delivery: object) -> None:
        self.called_back += 1  # on the I/O thread only
