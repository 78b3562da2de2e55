"""Delivery callbacks: their arguments, what they may do, and what they cannot break."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

import pytest

from distance_kit import near_or_distant
from ottla import BrokerError, Delivery, ErrorCode, OttlaError, Producer, ProducerClosedError, RecordMetadata
from ottla.errors import IllegalStateError
from ottla.protocol import PRODUCE
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

kafka = near_or_distant

WAIT = 60.0


@pytest.mark.kafka
def test_a_callback_reads_the_metadata_of_its_record(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    reported: list[RecordMetadata | None] = []

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(
            topic, b"value", b"k", timestamp_ms=7, on_delivery=lambda delivery: reported.append(delivery.metadata)
        )

    expected = RecordMetadata(
        topic=topic, partition=0, offset=0, timestamp_ms=7, serialized_key_size=1, serialized_value_size=5
    )
    assert [expected] == reported


@pytest.mark.kafka
def test_a_callback_reads_the_error_of_its_record(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1_000)
    reported: list[tuple[RecordMetadata | None, OttlaError | None]] = []

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(
            topic, bytes(5_000), on_delivery=lambda delivery: reported.append((delivery.metadata, delivery.error))
        )

    [(metadata, error)] = reported
    assert metadata is None
    assert error is not None
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.distance
@pytest.mark.rule("producer.callback.order")
@pytest.mark.kafka
def test_callbacks_come_in_the_order_of_each_partition(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    order: dict[int, list[int]] = defaultdict(list)

    def note(delivery: Delivery) -> None:
        metadata = delivery.result()
        order[metadata.partition].append(metadata.offset)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10_000):
            producer.send(topic, b"v", partition=number % 4, on_delivery=note)

    assert {partition: list(range(2_500)) for partition in range(4)} == order


def _in_a_callback(servers: str, act: Callable[[Producer], object]) -> tuple[list[BaseException], int]:
    """The error of *act* inside a delivery callback, and the number of records that the producer delivered after it."""
    raised: list[BaseException] = []

    def callback(producer: Producer) -> None:
        try:
            act(producer)
        except Exception as error:
            raised.append(error)

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"v", on_delivery=lambda _delivery: callback(producer)).result(WAIT)
        producer.flush(WAIT)
        for _ in range(3):
            producer.send("t", b"after")
        return raised, producer.flush(WAIT).acknowledged


FORBIDDEN: dict[str, Callable[[Producer], object]] = {
    "flush": lambda producer: producer.flush(),
    "result": lambda producer: producer.send("t", b"w").result(),
    "exception": lambda producer: producer.send("t", b"w").exception(),
}


@pytest.mark.rule("producer.flush.callback", "producer.callback.waits")
@pytest.mark.parametrize("call", FORBIDDEN)
def test_a_callback_that_would_deadlock_gets_an_error(mock_cluster: MockCluster, call: str) -> None:
    mock_cluster.create_topic("t")

    raised, after = _in_a_callback(mock_cluster.bootstrap_servers, FORBIDDEN[call])

    assert [IllegalStateError] == [type(error) for error in raised]
    assert "callback" in str(raised[0])
    assert after >= 3


class Unexpected(BaseException):
    """Beyond `Exception`, as `SystemExit`, `asyncio.CancelledError` and a test framework's own failures are."""


@pytest.mark.rule("producer.callback.raises")
@pytest.mark.parametrize("kind", [ValueError, SystemExit, Unexpected])
def test_an_exception_in_a_callback_is_logged_and_harmless(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    mock_cluster.create_topic("t")

    def fail(_delivery: Delivery) -> None:
        raise kind("out of the callback")

    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=100)
    producer.send("t", b"known").result(WAIT)
    batch = [producer.send("t", b"v", partition=0, on_delivery=fail), producer.send("t", b"v", partition=0)]
    assert [delivery.result(WAIT).offset - batch[0].result().offset for delivery in batch] == [0, 1]

    assert producer.flush(10.0).acknowledged == 3
    assert producer.send("t", b"after").result(10.0).topic == "t"
    assert producer.close().pending == 0
    assert "out of the callback" in caplog.text


@pytest.mark.distance
@pytest.mark.rule("producer.close.callback")
@pytest.mark.kafka
def test_a_producer_can_be_closed_by_its_own_callback(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    closed = threading.Event()

    def close(_delivery: Delivery) -> None:
        producer.close()
        closed.set()

    producer.send(topic, b"last", on_delivery=close)

    assert closed.wait(WAIT)
    with pytest.raises(ProducerClosedError):
        producer.send(topic, b"too late")
    assert producer.close().pending == 0
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == [b"last"]


@pytest.mark.rule("producer.close.callback")
def test_close_in_a_callback_fails_records_that_cannot_be_sent_at_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_api_version(PRODUCE.key, lowest=3, highest=9)  # librdkafka 2.x dies of version 10 without a leader
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=0)
    producer.send("t", b"known", partition=0).result(WAIT)
    mock_cluster.set_leader("t", 1, -1)
    stuck = producer.send("t", b"no broker takes it", partition=1)

    producer.send("t", b"v", partition=0, on_delivery=lambda _delivery: producer.close())

    assert "the producer was closed" in str(stuck.exception(WAIT))
    assert producer.close().pending == 0


def test_a_callback_added_late_is_called_at_once(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    called: list[Delivery] = []

    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        delivery = producer.send("t", b"v")
        delivery.result(WAIT)
        delivery.add_done_callback(called.append)

    assert [delivery] == called
