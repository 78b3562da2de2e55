"""The driver's part of all-or-nothing batches, with a fault at every step: what Kafka holds at the end is exact.

The brokers are simulated as the rules of transactions describe them; drivers die, answers get lost, tasks fail and go
on writing late, and other drivers come in between. Spark is what it promises: a batch whose function did not return is
asked for again, with the same number and the same rows.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import attrs
import pytest
from long_forms import LONG

from ottla.errors import OttlaError, ProducerFencedError, TransactionError, TransactionTimeoutError
from ottla.transactions import Ended, Outcome, SharedTransaction
from ottla_spark.atomic.driver import BatchDriver, BatchWritten
from ottla_spark.atomic.errors import BatchFailedError, BatchRefusedError
from ottla_spark.atomic.marker import Marker

QUERY = "query-1"
ROWS = 4
LATE_FOR = 2
"""Tasks of a job that failed are gone when two rows of the next were written."""
LEVELS = pytest.mark.parametrize("level", [0, 2])
SEED = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1 << 32))


class DriverDied(BaseException):
    """kill -9."""


class TaskDied(Exception):
    """The error that Spark raises when a task failed."""


class Brokers:
    """One transactional id, what is open under it, and what was committed.

    Before transaction.version 2 a transaction's end leaves the epoch, and a partition takes a late record of it then;
    what is left `hanging` so becomes visible with the next commit.
    """

    def __init__(self, *, level: int) -> None:
        self.level = level
        self.epoch = -1
        self.rows: list[str] | None = None  # open
        self.marker: Marker | None = None  # open
        self.committed: list[str] = []
        self.committed_marker: Marker | None = None
        self.outdated_marker: Marker | None = None
        """The committed one before that, which a broker has that was paused since, and replaced."""
        self.ended: dict[int, bool] = {}
        self.hanging: list[str] = []

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        if after is not None and after.epoch != self.epoch:
            raise ProducerFencedError("another owner has it")
        self._finish(commit=False)
        self.epoch += 1
        return self._shared()

    def take(self, shared: SharedTransaction, row: str) -> None:
        if shared.epoch != self.epoch:
            raise ProducerFencedError("a record of an old epoch")
        if shared.epoch in self.ended:
            self.hanging.append(row)
            return
        self.rows = [*(self.rows or []), row]

    def mark(self, shared: SharedTransaction, marker: Marker) -> None:
        if shared.epoch != self.epoch:
            raise ProducerFencedError("an offset of an old epoch")
        self.rows = self.rows or []
        self.marker = marker

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        following = self._shared() if self.level >= 2 else None
        if self.ended.get(shared.epoch) is commit and self.rows is None:
            return Ended(outcome=Outcome.COMMITTED if commit else Outcome.ABORTED, following=following)
        if shared.epoch in self.ended:
            return Ended(outcome=Outcome.ALREADY_ABORTED if commit else Outcome.ALREADY_COMMITTED, following=None)
        if shared.epoch != self.epoch:
            raise ProducerFencedError("an end of an old epoch")
        self.ended[shared.epoch] = commit
        self._finish(commit=commit)
        if self.level >= 2:
            self.epoch += 1
            following = self._shared()
        return Ended(outcome=Outcome.COMMITTED if commit else Outcome.ABORTED, following=following)

    def time_out(self) -> None:
        """The coordinator gives up what is open."""
        self.ended[self.epoch] = False
        self._finish(commit=False)
        self.epoch += 1

    def _finish(self, *, commit: bool) -> None:
        if commit:
            self.committed += [*(self.rows or []), *self.hanging]
            self.hanging.clear()
            if self.marker is not None:
                self.outdated_marker, self.committed_marker = self.committed_marker, self.marker
        self.rows = self.marker = None

    def _shared(self) -> SharedTransaction:
        return SharedTransaction(transactional_id="x", producer_id=1, epoch=self.epoch, level=self.level)


@attrs.define
class Faults:
    """Faults by step; steps are counted over all drivers. `steps` are the names of those that passed."""

    planned: dict[int, str] = attrs.field(factory=dict)
    meanwhile: Callable[[], None] = lambda: None
    steps: list[str] = attrs.field(factory=list)
    late: list[Callable[[], None]] = attrs.field(factory=list)
    outdated: int = 0

    def around(self, step: str) -> Iterator[None]:
        """Yields where the step has its effect."""
        for write in self.late:
            with contextlib.suppress(ProducerFencedError):
                write()
        if self.steps[-LATE_FOR:].count("row") == len(self.steps[-LATE_FOR:]):
            self.late.clear()
        fault = self.planned.pop(len(self.steps), "")
        self.steps.append(step)
        if fault == "meanwhile":
            self.meanwhile()
        if fault == "died before":
            raise DriverDied
        if fault == "never asked":
            raise TransactionTimeoutError(f"{step} failed")
        if fault == "refused":
            raise TransactionError(f"{step} was refused")
        yield
        if fault == "died after":
            raise DriverDied
        if fault == "answer lost":
            raise TransactionTimeoutError(f"no answer to {step}")


@attrs.frozen
class OwnerWithFaults:
    brokers: Brokers
    faults: Faults

    @property
    def where(self) -> str:
        return "group 'x'"

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        for _ in self.faults.around("open"):
            found = self.brokers.open(after)
        return found

    def marker(self) -> Marker | None:
        outdated = self.faults.planned.get(len(self.faults.steps)) == "outdated"
        self.faults.outdated += outdated
        for _ in self.faults.around("marker"):
            found = self.brokers.outdated_marker if outdated else self.brokers.committed_marker
        return found

    def markers_for_other_topics(self) -> Mapping[str, Marker]:
        return {}

    def mark(self, shared: SharedTransaction, marker: Marker, *, read: bool = False) -> Marker | None:
        for _ in self.faults.around("mark"):
            self.brokers.mark(shared, marker)
        return self.brokers.committed_marker if read else None

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        for _ in self.faults.around("commit" if commit else "abort"):
            found = self.brokers.end(shared, commit=commit)
        return found


@attrs.frozen
class RowsWithFaults:
    """The rows of a batch; the state that a query keeps with them counts how often they were computed in full."""

    batch: int
    brokers: Brokers
    faults: Faults
    computed: Counter[int]

    def write(self, shared: SharedTransaction) -> int:
        for number in range(ROWS):
            failing = self.faults.planned.get(len(self.faults.steps)) == "task died"
            if failing:
                self.faults.planned.pop(len(self.faults.steps))
                self.faults.steps.append("row")
                self.faults.late.append(partial(self.brokers.take, shared, f"late {self.batch}-{number}"))
                raise TaskDied(f"at row {number}")
            for _ in self.faults.around("row"):
                self.brokers.take(shared, f"{self.batch}-{number}")
        self.computed[self.batch] += 1
        return ROWS

    def drain(self) -> int:
        for _ in self.faults.around("drain"):
            self.computed[self.batch] += 1
        return ROWS

    def is_retriable(self, error: Exception) -> bool:
        return not isinstance(error, TransactionTimeoutError)


class Spark:
    """A query over several runs. `log` is Spark's own log of commits: the batches whose function returned."""

    def __init__(self, brokers: Brokers, faults: Faults) -> None:
        self.brokers = brokers
        self.faults = faults
        self.log = -1
        self.computed: Counter[int] = Counter()
        self.restarts = 0

    def run(self, batches: int, *, attempts: int = 3) -> None:
        """Drivers, one after the other, until all batches are in the log."""
        while self.log < batches - 1:
            driver = BatchDriver(OwnerWithFaults(self.brokers, self.faults), query=QUERY, attempts=attempts)
            try:
                while self.log < batches - 1:
                    self.batch(driver)
            except BatchRefusedError:
                # Nothing is missing here, but a broker that another one has replaced may say so.
                if not self.faults.outdated:
                    raise
                self.restarts += 1
            except (DriverDied, OttlaError, TaskDied):
                self.restarts += 1
                assert self.restarts < 100, "it does not come to an end"

    def batch(self, driver: BatchDriver) -> BatchWritten:
        number = self.log + 1
        written = driver.write(number, RowsWithFaults(number, self.brokers, self.faults, self.computed))
        self.log = max(self.log, number)
        return written


