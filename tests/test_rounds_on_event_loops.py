"""Tasks that await their records, with a real broker: their event loop runs the rounds, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from event_loop_kinds import KINDS, run_on
from own_io_thread import io_thread_of

from ottla.aio import AsyncProducer
from ottla.sender.io_handoff import HandoffState, IoHandoff
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(sys.platform == "win32", reason="loops of Windows watch no descriptors"),
]

WITHIN = 60.0
RECORDS = 300


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(kind: str, main: Coroutine[Any, Any, Any]) -> Any:
    return run_on(kind, main, within=WITHIN)


def made(kafka: KafkaCluster, **more: Any) -> AsyncProducer:
    return AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0, **more)


def handoff(producer: AsyncProducer) -> IoHandoff:
    own = io_thread_of(producer._producer._engine)._io_handoff
    assert isinstance(own, IoHandoff)
    return own


def rounds_by_thread(producer: AsyncProducer) -> Counter[int]:
    """The number of rounds that each thread runs from now on."""
    sender, counts = io_thread_of(producer._producer._engine)._sender, Counter[int]()
    run_once = sender.run_once

    def counted(now: float, **how: Any) -> bool:
        counts[threading.get_ident()] += 1
        return run_once(now, **how)

    sender.run_once = counted  # type: ignore[method-assign]
    return counts


async def awaited(producer: AsyncProducer, topic: str, records: int, *, tasks: int = 1) -> list[int]:
    """The offsets of records that tasks send, each after it has awaited its last one."""

    async def send() -> list[int]:
        return [(await producer.send_and_wait(topic, b"value")).offset for _ in range(records // tasks)]

    return sorted(offset for offsets in await asyncio.gather(*(send() for _ in range(tasks))) for offset in offsets)


async def until_watched(producer: AsyncProducer, topic: str) -> None:
    """Await records until the loop runs rounds; on a busy machine the I/O thread keeps them for a while."""
    deadline = time.monotonic() + WITHIN
    while handoff(producer)._watch is None:
        assert time.monotonic() < deadline
        await awaited(producer, topic, 10)


@pytest.mark.parametrize("tasks", [1, 20])
@pytest.mark.parametrize("encoder", ["python", "native"])
def test_the_loop_of_waiting_tasks_runs_rounds(
    kafka: KafkaCluster, make_topic: MakeTopic, kind: str, tasks: int, encoder: str
) -> None:
    topic = make_topic()

    async def main() -> Counter[int]:
        async with made(kafka, record_encoder=encoder) as producer:
            await awaited(producer, topic, 20 * tasks, tasks=tasks)
            counts = rounds_by_thread(producer)
            deadline, offsets = time.monotonic() + WITHIN / 2, []
            # The I/O thread comes back, for a while, when a busy machine does not let the loop run for two checks.
            while counts[threading.get_ident()] <= 20 and time.monotonic() < deadline:
                offsets += await awaited(producer, topic, RECORDS * tasks, tasks=tasks)
            assert offsets == list(range(20 * tasks, 20 * tasks + len(offsets)))
            return Counter(counts)

    assert run(kind, main())[threading.get_ident()] > 20


def test_a_closed_producer_leaves_no_descriptor_behind(kafka: KafkaCluster, make_topic: MakeTopic, kind: str) -> None:
    topic = make_topic()

    async def main() -> None:
        async with made(kafka) as producer:
            await awaited(producer, topic, 20)
        await asyncio.sleep(0.1)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            async with made(kafka) as producer:
                await until_watched(producer, topic)
        deadline = time.monotonic() + WITHIN
        while len(os.listdir("/proc/self/fd")) > before + 5:  # other tests' threads have descriptors, too
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    run(kind, main())


def test_a_producer_goes_from_one_loop_to_the_next(kafka: KafkaCluster, make_topic: MakeTopic, kind: str) -> None:
    topic = make_topic()
    producer = made(kafka)
    try:
        for number in range(3):
            assert run(kind, awaited(producer, topic, 50)) == list(range(50 * number, 50 * number + 50))
    finally:
        run(kind, producer.close())


def test_a_record_leaves_while_its_task_keeps_the_loop_busy(
    kafka: KafkaCluster, make_topic: MakeTopic, kind: str
) -> None:
    topic = make_topic()

    async def main() -> None:
        async with made(kafka) as producer:
            await awaited(producer, topic, 50)
            own = handoff(producer)
            while own._state is not HandoffState.OFFERED:
                await awaited(producer, topic, 10)
            delivery = await producer.send(topic, b"value")
            deadline = time.monotonic() + WITHIN
            while not delivery.done():  # the task never waits, so the turn does not end
                assert time.monotonic() < deadline
                time.sleep(0.001)

    run(kind, main())


def test_loops_on_several_threads_take_turns(kafka: KafkaCluster, make_topic: MakeTopic, kind: str) -> None:
    topic = make_topic()
    producer = made(kafka)
    found: list[int] = []

    def send() -> None:
        found.extend(run(kind, awaited(producer, topic, RECORDS, tasks=3)))

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    run(kind, producer.close())
    assert sorted(found) == list(range(3 * RECORDS))


def test_threads_and_tasks_share_a_producer(kafka: KafkaCluster, make_topic: MakeTopic, kind: str) -> None:
    topic = make_topic()
    producer = made(kafka)
    found: list[int] = []

    def send() -> None:
        found.extend(producer._producer.send(topic, b"value").result(WITHIN).offset for _ in range(RECORDS))

    thread = threading.Thread(target=send)
    thread.start()
    offsets = run(kind, awaited(producer, topic, RECORDS, tasks=2))
    thread.join(WITHIN)
    run(kind, producer.close())
    assert sorted(found + offsets) == list(range(2 * RECORDS))


def test_callbacks_of_the_plain_producer_still_run_on_the_io_thread(
    kafka: KafkaCluster, make_topic: MakeTopic, kind: str
) -> None:
    topic = make_topic()
    threads: set[str] = set()

    async def main() -> None:
        async with made(kafka) as producer:
            await awaited(producer, topic, 50)
            for _ in range(20):
                delivery = await producer.send(topic, b"value")
                delivery.add_done_callback(lambda _delivery: threads.add(threading.current_thread().name))
                await delivery

    run(kind, main())
    assert all("ottla-io" in name for name in threads)
