"""The state that exactly-once tasks leave in a worker process. Mock brokers: transactions only begin."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import attrs
import pyarrow as pa
import pytest

from ottla import Producer
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR
from ottla_spark.errors import WriteError
from ottla_spark.exactly_once import lease_checks, task
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.plan import Plan
from ottla_spark.exactly_once.kafka.cluster_client import KafkaClusterClient
from ottla_spark.exactly_once.lease_checks import LeaseChecks
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step, TaskTransaction
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.task import BatchName, TaskPlan, write_task
from ottla_spark.options.options import read_options
from ottla_spark.worker.producer_cache import MAX_PRODUCERS
from ottla_testkit.mock_cluster import MockCluster
from spark_kit import without_producers

TWO_ROWS = pa.record_batch({"value": [b"a", b"b"]})

INVALID_ROWS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "larger than max.request.size": (
        {"value": [b"a", bytes(3_000), b"b"]},
        {"kafka_max_request_size": "2000", "kafka_batch_size": "500"},
    ),
    "larger than buffer.memory": (
        {"value": [b"a", bytes(300_000), b"b"]},
        {"kafka_buffer_memory": "200000", "kafka_batch_size": "500"},
    ),
    "of a format, and too large": (
        {"value": ["a", "x" * 3_000, "b"]},
        {"kafka_max_request_size": "2000", "kafka_batch_size": "500", "value_format": "json"},
    ),
    "for a partition that does not exist": (
        {"value": [b"a", b"c", b"b"], "partition": pa.array([0, 99, 0], pa.int32())},
        {"kafka_max_block_ms": "300"},
    ),
}


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    with without_producers():
        yield


def written(
    cluster: MockCluster,
    job: str,
    *,
    batch: int = 0,
    last: Entry | None = None,
    rows: pa.RecordBatch | Sequence[pa.RecordBatch] = TWO_ROWS,
    more: Mapping[str, str] = {},
) -> Attempt:
    """The result of a batch's only task, left prepared. `_` in the name of an option is a `.`."""
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.linger.ms": "0",
        "topic": "t",
        "guarantee": "exactly-once",
        "transactional.id.prefix": "orders",
    } | {name.replace("_", "."): value for name, value in more.items()}
    given = {name: value for name, value in given.items() if value}
    problems: list[str] = []
    options = read_options(given, problems=problems)
    assert problems == []
    settings = read_settings(options, job=job)
    lease = Lease(name=settings.name, producer_id=1, epoch=batch, level=2)
    batches = [rows] if isinstance(rows, pa.RecordBatch) else rows
    attempt, _ = write_task(
        iter(batches),
        TaskPlan(plan=Plan(lease=lease, last=last), timeout_ms=60_000),
        of=BatchName(query="query", batch=batch),
        settings=settings,
        options=options,
        columns={name: at for at, name in enumerate(batches[0].schema.names)},
    )
    return attempt


def committed(attempt: Attempt) -> Entry:
    """Its entry in the ledger."""
    assert attempt.prepared is not None
    listed = TaskTransaction(prepared=attempt.prepared, partition=0, records=attempt.records)
    return Entry(query=attempt.query, batch=attempt.batch, status=Status.DONE, listed=(listed,))


def test_a_task_says_for_which_topics_its_rows_were(mock_cluster: MockCluster) -> None:
    name = uuid.uuid4().hex
    named = pa.record_batch({"value": [b"a", b"b", b"c"], "topic": ["x", None, "y"]})
    of_option = written(mock_cluster, name)
    without_rows = written(mock_cluster, name, rows=TWO_ROWS.slice(0, 0), batch=1)
    of_column = written(mock_cluster, name, rows=named, batch=2, more={"topic": "", "errors_tolerance": "all"})

    assert of_option.topics == ("t",)
    assert without_rows.topics == ()
    assert of_column.topics == ("x", "y")


def test_a_skipped_batch_has_the_topics_of_its_rows_and_of_its_entry(mock_cluster: MockCluster) -> None:
    name = uuid.uuid4().hex
    last = attrs.evolve(committed(written(mock_cluster, name)), topics=("t",))
    skipped = written(mock_cluster, name, last=last, more={"topic": "copies"})

    assert (skipped.step, skipped.rows) == (Step.SKIP, 2)
    assert (skipped.topics, skipped.topics_in_ledger) == (("copies",), ("t",))


def living() -> int:
    """The number of producers of this process, closed or not."""
    gc.collect()
    return sum(type(each) is Producer for each in gc.get_objects())


def test_a_task_reuses_the_producer_of_the_batch_before(mock_cluster: MockCluster) -> None:
    name = uuid.uuid4().hex
    first = written(mock_cluster, name)
    gc.collect()
    mock_cluster.start_tracking()
    second = written(mock_cluster, name, batch=1, last=committed(first))

    assert (first.records, second.records) == (2, 2)
    assert mock_cluster.request_count(END_TXN.key) == 1  # a new producer has nothing to end


def test_a_worker_of_many_jobs_keeps_no_closed_producer(mock_cluster: MockCluster) -> None:
    before = living()
    for _ in range(MAX_PRODUCERS + 3):
        assert written(mock_cluster, uuid.uuid4().hex).records == 2

    assert living() - before <= MAX_PRODUCERS


