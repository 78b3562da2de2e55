"""A leader that appended a record and lost its partition before the answer: no later record is lost for it.

The old leader answers NOT_LEADER_OR_FOLLOWER, the new one has the record and cannot be reached until it is given up.
`OTTLA_SOAK` runs each story twenty times, and those of more versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from long_forms import LONG
from moving_leaders import FROM, TO, MovingLeaders, until

from ottla import Delivery, DeliveryError, Producer
from ottla.errors import OttlaError
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.jars import KAFKA_VERSION
from ottla_testkit.pytest_plugin import go_without
from transactions_kit import WAIT, new_id, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMES = 20 if LONG else 1
VERSIONS = [KAFKA_VERSION, "3.9.1"] if LONG else ["3.9.1"]
UNCOMMITTED = "read_uncommitted"
GIVE_UP_MS = 15_000 if LONG else 7_000  # a long run may share its processors
HASTY = {
    "linger.ms": 0,
    "delivery.timeout.ms": GIVE_UP_MS,
    "request.timeout.ms": GIVE_UP_MS - 500,
    "reconnect.backoff.max.ms": 300,
}


@pytest.fixture(scope="module", params=VERSIONS)
def brokers(request: pytest.FixtureRequest) -> Iterator[MovingLeaders]:
    """Three brokers with a topic for each run of each scenario."""
    cluster = MovingLeaders(version=request.param)
    try:
        cluster.__enter__()
    except KafkaUnavailableError as error:
        go_without(error)
    with closing(cluster):
        cluster.create_topics([f"{story}-{time}" for story in ("plain", "transactions") for time in range(TIMES)])
        yield cluster


def give_up_after_the_append(brokers: MovingLeaders, producer: Producer, topic: str) -> DeliveryError:
    """Send a record that the old leader appends and refuses, the new one has, and the producer gives up."""
    sizes = {node: brokers.size(topic, node) for node in (FROM, TO)}
    with brokers.lagging():
        doubtful = producer.send(topic, b"doubtful")
        until(lambda: all(brokers.size(topic, node) > size for node, size in sizes.items()))
        assert not doubtful.done()
        brokers.move_leader(topic)
        error = doubtful.exception(WAIT)
    assert isinstance(error, DeliveryError)
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)
    return error


def acknowledged(deliveries: dict[bytes, Delivery]) -> list[bytes]:
    return [value for value, delivery in deliveries.items() if delivery.exception(WAIT) is None]


@pytest.mark.thorough("needs a cluster of three; test_batches_in_doubt.py has the rule, with simulated brokers")
@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("time", range(TIMES))
def test_a_record_after_a_maybe_written_one_has_the_right_offset(brokers: MovingLeaders, time: int) -> None:
    topic = f"plain-{time}"
    with Producer({"bootstrap.servers": brokers.client_servers, **HASTY}) as producer:
        sent = {b"before": producer.send(topic, b"before")}
        sent[b"before"].result(WAIT)
        error = give_up_after_the_append(brokers, producer, topic)
        for value in (b"next", b"last"):
            sent[value] = producer.send(topic, value)
            sent[value].exception(WAIT)
    [log] = read(brokers.near_servers, topic, isolation=UNCOMMITTED, after_markers=False)

    assert [value for value in log if value != b"doubtful"] == acknowledged(sent)
    assert log == [b"before", b"doubtful", b"next", b"last"]
    assert [log[delivery.result(0).offset] for delivery in sent.values()] == [b"before", b"next", b"last"]
    assert error.possibly_persisted


@pytest.mark.thorough("the same as of records without a transaction")
@pytest.mark.rule("sender.retry.corrects")
@pytest.mark.parametrize("time", range(TIMES))
def test_a_transaction_after_a_maybe_written_one_keeps_its_records(brokers: MovingLeaders, time: int) -> None:
    topic = f"transactions-{time}"
    settings = {"bootstrap.servers": brokers.client_servers, "transactional.id": new_id(), "max.block.ms": 60_000}
    with Producer({**settings, **HASTY}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"before").result(WAIT)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"aborted").result(WAIT)
        error = give_up_after_the_append(brokers, producer, topic)
        producer.abort_transaction()
        committed = [b"before"]
        for value in (b"next", b"last"):
            producer.begin_transaction()
            producer.send(topic, value)
            try:
                producer.commit_transaction()
            except OttlaError:
                producer.abort_transaction()
            else:
                committed.append(value)
    [log] = read(brokers.near_servers, topic)

    assert log == committed
    assert committed == [b"before", b"next", b"last"]
    assert error.possibly_persisted
