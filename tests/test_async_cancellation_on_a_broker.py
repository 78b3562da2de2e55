"""Awaits of an `AsyncProducer` that are cancelled at random moments: every record has an account at a real broker."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
from long_forms import LONG

from ottla import Delivery
from ottla.aio import AsyncProducer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back
from transactions_kit import read

pytestmark = pytest.mark.kafka

MOMENTS: Final = 1_000 if LONG else 40
TRANSACTIONS: Final = 200 if LONG else 15
CLOSES: Final = 50 if LONG else 4
LONGEST: Final = 0.01
"""Seconds after which a call is cancelled at the latest."""


async def cancelled_at_random(call: Coroutine[Any, Any, Any], chance: random.Random) -> None:
    """Begin a call, and cancel it at a random moment."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)  # a task that is cancelled before it has begun does nothing
    await asyncio.sleep(chance.random() * LONGEST)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def call_ended(name: str) -> None:
    """Wait until the calls of this name that go on without a task have ended."""
    while any(thread.name == f"ottla-aio-{name}" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)


class Accounts:
    """What tasks know of the records that they have sent."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.refused: set[bytes] = set()
        """`send` was cancelled."""
        self.unknown: set[bytes] = set()
        """`send_and_wait` was cancelled."""
        self.queued: dict[bytes, Delivery] = {}
        self._number = 0

    def new_value(self) -> bytes:
        """A value that no other record has."""
        self._number += 1
        return b"%d " % self._number + bytes(500)

    async def send(self, producer: AsyncProducer) -> None:
        """Send records without waiting for them."""
        while True:
            value = self.new_value()
            try:
                self.queued[value] = await producer.send(self.topic, value)
            except asyncio.CancelledError:
                self.refused.add(value)
                raise

    async def send_and_await(self, producer: AsyncProducer) -> None:
        """Send records and await each."""
        while True:
            value = self.new_value()
            self.queued[value] = delivery = await producer.send(self.topic, value)
            await delivery

    async def send_and_wait(self, producer: AsyncProducer) -> None:
        """Send records and wait for each in one call."""
        while True:
            value = self.new_value()
            self.unknown.add(value)
            await producer.send_and_wait(self.topic, value)

    async def flush(self, producer: AsyncProducer) -> None:
        """Send a record and flush."""
        value = self.new_value()
        self.queued[value] = await producer.send(self.topic, value)
        await producer.flush()

    def check(self, servers: str) -> None:
        """Compare with what another client reads from the topic."""
        found = Counter(record.value for record in read_back(servers, self.topic) if record.value is not None)
        assert not found.keys() & self.refused
        assert found.keys() <= self.queued.keys() | self.unknown
        assert all(count == 1 for count in found.values())
        for value, delivery in self.queued.items():
            assert delivery.result(0).topic == self.topic
            assert value in found


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_no_record_of_a_cancelled_await_is_without_account(
    kafka: KafkaCluster, make_topic: MakeTopic, encoder: str
) -> None:
    accounts, chance = Accounts(make_topic()), random.Random(32)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "buffer.memory": 40_000, "record.encoder": encoder}

    async def main() -> None:
        async with AsyncProducer(settings, linger_ms=1) as producer:
            calls: list[Callable[[AsyncProducer], Coroutine[Any, Any, None]]] = [
                accounts.send,
                accounts.send_and_await,
                accounts.send_and_wait,
                accounts.flush,
            ]
            for number in range(MOMENTS):
                others = [asyncio.create_task(call(producer)) for call in calls[:3]]
                await cancelled_at_random(calls[number % 4](producer), chance)
                for other in others:
                    other.cancel()
                await asyncio.wait(others)
            await call_ended("flush")
            await producer.flush()
            metrics = {metric.name: value for metric, value in producer.metrics().items() if "node" not in metric.name}
            assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
            assert metrics["waiting-threads"] == 0

    asyncio.run(main())

    accounts.check(kafka.bootstrap_servers)


def test_a_cancelled_close_sends_what_was_queued(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    accounts, chance = Accounts(make_topic()), random.Random(33)

    async def main() -> None:
        for _ in range(CLOSES):
            producer = AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000)
            for _ in range(20):
                value = accounts.new_value()
                accounts.queued[value] = await producer.send(accounts.topic, value)
            await cancelled_at_random(producer.close(), chance)
            await call_ended("close")

    asyncio.run(main())

    accounts.check(kafka.bootstrap_servers)


def test_a_cancelled_transaction_is_committed_whole_or_not_at_all(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, chance = make_topic(), random.Random(34)
    ended: set[int] = set()

    async def transfer(producer: AsyncProducer, number: int) -> None:
        async with producer.transaction():
            for part in range(3):
                await producer.send(topic, b"%d %d" % (number, part))
                await asyncio.sleep(chance.random() * LONGEST / 6)
            ended.add(number)

    async def main() -> None:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"id of {topic}"}
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            for number in range(TRANSACTIONS):
                await cancelled_at_random(transfer(producer, number), chance)

    asyncio.run(main())

    [values] = read(kafka.bootstrap_servers, topic)
    assert values == [b"%d %d" % (number, part) for number in sorted(ended) for part in range(3)]
