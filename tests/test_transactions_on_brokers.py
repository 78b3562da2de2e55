"""Transactions on real brokers, of the old protocol and the new, verified by other clients' readers."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition

from ottla import ErrorCode, Producer
from ottla.errors import (
    AbortableTransactionError,
    BrokerError,
    IllegalStateError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from ottla.transactions import ConsumerGroupMetadata, OffsetAndMetadata
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import (
    UNCOMMITTED,
    WAIT,
    await_true,
    committed,
    finished,
    group_offsets,
    new_id,
    numbered,
    program,
    read,
    said,
    send,
    transactional,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MANY = 60


@pytest.mark.distance
@pytest.mark.generations("all")
def test_committed_records_are_visible_exactly_from_the_commit_on(broker: KafkaCluster, topic: str) -> None:
    servers = broker.bootstrap_servers
    with transactional(broker) as producer:
        producer.init_transactions()
        for round_ in range(2):
            with producer.transaction():
                send(producer, topic, numbered(range(10 * round_, 10 * round_ + 10)))
                producer.flush(WAIT)
                before = read(servers, topic, partitions=3, after_markers=False)
                open_ones = read(servers, topic, partitions=3, isolation=UNCOMMITTED, after_markers=False)
            after = committed(broker, topic)

            assert before == [numbered(range(10 * round_))] * 3
            assert open_ones == after == [numbered(range(10 * round_ + 10))] * 3


@pytest.mark.distance
@pytest.mark.generations("all")
def test_aborted_records_are_never_visible_to_read_committed(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            send(producer, topic, [b"%d" % number])
            if number % 2:
                producer.flush(WAIT)
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    assert committed(broker, topic) == [numbered([0, 2, 4])] * 3
    assert read(broker.bootstrap_servers, topic, partitions=3, isolation=UNCOMMITTED) == [numbered(range(6))] * 3


def test_records_queued_at_an_abort_are_dropped_and_reported_as_such(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker, linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        dropped = producer.send(topic, b"dropped", partition=0)
        producer.abort_transaction()
        with producer.transaction():
            kept = producer.send(topic, b"kept", partition=0)

        assert isinstance(dropped.exception(WAIT), TransactionAbortedError)
        assert kept.result(WAIT).partition == 0
    assert committed(broker, topic) == [[b"kept"], [], []]
    assert read(broker.bootstrap_servers, topic, isolation=UNCOMMITTED) == [[b"kept"]]


def test_a_with_block_that_raises_is_aborted_and_raises_its_own_error(broker: KafkaCluster, topic: str) -> None:
    class OnPurpose(Exception):
        """The body's own."""

    def break_off(producer: Producer) -> None:
        with producer.transaction():
            send(producer, topic, [b"no"])
            producer.flush(WAIT)
            raise OnPurpose

    with transactional(broker) as producer:
        producer.init_transactions()
        with pytest.raises(OnPurpose):
            break_off(producer)
        with producer.transaction():
            send(producer, topic, [b"yes"])

    assert committed(broker, topic) == [[b"yes"]] * 3


def test_empty_transactions_can_be_committed_and_aborted(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker) as producer:
        producer.init_transactions()
        for number in range(3):
            with producer.transaction():
                pass
            producer.begin_transaction()
            producer.abort_transaction()
            with producer.transaction():
                send(producer, topic, [b"%d" % number])

    assert committed(broker, topic) == [numbered(range(3))] * 3


@pytest.mark.distance
def test_many_partitions_are_committed_or_aborted_together(broker: KafkaCluster) -> None:
    topic = new_id()
    broker.create_topic(topic, partitions=MANY)
    with transactional(broker) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            send(producer, topic, [b"%d" % number], partitions=MANY)
            if number == 2:
                producer.flush(WAIT)
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    assert read(broker.bootstrap_servers, topic, partitions=MANY) == [numbered([0, 1, 3])] * MANY