def test_a_worker_remembers_the_last_queries_and_jobs_only(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_workers", {})
    monkeypatch.setattr(task, "MAX_NAMES", 2)
    query = uuid.uuid4().hex
    last = committed(written(mock_cluster, query))
    for batch in range(1, 4):
        assert written(mock_cluster, uuid.uuid4().hex).records == 2
        last = committed(written(mock_cluster, query, batch=batch, last=last))

    assert len(task._workers) == 2
    assert last.listed[0].prepared.transactional_id.endswith("/0")  # the query has needed one id


def test_a_worker_remembers_only_transactions_of_kept_producers(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_workers", {})
    name = uuid.uuid4().hex
    for _ in range(MAX_PRODUCERS + 3):
        assert written(mock_cluster, name).records == 2
        gc.collect()

    [worker] = task._workers.values()
    assert len(worker.prepared) <= MAX_PRODUCERS + 1


class Asked:
    """Counts the checks of leases, each of which goes to the brokers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.within: list[float] = []
        ask = KafkaClusterClient.superseded

        def counted(client: KafkaClusterClient, lease: Lease, *, within: float) -> bool:
            self.within.append(within)
            return ask(client, lease, within=within)

        monkeypatch.setattr(KafkaClusterClient, "superseded", counted)


def test_a_task_writes_on_while_the_coordinator_of_its_lease_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check waits for it, and the rows with it."""
    asked, name = Asked(monkeypatch), uuid.uuid4().hex
    monkeypatch.setattr(lease_checks, "EVERY", -1.0)
    monkeypatch.setattr(lease_checks, "BRIEFLY", 0.5)
    with MockCluster(brokers=2) as cluster:
        cluster.create_topic("t")
        cluster.set_leader("t", 0, 1)
        cluster.set_coordinator("transaction", f"orders/job/{name}/lease", 2)
        written(cluster, name, rows=TWO_ROWS.slice(0, 0))  # no row, no check
        [process] = [worker.pool._process for (_, known), worker in task._workers.items() if known.endswith(name)]
        for number in range(2):
            cluster.set_coordinator("transaction", f"orders/job/{name}/{process}/{number}", 1)
        none = len(asked.within)
        cluster.broker_down(2)
        attempts = [written(cluster, name, batch=batch, rows=[TWO_ROWS] * 20) for batch in range(2)]

    assert none == 0
    assert [attempt.records for attempt in attempts] == [40, 40]
    # The first task as it begins, and both at their ends.
    assert asked.within == [0.5, lease_checks.ONCE_MORE, lease_checks.ONCE_MORE]


def test_a_check_without_an_answer_is_soon_followed_by_a_longer_one() -> None:
    checks = LeaseChecks()
    checks.ended(started_at=100.0, now=103.0, answered=False)
    checks.ended(started_at=104.0, now=104.3, answered=False)  # at a task's end
    soon = checks.within(129.9), checks.due(129.9)
    later = checks.within(130.0), checks.due(130.0)
    checks.ended(started_at=130.0, now=130.001, answered=True)

    assert soon == (lease_checks.ONCE_MORE, False)
    assert later == (lease_checks.BRIEFLY, True)
    assert checks.within(130.5) == lease_checks.BRIEFLY
    assert [checks.due(131.0), checks.due(131.1)] == [False, True]


def test_slow_answers_take_a_tenth_of_the_time() -> None:
    checks = LeaseChecks()
    checks.ended(started_at=100.0, now=102.0, answered=True)

    assert [checks.due(119.0), checks.due(120.0)] == [False, True]


@pytest.mark.parametrize("row", INVALID_ROWS)
def test_a_row_that_cannot_be_sent_fails_its_task(mock_cluster: MockCluster, row: str) -> None:
    columns, settings = INVALID_ROWS[row]
    with pytest.raises(WriteError, match="row 2 of the task was refused"):
        written(mock_cluster, uuid.uuid4().hex, rows=pa.record_batch(columns), more=settings)


def test_the_row_that_cannot_be_sent_is_named_whatever_else_is_on_its_way(mock_cluster: MockCluster) -> None:
    """Rows before it are still being compressed when it fails the transaction."""
    random = Random(7)
    rows = pa.record_batch({"value": [*(random.randbytes(500_000) for _ in range(8)), bytes(3_000_000), b"last"]})
    options = {"kafka_max_request_size": "2000000", "kafka_compression_type": "gzip"}

    with pytest.raises(WriteError, match="row 9 of the task was refused"):
        written(mock_cluster, uuid.uuid4().hex, rows=rows, more=options)


@pytest.mark.parametrize("row", INVALID_ROWS)
def test_a_tolerated_row_that_cannot_be_sent_leaves_the_transaction(mock_cluster: MockCluster, row: str) -> None:
    columns, settings = INVALID_ROWS[row]
    name, rows = uuid.uuid4().hex, pa.record_batch(columns)
    to_skip = {**settings, "errors_tolerance": "all"}
    skipped = written(mock_cluster, name, rows=rows, more=to_skip)
    to_letters = {**to_skip, "errors_deadletterqueue_topic_name": "letters"}
    lettered = written(mock_cluster, name, batch=1, last=committed(skipped), rows=rows, more=to_letters)

    assert (skipped.records, lettered.records) == (2, 3)
    assert None not in (skipped.prepared, lettered.prepared)


def test_a_task_of_refused_rows_alone_leaves_no_transaction(mock_cluster: MockCluster) -> None:
    name, skips = uuid.uuid4().hex, {"errors_tolerance": "all"}
    refused = pa.record_batch({"value": [b"a", b"b"], "partition": pa.array([-1, -1], pa.int32())})
    first = written(mock_cluster, name, rows=refused, more=skips)
    mock_cluster.start_tracking()
    second = written(mock_cluster, name, batch=1, more=skips)  # no matter what the ledger has

    assert (first.prepared, first.records, first.rows) == (None, 0, 2)
    assert second.prepared is not None
    assert second.records == 2
    assert mock_cluster.request_count(FIND_COORDINATOR.key) == 0  # the producer of the first batch goes on
