"""Transactions ended from outside: by another process after a crash, twice, too late, or as another user's remains."""

from __future__ import annotations

import attrs
import pytest

from ottla import Producer, transactions
from ottla.errors import AbortableTransactionError, FatalTransactionError, TransactionError, UnsupportedVersionError
from ottla.transactions import Outcome, PreparedTransaction
from ottla_testkit.java.release import release
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, feature_level
from transactions_kit import (
    WAIT,
    await_true,
    committed,
    finished,
    group_offsets,
    new_id,
    program,
    read,
    said,
    send,
    transactional,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PREPARES = """
    import sys
    from ottla import Producer
    servers, topic, name = sys.argv[1:]
    producer = Producer(bootstrap_servers=servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(3):
        producer.send(topic, b"prepared", partition=partition)
    producer.send_offsets_to_transaction({(topic, 0): 42}, name)
    print(producer.prepare_transaction())
    print("prepared")
    sys.stdin.readline()
"""
COMPLETES = """
    import sys
    from ottla import Producer, transactions
    servers, prepared, commit = sys.argv[1:]
    prepared = transactions.PreparedTransaction.from_string(prepared)
    print(transactions.complete({"bootstrap.servers": servers}, prepared, commit=commit == "commit").value)
"""


def tells(kafka: KafkaCluster) -> bool:
    """Whether its coordinators describe the state of a transaction."""
    return release(kafka.version) >= (3, 0)


def newest(kafka: KafkaCluster) -> bool:
    """Whether every transaction has an epoch of its own, so that coordinators know a late end from a wrong one."""
    return release(kafka.version) >= (4, 0) and feature_level(kafka.address(1), TRANSACTION_VERSION) >= 2


def need_new_epochs(kafka: KafkaCluster) -> None:
    """Skip where a producer cannot be given a new epoch, which keeps a late end from the next transaction."""
    if release(kafka.version) < (2, 5):
        pytest.skip("brokers before 2.5 give a producer no new epoch: after this it has to be created again")


def left_prepared(kafka: KafkaCluster, topic: str, name: str) -> PreparedTransaction:
    """The transaction that a program prepared before it was killed."""
    with program(PREPARES, kafka.bootstrap_servers, topic, name) as child:
        assert child.stdout is not None
        prepared = child.stdout.readline()
        said(child, "prepared")
        child.kill()
    return PreparedTransaction.from_string(prepared)


def complete(kafka: KafkaCluster, prepared: PreparedTransaction, *, commit: bool) -> Outcome:
    """End it, with connections of its own."""
    return transactions.complete({"bootstrap.servers": kafka.bootstrap_servers}, prepared, commit=commit, timeout=WAIT)


@pytest.mark.generations("all")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_prepared_transaction_of_a_killed_program_can_be_ended_later(
    broker: KafkaCluster, topic: str, commit: bool
) -> None:
    name = new_id()
    prepared = left_prepared(broker, topic, name)
    before = read(broker.bootstrap_servers, topic, partitions=3, after_markers=False)

    with program(COMPLETES, broker.bootstrap_servers, str(prepared), "commit" if commit else "abort") as child:
        outcome = finished(child).strip()

    assert before == [[], [], []]
    assert outcome == ("committed" if commit else "aborted")
    assert committed(broker, topic) == [[b"prepared"] if commit else []] * 3
    assert group_offsets(broker.bootstrap_servers, name, topic) == [42 if commit else -1]


@pytest.mark.generations("all")
def test_a_transaction_of_another_cluster_is_not_ended(broker: KafkaCluster, topic: str) -> None:
    config, name = {"bootstrap.servers": broker.bootstrap_servers}, new_id()
    prepared = left_prepared(broker, topic, name)
    other = attrs.evolve(prepared, cluster_id="another")
    with pytest.raises(TransactionError, match=f"in the cluster 'another', but these .* '{prepared.cluster_id}'"):
        complete(broker, other, commit=True)
    if tells(broker):
        [found] = transactions.find_open_transactions(config, name)
        assert found.cluster_id == prepared.cluster_id
        with pytest.raises(TransactionError, match="in the cluster 'another'"):
            transactions.abort(config, attrs.evolve(found, cluster_id="another"))
    with transactions.sharing(config) as owner:
        shared = owner.open(new_id())
        with pytest.raises(TransactionError, match="in the cluster 'another'"):
            owner.end(attrs.evolve(shared, cluster_id="another"), commit=True)

    assert shared.cluster_id == prepared.cluster_id
    assert complete(broker, prepared, commit=True) is Outcome.COMMITTED


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_repeating_an_end_is_safe_and_so_is_requesting_the_opposite(
    broker: KafkaCluster, topic: str, commit: bool
) -> None:
    prepared = left_prepared(broker, topic, new_id())
    first, again = [complete(broker, prepared, commit=commit) for _ in range(2)]
    other = complete(broker, prepared, commit=not commit)
    at_last = complete(broker, prepared, commit=commit)

    done = Outcome.COMMITTED if commit else Outcome.ABORTED
    already = Outcome.ALREADY_COMMITTED if commit else Outcome.ALREADY_ABORTED
    assert first is done
    assert again is at_last is (already if tells(broker) else done)
    assert other is already
    assert committed(broker, topic) == [[b"prepared"] if commit else []] * 3


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_the_preparing_producer_may_end_the_transaction_and_continue(
    broker: KafkaCluster, topic: str, commit: bool
) -> None:
    need_new_epochs(broker)
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"prepared"])
        producer.prepare_transaction()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        with producer.transaction():
            send(producer, topic, [b"next"])

    assert committed(broker, topic) == [[b"prepared", b"next"] if commit else [b"next"]] * 3


