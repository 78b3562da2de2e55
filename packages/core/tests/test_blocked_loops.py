"""Event loops that do not run: their tasks keep no memory from other threads and loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from broker_on_a_socket import SocketBroker

from ottla.aio import AsyncProducer
from ottla_testkit.simulation import SimulatedCluster

HANG_GUARD = 30.0

SIZE = 20_000
TASKS = 40


@pytest.fixture
def producer() -> Iterator[AsyncProducer]:
    """A producer whose memory is enough for a few records."""
    cluster = SimulatedCluster.of(1)
    for topic in ("t", "u"):
        cluster.create(topic, 1)
    with SocketBroker(cluster.brokers[1]).serving() as servers:
        made = AsyncProducer(bootstrap_servers=servers, buffer_memory=100_000, batch_size=16_384, linger_ms=0)
        try:
            made._producer.send("t", b"first").result(20)
            yield made
        finally:
            made._producer.close(10)


def sends(producer: AsyncProducer) -> list[asyncio.Task[object]]:
    async def send() -> None:
        await (await producer.send("t", bytes(SIZE)))

    return [asyncio.ensure_future(send()) for _ in range(TASKS)]


def test_a_blocked_loop_keeps_no_memory_from_other_threads(producer: AsyncProducer) -> None:
    waiting, blocked = threading.Event(), threading.Event()

    async def main() -> None:
        tasks = sends(producer)
        await asyncio.sleep(0)  # each of them has a place in the line
        waiting.set()
        blocked.wait(HANG_GUARD)  # a call that blocks the loop
        await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        assert waiting.wait(HANG_GUARD)
        producer._producer.send("u", bytes(SIZE), timeout=20).result(20)
    finally:
        blocked.set()
        thread.join(HANG_GUARD)

    assert not thread.is_alive()
    assert producer._producer.flush(20).acknowledged == TASKS + 2


def test_a_loop_that_is_dropped_unclosed_keeps_no_memory(producer: AsyncProducer) -> None:
    loop = asyncio.new_event_loop()

    async def begin() -> list[asyncio.Task[object]]:
        tasks = sends(producer)
        await asyncio.sleep(0)
        return tasks

    tasks = loop.run_until_complete(begin())
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    producer._producer.send("u", bytes(SIZE), timeout=20).result(20)

    loop.close()