@pytest.mark.distance
@pytest.mark.generations("all")
def test_offsets_are_committed_or_aborted_with_the_records(broker: KafkaCluster, topic: str) -> None:
    group = new_id()
    seen = []
    with transactional(broker) as producer:
        producer.init_transactions()
        for number, ends_well in enumerate([True, False, True], start=1):
            producer.begin_transaction()
            send(producer, topic, [b"%d" % number])
            producer.send_offsets_to_transaction({(topic, 0): number, (topic, 2): 10 * number}, group)
            if ends_well:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            seen.append(group_offsets(broker.bootstrap_servers, group, topic, partitions=3))

    assert seen == [[1, -1, 10], [1, -1, 10], [3, -1, 30]]
    assert committed(broker, topic) == [numbered([1, 3])] * 3


def test_a_transaction_may_consist_of_offsets_only(broker: KafkaCluster, topic: str) -> None:
    group = new_id()
    with transactional(broker) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send_offsets_to_transaction({(topic, 1): 7}, group)

    assert group_offsets(broker.bootstrap_servers, group, topic, partitions=3) == [-1, 7, -1]


@pytest.mark.generations(since="2.5")
def test_offsets_of_an_unknown_group_member_are_refused_until_an_abort(broker: KafkaCluster, topic: str) -> None:
    group = new_id()
    another = ConsumerGroupMetadata(group, generation_id=7, member_id="another")
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"no"])
        with pytest.raises(AbortableTransactionError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({(topic, 0): 1}, another)
        producer.abort_transaction()
        with producer.transaction():
            send(producer, topic, [b"yes"])
            producer.send_offsets_to_transaction({(topic, 0): OffsetAndMetadata(2, "a note")}, group)

    assert committed(broker, topic) == [[b"yes"]] * 3
    assert group_offsets(broker.bootstrap_servers, group, topic) == [2]


def await_partitions(consumers: Sequence[Consumer], counts: Sequence[int]) -> None:
    """Poll the consumers until they have so many partitions, in any order."""

    def assigned() -> bool:
        for consumer in consumers:
            consumer.poll(0.1)
        return sorted(len(consumer.assignment()) for consumer in consumers) == list(counts)

    await_true(assigned)


@pytest.mark.generations(since="2.5")
def test_offsets_of_a_consumer_that_lost_a_partition_are_refused(broker: KafkaCluster, topic: str) -> None:
    """The consumers are confluent-kafka's, and say by themselves what they have read and which generation they are."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": new_id(), "auto.offset.reset": "earliest"}
    first, second = (Consumer({**settings, "enable.auto.commit": False}) for _ in range(2))
    with transactional(broker) as producer, closing(first), closing(second):
        producer.init_transactions()
        with producer.transaction():
            send(producer, topic, [b"0", b"1"])
        first.subscribe([topic])
        await_partitions([first], [3])
        outdated = first.consumer_group_metadata()
        second.subscribe([topic])
        await_partitions([first, second], [1, 2])

        read_to_end = [TopicPartition(place.topic, place.partition, 2) for place in first.assignment()]
        producer.begin_transaction()
        with pytest.raises(AbortableTransactionError, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction(read_to_end, outdated)
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction(read_to_end, first.consumer_group_metadata())

        assert {place.offset for place in first.committed(first.assignment(), timeout=10)} == {2}
        assert {place.offset for place in second.committed(second.assignment(), timeout=10)} == {OFFSET_INVALID}


KILLED_IN_THE_MIDDLE = """
    import sys
    from ottla import Producer
    servers, topic, name = sys.argv[1:]
    producer = Producer(bootstrap_servers=servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(3):
        producer.send(topic, b"lost", partition=partition)
    producer.flush(60)
    print("flushed")
    sys.stdin.readline()
"""


@pytest.mark.distance
def test_uncommitted_records_of_a_killed_program_are_aborted_by_the_next(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    with program(KILLED_IN_THE_MIDDLE, broker.bootstrap_servers, topic, name) as child:
        said(child, "flushed")
        child.kill()
    with transactional(broker, name) as producer:
        producer.init_transactions()
        with producer.transaction():
            send(producer, topic, [b"kept"])

    assert committed(broker, topic) == [[b"kept"]] * 3
    assert read(broker.bootstrap_servers, topic, partitions=3, isolation=UNCOMMITTED) == [[b"lost", b"kept"]] * 3


@pytest.mark.distance
@pytest.mark.generations("all")
def test_a_second_producer_of_an_id_fences_the_first_permanently(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    with transactional(broker, name) as first, transactional(broker, name) as second:
        first.init_transactions()
        first.begin_transaction()
        send(first, topic, [b"fenced"])
        first.flush(WAIT)
        second.init_transactions()
        with second.transaction():
            send(second, topic, [b"kept"])

        with pytest.raises(ProducerFencedError, match=name):
            first.commit_transaction()
        with pytest.raises(ProducerFencedError):
            first.begin_transaction()
        with second.transaction():
            send(second, topic, [b"again"])

    assert committed(broker, topic) == [[b"kept", b"again"]] * 3


def test_a_fenced_producer_cannot_write(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    with transactional(broker, name) as first, transactional(broker, name) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"before", partition=0).result(WAIT)
        second.init_transactions()
        error = first.send(topic, b"after", partition=0).exception(WAIT)

        assert error is not None
        with pytest.raises(TransactionError):
            first.commit_transaction()

    assert committed(broker, topic) == [[], [], []]
    assert read(broker.bootstrap_servers, topic, isolation=UNCOMMITTED) == [[b"before"]]


def test_a_transaction_aborted_by_the_coordinator_has_a_clear_remedy(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    with transactional(broker, name, transaction_timeout_ms=1_000) as slow:
        slow.init_transactions()
        slow.begin_transaction()
        send(slow, topic, [b"too slow"])
        slow.flush(WAIT)
        await_true(lambda: read(broker.bootstrap_servers, topic, partitions=3) == [[], [], []])  # with markers

        with pytest.raises(TransactionError) as caught:
            slow.commit_transaction()
        if isinstance(caught.value, AbortableTransactionError):
            slow.abort_transaction()
            with slow.transaction():
                send(slow, topic, [b"kept"])
    if not isinstance(caught.value, AbortableTransactionError):
        with transactional(broker, name) as next_one:
            next_one.init_transactions()
            with next_one.transaction():
                send(next_one, topic, [b"kept"])

    assert committed(broker, topic) == [[b"kept"]] * 3


def test_a_timeout_above_the_broker_limit_is_refused_with_both_settings(broker: KafkaCluster) -> None:
    with (
        transactional(broker, transaction_timeout_ms=1_000_000) as producer,
        pytest.raises(TransactionError, match=r"transaction\.timeout\.ms") as caught,
    ):
        producer.init_transactions()

    assert isinstance(caught.value.__cause__, BrokerError)
    assert caught.value.__cause__.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_send_outside_of_a_transaction_is_refused_and_harmless(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker) as producer:
        with pytest.raises((IllegalStateError, TransactionError), match="init_transactions"):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises((IllegalStateError, TransactionError), match="begin_transaction"):
            producer.send(topic, b"outside", partition=0)
        with producer.transaction():
            send(producer, topic, [b"inside"])

    assert committed(broker, topic) == [[b"inside"]] * 3


def test_a_frozen_program_that_wakes_up_after_its_successor_is_harmless(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    zombie = (
        KILLED_IN_THE_MIDDLE
        + """
    try:
        producer.commit_transaction()
    except Exception as error:
        print(type(error).__name__)
    """
    )
    with program(zombie, broker.bootstrap_servers, topic, name) as child:
        said(child, "flushed")
        os.kill(child.pid, signal.SIGSTOP)
        with transactional(broker, name) as producer:
            producer.init_transactions()
            with producer.transaction():
                send(producer, topic, [b"kept"])
            os.kill(child.pid, signal.SIGCONT)
            assert child.stdin is not None
            child.stdin.write("\n")
            words = finished(child).split()

    assert words == ["ProducerFencedError"]
    assert committed(broker, topic) == [[b"kept"]] * 3
