"""Answers that a healthy cluster does not give, from librdkafka's mock: every final error, lateness, silence."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ottla import BrokerError, DeliveryError, DeliveryTimeoutError, ErrorCode, Producer, TopicUnavailableError
from ottla.protocol import PRODUCE
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, SEQUENCE_ERRORS, ProduceErrorAction
from ottla.sender.produce_error_origins import REFUSED_BEFORE_APPEND
from ottla_testkit.mock_cluster import DISCONNECT, MockCluster

WAIT = 60.0
MINUTES = 600_000
RESULT_TIMEOUT = 0.3

FINAL = [
    code
    for code, action in PRODUCE_ERROR_ACTIONS.items()
    if action in (ProduceErrorAction.FAIL, ProduceErrorAction.TOO_LARGE)
    and code not in SEQUENCE_ERRORS  # those get new sequences
]


def test_every_permanent_error_is_named_at_the_first_attempt(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("t", b"known").result(WAIT)
        for code in FINAL:
            mock_cluster.push_errors(PRODUCE.key, [code])
            error = producer.send("t", b"v").exception(WAIT)

            assert isinstance(error, DeliveryError), code.name
            assert isinstance(error.__cause__, BrokerError), code.name
            assert error.__cause__.code is code
            assert code.name in str(error)
            assert error.attempts == 1
            assert error.possibly_persisted is (code not in REFUSED_BEFORE_APPEND)
            producer.send("t", b"next").result(WAIT)


def test_with_zero_retries_the_first_error_is_final(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, retries=0) as producer:
        producer.send("t", b"known").result(WAIT)
        mock_cluster.push_errors(PRODUCE.key, [ErrorCode.NOT_LEADER_OR_FOLLOWER])
        error = producer.send("t", b"v").exception(WAIT)

    assert error is not None
    assert error.attempts == 1
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)


def test_an_endless_error_is_named_at_the_delivery_timeout(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, request_timeout_ms=500, delivery_timeout_ms=2_000
    ) as producer:
        producer.send("t", b"known").result(WAIT)
        mock_cluster.push_errors(PRODUCE.key, [ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        error = producer.send("t", b"v").exception(WAIT)

    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert error.attempts > 1


def test_a_late_response_leads_to_a_retry(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(
        bootstrap_servers=mock_cluster.bootstrap_servers, request_timeout_ms=200, delivery_timeout_ms=MINUTES
    ) as producer:
        producer.send("t", b"known").result(WAIT)
        for broker in mock_cluster.brokers:
            mock_cluster.set_rtt(broker, 2.0)
        delivery = producer.send("t", b"v")
        with pytest.raises(TimeoutError):
            delivery.result(RESULT_TIMEOUT)
        for broker in mock_cluster.brokers:
            mock_cluster.set_rtt(broker, 0)

        assert delivery.result(WAIT).topic == "t"


def test_a_record_whose_connection_was_cut_is_maybe_written(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, retries=0) as producer:
        producer.send("t", b"known").result(WAIT)
        mock_cluster.push_errors(PRODUCE.key, [DISCONNECT])
        error = producer.send("t", b"v").exception(WAIT)
        report = producer.flush(WAIT)

    assert error is not None
    assert error.possibly_persisted
    assert (report.failed, report.possibly_persisted) == (1, 1)


def test_a_partition_without_a_leader_delays_no_other(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_api_version(PRODUCE.key, lowest=3, highest=9)  # librdkafka 2.x dies of version 10 without a leader
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers, delivery_timeout_ms=MINUTES) as producer:
        producer.send("t", b"known", partition=0).result(WAIT)
        mock_cluster.set_leader("t", 1, -1)
        stuck = producer.send("t", b"v", partition=1)
        for _ in range(100):
            producer.send("t", b"v", partition=0).result(WAIT)
        assert not stuck.done()

        mock_cluster.set_leader("t", 1, 3)

        assert stuck.result(WAIT).partition == 1


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The port of something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_broker_that_never_responds_is_named(silent_port: int) -> None:
    with (
        Producer(bootstrap_servers=f"127.0.0.1:{silent_port}", max_block_ms=500) as producer,
        pytest.raises(TopicUnavailableError, match="no broker answered"),
    ):
        producer.send("t", b"v")
