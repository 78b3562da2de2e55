"""What the ledger says of one name, and what that means for a batch that Spark wants written.

A name has one entry, its last; each entry replaces the one before. It is recorded when a batch is decided to become
visible, done when all its transactions are, and void when none is nor will be. Only the last decides what comes next,
because Spark repeats its last batch at most.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from ottla.errors import InvalidRecord
from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.errors import LedgerRefused

_FORM: Final = 1


class Status(enum.Enum):
    """How far a batch has come."""

    RECORDED = "recorded"
    DONE = "done"
    VOID = "void"


class Step(enum.Enum):
    """What the tasks of a batch have to do."""

    WRITE = "write"
    SKIP = "skip"


@attrs.frozen(kw_only=True)
class Listed:
    """One task's transaction in an entry."""

    prepared: PreparedTransaction
    partition: int
    records: int

    def __str__(self) -> str:
        return f"{self.prepared.transactional_id} (Spark partition {self.partition}, {self.records} records)"


@attrs.frozen(kw_only=True)
class Entry:
    """The last word on one batch of one query; all its transactions become visible, or none."""

    query: str
    batch: int
    status: Status
    listed: Sequence[Listed] = ()

    def with_status(self, status: Status) -> Entry:
        """The same batch, further on."""
        return attrs.evolve(self, status=status)

    def to_bytes(self) -> bytes:
        """For the ledger topic."""
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
        fields = {"form": _FORM, "query": self.query, "batch": self.batch, "status": self.status.value}
        return json.dumps({**fields, "transactions": transactions}, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """What `to_bytes` made. Raises InvalidRecord for anything else."""
        try:
            fields = json.loads(data)
            if fields["form"] != _FORM:
                raise ValueError(f"it is of form {fields['form']}, not {_FORM}")
            return cls(
                query=_as(str, fields["query"]),
                batch=_as(int, fields["batch"]),
                status=Status(fields["status"]),
                listed=tuple(_listed(*each) for each in fields["transactions"]),
            )
        except (ValueError, TypeError, KeyError) as cause:
            raise InvalidRecord(f"this is no entry of an exactly-once ledger: {cause!r}") from cause


@attrs.frozen(kw_only=True)
class Ledger:
    """What one name's ledger holds, and where the topic ended when it was read."""

    last: Entry | None
    end: int


def next_step(last: Entry | None, *, name: str, query: str, batch: int) -> Step:
    """What is to be done for a batch. Raises LedgerRefused where the ledger is another query's, or in disagreement."""
    if last is None:
        return Step.WRITE
    if last.query != query:
        raise LedgerRefused(
            f"the ledger of {name!r} belongs to the query {last.query}, and this is {query}: a new checkpoint, or two "
            "queries with one prefix. Give this query a transactional.id.prefix of its own; or, if its rows may come "
            "again from the beginning, forget the old ledger with ottla_spark.exactly_once.forget"
        )
    if batch < last.batch:
        raise LedgerRefused(
            f"the ledger of {name!r} has batch {last.batch}, and Spark wants to write batch {batch}: its checkpoint is "
            "older than what is in Kafka. Use the newest checkpoint; what was written would come again"
        )
    if last.status is Status.VOID and batch > last.batch:
        raise LedgerRefused(
            f"batch {last.batch} of {name!r} ended with none of its transactions, and Spark goes on with batch {batch} "
            "as if it were written: start again with a checkpoint in which it is not committed"
        )
    if batch == last.batch and last.status is not Status.VOID:
        return Step.SKIP
    return Step.WRITE


def _listed(transactional_id: Any, producer_id: Any, epoch: Any, level: Any, partition: Any, records: Any) -> Listed:
    prepared = PreparedTransaction(
        transactional_id=_as(str, transactional_id),
        producer_id=_as(int, producer_id),
        epoch=_as(int, epoch),
        level=_as(int, level),
    )
    return Listed(prepared=prepared, partition=_as(int, partition), records=_as(int, records))


def _as(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value
