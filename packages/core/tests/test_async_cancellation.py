"""Awaits of an `AsyncProducer` that are cancelled at random moments, on a simulated broker that also fails.

Every record has an account: it was never accepted, or it was sent, or it failed; and the broker's log agrees.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest
from long_forms import LONG

from ottla import Delivery, DeliveryError, OttlaError
from ottla.aio import AsyncProducer
from simulated_producer import Simulated, simulated

HISTORIES: Final = 40 if LONG else 2
CANCELLED_IN_EACH: Final = 25
SETTINGS: Final = {
    "buffer.memory": 6_000,
    "batch.size": 1_000,
    "request.timeout.ms": 200,
    "delivery.timeout.ms": 600,
    "enable.idempotence": True,
}


class Accounts:
    """What tasks know of the records that they have sent."""

    def __init__(self) -> None:
        self.refused: set[bytes] = set()
        """`send` was cancelled, or has raised."""
        self.unknown: set[bytes] = set()
        """`send_and_wait` was cancelled."""
        self.queued: dict[bytes, Delivery] = {}
        self._number = 0

    def new_value(self) -> bytes:
        """A value that no other record has."""
        self._number += 1
        return b"%d " % self._number + bytes(700)

    async def send(self, producer: AsyncProducer, *, wait: bool) -> None:
        """Send a record, and perhaps wait for it."""
        value = self.new_value()
        try:
            self.queued[value] = await producer.send("t", value)
        except BaseException:
            self.refused.add(value)
            raise
        if wait:
            await self.queued[value]

    async def send_and_wait(self, producer: AsyncProducer) -> None:
        """Send a record and wait for it in one call."""
        value = self.new_value()
        self.unknown.add(value)
        await producer.send_and_wait("t", value)


class Broker:
    """Rounds of the I/O thread on the loop, and faults."""

    def __init__(self, simulation: Simulated, chance: random.Random) -> None:
        self._simulation, self._chance = simulation, chance
        self.running = True

    async def run(self) -> None:
        """Run rounds until `running` is unset."""
        frozen = 0
        while self.running:
            self._simulation.round(until=self._simulation.clock() + self._chance.random() * 0.02)
            if frozen:
                frozen -= 1
                if not frozen:
                    self._simulation.network.thaw(1)
            elif self._chance.random() < 0.01:
                frozen = self._chance.randrange(1, 100)
                self._simulation.network.freeze(1)
            elif self._chance.random() < 0.01:
                self._simulation.network.cut(1)
            await asyncio.sleep(0)
        self._simulation.network.thaw(1)


async def cancel_at_random(chance: random.Random, calls: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Keep eight calls going, and cancel one after the other."""
    tasks: list[asyncio.Task[Any]] = []
    cancelled = 0
    while cancelled < CANCELLED_IN_EACH:
        tasks += [asyncio.create_task(calls()) for _ in range(8 - len(tasks))]
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        cancelled += chance.choice(tasks).cancel()
        await asyncio.sleep(0)
        for each in [each for each in tasks if each.done()]:
            tasks.remove(each)
            check_end(each)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def check_end(task: asyncio.Task[Any]) -> None:
    """A call may only be cancelled, or raise an error of ours."""
    if not task.cancelled() and (error := task.exception()) is not None:
        assert isinstance(error, OttlaError), error


async def call_ended(name: str) -> None:
    """Wait until the calls of this name that go on without a task have ended."""
    while any(thread.name == f"ottla-aio-{name}" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("linger_ms", [0, 50])
def test_no_record_of_a_cancelled_task_is_without_account(seed: int, linger_ms: int) -> None:
    chance, accounts = random.Random(seed), Accounts()
    with simulated(1, 1, know=False, config={**SETTINGS, "linger.ms": linger_ms}) as simulation:
        producer = object.__new__(AsyncProducer)
        producer._begin(simulation.producer)

        def call() -> Coroutine[Any, Any, Any]:
            kind = chance.random()
            if kind < 0.3:
                return accounts.send(producer, wait=False)
            if kind < 0.6:
                return accounts.send(producer, wait=True)
            return accounts.send_and_wait(producer) if kind < 0.9 else producer.flush()

        async def main() -> None:
            broker = Broker(simulation, chance)
            rounds = asyncio.create_task(broker.run())
            await cancel_at_random(chance, call)
            await call_ended("flush")
            broker.running = False
            await rounds
            closing = asyncio.create_task(producer.close())
            for _ in range(chance.randrange(1, 4)):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            await call_ended("close")

        asyncio.run(asyncio.wait_for(main(), 120))

        check(accounts, simulation)
        assert simulation.pool.free == simulation.pool.capacity
        assert simulation.pool.waiting == 0


def check(accounts: Accounts, simulation: Simulated) -> None:
    """Compare the accounts with the log."""
    logs = [simulation.log(0), simulation.log(1)]
    found = Counter(value for log in logs for value in log if value is not None)
    assert not found.keys() & accounts.refused
    assert found.keys() <= accounts.queued.keys() | accounts.unknown
    assert all(count == 1 for count in found.values())
    for value, delivery in accounts.queued.items():
        assert delivery.done()
        error = delivery.error
        if error is None:
            metadata = delivery.result(0)
            assert logs[metadata.partition][metadata.offset] == value
        else:
            assert isinstance(error, DeliveryError)
            assert value not in found or error.possibly_persisted
