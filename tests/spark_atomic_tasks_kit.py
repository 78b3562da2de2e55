"""Batches of all-or-nothing writes whose tasks run here, one after the other, without a Spark: many in little time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

from ottla.transactions import SharedTransaction
from ottla_spark.atomic.driver import BatchDriver
from ottla_spark.atomic.partition_assignment import PartitionAssignment
from ottla_spark.atomic.sealed_rows import SEALED_BATCH_BYTES, RowSealing
from ottla_spark.atomic.task import TaskWrite
from ottla_spark.atomic.transaction_owner import TransactionOwner
from ottla_spark.options.options import read_options
from ottla_spark.options.write_options import WriteOptions

TIMEOUT_MS = 120_000


@attrs.frozen(kw_only=True)
class Query:
    """One query, which writes to one topic; its marker belongs to that too."""

    topic: str
    options: WriteOptions
    transactional_id: str
    partitions: int
    owners: int
    rows: int
    timeout: float = 60.0

    @classmethod
    def writing(
        cls,
        topic: str,
        settings: Mapping[str, object],
        *,
        transactional_id: str,
        partitions: int,
        owners: int,
        rows: int,
        timeout: float = 60.0,
    ) -> Query:
        """A query whose producers have these settings."""
        problems: list[str] = []
        given = {f"kafka.{key}": str(value) for key, value in settings.items()}
        options = read_options(given | {"topic": topic}, problems=problems)
        assert problems == []
        return cls(
            topic=topic,
            options=options,
            transactional_id=transactional_id,
            partitions=partitions,
            owners=owners,
            rows=rows,
            timeout=timeout,
        )

    @property
    def owner(self) -> TransactionOwner:
        """The driver's connections to brokers."""
        return TransactionOwner(
            settings=self.options.producer,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            marker_topic=self.topic,
            timeout=self.timeout,
        )

    def driver(self, *, attempts: int = 3, begins_with: int | None = None) -> BatchDriver:
        """A driver."""
        return BatchDriver(self.owner, query="q", attempts=attempts, begins_with=begins_with)

    def batch(self, number: int) -> Rows:
        """The rows of a batch: so many values `number-row`."""
        return Rows(query=self, number=number)

    def values(self, batches: int) -> list[bytes]:
        """The records of so many batches in the topic."""
        return [b"%d-%d" % (batch, row) for batch in range(batches) for row in range(self.rows)]


@attrs.frozen(kw_only=True)
class Rows:
    """The rows of one batch."""

    query: Query
    number: int

    def write(self, shared: SharedTransaction) -> int:
        assignment = PartitionAssignment.of({self.query.topic: self.query.partitions}, tasks=self.query.owners)
        task = TaskWrite(shared=shared, assignment=assignment, options=self.query.options)
        return sum(
            task.write(self._of(owner, assignment.owners), owner=owner, attempt=0) for owner in range(assignment.owners)
        )

    def drain(self) -> int:
        """There is no state."""
        return self.query.rows

    def is_retriable(self, error: Exception) -> bool:
        return True

    def _of(self, owner: int, owners: int) -> Iterator[pa.RecordBatch]:
        numbers = [row for row in range(self.query.rows) if row % self.query.partitions % owners == owner]
        values = [f"{self.number}-{number}" for number in numbers]
        places = [number % self.query.partitions for number in numbers]
        assignment = PartitionAssignment.of({self.query.topic: self.query.partitions}, tasks=owners)
        return packed(values, places, assignment, self.query.options)


def packed(
    values: Sequence[str], partitions: Sequence[int], assignment: PartitionAssignment, options: WriteOptions
) -> Iterator[pa.RecordBatch]:
    """The output of a task before the shuffle, for rows of these partitions."""
    batch = pa.record_batch({"value": pa.array(values), "partition": pa.array(partitions, pa.int32())})
    packing = RowSealing(
        settings=frozenset(options.producer.items()),
        assignment=assignment,
        options=options,
        columns={"value": 0, "partition": 1},
        max_bytes=SEALED_BATCH_BYTES,
    )
    return packing.seal(iter([batch]), task="task")
