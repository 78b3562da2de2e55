"""Tasks of all-or-nothing batches on a real broker, without a Spark: each finds out that another has written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from spark_atomic_tasks_kit import packed

from ottla import transactions
from ottla.errors import ProducerFencedError, TransactionError
from ottla.transactions import Ended, SharedTransaction
from ottla_spark.atomic.errors import TaskRefusedError
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.errors import WriteError
from ottla_spark.options.options import read_options
from ottla_spark.worker import producer_cache
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import new_id, read

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 4
OWNERS = 2


class Setup:
    """A topic, its transaction, and tasks that write into it."""

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic
        self.config = {"bootstrap.servers": kafka.bootstrap_servers}
        self.id = new_id()
        self.shared = self.opened()

    def opened(self) -> SharedTransaction:
        with transactions.sharing(self.config) as owner:
            return owner.open(self.id)

    def end(self, *, commit: bool = True) -> Ended:
        with transactions.sharing(self.config) as owner:
            return owner.end(self.shared, commit=commit)

    def write(self, owner: int, partitions: Sequence[int], *, attempt: int = 0, name: str = "row") -> int:
        """One task: a row for each of these."""
        problems: list[str] = []
        options = read_options(
            {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "topic": self.topic}, problems=problems
        )
        assert problems == []
        assignment = PartitionAssignment.of({self.topic: PARTITIONS}, tasks=OWNERS)
        task = TaskWrite(shared=self.shared, assignment=assignment, options=options)
        values = [f"{name} {number}" for number in range(len(partitions))]
        return task.write(packed(values, partitions, assignment, options), owner=owner, attempt=attempt)

    def committed(self, *, after_markers: bool = True) -> Counter[bytes]:
        found = read(self.kafka.bootstrap_servers, self.topic, partitions=PARTITIONS, after_markers=after_markers)
        return Counter(value for values in found for value in values)


@pytest.fixture
def setup(kafka: KafkaCluster, make_topic: MakeTopic) -> Setup:
    return Setup(kafka, make_topic(PARTITIONS))


def test_tasks_of_different_partitions_write_into_one_transaction(setup: Setup) -> None:
    assert [setup.write(0, [0, 2, 0], name="even"), setup.write(1, [1, 3], name="odd")] == [3, 2]
    assert setup.committed(after_markers=False) == Counter()
    assert setup.end().outcome.committed

    assert setup.committed() == Counter([b"even 0", b"even 1", b"even 2", b"odd 0", b"odd 1"])


def test_a_repeated_stage_detects_that_its_records_were_duplicates(setup: Setup) -> None:
    setup.write(0, [0, 2])
    producer_cache._cache_of_process().empty()  # the second run is in another worker
    with pytest.raises(
        TaskRefusedError, match=r"ended at offset 1 before this task wrote, but .* acknowledged at offset 0"
    ):
        setup.write(0, [0, 2])
    setup.end(commit=False)

    assert setup.committed() == Counter()


def test_a_repeated_stage_with_other_rows_is_refused_by_the_broker(setup: Setup) -> None:
    setup.write(0, [0, 0, 0])
    producer_cache._cache_of_process().empty()
    with pytest.raises((TaskRefusedError, WriteError)):
        setup.write(0, [0, 0])
    setup.end(commit=False)

    assert setup.committed() == Counter()


def test_an_attempt_after_the_first_does_not_write(setup: Setup) -> None:
    with pytest.raises(TaskRefusedError, match="attempt 1 of task 0, and an earlier attempt may have written"):
        setup.write(0, [0], attempt=1)


@pytest.mark.parametrize("slots", [[0, 1], [1], [1, 3]])
def test_rows_of_another_owner_are_refused_before_any_is_sent(setup: Setup, slots: list[int]) -> None:
    with pytest.raises(TaskRefusedError, match="task 0 got rows of partitions that another task owns"):
        setup.write(0, slots)

    ends = transactions.end_offsets(setup.config, {setup.topic: range(PARTITIONS)})
    assert set(ends.values()) == {0}


def test_a_late_task_writes_nothing_that_readers_see(setup: Setup) -> None:
    setup.write(0, [0])
    assert setup.end().outcome.committed
    with pytest.raises(WriteError):
        setup.write(1, [1], name="late")
    with pytest.raises(ProducerFencedError), transactions.sharing(setup.config) as owner:
        owner.commit_offsets(setup.shared, {(setup.topic, 0): 1}, setup.id)

    assert setup.committed() == Counter([b"row 0"])


def test_one_worker_serves_consecutive_batches(setup: Setup) -> None:
    for batch in range(3):
        setup.write(0, [0, 2], name=f"{batch} even")
        setup.write(1, [1, 3], name=f"{batch} odd")
        following = setup.end().following
        assert following is not None
        setup.shared = following

    assert sum(setup.committed().values()) == 12
    assert max(setup.committed().values()) == 1


def test_a_timeout_above_the_broker_limit_is_refused_with_the_remedy(setup: Setup) -> None:
    with (
        transactions.sharing(setup.config) as owner,
        pytest.raises(TransactionError, match=r"Lower transaction\.timeout\.ms, or have the brokers'"),
    ):
        owner.open(setup.id, transaction_timeout_ms=2**31 - 1)


def test_a_replaced_owner_gets_an_error_from_every_call(setup: Setup) -> None:
    old, setup.shared = setup.shared, setup.opened()
    with transactions.sharing(setup.config) as owner:
        for call in (
            lambda: owner.open(setup.id, after=old),
            lambda: owner.commit_offsets(old, {(setup.topic, 0): 1}, setup.id),
            lambda: owner.end(old, commit=True),
            lambda: owner.end(old, commit=False),
        ):
            with pytest.raises(ProducerFencedError, match="has another owner"):
                call()
