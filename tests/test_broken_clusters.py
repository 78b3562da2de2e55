"""Brokers that die, that are not there, that are no brokers: nothing is lost in silence, and errors say why."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ottla import DeliveryTimeoutError, FlushTimeoutError, OttlaError, Producer, TopicUnavailableError
from ottla.errors import NameResolutionError
from ottla.protocol import METADATA, PRODUCE
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, ProduceErrorAction
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import DISCONNECT, MockCluster
from readback import read_back

WAIT = 60.0
HANG_GUARD = 300.0
MINUTES = 600_000


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_killed_and_restarted_in_the_middle_loses_nothing(spare_kafka: KafkaCluster) -> None:
    """Without idempotence a retry may double a record; none may be missing."""
    count = 100_000
    spare_kafka.create_topic("t", partitions=4)

    def kill_and_restart() -> None:
        spare_kafka.kill(1)
        spare_kafka.start(1)

    killer = threading.Thread(target=kill_and_restart)
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        for number in range(count):
            if number == count // 2:
                killer.start()
            producer.send("t", b"%d" % number)
        report = producer.flush(HANG_GUARD)
        killer.join(HANG_GUARD)
    values = {record.value for record in read_back(spare_kafka.bootstrap_servers, "t", partitions=4)}

    assert report.acknowledged == count
    assert values == {b"%d" % number for number in range(count)}


@pytest.mark.thorough("test_idempotence_on_three_brokers.py kills leaders, too")
@pytest.mark.kafka
@pytest.mark.slow
def test_the_loss_of_a_leader_loses_no_record(three_kafkas: KafkaCluster) -> None:
    count = 30_000
    topic = "lost-leader"  # no other test's: one test's "t" has min.insync.replicas of its own
    three_kafkas.create_topic(topic, partitions=3, replication=3)
    with Producer(bootstrap_servers=three_kafkas.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        for number in range(count):
            if number == count // 2:
                three_kafkas.kill(three_kafkas.leader(topic, 0))
            producer.send(topic, b"%d" % number, partition=number % 3)
        report = producer.flush(HANG_GUARD)
    alive = ",".join("{}:{}".format(*three_kafkas.address(node)) for node in three_kafkas.running)
    values = {record.value for record in read_back(alive, topic, partitions=3)}

    assert report.acknowledged == count
    assert values == {b"%d" % number for number in range(count)}


@pytest.mark.rule("producer.flush.timeout")
@pytest.mark.kafka
def test_with_a_frozen_broker_a_flush_ends_in_time_and_drops_nothing(spare_kafka: KafkaCluster) -> None:
    spare_kafka.create_topic("t")
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        producer.send("t", b"before").result(WAIT)
        spare_kafka.pause(1)
        for _ in range(10):
            producer.send("t", b"during")
        with pytest.raises(FlushTimeoutError, match="10 pending") as caught:
            producer.flush(0.5)
        spare_kafka.resume(1)
        report = producer.flush(WAIT)

    assert caught.value.report.pending == 10
    assert report.acknowledged == 10


@pytest.mark.rule("producer.close.force")
@pytest.mark.kafka
def test_a_forced_close_does_not_wait_for_a_frozen_broker(spare_kafka: KafkaCluster) -> None:
    spare_kafka.create_topic("t")
    producer = Producer(bootstrap_servers=spare_kafka.bootstrap_servers, delivery_timeout_ms=MINUTES)
    producer.send("t", b"before").result(WAIT)
    spare_kafka.pause(1)
    errors: list[OttlaError | None] = []
    producer.send("t", b"during", on_delivery=lambda delivery: errors.append(delivery.error))
    closed = threading.Thread(target=producer.close, args=(0,), daemon=True)
    closed.start()
    closed.join(WAIT)
    spare_kafka.resume(1)

    assert not closed.is_alive()
    assert "the producer was closed" in str(errors[0])


@pytest.mark.kafka
def test_a_broker_that_starts_while_send_waits_is_found(spare_kafka: KafkaCluster) -> None:
    spare_kafka.create_topic("t")
    spare_kafka.stop(1)
    starter = threading.Thread(target=spare_kafka.start, args=(1,))
    with Producer(bootstrap_servers=spare_kafka.bootstrap_servers, max_block_ms=MINUTES) as producer:
        starter.start()
        delivery = producer.send("t", b"patient")
        assert delivery.result(WAIT).offset == 0
    starter.join(WAIT)


def test_a_broker_that_is_down_is_named_with_the_reason() -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:9", max_block_ms=2_000) as producer,
        pytest.raises(TopicUnavailableError, match=r"could not connect to 127\.0\.0\.1:9: ECONNREFUSED"),
    ):
        producer.send("t", b"v")


def test_a_name_that_does_not_resolve_is_named() -> None:
    with (
        Producer(bootstrap_servers="no-such-broker.invalid:9092", max_block_ms=2_000) as producer,
        pytest.raises(TopicUnavailableError, match=r"'no-such-broker\.invalid' has no address") as caught,
    ):
        producer.send("t", b"v")

    assert isinstance(caught.value.__cause__, NameResolutionError)


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of something that answers everything like a web server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    peer, _address = server.accept()
                except TimeoutError:
                    continue
                with peer:
                    peer.recv(1_000)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        stop.set()
        thread.join(WAIT)


def test_a_port_of_another_protocol_is_reported_as_not_kafka(web_server: int) -> None:
    with (
        Producer(bootstrap_servers=f"127.0.0.1:{web_server}", max_block_ms=2_000) as producer,
        pytest.raises(TopicUnavailableError, match="this is a web server"),
    ):
        producer.send("t", b"v")


# librdkafka's mock cluster: errors that a real broker cannot be made to answer with

RETRIED = [
    code
    for code, action in PRODUCE_ERROR_ACTIONS.items()
    if action in (ProduceErrorAction.RETRY, ProduceErrorAction.REFRESH)
]


@pytest.mark.parametrize("times", [1, 3])
def test_every_retriable_error_is_retried(mock_cluster: MockCluster, times: int) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, retry_backoff_ms=1) as producer:
        producer.send("t", b"known").result(WAIT)
        for code in RETRIED:
            mock_cluster.push_errors(PRODUCE.key, [code] * times)
            assert producer.send("t", code.name.encode()).result(WAIT).topic == "t", code.name


def test_connections_cut_instead_of_a_response_lose_nothing(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, reconnect_backoff_ms=1) as producer:
        producer.send("t", b"known").result(WAIT)
        for _ in range(5):
            mock_cluster.push_errors(PRODUCE.key, [DISCONNECT])
            producer.send("t", b"v").result(WAIT)


def test_a_leader_that_moves_is_followed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        for leader in (1, 2, 3, 1):
            mock_cluster.set_leader("t", 0, leader)
            producer.send("t", b"v").result(WAIT)


def test_a_broker_that_goes_away_and_comes_back_gets_its_records(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    mock_cluster.set_leader("t", 0, 2)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        producer.send("t", b"before").result(WAIT)
        mock_cluster.broker_down(2)
        delivery = producer.send("t", b"during")
        with pytest.raises(TimeoutError):
            delivery.result(0.3)
        mock_cluster.broker_up(2)
        delivery.result(WAIT)


def test_responses_after_the_request_timeout_end_with_delivery_timeout(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, request_timeout_ms=200, delivery_timeout_ms=2_000
    ) as producer:
        producer.send("t", b"known").result(WAIT)
        for broker in mock_cluster.brokers:
            mock_cluster.set_rtt(broker, 5.0)
        started = time.monotonic()
        error = producer.send("t", b"v").exception(WAIT)
        producer.close(0)

    assert isinstance(error, DeliveryTimeoutError)
    assert error.possibly_persisted
    assert time.monotonic() - started < WAIT


def test_metadata_errors_are_retried(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    mock_cluster.start_tracking()
    mock_cluster.push_errors(METADATA.key, [DISCONNECT] * 3)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("t", b"v").result(WAIT)
    assert mock_cluster.request_count(METADATA.key) >= 4


@pytest.mark.slow
def test_close_waits_until_a_slow_broker_has_taken_acks_0_records(kafka: KafkaCluster) -> None:
    topic = "unacknowledged-and-closed"
    kafka.create_topic(topic)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers, acks=0, metadata_max_age_ms=100)
    producer.send(topic, b"first")
    producer.flush()
    kafka.pause(1)
    for _ in range(300):
        producer.send(topic, bytes(1_000))
    closing = threading.Thread(target=producer.close, args=(60.0,))
    closing.start()
    closing.join(1.0)
    kafka.resume(1)
    closing.join(60.0)

    assert not closing.is_alive()
    assert kafka.end_offset(topic) == 301