def assert_exact(spark: Spark, batches: int) -> None:
    wanted = Counter(f"{batch}-{number}" for batch in range(batches) for number in range(ROWS))
    assert Counter(spark.brokers.committed) == wanted
    assert all(spark.computed[batch] for batch in range(batches)), "a state was not computed"
    assert spark.brokers.rows is None


def with_a_second_driver(level: int, planned: dict[int, str], *, batches: int, attempts: int = 3) -> None:
    """A run with these faults, "meanwhile" being another driver's batch; exact at its end."""
    brokers, faults = Brokers(level=level), Faults(planned=dict(planned))
    spark, second = Spark(brokers, faults), Spark(brokers, Faults())

    def another() -> None:
        second.log, second.computed = spark.log, spark.computed
        second.batch(BatchDriver(OwnerWithFaults(brokers, second.faults), query=QUERY, attempts=attempts))

    faults.meanwhile = another
    spark.run(batches, attempts=attempts)
    try:
        assert_exact(spark, batches)
    except AssertionError as error:
        error.add_note(f"level {level}, {planned}; again with OTTLA_SEED={SEED}")
        raise


def steps_without_faults(level: int) -> list[str]:
    faults = Faults()
    Spark(Brokers(level=level), faults).run(3)
    return faults.steps


@LEVELS
def test_without_faults_a_batch_is_one_commit_and_one_marker_read(level: int) -> None:
    steps = [step for step in steps_without_faults(level) if step != "row"]

    first = ["open", "marker", "mark", "commit"]
    following = ["mark", "commit"] if level == 2 else ["open", "mark", "commit"]
    assert steps == first + following * 2


