"""Little traffic on three real brokers for a long time: connections come and go, and nothing is worth a warning.

All of Kafka's idle and age settings are divided by 60, so a second stands for a minute. `OTTLA_SOAK` asks for two
minutes, which stand for two hours; the short form takes half of one.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

import attrs
import pytest
from long_forms import LONG

from ottla import Delivery, Producer
from ottla_testkit.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SECONDS: Final = 120.0 if LONG else 30.0
TOPIC: Final = "quiet"
PARTITIONS: Final = 3
BROKERS_IDLE: Final = {"connections.max.idle.ms": 600_000 // 60}
SETTINGS: Final = {
    "connections.max.idle.ms": 540_000 // 60,
    "metadata.max.age.ms": 300_000 // 60,
    "metadata.max.idle.ms": 300_000 // 60,
}
EVERY: Final = (0.7, 2.0, 4.9, 5.1, 8.8, 9.2, 9.9, 10.3, 13.0, 21.0)
"""Seconds between two records: on both sides of each limit."""


@attrs.frozen(eq=False)
class Rhythm:
    """One producer, and what it sends: a record each so many seconds, to each partition in turn."""

    every: float
    producer: Producer
    deliveries: list[Delivery] = attrs.field(factory=list)

    def send(self) -> None:
        self.deliveries.append(self.producer.send(TOPIC, b"value", partition=len(self.deliveries) % PARTITIONS))

    @property
    def closed(self) -> float:
        """The connections that were closed until now."""
        [closed] = [v for k, v in self.producer.metrics().items() if k.name == "connection-close-total"]
        return float(closed)


def let_them_send(rhythms: Sequence[Rhythm]) -> None:
    """Each in its own time, until the time is over."""
    began, pause = time.monotonic(), threading.Event()
    due = [(rhythm.every, number) for number, rhythm in enumerate(rhythms)]
    heapq.heapify(due)
    while due[0][0] < SECONDS:
        at, number = heapq.heappop(due)
        pause.wait(max(0.0, began + at - time.monotonic()))
        rhythms[number].send()
        heapq.heappush(due, (at + rhythms[number].every, number))


@pytest.mark.thorough("needs a cluster of three; test_network_client_idle.py has the rules, with simulated brokers")
@pytest.mark.rule("network.idle.quiet", "network.idle.due")
def test_hours_of_low_traffic_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with KafkaCluster(nodes=3, config=BROKERS_IDLE) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        rhythms = [
            Rhythm(
                every,
                Producer(
                    SETTINGS,
                    bootstrap_servers=cluster.bootstrap_servers,
                    client_id=f"acks-{acks}-every-{every}-s",
                    acks=acks,
                ),
            )
            for acks in ("all", 0)
            for every in EVERY
        ]
        for rhythm in rhythms:
            rhythm.send()
            rhythm.producer.flush()
        caplog.clear()  # brokers that have just started may still be loading
        let_them_send(rhythms)
        closed = {rhythm.every: rhythm.closed for rhythm in rhythms}
        for rhythm in rhythms:
            rhythm.producer.close()
        warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    assert warnings == []
    assert all(delivery.exception() is None for rhythm in rhythms for delivery in rhythm.deliveries)
    assert closed[13.0] > closed[0.7]  # connections were retired, and made again