def test_close_keeps_prepared_and_aborts_open_transactions(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"prepared"])
        prepared = producer.prepare_transaction()
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"open"])
        producer.flush(WAIT)
    outcome = complete(broker, PreparedTransaction.from_bytes(prepared.to_bytes()), commit=True)

    assert outcome is Outcome.COMMITTED
    assert committed(broker, topic) == [[b"prepared"]] * 3


def test_an_end_repeated_late_does_not_affect_the_next_transaction(broker: KafkaCluster, topic: str) -> None:
    need_new_epochs(broker)
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"prepared"])
        prepared = producer.prepare_transaction()
        outcome = complete(broker, prepared, commit=True)
        producer.commit_transaction()
        producer.begin_transaction()
        send(producer, topic, [b"next"])
        producer.flush(WAIT)

        late = complete(broker, prepared, commit=True)
        visible = read(broker.bootstrap_servers, topic, partitions=3, after_markers=False)
        producer.abort_transaction()

    assert outcome is Outcome.COMMITTED
    assert late is Outcome.FENCED
    assert visible == committed(broker, topic) == [[b"prepared"]] * 3


def test_a_transaction_that_its_successor_aborted_is_reported_as_fenced(broker: KafkaCluster, topic: str) -> None:
    name = new_id()
    prepared = left_prepared(broker, topic, name)
    with transactional(broker, name) as successor:
        successor.init_transactions()
        outcomes = [complete(broker, prepared, commit=commit) for commit in (True, False)]
        with successor.transaction():
            send(successor, topic, [b"next"])

    assert outcomes == [Outcome.FENCED] * 2
    assert committed(broker, topic) == [[b"next"]] * 3


def test_a_transaction_that_timed_out_is_never_reported_as_committed(broker: KafkaCluster, topic: str) -> None:
    with transactional(broker, transaction_timeout_ms=1_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"too late"])
        prepared = producer.prepare_transaction()
        await_true(lambda: read(broker.bootstrap_servers, topic, partitions=3) == [[], [], []])  # with markers
        outcomes = [complete(broker, prepared, commit=commit) for commit in (True, False)]
        late = newest(broker)
        with pytest.raises(
            AbortableTransactionError if late else FatalTransactionError, match=r"transaction\.timeout\.ms"
        ):
            producer.commit_transaction()
        if late:  # the producer is not fenced
            producer.abort_transaction()
            with producer.transaction():
                send(producer, topic, [b"in time"])

    assert outcomes == [Outcome.ALREADY_ABORTED if late else Outcome.FENCED] * 2
    assert committed(broker, topic) == [[b"in time"] if late else []] * 3


