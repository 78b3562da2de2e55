"""The story of a record in real programs: real threads and time, librdkafka's mock brokers, and a real broker."""

from __future__ import annotations

import asyncio
import ctypes
import time

import pyarrow as pa
import pytest

from ottla import Delivery, Producer
from ottla.aio import AsyncProducer
from ottla.results.stories import RecordStory, WaitKind
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.pytest_plugin import MakeTopic

WITHIN = 30.0
PRODUCE = 0
NOT_LEADER = 6


@pytest.fixture
def mocked(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("t", partitions=1)
    mock_cluster.set_leader("t", 0, 1)
    return mock_cluster


def waited(story: RecordStory, kind: WaitKind) -> float:
    return sum(cause.seconds for cause in story.causes if cause.kind is kind)


def story_of(delivery: Delivery) -> RecordStory:
    delivery.result(WITHIN)
    return delivery.story()


def test_the_story_of_a_record_on_a_real_broker_is_complete(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=200) as producer:
        story = story_of(producer.send(make_topic(), b"a"))

    assert (story.outcome, story.attempts, story.records) == ("acknowledged", 1, 1)
    assert [event.text for event in story.events][-2:] == [
        f"broker {story.tries[0].node}: acknowledged at offset 0",
        "acknowledged",
    ]
    assert waited(story, WaitKind.LINGER) > 0.15
    assert sum(cause.seconds for cause in story.causes) == pytest.approx(story.seconds)


def test_a_broker_that_answers_late_is_the_cause(mocked: MockCluster) -> None:
    with Producer(bootstrap_servers=mocked.bootstrap_servers) as producer:
        producer.send("t", b"known").result(WITHIN)
        mocked.set_rtt(1, 1.0)
        story = story_of(producer.send("t", b"late"))
        mocked.set_rtt(1, 0.0)

    assert story.cause is not None
    assert (story.cause.kind, story.cause.detail) == (WaitKind.BROKER, "1")


def test_refused_attempts_are_the_cause(mocked: MockCluster) -> None:
    with Producer(
        bootstrap_servers=mocked.bootstrap_servers, retry_backoff_ms=300, enable_idempotence=False
    ) as producer:
        producer.send("t", b"known").result(WITHIN)
        mocked.push_errors(PRODUCE, [NOT_LEADER, NOT_LEADER])
        story = story_of(producer.send("t", b"late"))

    assert story.attempts == 3
    assert story.cause is not None
    assert (story.cause.kind, story.cause.detail) == (WaitKind.RETRY, "broker 1: NOT_LEADER_OR_FOLLOWER (6)")


def test_a_thread_that_holds_the_interpreter_is_the_cause(mocked: MockCluster) -> None:
    hold = ctypes.PyDLL(None).usleep  # PyDLL keeps the interpreter's lock, as an extension without care does
    with Producer(bootstrap_servers=mocked.bootstrap_servers, linger_ms=50) as producer:
        producer.send("t", b"known").result(WITHIN)
        delivery = producer.send("t", b"late")
        hold(900_000)
        story = story_of(delivery)

    assert story.cause is not None
    assert story.cause.kind is WaitKind.PROCESS


def test_a_callback_that_sleeps_is_the_cause_for_other_records(mocked: MockCluster) -> None:
    later: list[Delivery] = []
    with Producer(bootstrap_servers=mocked.bootstrap_servers, linger_ms=0) as producer:

        def sleep(_delivery: Delivery) -> None:
            later.append(producer.send("t", b"late"))
            time.sleep(0.8)

        producer.send("t", b"first", on_delivery=sleep).result(WITHIN)
        while not later:
            time.sleep(0.01)
        story = story_of(later[0])

    assert story.cause is not None
    assert story.cause.kind is WaitKind.CALLBACKS


def test_a_wait_for_memory_is_the_cause(mocked: MockCluster) -> None:
    with Producer(bootstrap_servers=mocked.bootstrap_servers, buffer_memory=40_000) as producer:
        producer.send("t", b"known").result(WITHIN)
        mocked.set_rtt(1, 0.7)
        producer.send("t", bytes(35_000))
        delivery = producer.send("t", bytes(30_000))
        mocked.set_rtt(1, 0.0)
        story = story_of(delivery)

    assert story.waited_for_memory > 0.3
    assert waited(story, WaitKind.MEMORY) == story.waited_for_memory


def test_deliveries_for_asyncio_have_stories(mocked: MockCluster) -> None:
    async def main() -> RecordStory:
        async with AsyncProducer(bootstrap_servers=mocked.bootstrap_servers) as producer:
            delivery = await producer.send("t", b"a")
            await delivery
            return delivery.story()

    assert asyncio.run(main()).outcome == "acknowledged"


def test_a_table_has_a_story(mocked: MockCluster) -> None:
    with Producer(bootstrap_servers=mocked.bootstrap_servers) as producer:
        delivery = producer.send_table("t", pa.table({"value": [b"a", b"b"]}))
        delivery.result(WITHIN)
        story = delivery.story()

    assert story is not None
    assert (story.outcome, story.records) == ("acknowledged", 2)
    assert any("it is a batch of a table" in event.text for event in story.events)


def test_records_of_a_mock_producer_have_stories(mock_producer: MockProducer) -> None:
    story = story_of(mock_producer.send("t", b"a"))

    assert (story.outcome, story.attempts) == ("acknowledged", 1)
