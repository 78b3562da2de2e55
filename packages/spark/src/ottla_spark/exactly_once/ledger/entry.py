"""Ledger entries of a name, and the step that follows from them for Spark's next batch.

A name has one valid entry, its last; each entry replaces the one before. An entry is recorded when the batch is decided
to become visible, done when all its transactions are committed, and void when all are aborted. Only the last entry
decides the next step, because Spark repeats at most its last batch.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from ottla.errors import InvalidRecordError, printable, quoted
from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.transactional_ids import is_task_id

_FORM: Final = 1

_FORGOTTEN: Final = "forgotten"

_INT16: Final = (1 << 15) - 1
_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1


class Status(enum.Enum):
    """The state of a batch."""

    RECORDED = "recorded"
    DONE = "done"
    VOID = "void"


class Step(enum.Enum):
    """The work that a batch's tasks have to do."""

    WRITE = "write"
    SKIP = "skip"


@attrs.frozen(kw_only=True)
class TaskTransaction:
    """One task's transaction in an entry."""

    prepared: PreparedTransaction
    partition: int
    records: int

    def __str__(self) -> str:
        return f"{self.prepared.transactional_id} (Spark partition {self.partition}, {self.records} records)"


@attrs.frozen(kw_only=True)
class Entry:
    """The state of one batch of one query; all its transactions become visible, or none.

    All transactions are of one cluster, whose id they have unless an earlier version wrote the entry. `rows` counts the
    rows that Spark had for the batch, and `topics` are theirs, by `recorded_topics`. If they are None, Spark may have
    any number of rows, for any topics, when it runs the batch again: the entry is of an earlier version, or the user
    has accepted other rows.
    """

    query: str
    batch: int
    status: Status
    listed: Sequence[TaskTransaction] = ()
    rows: int | None = None
    topics: Sequence[str] | None = None

    def with_status(self, status: Status) -> Entry:
        """Return the same entry with another status."""
        return attrs.evolve(self, status=status)

    def to_bytes(self) -> bytes:
        """Encode the entry for the ledger topic."""
        transactions = [
            [
                each.prepared.transactional_id,
                each.prepared.producer_id,
                each.prepared.epoch,
                each.prepared.level,
                each.partition,
                each.records,
            ]
            for each in self.listed
        ]
        fields: dict[str, Any] = {"form": _FORM, "query": self.query, "batch": self.batch, "status": self.status.value}
        if self.rows is not None:
            fields["rows"] = self.rows
        if self.topics is not None:
            fields["topics"] = list(self.topics)
        if self.listed and self.listed[0].prepared.cluster_id is not None:
            fields["cluster"] = self.listed[0].prepared.cluster_id
        return json.dumps({**fields, "transactions": transactions}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> Entry:
        """Parse an entry that `to_bytes` wrote for *name*. Raises InvalidRecordError for anything else.

        An entry with transactions of another name is refused. Otherwise a forged entry could make the driver end
        foreign transactions with its own rights.
        """
        fields = _fields(data)
        try:
            cluster_id = _as(str, fields["cluster"]) if "cluster" in fields else None
            return cls(
                query=_as(str, fields["query"]),
                batch=_number(fields["batch"], _INT64),
                status=Status(fields["status"]),
                listed=tuple(_listed(name, cluster_id, *each) for each in fields["transactions"]),
                rows=_number(fields["rows"], _INT64) if "rows" in fields else None,
                topics=tuple(_as(str, each) for each in _as(list, fields["topics"])) if "topics" in fields else None,
            )
        except (ValueError, TypeError, KeyError) as cause:
            raise _no_entry(cause) from cause


FORGOTTEN: Final = json.dumps({"form": _FORM, "status": _FORGOTTEN}, separators=(",", ":")).encode()
"""Written instead of a deletion by `forget` if the topic of an earlier version may still have an entry."""

MOVED: Final = json.dumps({"form": _FORM + 1, "status": "moved"}, separators=(",", ":")).encode()
"""Written to an earlier version's topic after its entry was taken over: that version must not continue with it."""


def read_value(value: bytes | None, *, name: str) -> Entry | None:
    """Return the entry in a record of the ledger topic, None if it deletes one. Raises InvalidRecordError."""
    if value is None or _fields(value).get("status") == _FORGOTTEN:
        return None
    return Entry.from_bytes(value, name=name)


@attrs.frozen(kw_only=True)
class Ledger:
    """One name's last ledger entry, and where the topic ended when it was read.

    `partition` is the one for the next entry, -1 for any. `doubt` says why *last* may not be the entry that the name's
    drivers wrote last. `restate`: the driver must write the entry again first, or later drivers could not verify its
    writer, or would find two entries. `has_open_entry`: an entry's transaction is still open.
    """

    last: Entry | None
    end: int
    partition: int = -1
    doubt: str = ""
    restate: bool = False
    has_open_entry: bool = False

    def certain(self) -> Entry | None:
        """Return the last entry. Raises LedgerMismatchError if it is in doubt: a guess could skip or repeat rows."""
        if self.doubt:
            raise LedgerMismatchError(self.doubt)
        return self.last


def next_step(last: Entry | None, *, name: str, query: str, batch: int) -> Step:
    """Return the step for a batch. Raises LedgerMismatchError if the ledger is another query's or contradicts Spark.

    The ledger may be several batches behind: a function of `foreachBatch` need not write each batch.
    """
    if last is None:
        return Step.WRITE
    if last.query != query:
        raise LedgerMismatchError(
            f"the ledger of {name!r} belongs to the query {printable(last.query)}, but this is {query}: the query has "
            "a new checkpoint, or two queries use one prefix. Give this query its own transactional.id.prefix; or, if "
            "its rows may be written again from the beginning, call ottla_spark.exactly_once.forget"
        )
    if batch < last.batch:
        raise LedgerMismatchError(
            f"the ledger of {name!r} has batch {last.batch}, but Spark requests batch {batch}: the checkpoint is older "
            "than the ledger. Use the newest checkpoint; with this one, rows would be written twice"
        )
    if last.status is Status.VOID and batch > last.batch:
        raise LedgerMismatchError(
            f"all transactions of batch {last.batch} of {name!r} were aborted, but Spark requests batch {batch}, as if "
            f"batch {last.batch} had been written: start with a checkpoint in which batch {last.batch} is not committed"
        )
    if batch == last.batch and last.status is not Status.VOID:
        return Step.SKIP
    return Step.WRITE


def check_rows(now: int, before: int | None, *, batch: int, name: str) -> None:
    """Raise LedgerMismatchError if Spark has another number of rows for a batch that is in Kafka.

    With a checkpoint that is older by one batch, Spark plans the number of the last batch again, and adds the rows that
    have arrived since: skipped without a check, these would be lost.
    """
    if before is None or now == before:
        return
    raise LedgerMismatchError(
        f"batch {batch} of {name!r} is in Kafka with {before} rows, but Spark now has {now} rows for it. If the "
        "checkpoint is older than the ledger by one batch, Spark planned this batch again: use the newest checkpoint. "
        "If the query was changed, joins a table that was changed, or filters by chance, its rows may differ. Once you "
        "know which rows are missing in Kafka and have written them by hand, or if none are, call "
        "ottla_spark.exactly_once.accept_other_rows to let the query continue after this batch"
    )


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        if _as(dict, fields)["form"] != _FORM:
            raise ValueError(f"its format version is {quoted(str(fields['form']))}, not {_FORM}")
    # A kilobyte of brackets is enough for a RecursionError.
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise _no_entry(cause) from cause
    found: dict[str, Any] = fields
    return found


def _no_entry(cause: Exception) -> InvalidRecordError:
    return InvalidRecordError(
        f"this is not an entry of an exactly-once ledger: {type(cause).__name__}: {printable(str(cause))}"
    )


def _listed(
    name: str,
    cluster_id: str | None,
    transactional_id: Any,
    producer_id: Any,
    epoch: Any,
    level: Any,
    partition: Any,
    records: Any,
) -> TaskTransaction:
    if not is_task_id(name, _as(str, transactional_id)):
        raise ValueError(f"{transactional_id!r} is not a transactional id of a task of {name!r}")
    prepared = PreparedTransaction(
        transactional_id=transactional_id,
        producer_id=_number(producer_id, _INT64),
        epoch=_number(epoch, _INT16),
        level=_number(level, _INT16),
        cluster_id=cluster_id,
    )
    return TaskTransaction(prepared=prepared, partition=_number(partition, _INT32), records=_number(records, _INT64))


def _number(value: Any, maximum: int) -> int:
    number: int = _as(int, value)
    if not 0 <= number <= maximum:
        raise ValueError(f"{number} is not between 0 and {maximum}")
    return number


def _as(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value
