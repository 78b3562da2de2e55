"""The rules of exactly-once one by one: what a task may do, what a commit refuses, which ids are free, what is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs
import pytest
from simulated_spark import (
    NAME,
    QUERY,
    TIMEOUT,
    TOPIC,
    Actor,
    Spark,
    SteppedCluster,
    expected,
    run,
    run_until_done,
    some_spark,
)

from ottla.errors import InvalidRecordError, OttlaError, TransactionError, TransactionTimeoutError
from ottla.transactions import Outcome, PreparedTransaction
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once import writer
from ottla_spark.exactly_once.attempt import Attempt
from ottla_spark.exactly_once.driver.cluster import OpenTaskTransaction
from ottla_spark.exactly_once.driver.commit import (
    ABORT_WITHIN,
    abort_left_open,
    abort_prepared,
    abort_superseded,
    commit,
)
from ottla_spark.exactly_once.driver.plan import Plan, plan
from ottla_spark.exactly_once.driver.recovery import GIVE_UP_AFTER, ROUNDS, end_recorded_batch
from ottla_spark.exactly_once.errors import (
    BatchIncompleteError,
    BatchNotCommittedError,
    DataLossError,
    EntryNotWrittenError,
    LeaseLostError,
    LedgerMismatchError,
)
from ottla_spark.exactly_once.ledger.entry import Entry, Status, Step, TaskTransaction, next_step
from ottla_spark.exactly_once.ledger.lease import Lease
from ottla_spark.exactly_once.ledger.row_topics import check_topics, recorded_topics
from ottla_spark.exactly_once.repair import erase, take_any_rows, take_as_done
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.stream import ExactlyOnceWriter
from ottla_spark.exactly_once.task import BatchName
from ottla_spark.exactly_once.transactional_ids import IdPool, is_task_id, task_id
from ottla_spark.exactly_once.writer import BatchWriter, TaskPrepared
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions
from ottla_spark.sink.task_written import TaskWritten

LEASE = Lease(name=NAME, producer_id=1, epoch=5, level=2, after=10)


def prepared(number: int) -> PreparedTransaction:
    return PreparedTransaction(
        transactional_id=task_id(NAME, process="a" * 32, number=number), producer_id=number, epoch=0, level=2
    )


def entry(batch: int, status: Status, *, query: str = QUERY, transactions: int = 2) -> Entry:
    listed = [TaskTransaction(prepared=prepared(number), partition=number, records=7) for number in range(transactions)]
    return Entry(query=query, batch=batch, status=status, listed=tuple(listed))


class Direct(SteppedCluster):
    """The cluster for one who is never disturbed."""

    def __init__(self, spark: Spark) -> None:
        super().__init__(spark.brokers, _Undisturbed())  # type: ignore[arg-type]


class _Undisturbed:
    def step(self, what: str, action: Any) -> None:
        action()


def written(
    spark: Spark,
    cluster: Direct,
    *,
    batch: int = 0,
    tasks: int = 2,
    open_for: float = 0.0,
    given: Plan | None = None,
) -> list[Attempt]:
    """A batch that is planned now unless it was before, and written by tasks that ended so many seconds after."""
    given = given or plan(cluster, NAME)
    return [
        Attempt(
            lease=given.lease,
            query=QUERY,
            batch=batch,
            partition=partition,
            step=Step.WRITE,
            prepared=spark.workers[partition].write(given, [f"{batch}.{partition}"]),
            records=1,
            planned_at=given.planned_at,
            open_for=open_for,
        )
        for partition in range(tasks)
    ]


@pytest.fixture
def spark() -> Spark:
    return some_spark()


@pytest.fixture
def cluster(spark: Spark) -> Direct:
    return Direct(spark)


# What a task may do


@pytest.mark.parametrize(
    ("last", "batch", "step"),
    [
        (None, 0, Step.WRITE),
        (None, 57, Step.WRITE),
        (entry(3, Status.DONE), 3, Step.SKIP),
        (entry(3, Status.DONE), 4, Step.WRITE),
        (entry(3, Status.DONE), 9, Step.WRITE),
        (entry(3, Status.VOID), 3, Step.WRITE),
    ],
)
def test_a_task_skips_a_batch_in_the_ledger_and_writes_others(last: Entry | None, batch: int, step: Step) -> None:
    assert next_step(last, name=NAME, query=QUERY, batch=batch) is step


@pytest.mark.parametrize(
    ("last", "batch", "why"),
    [
        (entry(3, Status.DONE, query="another"), 3, "belongs to the query another"),
        (entry(3, Status.DONE), 2, "the checkpoint is older"),
        (entry(3, Status.VOID), 4, "requests batch 4, as if batch 3 had been written"),
    ],
)
def test_a_task_refuses_a_ledger_that_disagrees_with_spark(last: Entry, batch: int, why: str) -> None:
    with pytest.raises(LedgerMismatchError, match=why):
        next_step(last, name=NAME, query=QUERY, batch=batch)


def test_an_entry_survives_a_round_trip() -> None:
    for status in Status:
        for rows in (None, 0, 2**40):
            for topics in (None, (), ("orders", "payments")):
                given = attrs.evolve(entry(3, status), rows=rows, topics=topics)
                assert Entry.from_bytes(given.to_bytes(), name=NAME) == given


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"form":2}',
        entry(1, Status.DONE).to_bytes().replace(b"7", b'"7"'),
        attrs.evolve(entry(1, Status.DONE), topics=("t",)).to_bytes().replace(b'["t"]', b'"t"'),
        attrs.evolve(entry(1, Status.DONE), topics=("t",)).to_bytes().replace(b'["t"]', b"[1]"),
    ],
)
def test_an_invalid_entry_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="not an entry of an exactly-once ledger"):
        Entry.from_bytes(data, name=NAME)


# What a commit refuses


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"query": "another"}, "different plans"),
        ({"lease": attrs.evolve(LEASE, epoch=99)}, "different plans"),
        ({"step": Step.SKIP}, "different plans"),
        ({"batch": 7}, "their batch numbers are 0, 7"),
        ({"partition": 0}, r"partitions are \[0, 0\]"),
        ({"partition": 2}, r"partitions are \[0, 2\]"),
    ],
)
def test_attempts_of_different_runs_are_not_recorded(
    spark: Spark, cluster: Direct, changes: dict[str, Any], why: str
) -> None:
    first, second = written(spark, cluster)

    with pytest.raises(BatchNotCommittedError, match=why):
        commit(cluster, [first, attrs.evolve(second, **changes)], batch=0)
    assert spark.brokers.ledger == []


def test_a_batch_that_another_driver_aborted_names_the_prefix(spark: Spark, cluster: Direct) -> None:
    attempts = written(spark, cluster)
    plan(cluster, NAME)

    with pytest.raises(LeaseLostError, match=r"another query has the same transactional\.id\.prefix"):
        commit(cluster, attempts, batch=0)
    assert spark.brokers.ledger == []


def test_a_driver_that_another_one_is_just_taking_over_names_the_prefix(spark: Spark, cluster: Direct) -> None:
    """It has aborted one transaction so far."""

    class Begun(Direct):
        aborted = 0

        def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
            self.aborted += 1
            if self.aborted == 1:
                super().abort(found, within=within)

    attempts = written(spark, cluster)
    plan(Begun(spark), NAME)

    with pytest.raises(LeaseLostError, match=r"another query has the same transactional\.id\.prefix"):
        commit(cluster, attempts, batch=0)
    assert spark.brokers.ledger == []


def test_a_transaction_that_ended_alone_is_named_and_no_other_driver(spark: Spark, cluster: Direct) -> None:
    """As by transaction.timeout.ms, or by an admin."""
    attempts = written(spark, cluster)
    cluster.abort(cluster.open_transactions(NAME)[0])

    with pytest.raises(BatchNotCommittedError, match="is aborted") as caught:
        commit(cluster, attempts, batch=0)
    assert str(caught.value).count(" is aborted") == 1
    assert spark.brokers.ledger == []
    assert cluster.open_transactions(NAME) == []


def test_a_driver_whose_entry_is_refused_aborts_its_own_transactions(spark: Spark, cluster: Direct) -> None:
    """Spark ran its tasks again after another driver had taken the lease, and that one is writing."""
    older = plan(cluster, NAME)
    winner = Spark(spark.brokers, spark.checkpoint)
    winner.new_workers()
    of_winner = written(winner, cluster)
    late = written(spark, cluster, given=older)

    with pytest.raises(LeaseLostError, match="taken over"):
        commit(cluster, late, batch=0)
    still_open = {each.transactional_id for each in cluster.open_transactions(NAME)}
    commit(cluster, of_winner, batch=0)

    assert still_open == {each.prepared.transactional_id for each in of_winner if each.prepared is not None}
    assert cluster.open_transactions(NAME) == []
    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_a_driver_whose_entry_may_be_written_ends_no_transaction(spark: Spark, cluster: Direct) -> None:
    """Another driver takes the lease while the entry is committed, finds it, and commits what it lists."""

    class CutOff(Direct):
        def append(self, lease: Lease, entry: Entry | None) -> Lease:
            super().append(lease, entry)
            raise LeaseLostError("the first response was lost")

    with pytest.raises(LeaseLostError, match="lost"):
        commit(CutOff(spark), written(spark, cluster), batch=0)
    last = plan(cluster, NAME).last

    assert last is not None
    assert last.status is Status.DONE
    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_an_abort_that_fails_does_not_hide_a_lost_lease(
    spark: Spark, cluster: Direct, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable(Direct):
        def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
            raise TransactionTimeoutError("no broker answered")

    older = plan(cluster, NAME)
    plan(cluster, NAME)
    late = written(spark, cluster, given=older)

    with pytest.raises(LeaseLostError, match="taken over"):
        commit(Unreachable(spark), late, batch=0)
    assert "the transactions of batch 0 of 'orders', which is not committed, could not all be aborted" in caplog.text


def test_a_visible_batch_fails_by_no_transaction_of_another_attempt(
    spark: Spark, cluster: Direct, caplog: pytest.LogCaptureFixture
) -> None:
    aborts: list[float | None] = []

    class FirstUnreachable(Direct):
        def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
            aborts.append(within)
            if len(aborts) == 1:
                raise TransactionTimeoutError("no broker answered")
            super().abort(found, within=within)

    given = plan(cluster, NAME)
    written(spark, cluster, given=given)  # by tasks that were killed
    spark.new_workers()
    commit(FirstUnreachable(spark), written(spark, cluster, given=given), batch=0)

    assert aborts == [ABORT_WITHIN] * 2
    assert len(cluster.open_transactions(NAME)) == 1
    assert spark.brokers.visible == Counter(["0.0", "0.1"])
    last = cluster.ledger(NAME).certain()
    assert last is not None
    assert last.status is Status.DONE
    assert "batch 0 of 'orders' is visible, but not every transaction of its other attempts" in caplog.text


def test_an_entry_that_the_cluster_refuses_leaves_no_transaction_open(spark: Spark, cluster: Direct) -> None:
    class Forbidden(Direct):
        def append(self, lease: Lease, entry: Entry | None) -> Lease:
            raise EntryNotWrittenError("the right Write is missing")

    with pytest.raises(BatchNotCommittedError, match="none of its rows is visible: the right Write is missing"):
        commit(Forbidden(spark), written(spark, cluster), batch=0)
    assert cluster.open_transactions(NAME) == []
    assert run_until_done(spark) is None
    assert spark.brokers.visible == expected(spark)


def test_a_finished_job_aborts_the_open_transactions_of_its_other_runs(spark: Spark, cluster: Direct) -> None:
    older = plan(cluster, NAME)
    commit(cluster, written(spark, cluster), batch=0)
    written(spark, cluster, given=older)
    abort_superseded(cluster, NAME)

    assert cluster.open_transactions(NAME) == []
    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_a_finished_job_aborts_none_of_its_own_transactions(spark: Spark, cluster: Direct) -> None:
    attempts = written(spark, cluster)
    aborted: list[OpenTaskTransaction] = []

    class Earlier(Direct):
        """What it lists is committed before the ledger is read."""

        def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[OpenTaskTransaction]:
            listed = super().open_transactions(name, but=but)
            assert len(listed) == 2
            commit(cluster, attempts, batch=0)
            return listed

        def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
            aborted.append(found)

    abort_superseded(Earlier(spark), NAME)
    assert aborted == []


def test_no_transaction_of_a_job_that_is_being_written_is_aborted(spark: Spark, cluster: Direct) -> None:
    """Also if the job was finished and forgotten before."""
    for _ in range(2):
        attempts = written(spark, cluster)
        abort_superseded(cluster, NAME)
        commit(cluster, attempts, batch=0)
        erase(cluster, NAME)

    assert spark.brokers.visible == Counter(["0.0", "0.1"] * 2)


def test_a_clock_of_the_driver_that_is_ahead_refuses_no_batch(spark: Spark, cluster: Direct) -> None:
    spark.brokers.ahead = 0.6 * TIMEOUT
    commit(cluster, written(spark, cluster), batch=0)

    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_a_clock_of_the_driver_that_is_behind_makes_nothing_younger(spark: Spark, cluster: Direct) -> None:
    spark.brokers.ahead = -0.6 * TIMEOUT
    attempts = written(spark, cluster, open_for=0.6 * TIMEOUT)
    spark.brokers.pass_time(0.6 * TIMEOUT)

    with pytest.raises(BatchNotCommittedError, match="close to its time-out"):
        commit(cluster, attempts, batch=0)


def test_a_clock_that_is_behind_makes_no_transaction_younger_that_waits(spark: Spark, cluster: Direct) -> None:
    """The first task ends at once, and only the second one knows how much time has passed since then."""
    spark.brokers.ahead = -0.5 * TIMEOUT
    given = plan(cluster, NAME)
    [early] = written(spark, cluster, tasks=1, given=given)
    spark.brokers.pass_time(0.4 * TIMEOUT)
    late = attrs.evolve(written(spark, cluster, given=given)[1], open_for=0.4 * TIMEOUT)
    spark.brokers.pass_time(0.4 * TIMEOUT)

    with pytest.raises(BatchNotCommittedError, match="720 of 900 s are over"):
        commit(cluster, [early, late], batch=0)
    assert spark.brokers.ledger == []


def test_a_batch_after_half_of_its_time_is_aborted_as_a_whole(spark: Spark, cluster: Direct) -> None:
    attempts = written(spark, cluster)
    spark.brokers.pass_time(0.6 * TIMEOUT)

    with pytest.raises(BatchNotCommittedError, match="close to its time-out"):
        commit(cluster, attempts, batch=0)
    assert spark.brokers.ledger == []
    assert cluster.open_transactions(NAME) == []


def test_a_batch_that_every_task_skipped_is_not_recorded_again(spark: Spark, cluster: Direct) -> None:
    attempts = [attrs.evolve(each, step=Step.SKIP, prepared=None) for each in written(spark, cluster)]
    commit(cluster, attempts, batch=0)

    assert spark.brokers.ledger == []


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_batch_without_the_result_of_a_task_is_not_recorded(spark: Spark, cluster: Direct, missing: int) -> None:
    """Nothing else says how many tasks there were: without the last one, the others look complete."""
    spark.new_workers(3)
    results: list[Attempt | None] = [*written(spark, cluster, tasks=3)]
    results[missing] = None
    with pytest.raises(BatchNotCommittedError, match="1 of the 3 tasks of batch 0 have no result"):
        commit(cluster, results, batch=0)
    abort_prepared(cluster, results)  # Spark calls it after the error

    assert spark.brokers.ledger == []
    assert cluster.open_transactions(NAME) == []


def test_a_failed_batch_is_aborted_unless_its_commit_was_attempted(spark: Spark, cluster: Direct) -> None:
    first, second = written(spark, cluster)
    abort_prepared(cluster, [first, second])
    kept = len(cluster.open_transactions(NAME))
    abort_prepared(cluster, [first, None])  # without the result of the second task, which was killed

    assert kept == 2
    assert cluster.open_transactions(NAME) == []


def test_an_abort_without_brokers_does_not_hide_why_the_batch_failed(
    spark: Spark, cluster: Direct, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def unreachable(_writer: object) -> Iterator[Direct]:
        raise TransactionTimeoutError("no broker answered")
        yield cluster

    monkeypatch.setattr(ExactlyOnceWriter, "cluster", unreachable)
    first, _second = written(spark, cluster)
    message = TaskPrepared(attempt=first, written=TaskWritten())
    object.__new__(ExactlyOnceWriter).abort([message, None], 7)

    assert "could not abort the transactions of micro-batch 7" in caplog.text


class OneUnreachable(Direct):
    """A cluster that does not answer for the transaction of the first task."""

    def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
        if prepared.producer_id == self.unreachable:
            raise TransactionTimeoutError("no broker answered")
        return super().end(prepared, commit=commit)

    def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
        if found.producer_id == self.unreachable:
            raise TransactionTimeoutError("no broker answered")
        super().abort(found, within=within)

    unreachable = -1


def test_one_transaction_that_cannot_be_aborted_leaves_no_other_open(
    spark: Spark, cluster: Direct, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = written(spark, cluster)
    partly = OneUnreachable(spark)
    first = attempts[0].prepared
    assert first is not None
    partly.unreachable = first.producer_id

    with pytest.raises(TransactionTimeoutError):  # the writer logs it
        abort_prepared(partly, [*attempts, None])

    assert [each.transactional_id for each in cluster.open_transactions(NAME)] == [first.transactional_id]
    assert "the transactions of batch 0 of 'orders', which is not committed, could not all be aborted" in caplog.text


def test_a_late_batch_says_so_although_it_cannot_be_aborted(spark: Spark, cluster: Direct) -> None:
    attempts = written(spark, cluster)
    spark.brokers.pass_time(0.6 * TIMEOUT)
    partly = OneUnreachable(spark)
    assert attempts[0].prepared is not None
    partly.unreachable = attempts[0].prepared.producer_id

    with pytest.raises(BatchNotCommittedError, match="close to its time-out"):
        commit(partly, attempts, batch=0)
    assert len(cluster.open_transactions(NAME)) == 1


def test_transactions_of_a_failed_job_are_aborted(spark: Spark, cluster: Direct) -> None:
    class Timed(Direct):
        def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
            limits.append(within)
            super().abort(found, within=within)

    limits: list[float | None] = []
    first, _second = written(spark, cluster)
    abort_left_open(Timed(spark), first.lease)

    assert limits == [ABORT_WITHIN] * 2
    assert cluster.open_transactions(NAME) == []
    assert not spark.brokers.visible


def test_a_failed_job_renews_its_lease_for_tasks_that_write_later(spark: Spark, cluster: Direct) -> None:
    """A task that begins its transaction afterwards is not listed, and sees that its lease is another one."""
    listed_under: list[bool] = []

    class Watched(Direct):
        def open_transactions(self, name: str, *, but: Collection[str] = ()) -> Sequence[OpenTaskTransaction]:
            listed_under.append(self.holds(first.lease))
            return super().open_transactions(name, but=but)

    first, _second = written(spark, cluster)

    assert abort_left_open(Watched(spark), first.lease)
    assert abort_left_open(Watched(spark), first.lease), "again, when the last tasks have ended"
    assert listed_under == [False, False]
    assert not cluster.holds(first.lease)


def test_a_batch_with_a_task_that_saw_another_lease_is_aborted(spark: Spark, cluster: Direct) -> None:
    first, second = written(spark, cluster)
    spark.brokers.end(second.prepared, commit=False)  # type: ignore[arg-type]
    superseded = attrs.evolve(second, prepared=None, superseded=True)

    with pytest.raises(LeaseLostError, match="another driver has taken the ledger over"):
        commit(cluster, [first, superseded], batch=0)
    assert cluster.open_transactions(NAME) == []
    assert not spark.brokers.visible


def test_a_driver_that_lost_its_lease_aborts_no_transaction(spark: Spark, cluster: Direct) -> None:
    """Also if it loses the lease after it has listed the transactions."""

    class Overtaken(Direct):
        def holds(self, lease: Lease) -> bool:
            attempts.extend(written(spark, cluster))
            return super().holds(lease)

    attempts: list[Attempt] = []
    first, _second = written(spark, cluster)
    abort_left_open(Overtaken(spark), first.lease)
    abort_left_open(cluster, first.lease)
    commit(cluster, attempts, batch=0)

    assert sorted(spark.brokers.visible) == ["0.0", "0.1"]


def test_an_attempt_is_equal_after_its_way_to_the_driver(spark: Spark, cluster: Direct) -> None:
    first, _second = written(spark, cluster)
    skipped = attrs.evolve(first, step=Step.SKIP, prepared=None, topics=("t",), topics_in_ledger=("t", "u"))

    for attempt in (first, skipped):
        assert Attempt.from_values(json.loads(json.dumps(attempt.to_values()))) == attempt


def test_transactions_of_an_earlier_driver_are_aborted_before_the_tasks(spark: Spark, cluster: Direct) -> None:
    written(spark, cluster)
    before = len(cluster.open_transactions(NAME))
    plan(cluster, NAME)

    assert before == 2
    assert cluster.open_transactions(NAME) == []


# What becomes of a recorded batch


def recorded(spark: Spark, cluster: Direct, *, tasks: int = 2) -> tuple[Lease, Entry]:
    attempts = written(spark, cluster, tasks=tasks)
    listed = [
        TaskTransaction(prepared=each.prepared, partition=each.partition, records=1)
        for each in attempts
        if each.prepared
    ]
    batch = Entry(query=QUERY, batch=0, status=Status.RECORDED, listed=tuple(listed))
    return cluster.append(attempts[0].lease, batch), batch


def test_a_batch_that_another_driver_commits_during_an_abort_is_an_alarm(spark: Spark, cluster: Direct) -> None:
    lease, batch = recorded(spark, cluster)
    late, contested = (each.prepared for each in batch.listed)
    spark.brokers.end(late, commit=False)

    class Contested(Direct):
        def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Any:
            self.brokers.end(contested, commit=True)
            return super().end(prepared, commit=commit)

    with pytest.raises(DataLossError):
        end_recorded_batch(Contested(spark), lease, batch)
    assert spark.brokers.ledger[-1] == batch


def test_a_batch_that_cannot_be_finished_is_left_to_a_restart(spark: Spark, cluster: Direct) -> None:
    lease, batch = recorded(spark, cluster)

    class TooLate(Direct):
        def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Any:
            self.brokers.pass_time(TIMEOUT)
            return super().end(prepared, commit=commit)

    with pytest.raises(BatchIncompleteError, match="2 of 2 transactions"):
        end_recorded_batch(TooLate(spark), lease, batch)
    assert spark.brokers.ledger[-1] == batch


class Troubled(Direct):
    """The cluster, where some ends of transactions fail: those whose transactional ids end in this number."""

    def __init__(self, spark: Spark, number: int, result: Outcome | OttlaError) -> None:
        super().__init__(spark)
        self.trouble = prepared_by(spark, number).transactional_id, result
        self.ended: list[str] = []

    def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
        troubled, result = self.trouble
        self.ended.append(prepared.transactional_id)
        if prepared.transactional_id != troubled:
            return super().end(prepared, commit=commit)
        if isinstance(result, OttlaError):
            raise result
        return result


def is_done(given: Plan) -> bool:
    return given.last is not None and given.last.status is Status.DONE


def prepared_by(spark: Spark, worker: int) -> PreparedTransaction:
    [found] = spark.workers[worker].prepared.values()
    return found


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (
            TransactionError("the right is missing"),
            "1 of 2 transactions could not be .*1 records.: the right is missing",
        ),
        (Outcome.FENCED, "1 of 2 transactions could not be committed: .*: fenced"),
    ],
)
def test_a_transaction_that_cannot_be_committed_keeps_back_no_other(
    spark: Spark, cluster: Direct, result: Outcome | OttlaError, why: str
) -> None:
    attempts = written(spark, cluster)
    spark.brokers.pass_time(100.0)
    with pytest.raises(BatchIncompleteError, match=why) as incomplete:
        commit(Troubled(spark, 0, result), attempts, batch=0)

    assert "Start the query again within 800 s, before they time out" in str(incomplete.value)
    assert incomplete.value.__cause__ is (result if isinstance(result, OttlaError) else None)
    assert spark.brokers.visible == Counter(["0.1"])
    assert is_done(plan(cluster, NAME))
    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_a_silent_coordinator_lets_the_others_commit_first(spark: Spark, cluster: Direct) -> None:
    attempts = written(spark, cluster)
    troubled = Troubled(spark, 0, TransactionTimeoutError("broker 3 cannot be reached"))
    seen: list[Counter[str]] = []

    class AfterAWhile(Troubled):
        def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
            assert within is not None
            if within > 2 * ROUNDS[0]:
                seen.append(spark.brokers.visible.copy())
                self.trouble = "", Outcome.UNKNOWN
            return super().end(prepared, commit=commit)

    commit(AfterAWhile(spark, 0, troubled.trouble[1]), attempts, batch=0)

    assert seen == [Counter(["0.1"])]
    assert spark.brokers.visible == Counter(["0.0", "0.1"])


def test_a_cluster_that_does_not_respond_is_given_up_after_two_minutes(spark: Spark, cluster: Direct) -> None:
    spark.new_workers(100)
    attempts = written(spark, cluster, tasks=100)

    class Unreachable(Direct):
        def end(self, prepared: PreparedTransaction, *, commit: bool, within: float | None = None) -> Outcome:
            assert within is not None
            self.brokers.pass_time(within)
            raise TransactionTimeoutError("no broker can be reached")

    with pytest.raises(
        BatchIncompleteError, match=r"100 of 100 .* and 50 more: no broker can be reached; .*: not tried"
    ):
        commit(Unreachable(spark), attempts, batch=0)
    assert spark.brokers.now == GIVE_UP_AFTER
    assert is_done(plan(cluster, NAME))
    assert len(spark.brokers.visible) == 100


def test_a_living_driver_reports_a_loss_at_once(spark: Spark, cluster: Direct) -> None:
    """It starts no query that would commit the rest: the rest has timed out."""
    attempts = written(spark, cluster)
    with pytest.raises(DataLossError, match=r"not all ended before their time-out .*1 records\) is aborted"):
        commit(Troubled(spark, 0, Outcome.ALREADY_ABORTED), attempts, batch=0)

    assert spark.brokers.visible == Counter(["0.1"])


def test_a_batch_that_brokers_have_forgotten_is_an_alarm(spark: Spark, cluster: Direct) -> None:
    lease, batch = recorded(spark, cluster)
    for each in batch.listed:
        spark.brokers.end(each.prepared, commit=True)
    spark.brokers.expire_ids()

    with pytest.raises(DataLossError, match="is unknown"):
        end_recorded_batch(cluster, lease, batch)


def test_after_an_accepted_loss_the_query_continues(spark: Spark, cluster: Direct) -> None:
    _lease, batch = recorded(spark, cluster)
    late, in_time = (each.prepared for each in batch.listed)
    spark.brokers.end(late, commit=False)
    spark.brokers.end(in_time, commit=True)
    said = run_until_done(spark)
    accepted = take_as_done(cluster, NAME)
    went_on = run_until_done(spark)

    assert isinstance(said, DataLossError)
    assert f"{late.transactional_id} (Spark partition 0, 1 records) is aborted" in str(said)
    assert accepted.status is Status.DONE
    assert went_on is None
    with pytest.raises(LedgerMismatchError, match="nothing to accept"):
        take_as_done(cluster, NAME)


def test_an_accepted_loss_aborts_what_is_still_open(spark: Spark, cluster: Direct) -> None:
    """Nothing else would: to later drivers its transactions are those of a batch in Kafka."""
    spark.new_workers(3)
    lease, batch = recorded(spark, cluster, tasks=3)
    late, in_time, left = (each.prepared for each in batch.listed)
    spark.brokers.end(late, commit=False)
    spark.brokers.end(in_time, commit=True)
    with pytest.raises(DataLossError):
        end_recorded_batch(cluster, lease, batch)
    take_as_done(cluster, NAME)

    assert cluster.open_transactions(NAME) == []
    assert spark.brokers.end(left, commit=True) is Outcome.ALREADY_ABORTED


def test_an_acceptance_without_a_loss_aborts_nothing(spark: Spark, cluster: Direct) -> None:
    """Its driver may be committing the batch at this moment."""
    _lease, batch = recorded(spark, cluster)
    spark.brokers.end(batch.listed[0].prepared, commit=True)
    take_as_done(cluster, NAME)

    assert spark.brokers.end(batch.listed[1].prepared, commit=True) is Outcome.COMMITTED


def run_again(spark: Spark, cluster: Direct, *, rows: int, topics: Sequence[str] = (TOPIC,)) -> None:
    """Run the last batch again, after a planning in which it got so many rows, for these topics."""
    given = plan(cluster, NAME)
    assert given.last is not None
    attempt = Attempt(
        lease=given.lease,
        query=QUERY,
        batch=given.last.batch,
        partition=0,
        step=Step.SKIP,
        rows=rows,
        topics=topics,
        rows_in_ledger=given.last.rows,
        topics_in_ledger=given.last.topics,
    )
    commit(cluster, [attempt], batch=given.last.batch)


@pytest.mark.parametrize("rows", [3, 5])
def test_a_batch_that_has_other_rows_now_is_not_skipped(spark: Spark, cluster: Direct, rows: int) -> None:
    run_until_done(spark)
    run_again(spark, cluster, rows=4)
    with pytest.raises(LedgerMismatchError, match=f"in Kafka with 4 rows, but Spark now has {rows} rows"):
        run_again(spark, cluster, rows=rows)
    accepted = take_any_rows(cluster, NAME)
    run_again(spark, cluster, rows=rows)

    assert (accepted.status, accepted.rows) == (Status.DONE, None)
    assert spark.brokers.visible == expected(spark)


@pytest.mark.parametrize("topics", [["copies"], [TOPIC, "copies"], [f"copies-{number}" for number in range(99)]])
def test_a_batch_that_has_another_topic_now_is_not_skipped(
    spark: Spark, cluster: Direct, topics: Sequence[str]
) -> None:
    run_until_done(spark)
    with pytest.raises(LedgerMismatchError, match=f"in topic '{TOPIC}', but now its rows would go to .*topics?") as no:
        run_again(spark, cluster, rows=4, topics=topics)
    accepted = take_any_rows(cluster, NAME)
    run_again(spark, cluster, rows=4, topics=topics)

    assert len(str(no.value)) < 1_000
    assert (accepted.status, accepted.topics) == (Status.DONE, None)
    assert spark.brokers.visible == expected(spark)


def test_a_batch_without_rows_is_skipped_whatever_its_topic_is() -> None:
    check_topics((), ("t",), batch=3, name=NAME)
    check_topics(("t",), (), batch=3, name=NAME)  # it had none then: its number of rows is refused
    check_topics(["copies"], None, batch=3, name=NAME)


def test_an_entry_has_a_digest_of_many_topics() -> None:
    many = [f"topic-{number}" for number in range(5_000)]
    recorded = recorded_topics(many)
    check_topics(many, recorded, batch=3, name=NAME)

    assert len(str(recorded)) < 100
    with pytest.raises(LedgerMismatchError, match="in more than 20 topics, but now its rows would go to more than 20"):
        check_topics(many[1:], recorded, batch=3, name=NAME)


def test_other_rows_of_a_recorded_batch_can_be_accepted_too(spark: Spark, cluster: Direct) -> None:
    recorded(spark, cluster)
    take_any_rows(cluster, NAME)
    given = plan(cluster, NAME)

    assert given.last is not None
    assert (given.last.status, given.last.rows, given.last.topics) == (Status.DONE, None, None)


def test_without_a_batch_in_kafka_there_are_no_rows_to_accept(cluster: Direct) -> None:
    with pytest.raises(LedgerMismatchError, match="nothing to accept"):
        take_any_rows(cluster, NAME)


def test_the_open_transactions_of_a_forgotten_batch_are_aborted(
    spark: Spark, cluster: Direct, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable(Direct):
        def abort(self, found: OpenTaskTransaction, *, within: float | None = None) -> None:
            raise TransactionTimeoutError("no broker answered")

    recorded(spark, cluster)
    erase(Unreachable(spark), NAME)
    left = len(cluster.open_transactions(NAME))
    erase(cluster, NAME)

    assert left == 2
    assert "is forgotten, but not every open transaction could be aborted: no broker answered" in caplog.text
    assert cluster.open_transactions(NAME) == []
    assert run_until_done(spark) is None
    assert spark.brokers.visible == expected(spark)


def test_a_forgotten_batch_may_be_written_again(spark: Spark, cluster: Direct) -> None:
    run_until_done(spark)
    forgotten = erase(cluster, NAME)

    assert forgotten is not None
    assert cluster.ledger(NAME).last is None
    assert spark.brokers.visible == expected(spark)


# Which ids are free


def test_an_id_is_free_again_only_under_a_newer_lease() -> None:
    pool = IdPool(name=NAME, process="a" * 32)
    older, newer = attrs.evolve(LEASE, epoch=4), attrs.evolve(LEASE, epoch=6)
    first, second = pool.take(LEASE), pool.take(LEASE)
    zombies = pool.take(older)
    again = {pool.take(newer) for _ in range(3)}

    assert len({first, second, zombies}) == 3
    assert again == {first, second, zombies}


def test_leases_of_other_producer_ids_are_ordered_by_the_ledger_end() -> None:
    other = attrs.evolve(LEASE, producer_id=9, epoch=0)

    assert not other.newer_than(LEASE)
    assert not LEASE.newer_than(other)
    assert attrs.evolve(other, after=11).newer_than(LEASE)


def test_transactional_ids_of_longer_names_belong_to_others() -> None:
    mine = task_id("orders", process="0f" * 16, number=12)

    assert is_task_id("orders", mine)
    for foreign in (
        "orders/lease",
        "orders/eu/lease",
        f"orders/{mine}",
        task_id("orders-eu", process="0f" * 16, number=1),
    ):
        assert not is_task_id("orders", foreign)


def test_a_transaction_differs_from_a_later_one_of_its_id() -> None:
    mine = prepared(1)
    found = OpenTaskTransaction(transactional_id=mine.transactional_id, producer_id=1, epoch=0)

    assert found.is_of(mine)
    assert not attrs.evolve(found, epoch=1).is_of(mine)


def test_finished_actors_have_no_more_steps() -> None:
    actor = Actor(lambda _actor: None)

    assert run(actor) == 0


class Planner(BatchWriter):
    """A writer that plans with a simulated cluster."""

    def __init__(self, spark: Spark) -> None:
        options = read_options(
            {
                "kafka.bootstrap.servers": "127.0.0.1:1",
                "topic": "t",
                "guarantee": "exactly-once",
                "transactional.id.prefix": NAME,
            },
            problems=[],
        )
        super().__init__(read_settings(options), options, {}, of=BatchName(query=QUERY, batch=0), what="batch 0")
        self._spark = spark

    def cluster(self) -> Any:
        return nullcontext(PlannedCluster(self._spark))


class PlannedCluster(Direct):
    def timeout_ms(self) -> int:
        return 60_000


def test_missing_topics_are_reported_by_each_plan(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_options: WriteOptions) -> None:
        raise InvalidWriteError(["topic 't' does not exist"])

    monkeypatch.setattr(writer, "check_topics", refuse)
    planner = Planner(spark)
    for _ in range(2):
        with pytest.raises(InvalidWriteError, match="does not exist"):
            planner.plan()

    monkeypatch.setattr(writer, "check_topics", lambda _options: None)
    planner.plan()
    assert planner.last_done() is None