@LEVELS
@pytest.mark.parametrize("fault", ["died before", "died after", "never asked", "answer lost", "refused", "task died"])
def test_a_fault_at_any_step_loses_and_duplicates_nothing(level: int, fault: str) -> None:
    for step, name in enumerate(steps_without_faults(level)):
        if fault == "task died" and name != "row":
            continue
        faults = Faults(planned={step: fault})
        spark = Spark(Brokers(level=level), faults)
        spark.run(3)

        assert not faults.planned, f"{fault} at step {step} did not happen"
        assert_exact(spark, 3)


@LEVELS
def test_a_second_driver_at_any_step_loses_and_duplicates_nothing(level: int) -> None:
    for step, _name in enumerate(steps_without_faults(level)):
        with_a_second_driver(level, {step: "meanwhile"}, batches=3)


@LEVELS
def test_any_faults_in_any_order_lose_and_duplicate_nothing(level: int) -> None:
    chance = random.Random(f"{SEED} {level}")
    kinds = ["died before", "died after", "never asked", "answer lost", "refused", "task died", "meanwhile", "outdated"]
    for _ in range(5_000 if LONG else 500):
        planned = {chance.randrange(60): chance.choice(kinds) for _ in range(chance.randrange(1, 9))}
        with_a_second_driver(level, planned, batches=4, attempts=chance.choice([1, 3]))


@LEVELS
def test_a_failed_task_is_aborted_and_its_batch_repeated_in_place(level: int) -> None:
    first_row = steps_without_faults(level).index("row")
    faults = Faults(planned={first_row + 2: "task died"})
    spark = Spark(Brokers(level=level), faults)
    driver = BatchDriver(OwnerWithFaults(spark.brokers, faults), query=QUERY, attempts=2)

    assert spark.batch(driver) == BatchWritten(batch=0, records=ROWS, attempts=2)
    assert_exact(spark, 1)


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_lost_commit_response_is_resolved_by_reading_the_marker(attempts: int) -> None:
    faults = Faults(planned={steps_without_faults(2).index("commit"): "answer lost"})
    spark = Spark(Brokers(level=2), faults)
    driver = BatchDriver(OwnerWithFaults(spark.brokers, faults), query=QUERY, attempts=attempts)

    assert spark.batch(driver) == BatchWritten(batch=0, records=ROWS, attempts=1)
    assert spark.computed == {0: 1}


@LEVELS
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_batch_after_an_outdated_marker_is_not_written_twice(level: int, batches: int, attempts: int) -> None:
    """Its driver died after the commit, and the next one asks a broker that another one has replaced."""
    died = Spark(Brokers(level=level), Faults())
    died.run(batches)
    faults = Faults(planned={1: "outdated"})
    spark = Spark(died.brokers, faults)
    spark.log = batches - 2
    spark.run(batches + 1, attempts=attempts)

    assert not faults.planned
    wanted = Counter(f"{batch}-{number}" for batch in range(batches + 1) for number in range(ROWS))
    assert Counter(spark.brokers.committed) == wanted
    assert spark.restarts == (1 if attempts == 1 else 0)


