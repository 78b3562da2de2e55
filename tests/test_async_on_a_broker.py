"""`AsyncProducer` with real brokers: order, errors, back pressure, cancellation, transactions, several loops."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import wait
from typing import Any

import pyarrow as pa
import pytest
from event_loop_kinds import KINDS, run_on

from distance_kit import near_or_distant
from ottla import (
    BufferExhaustedError,
    Delivery,
    DeliveryError,
    ProducerClosedError,
    TableProgress,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla.aio import AsyncProducer
from ottla.errors import IllegalStateError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back
from transactions_kit import read

pytestmark = pytest.mark.kafka

kafka = near_or_distant

ENCODERS = pytest.mark.parametrize("encoder", ["python", "native"])

WITHIN = 60.0
"""Seconds that a test may take."""


@pytest.fixture(autouse=True, params=KINDS)
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests run on each kind of event loop."""
    monkeypatch.setitem(globals(), "kind", request.param)


kind = "asyncio"


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return run_on(kind, main, within=WITHIN)


def values(kafka: KafkaCluster, topic: str, *, partitions: int = 1) -> list[bytes | None]:
    return [record.value for record in read_back(kafka.bootstrap_servers, topic, partitions=partitions)]


@pytest.mark.distance
@ENCODERS
def test_records_of_a_task_arrive_in_order(kafka: KafkaCluster, make_topic: MakeTopic, encoder: str) -> None:
    topic = make_topic()

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, record_encoder=encoder) as producer:
            deliveries = [await producer.send(topic, b"%d" % number, b"k") for number in range(5_000)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(5_000))

    run(main())

    assert values(kafka, topic) == [b"%d" % number for number in range(5_000)]


@pytest.mark.distance
@ENCODERS
def test_concurrent_tasks_get_their_own_metadata(kafka: KafkaCluster, make_topic: MakeTopic, encoder: str) -> None:
    topic = make_topic()

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, record_encoder=encoder) as producer:

            async def send(number: int) -> tuple[int, bytes]:
                value = b"%d" % number
                return (await producer.send_and_wait(topic, value)).offset, value

            places.update(await asyncio.gather(*map(send, range(2_000))))

    places: dict[int, bytes] = {}
    run(main())

    assert values(kafka, topic) == [places[offset] for offset in range(2_000)]


def test_a_task_waits_for_memory_and_others_run(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)

    async def main() -> None:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "buffer.memory": 100_000}
        async with AsyncProducer(settings) as producer:

            async def send(task: int) -> None:
                for number in range(250):
                    await producer.send(topic, b"%d %d " % (task, number) + bytes(1_000), partition=task % 2)

            await asyncio.gather(*map(send, range(8)))

    run(main())

    sent = [value[:-1_000] for value in values(kafka, topic, partitions=2) if value]
    for task in range(8):
        mine = [value for value in sent if value.startswith(b"%d " % task)]
        assert mine == [b"%d %d " % (task, number) for number in range(250)]


def test_without_time_a_record_is_refused_with_its_cause(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    async def main() -> None:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "buffer.memory": 40_000, "linger.ms": 2_000}
        async with AsyncProducer(settings) as producer:
            with pytest.raises(TopicUnavailableError, match=topic):
                await producer.send(topic, b"v", timeout=0)
            await producer.send(topic, bytes(30_000))
            with pytest.raises(BufferExhaustedError):
                await producer.send(topic, bytes(30_000), timeout=0)
            with pytest.raises(TopicUnavailableError, match="missing"):
                await producer.send("missing", b"v", timeout=0.2)

    run(main())

    assert len(values(kafka, topic)) == 1


def test_callbacks_run_on_the_event_loop_before_flush_returns(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=5_000)

    async def main() -> None:
        threads: set[int] = set()
        outcomes: list[bool] = []

        def note(delivery: Delivery) -> None:
            threads.add(threading.get_ident())
            outcomes.append(delivery.error is None)

        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(1_000):
                await producer.send(topic, bytes(10_000 if number == 500 else 10), on_delivery=note)
            report = await producer.flush()  # raises nothing: the callback has got the error

            assert (report.acknowledged, report.failed) == (999, 1)
            assert (outcomes.count(True), outcomes.count(False)) == (999, 1)
            assert threads == {threading.get_ident()}

    run(main())


def test_an_error_that_no_task_read_is_raised_by_close(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1_000)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            with pytest.raises(DeliveryError):
                await producer.send_and_wait(topic, bytes(5_000))
            await producer.send(topic, bytes(5_000))

    with pytest.raises(UndeliveredError):
        run(main())


