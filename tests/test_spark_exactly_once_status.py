"""`python -m ottla_spark.exactly_once`: what the next driver would do in each state, reported without doing it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once import accept_loss
from ottla_spark.exactly_once.__main__ import main
from ottla_spark.exactly_once.driver.cluster import TransactionOutcome
from ottla_spark.exactly_once.driver.plan import leased
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.ledger.entry import Entry, Status, TaskTransaction
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.status import predicted
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.options import read_options
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import new_id, send, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Setup:
    """One prefix, a driver of it, and tasks that prepare their transactions."""

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic
        self.name = new_id()
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "guarantee": "exactly-once"}
        self.brokers = KafkaClusterClient(
            read_settings(read_options({**given, "transactional.id.prefix": self.name}, problems=[]))
        )

    def prepare(self, number: int) -> PreparedTransaction:
        with transactional(self.kafka, task_id(self.name, process="0" * 32, number=number)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            send(producer, self.topic, [b"row"], partitions=1)
            return producer.prepare_transaction()

    def record(self, status: Status, *prepared: PreparedTransaction) -> None:
        listed = [TaskTransaction(prepared=each, partition=number, records=1) for number, each in enumerate(prepared)]
        lease, _ledger = leased(self.brokers, self.name)
        self.brokers.append(lease, entry(*listed, status=status))

    def abort(self, prepared: PreparedTransaction) -> None:
        self.brokers.end(prepared, commit=False)


def entry(*listed: TaskTransaction, status: Status = Status.RECORDED) -> Entry:
    return Entry(query="q", batch=7, status=status, listed=listed)


@pytest.fixture
def setup(kafka: KafkaCluster, make_topic: MakeTopic) -> Iterator[Setup]:
    made = Setup(kafka, make_topic(1))
    yield made
    made.brokers.close()


def test_each_state_says_how_the_next_driver_continues(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    def said() -> str:
        assert main([setup.name, "--bootstrap-servers", setup.kafka.bootstrap_servers]) == 0
        return capsys.readouterr().out

    assert "nothing was ever written" in said()

    listed, other = setup.prepare(0), setup.prepare(1)
    assert said().count("not in the ledger: the next driver aborts it, unless the current one records it") == 2

    setup.record(Status.RECORDED, listed)
    states = said()
    assert "batch 7 of query q is recorded" in states
    assert (
        f"{listed.transactional_id}: open; its batch is in the ledger: the next driver commits the open transactions"
        in states
    )
    assert f"{other.transactional_id}: open; not in the ledger" in states

    setup.brokers.end(listed, commit=True)
    assert f"{listed.transactional_id}: committed; its batch is in the ledger" in said()

    setup.record(Status.RECORDED, listed, other)
    setup.abort(other)
    assert (
        said().count("a part of its batch is visible and the rest is lost: the next driver raises DataLossError") == 2
    )

    setup.record(Status.DONE, listed)
    assert "batch 7 of query q is in Kafka\n  no transaction is open" in said()


def test_after_an_accepted_loss_no_transaction_is_open(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    servers = setup.kafka.bootstrap_servers
    late, in_time, left = (setup.prepare(number) for number in range(3))
    setup.record(Status.RECORDED, late, in_time, left)
    setup.abort(late)
    setup.brokers.end(in_time, commit=True)
    accepted = accept_loss({"kafka.bootstrap.servers": servers, "transactional.id.prefix": setup.name})
    main([setup.name, "--bootstrap-servers", servers])

    assert accepted.status is Status.DONE
    assert "batch 7 of query q is in Kafka\n  no transaction is open" in capsys.readouterr().out
    assert setup.brokers.open_transactions(setup.name) == []


def test_an_invisible_batch_is_aborted_and_an_unknown_one_is_undecided() -> None:
    prepared = [
        PreparedTransaction(transactional_id=f"n/{'0' * 32}/{each}", producer_id=each, epoch=0, level=2)
        for each in range(2)
    ]
    listed = [TaskTransaction(prepared=each, partition=0, records=1) for each in prepared]
    taken_back = str(predicted("n", entry(*listed), [], [TransactionOutcome.OPEN, TransactionOutcome.ABORTED]))
    unknown = str(predicted("n", entry(*listed), [], [TransactionOutcome.OPEN, TransactionOutcome.UNKNOWN]))
    void = str(predicted("n", entry(*listed, status=Status.VOID), [], []))

    assert taken_back.count("no row of its batch is visible: the next driver aborts the batch") == 2
    assert "the brokers do not say how it ended" in unknown
    assert "batch 7 of query q was aborted, and is still to be written again" in void


def test_a_job_without_an_entry_may_have_open_transactions() -> None:
    transactional_id = f"n/{'0' * 32}/0"

    found = predicted("n", None, [transactional_id], [], of_job=True)

    assert list(found.transactions) == [transactional_id]
    assert "nothing was ever written, or it was forgotten" in str(found)


def test_without_a_broker_the_status_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["n", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "0.3"]) == 1
    assert "TransactionTimeoutError: not done within 0.3 s" in capsys.readouterr().err