@LEVELS
def test_the_attempts_of_a_batch_are_how_often_its_rows_were_written(level: int) -> None:
    """Here a task of the first attempt fails, and the response to the second one's commit is lost."""
    row = steps_without_faults(level).index("row")
    planned: dict[int, str] = {row: "task died"}
    names = Faults(planned=dict(planned))
    spark = Spark(Brokers(level=level), names)
    spark.run(1)
    planned[names.steps.index("commit")] = "answer lost"
    spark = Spark(Brokers(level=level), Faults(planned=planned))
    written = spark.batch(BatchDriver(OwnerWithFaults(spark.brokers, spark.faults), query=QUERY, attempts=3))

    assert written == BatchWritten(batch=0, records=ROWS, attempts=2)
    assert_exact(spark, 1)
    assert not planned


@pytest.mark.parametrize("skips", [None, 0, 1])
def test_a_batch_that_has_other_rows_now_is_skipped_only_on_request(skips: int | None) -> None:
    spark = Spark(Brokers(level=2), Faults())
    spark.run(1)
    spark.brokers.committed_marker = Marker(query=QUERY, batch=0, rows=ROWS - 1)
    spark.log = -1  # as if Spark had planned the batch again
    driver = BatchDriver(OwnerWithFaults(spark.brokers, spark.faults), query=QUERY, attempts=1, skips=skips)

    if skips == 0:
        assert spark.batch(driver).records is None
    else:
        with pytest.raises(BatchRefusedError, match=f"with {ROWS - 1} rows .* now has {ROWS} rows"):
            spark.batch(driver)
    assert len(spark.brokers.committed) == ROWS


def test_a_batch_already_in_kafka_is_computed_and_not_written() -> None:
    spark = Spark(Brokers(level=2), Faults())
    spark.run(1)
    spark.log = -1  # as if the driver had died before Spark's own commit
    driver = BatchDriver(OwnerWithFaults(spark.brokers, spark.faults), query=QUERY, attempts=1)

    assert spark.batch(driver) == BatchWritten(batch=0, records=None, attempts=0)
    assert spark.computed == {0: 2}
    assert_exact(spark, 1)


@LEVELS
def test_a_replaced_driver_writes_nothing_and_does_not_take_the_id_back(level: int) -> None:
    spark = Spark(Brokers(level=level), Faults())
    old = BatchDriver(OwnerWithFaults(spark.brokers, spark.faults), query=QUERY, attempts=3)
    spark.batch(old)
    new = BatchDriver(OwnerWithFaults(spark.brokers, spark.faults), query=QUERY, attempts=3)
    rows = RowsWithFaults(1, spark.brokers, spark.faults, spark.computed)
    new.write(1, rows)
    epoch = spark.brokers.epoch
    for _ in range(2):
        with pytest.raises(ProducerFencedError):
            old.write(1, rows)

    assert spark.brokers.epoch == epoch
    spark.log = 1
    spark.batch(new)
    assert_exact(spark, 3)


def test_a_batch_that_took_too_long_is_repeated() -> None:
    brokers = Brokers(level=2)
    faults = Faults(planned={steps_without_faults(2).index("commit"): "meanwhile"}, meanwhile=brokers.time_out)
    spark = Spark(brokers, faults)
    written = spark.batch(BatchDriver(OwnerWithFaults(brokers, faults), query=QUERY, attempts=2))

    assert written.attempts == 2
    assert_exact(spark, 1)


@LEVELS
@pytest.mark.parametrize("fault", ["never asked", "refused"])
def test_an_abort_that_fails_does_not_hide_why_the_batch_failed(level: int, fault: str) -> None:
    faults = Faults({2: "task died", 3: fault})  # after `open` and `marker`
    spark = Spark(Brokers(level=level), faults)
    with pytest.raises(BatchFailedError, match="at row 0") as failed:
        spark.batch(BatchDriver(OwnerWithFaults(spark.brokers, faults), query=QUERY, attempts=1))

    assert isinstance(failed.value.__cause__, TaskDied)
    [note] = failed.value.__cause__.__notes__
    assert note.startswith("while aborting the batch: ")


def test_a_batch_that_always_fails_is_an_error_and_leaves_nothing_open() -> None:
    brokers = Brokers(level=2)
    first_row = steps_without_faults(2).index("row")
    faults = Faults(planned={first_row: "task died", first_row + 2: "task died"})
    spark = Spark(brokers, faults)
    with pytest.raises(
        BatchFailedError, match="all 2 attempts to write batch 0 failed, and none of its records is visible"
    ) as caught:
        spark.batch(BatchDriver(OwnerWithFaults(brokers, faults), query=QUERY, attempts=2))

    assert isinstance(caught.value.__cause__, TaskDied)
    assert (brokers.rows, brokers.committed) == (None, [])
