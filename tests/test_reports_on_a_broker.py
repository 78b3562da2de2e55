"""Reports of `flush` and `close`: exact counts, failures that were not retrieved, and nothing if nothing was sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distance_kit import near_or_distant
from ottla import (
    BufferExhaustedError,
    Delivery,
    DeliveryError,
    DeliveryReport,
    OttlaError,
    Producer,
    ProducerClosedError,
    TopicReport,
    UndeliveredError,
)
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic

kafka = near_or_distant

WAIT = 60.0
MINUTES = 600_000


@pytest.mark.distance
@pytest.mark.kafka
def test_a_flush_counts_every_topic_exactly_and_once(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    many, few, refusing = make_topic(partitions=3), make_topic(), make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(1_000):
            producer.send(many, b"v", partition=number % 3)
        producer.send(few, b"v")
        refused = [producer.send(refusing, bytes(2_000)) for _ in range(2)]
        assert all(delivery.exception(WAIT) for delivery in refused)
        first, second = producer.flush(WAIT), producer.flush(WAIT)

    expected = {
        many: TopicReport(acknowledged=1_000),
        few: TopicReport(acknowledged=1),
        refusing: TopicReport(failed=2),
    }
    assert first.topics == expected
    assert second == DeliveryReport({})


def test_close_reports_records_that_no_flush_has_reported(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=1_000)
    producer.send("t", b"v")
    producer.flush(WAIT)
    for _ in range(5):
        producer.send("t", b"v")

    assert producer.close().topics == {"t": TopicReport(acknowledged=5)}


@pytest.mark.kafka
def test_without_records_a_flush_and_two_closes_report_nothing(kafka: KafkaCluster) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)

    reports = [producer.flush(), producer.flush(0), producer.close(), producer.close()]

    assert reports == [DeliveryReport({})] * 4
    assert (reports[0].acknowledged, reports[0].failed, reports[0].pending) == (0, 0, 0)


def test_a_closed_producer_refuses_records_and_may_be_flushed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(bootstrap_servers=mock_cluster.bootstrap_servers)
    producer.send("t", b"v")
    producer.close()

    with pytest.raises(ProducerClosedError):
        producer.send("t", b"v")
    assert producer.flush() == DeliveryReport({})


def _by_result(delivery: Delivery) -> None:
    with pytest.raises(DeliveryError):
        delivery.result(WAIT)


LOOKS: dict[str, Callable[[Delivery], object]] = {
    "result": _by_result,
    "done callback": lambda delivery: delivery.add_done_callback(lambda done: done.exception()),
}


@pytest.mark.kafka
@pytest.mark.parametrize("look", LOOKS)
def test_a_failure_whose_error_was_retrieved_is_counted_and_not_raised(
    kafka: KafkaCluster, make_topic: MakeTopic, look: str
) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        LOOKS[look](producer.send(topic, bytes(5_000)))

        assert producer.flush(WAIT).topics == {topic: TopicReport(failed=1)}


@pytest.mark.kafka
def test_a_failure_given_to_a_callback_is_not_raised(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1_000)
    reported: list[OttlaError | None] = []

    def note(delivery: Delivery) -> None:
        reported.append(delivery.error)

    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, bytes(5_000), on_delivery=note)

        assert producer.flush(WAIT).failed == 1
    assert len(reported) == 1


@pytest.mark.kafka
def test_retrieving_one_error_does_not_cover_another_record(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=1_000) as producer:
        seen, _unseen = producer.send(topic, bytes(2_000)), producer.send(topic, bytes(2_000))
        seen.add_done_callback(lambda done: done.exception())
        with pytest.raises(UndeliveredError, match=r"^1 record failed and its error was never retrieved") as raised:
            producer.flush(WAIT)

    assert raised.value.report.topics == {topic: TopicReport(failed=2)}
    assert isinstance(raised.value.__cause__, DeliveryError)


@pytest.mark.kafka
def test_leaving_the_with_block_raises_errors_that_were_not_retrieved(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes=1_000)

    with (
        pytest.raises(UndeliveredError, match="MESSAGE_TOO_LARGE"),
        Producer(bootstrap_servers=kafka.bootstrap_servers) as producer,
    ):
        producer.send(topic, bytes(5_000))


def test_records_refused_for_lack_of_memory_are_in_no_report(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    producer = Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        buffer_memory=100_000,
        max_request_size=50_000,
        max_block_ms=2_000,
        delivery_timeout_ms=MINUTES,
    )
    producer.send("t", b"known").result(WAIT)
    for broker in mock_cluster.brokers:
        mock_cluster.broker_down(broker)
    queued: list[Delivery] = []
    with pytest.raises(BufferExhaustedError):
        queued.extend(producer.send("t", bytes(10_000)) for _ in range(1_000))
    for broker in mock_cluster.brokers:
        mock_cluster.broker_up(broker)

    assert producer.close().topics == {"t": TopicReport(acknowledged=1 + len(queued))}
