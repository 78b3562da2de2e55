"""Streams of records through errors that librdkafka's mock answers with: none is lost, none overtakes another.

What one lone record goes through is in test_broken_clusters and test_odd_answers; here many are on their way.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from long_forms import LONG

from ottla import BrokerError, Delivery, DeliveryError, DeliveryTimeoutError, ErrorCode, Producer
from ottla.protocol import METADATA, PRODUCE
from ottla_testkit.mock_cluster import DISCONNECT, MockCluster
from readback import read_back

WAIT = 60.0
MINUTES = 600_000
LOOK_AGAIN = 0.01
MORE_THAN_ENOUGH = 10_000

RETRIABLE = [code for code in ErrorCode if code.retriable]


def _producer(cluster: MockCluster, **settings: Any) -> Producer:
    """In order, in batches of some ten records, which a batch that grows while it waits would hide."""
    usual = {
        "max.in.flight.requests.per.connection": 1,
        "batch.size": 400,
        "batch.growth.enable": False,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 20,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 20,
        "delivery.timeout.ms": MINUTES,
    }
    return Producer({"bootstrap.servers": cluster.bootstrap_servers} | usual | settings)


def _values(count: int, *, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def _send(producer: Producer, values: Iterable[bytes], *, partitions: int = 2) -> list[Delivery]:
    """Send each of *values* to each partition, in turn."""
    return [producer.send("t", value, partition=each) for value in values for each in range(partitions)]


def _offsets(deliveries: Sequence[Delivery], *, partitions: int = 2) -> list[list[int]]:
    """The offsets of what `_send` sent, by partition, in the order of sending."""
    return [[delivery.result(WAIT).offset for delivery in deliveries[each::partitions]] for each in range(partitions)]


def _log(cluster: MockCluster, *, partitions: int = 2) -> list[list[bytes | None]]:
    """The values that each partition holds, by offset."""
    found = read_back(cluster.bootstrap_servers, "t", partitions=partitions)
    return [[record.value for record in found if record.partition == each] for each in range(partitions)]


def _await(condition: Callable[[], bool]) -> None:
    """Nothing reports an event on a mock broker: poll until it is there."""
    for _ in range(int(WAIT / LOOK_AGAIN)):
        if condition():
            return
        threading.Event().wait(LOOK_AGAIN)
    raise AssertionError(f"not within {WAIT} s")


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("code", RETRIABLE, ids=lambda code: code.name)
def test_a_stream_survives_a_retriable_error_in_order(mock_cluster: MockCluster, code: ErrorCode, times: int) -> None:
    """Every retriable code: brokers answer Produce with a few of them only, but may pass on any."""
    mock_cluster.create_topic("t", partitions=2)
    with _producer(mock_cluster) as producer:
        assert _offsets(_send(producer, [b"known"])) == [[0], [0]]
        mock_cluster.push_errors(PRODUCE.key, [code] * times)
        mock_cluster.start_tracking()

        sent = _send(producer, _values(50))

        assert _offsets(sent) == [list(range(1, 51))] * 2
        assert mock_cluster.request_count(PRODUCE.key) > times


@pytest.mark.parametrize("code", RETRIABLE, ids=lambda code: code.name)
def test_a_permanent_retriable_error_is_reported_with_its_history(mock_cluster: MockCluster, code: ErrorCode) -> None:
    mock_cluster.create_topic("t", partitions=2)
    with _producer(mock_cluster, **{"request.timeout.ms": 300, "delivery.timeout.ms": 500, "linger.ms": 0}) as producer:
        assert _offsets(_send(producer, [b"known"])) == [[0], [0]]
        mock_cluster.push_errors(PRODUCE.key, [code] * MORE_THAN_ENOUGH)

        error = producer.send("t", b"v", partition=1).exception(WAIT)

    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is code
    assert (error.topic, error.partition) == ("t", 1)
    assert error.attempts > 1
    reported = re.search(
        r"^1 record for topic 't', partition 1 was not delivered within delivery\.timeout\.ms: \S+ s after .* "
        rf"\({error.attempts} attempts, (\S+) s in the queue and (\S+) s in flight, last to broker 2, "
        rf"last error: {code.name} \({code.value}\): ",
        str(error),
    )
    assert reported is not None, str(error)
    assert 0.5 <= float(reported[1]) + float(reported[2]) < WAIT


@pytest.mark.parametrize(
    "code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_a_written_record_without_an_acknowledgement_is_maybe_written(
    mock_cluster: MockCluster, code: ErrorCode
) -> None:
    mock_cluster.create_topic("t", partitions=2)
    with _producer(mock_cluster, retries=0) as producer:
        assert _offsets(_send(producer, [b"known"])) == [[0], [0]]
        mock_cluster.push_errors(PRODUCE.key, [code])
        error = producer.send("t", b"v", partition=0).exception(WAIT)

    assert error is not None
    assert error.possibly_persisted


def test_a_permanent_error_fails_only_its_own_batch(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    with _producer(mock_cluster) as producer:
        _send(producer, [b"known"], partitions=1)[0].result(WAIT)
        mock_cluster.push_errors(PRODUCE.key, [ErrorCode.NONE, ErrorCode.INVALID_RECORD])

        sent = _send(producer, _values(100), partitions=1)
        errors = [delivery.exception(WAIT) for delivery in sent]

    refused = [number for number, error in enumerate(errors) if error is not None]
    taken = [delivery.result().offset for delivery, error in zip(sent, errors, strict=True) if error is None]
    assert refused == list(range(refused[0], refused[-1] + 1))
    assert 0 < refused[0] <= refused[-1] < 99
    assert taken == list(range(1, 101 - len(refused)))


def test_leader_changes_during_a_stream_lose_and_reorder_nothing(mock_cluster: MockCluster) -> None:
    rounds = 200 if LONG else 12
    mock_cluster.create_topic("t", partitions=2)
    brokers = itertools.cycle(mock_cluster.brokers)
    sent: list[Delivery] = []
    with _producer(mock_cluster) as producer:
        for number in range(rounds):
            for partition in range(2):
                mock_cluster.set_leader("t", partition, next(brokers))
            sent += _send(producer, _values(50, start=50 * number))
            sent[-1 - number].result(WAIT)  # now and then with nothing under way, now and then with much

        assert _offsets(sent) == [list(range(50 * rounds))] * 2
    assert _log(mock_cluster) == [_values(50 * rounds)] * 2


def test_errors_in_every_fifth_response_lose_and_reorder_nothing(mock_cluster: MockCluster) -> None:
    records = 20_000 if LONG else 2_000
    mock_cluster.create_topic("t", partitions=2)
    kinds: list[int] = [DISCONNECT, *RETRIABLE]
    codes = [code for each in kinds for code in (0, 0, 0, 0, each)]
    with _producer(mock_cluster) as producer:
        mock_cluster.push_errors(PRODUCE.key, codes * (records // 1_000))
        mock_cluster.push_errors(METADATA.key, [0, DISCONNECT] * 10)
        sent = _send(producer, _values(records))

        assert _offsets(sent) == [list(range(records))] * 2
    assert _log(mock_cluster) == [_values(records)] * 2


def test_a_distant_cluster_gets_everything_once_and_in_order(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    for broker in mock_cluster.brokers:
        mock_cluster.set_rtt(broker, 0.2)
    with _producer(mock_cluster) as producer:
        sent = _send(producer, _values(50))
        assert _offsets(sent) == [list(range(50))] * 2
    assert _log(mock_cluster) == [_values(50)] * 2


def test_brokers_that_go_and_come_back_lose_and_reorder_nothing(mock_cluster: MockCluster) -> None:
    """Answers may be lost with a connection: a record may be there twice, and the one acknowledged is in its place."""
    rounds = 60 if LONG else 6
    mock_cluster.create_topic("t", partitions=2)
    sent: list[Delivery] = []
    with _producer(mock_cluster) as producer:
        for number in range(rounds):
            broker = 1 + number % 2  # the leaders
            sent += _send(producer, _values(50, start=100 * number))
            mock_cluster.broker_down(broker)
            sent += _send(producer, _values(50, start=100 * number + 50))
            with pytest.raises(TimeoutError):
                sent[-3 + broker].result(2 * LOOK_AGAIN)
            mock_cluster.broker_up(broker)
            sent[-1].result(WAIT)
        offsets = _offsets(sent)

    log = _log(mock_cluster)
    for each in range(2):
        assert offsets[each] == sorted(set(offsets[each]))
        assert [log[each][offset] for offset in offsets[each]] == _values(100 * rounds)


@pytest.fixture
def slow_to_answer(mock_cluster: MockCluster) -> MockCluster:
    """A topic whose only partition is written at once, and acknowledged much later."""
    mock_cluster.create_topic("t")
    return mock_cluster


def _lose_the_answer(cluster: MockCluster, producer: Producer, values: Iterable[bytes]) -> list[Delivery]:
    """Send, and cut the connection between the broker's writing and its answer.

    The producer must push no metrics: with one request in flight, a late answer to those would hold the records back.
    """
    producer.send("t", b"known").result(WAIT)
    cluster.set_rtt(1, WAIT)
    cluster.start_tracking()
    sent = _send(producer, values, partitions=1)
    _await(lambda: cluster.request_count(PRODUCE.key) > 0)
    cluster.broker_down(1)
    cluster.set_rtt(1, 0)
    cluster.broker_up(1)
    return sent


def test_a_response_lost_after_the_write_may_duplicate_but_not_lose(slow_to_answer: MockCluster) -> None:
    with _producer(slow_to_answer, **{"enable.metrics.push": False}) as producer:
        sent = _lose_the_answer(slow_to_answer, producer, _values(100))
        [offsets] = _offsets(sent, partitions=1)

    [log] = _log(slow_to_answer, partitions=1)
    doubled = len(log) - 101
    assert 0 < doubled < 100
    assert log == [b"known", *_values(doubled), *_values(100)]
    assert offsets == list(range(1 + doubled, 101 + doubled))


def test_a_lost_response_without_a_retry_is_reported_as_maybe_written(
    slow_to_answer: MockCluster,
) -> None:
    with _producer(slow_to_answer, **{"retries": 0, "enable.metrics.push": False}) as producer:
        [delivery] = _lose_the_answer(slow_to_answer, producer, [b"written"])
        error = delivery.exception(WAIT)

    assert isinstance(error, DeliveryError)
    assert error.possibly_persisted
    assert error.attempts == 1
    assert "the broker may have written them" in str(error)
    assert _log(slow_to_answer, partitions=1) == [[b"known", b"written"]]