def test_a_closed_producer_refuses_records(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    async def main() -> None:
        producer = AsyncProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.send_and_wait(topic, b"v")
        await producer.close()
        with pytest.raises(ProducerClosedError):
            await producer.send(topic, b"v")
        await producer.close()

    run(main())


@ENCODERS
def test_cancelled_tasks_leave_no_record_without_account(
    kafka: KafkaCluster, make_topic: MakeTopic, encoder: str
) -> None:
    topic, chance = make_topic(), random.Random(11)
    queued: set[bytes] = set()

    async def main() -> None:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "buffer.memory": 60_000, "record.encoder": encoder}
        async with AsyncProducer(settings) as producer:

            async def send(task: int) -> None:
                for number in range(1_000):
                    value = b"%d %d " % (task, number)
                    delivery = await producer.send(topic, value + bytes(500))
                    queued.add(value)
                    if number % 3 == 0:
                        await delivery

            for task in range(100):
                sending = asyncio.create_task(send(task))
                await asyncio.sleep(chance.random() * 0.02)
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
            await producer.flush()
            metrics = {metric.name: value for metric, value in producer.metrics().items() if "node" not in metric.name}
            assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
            assert metrics["waiting-threads"] == 0

    run(main())

    arrived = [value[:-500] for value in values(kafka, topic) if value]
    assert len(arrived) == len(queued)
    assert set(arrived) == queued


def test_a_cancelled_flush_goes_on_and_close_still_works(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=500) as producer:
            delivery = await producer.send(topic, b"v")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.flush(), 0)
            assert (await delivery).offset == 0

    run(main())


def test_transactions_commit_at_the_end_and_abort_if_the_block_raises(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    async def in_a_transaction(producer: AsyncProducer, value: bytes, seconds: float) -> None:
        async with producer.transaction():
            await producer.send(topic, value)
            await asyncio.sleep(seconds)
            raise ZeroDivisionError

    async def main() -> None:
        async with AsyncProducer(
            bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"id of {topic}"
        ) as producer:
            await producer.init_transactions()
            with pytest.raises(IllegalStateError):
                await producer.send(topic, b"outside")
            async with producer.transaction():
                await producer.send(topic, b"committed")
            with pytest.raises(ZeroDivisionError):
                await in_a_transaction(producer, b"aborted", 0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(in_a_transaction(producer, b"cancelled", WITHIN), 0.2)
            async with producer.transaction():
                await producer.send(topic, b"committed, too")

    run(main())

    assert read(kafka.bootstrap_servers, topic) == [[b"committed", b"committed, too"]]


def test_rows_of_a_table_are_awaited(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    table = pa.table({"value": [b"%d" % number for number in range(1_000)]})

    async def main() -> int:
        async with AsyncProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            delivery = await producer.send_table(topic, table, on_progress=seen.append)
            rows = (await delivery).rows
            await asyncio.sleep(0)
            return rows

    seen: list[TableProgress] = []
    assert run(main()) == 1_000
    assert seen[-1] == TableProgress(rows=1_000, acknowledged=1_000, failed=0)
    assert len(values(kafka, topic)) == 1_000


def test_loops_on_several_threads_share_a_producer(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    made: list[AsyncProducer] = []

    async def make() -> None:
        made.append(AsyncProducer(bootstrap_servers=kafka.bootstrap_servers))

    async def send(partition: int) -> None:
        await asyncio.gather(
            *(made[0].send_and_wait(topic, b"%d" % number, partition=partition) for number in range(500))
        )

    run(make())
    threads = [threading.Thread(target=run, args=(send(partition),)) for partition in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    run(made[0].close())

    assert len(values(kafka, topic, partitions=3)) == 1_500


def test_a_record_of_a_loop_that_was_closed_in_the_same_turn_is_sent(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    producer: AsyncProducer | None = None
    second: Delivery | None = None

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal producer, second
        producer = AsyncProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.send_and_wait(topic, b"first")
        second = await producer.send(topic, b"second")
        loop.stop()

    loop = KINDS[kind]()
    task = loop.create_task(main(loop))
    loop.run_forever()
    loop.close()
    assert task.done()
    assert producer is not None
    assert second is not None
    try:
        assert wait([second.future()], WITHIN).done  # without `result`, which would wake the producer
        assert second.result(0).offset == 1
    finally:
        run(producer.close())


def test_the_loop_runs_while_a_topic_and_a_broker_are_missing() -> None:
    async def beats(until: Callable[[], bool]) -> float:
        loop, longest = asyncio.get_running_loop(), 0.0
        while not until():
            before = loop.time()
            await asyncio.sleep(0.005)
            longest = max(longest, loop.time() - before)
        return longest

    async def main() -> float:
        producer = AsyncProducer(bootstrap_servers="127.0.0.1:9", max_block_ms=1_500)
        tasks: list[Awaitable[Any]] = [asyncio.create_task(producer.send("t", b"v")) for _ in range(100)]
        sending = asyncio.gather(*tasks, return_exceptions=True)
        gc.collect()
        longest = await beats(sending.done)
        assert {type(error) for error in await sending} == {TopicUnavailableError}
        await producer.close()
        return longest

    assert run(main()) < 1.0  # a blocking send would take 1.5 s
