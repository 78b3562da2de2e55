import time

import pytest

from ottla_testkit.errors import MockError
from ottla_testkit.mock_cluster import DISCONNECT, MockCluster

confluent_kafka = pytest.importorskip("confluent_kafka")

PRODUCE = 0
NOT_LEADER, TOPIC_AUTHORIZATION_FAILED = 6, 29
WITHIN = 20.0


@pytest.fixture
def mock(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("t", partitions=1)
    mock_cluster.start_tracking()
    return mock_cluster


def outcomes(mock: MockCluster, value: bytes) -> list[str | None]:
    """The error, by name, of producing one value."""
    settings = {"bootstrap.servers": mock.bootstrap_servers, "log_level": 0, "retry.backoff.ms": 10}
    producer, names = confluent_kafka.Producer(settings), []
    try:
        producer.produce("t", value, on_delivery=lambda error, _: names.append(error and error.name()))
    except confluent_kafka.KafkaException as error:  # librdkafka knew the topic's error before the call
        names.append(error.args[0].name())
    assert producer.flush(WITHIN) == 0
    return names


def test_every_broker_is_a_bootstrap_server(mock: MockCluster) -> None:
    assert len(mock.bootstrap_servers.split(",")) == 3
    assert mock.brokers == [1, 2, 3]


@pytest.mark.parametrize("error", [NOT_LEADER, DISCONNECT])
def test_a_producer_retries_after_a_pushed_error(mock: MockCluster, error: int) -> None:
    mock.push_errors(PRODUCE, [error, 0])

    assert outcomes(mock, b"a") == [None]
    assert mock.request_count(PRODUCE) == 2


def test_a_permanent_error_reaches_the_caller(mock: MockCluster) -> None:
    mock.push_errors(PRODUCE, [TOPIC_AUTHORIZATION_FAILED])

    assert outcomes(mock, b"a") == ["TOPIC_AUTHORIZATION_FAILED"]


def test_cleared_errors_are_never_returned(mock: MockCluster) -> None:
    mock.push_errors(PRODUCE, [TOPIC_AUTHORIZATION_FAILED] * 3)
    mock.clear_errors(PRODUCE)

    assert outcomes(mock, b"a") == [None]


def test_a_topic_can_be_configured_to_fail(mock: MockCluster) -> None:
    mock.set_topic_error("t", TOPIC_AUTHORIZATION_FAILED)

    assert outcomes(mock, b"a") == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_requests_go_to_the_leader_that_was_set(mock: MockCluster, broker: int) -> None:
    mock.set_leader("t", 0, broker)

    assert outcomes(mock, b"a") == [None]
    assert [broker] == [request.broker for request in mock.requests() if request.api_key == PRODUCE]

    mock.clear_requests()

    assert mock.requests() == []


def test_records_wait_for_a_broker_that_is_down(mock: MockCluster) -> None:
    mock.set_leader("t", 0, 2)
    mock.broker_down(2)
    settings = {"bootstrap.servers": mock.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 100}
    producer = confluent_kafka.Producer(settings)
    producer.produce("t", b"a")

    assert producer.flush(0.3) == 1

    mock.broker_up(2)

    assert producer.flush(WITHIN) == 0


def test_responses_take_the_configured_time(mock: MockCluster) -> None:
    mock.set_leader("t", 0, 1)
    mock.set_rtt(1, 0.3)
    start = time.monotonic()

    assert outcomes(mock, b"a") == [None]
    assert time.monotonic() - start >= 0.3


def test_an_api_can_be_limited_to_some_versions(mock: MockCluster) -> None:
    mock.set_api_version(PRODUCE, lowest=3, highest=7)

    assert outcomes(mock, b"a") == [None]


def test_a_refused_call_has_the_reason(mock: MockCluster) -> None:
    with pytest.raises(MockError, match="mock_topic_create"):
        mock.create_topic("t", replication=9)


def test_a_closed_cluster_refuses_calls_but_not_a_second_close() -> None:
    mock = MockCluster()
    mock.close()
    mock.close()

    with pytest.raises(MockError, match="is closed"):
        mock.start_tracking()
