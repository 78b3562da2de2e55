"""Shared parts of the exactly-once ledger's tests: settings of a prefix, transactions of its tasks, and entries."""

from __future__ import annotations

from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.plan import Plan
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step, TaskTransaction
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.options import read_options
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import send, transactional

PROCESS = "0" * 32


def settings(kafka: KafkaCluster, name: str, *, job: str | None = None, **options: str) -> Settings:
    problems: list[str] = []
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "guarantee": "exactly-once"}
    own = {key.replace("_", "."): value for key, value in options.items()}
    found = read_options({**given, "transactional.id.prefix": name, **own}, problems=problems)
    assert problems == []
    return read_settings(found, job=job)


def prepare(
    kafka: KafkaCluster, topic: str, name: str, number: int, *, timeout_ms: int = 60_000
) -> PreparedTransaction:
    """One task's transaction, its process gone."""
    transactional_id = task_id(name, process=PROCESS, number=number)
    with transactional(kafka, transactional_id, transaction_timeout_ms=timeout_ms) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"%d" % number])
        return producer.prepare_transaction()


def attempts(given: Plan, *prepared: PreparedTransaction, batch: int = 0) -> list[Attempt]:
    return [
        Attempt(
            lease=given.lease,
            query="q",
            batch=batch,
            partition=partition,
            step=Step.WRITE,
            prepared=each,
            records=3,
            rows=3,
            topics=("t",),
            planned_at=given.planned_at,
        )
        for partition, each in enumerate(prepared)
    ]


def entry(*prepared: PreparedTransaction, batch: int = 0, status: Status = Status.RECORDED) -> Entry:
    listed = [TaskTransaction(prepared=each, partition=number, records=3) for number, each in enumerate(prepared)]
    rows = 3 * len(listed)
    return Entry(query="q", batch=batch, status=status, listed=tuple(listed), rows=rows, topics=("t",))