def test_a_transaction_with_a_refused_record_cannot_be_prepared(broker: KafkaCluster) -> None:
    need_new_epochs(broker)
    topic = new_id()
    broker.create_topic(topic, config={"max.message.bytes": 1_000})
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        refused = producer.send(topic, b"x" * 10_000, partition=0)
        with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
            producer.prepare_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"small", partition=0)

    assert refused.exception(WAIT) is not None
    assert read(broker.bootstrap_servers, topic) == [[b"small"]]


def test_an_empty_transaction_can_be_prepared_committed_and_aborted(broker: KafkaCluster) -> None:
    with transactional(broker) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        prepared = producer.prepare_transaction()
        outcomes = [complete(broker, prepared, commit=commit) for commit in (True, False)]
        producer.commit_transaction()

    assert outcomes == [Outcome.COMMITTED, Outcome.ABORTED]


def test_only_open_transactions_of_a_prefix_are_found_and_aborted(broker: KafkaCluster, topic: str) -> None:
    config, prefix = {"bootstrap.servers": broker.bootstrap_servers}, new_id()
    if not tells(broker):
        with pytest.raises(UnsupportedVersionError, match="ListTransactions"):
            transactions.find_open_transactions(config, prefix)
        return
    mine = [left_prepared(broker, topic, f"{prefix}.{number}") for number in range(2)]
    with transactional(broker) as other:
        other.init_transactions()
        other.begin_transaction()
        send(other, topic, [b"other"])
        other.flush(WAIT)
        found = transactions.find_open_transactions(config, prefix)
        outcomes = [transactions.abort(config, transaction) for transaction in found]
        left = transactions.find_open_transactions(config, prefix)
        other.commit_transaction()

    assert sorted(transaction.transactional_id for transaction in found) == [each.transactional_id for each in mine]
    assert {partition for transaction in found for partition in transaction.partitions} >= {
        (topic, p) for p in range(3)
    }
    assert outcomes == [Outcome.ABORTED] * 2
    assert left == []
    assert committed(broker, topic) == [[b"other"]] * 3


@pytest.mark.generations(since="3.0")  # others do not describe what is open
def test_a_producer_whose_transaction_was_aborted_can_write_no_more(broker: KafkaCluster, topic: str) -> None:
    config, name = {"bootstrap.servers": broker.bootstrap_servers}, new_id()
    with transactional(broker, name) as slow:
        slow.init_transactions()
        slow.begin_transaction()
        send(slow, topic, [b"aborted"])
        slow.flush(WAIT)
        [transaction] = transactions.find_open_transactions(config, name)
        transactions.abort(config, transaction)
        # The coordinator answers before the partitions know: until then a record joins the aborted transaction.
        await_true(lambda: slow.send(topic, b"late", partition=0).exception(WAIT) is not None)

    assert committed(broker, topic) == [[], [], []]


@pytest.mark.generations("all")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_shared_transaction_without_records_ends_as_asked(broker: KafkaCluster, topic: str, commit: bool) -> None:
    asked, other = Outcome.COMMITTED, Outcome.ALREADY_ABORTED
    if not commit:
        asked, other = Outcome.ABORTED, Outcome.ALREADY_COMMITTED
    name = new_id()
    with transactions.sharing({"bootstrap.servers": broker.bootstrap_servers}, timeout=WAIT) as owner:
        shared = owner.open(name)
        ended = owner.end(shared, commit=commit)
        assert ended.outcome is (asked if tells(broker) else other)

        shared = ended.following or shared
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name) as producer:
            producer.join_transaction(shared)
            producer.send(topic, b"v")
            producer.leave_transaction()
        following = owner.end(shared, commit=not commit).following
        if following is not None:  # nothing is written there, either
            assert owner.end(following, commit=commit).outcome is asked
