"""The result of a task's attempt, which executors make and the driver's commit reads."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs

from ottla.transactions import PreparedTransaction
from ottla_spark.exactly_once.ledger.entry import Step
from ottla_spark.exactly_once.ledger.lease import Lease


@attrs.frozen(kw_only=True)
class Attempt:
    """The result of one attempt of a task; `prepared` is None if the task sent no row, or skipped them.

    `rows` counts what Spark passed to the task, and `topics` are those of these rows. `rows_in_ledger` and
    `topics_in_ledger` are those of the whole batch that the task skipped. `planned_at` is that of its plan, and
    `open_for` seconds passed in the task after it had sent the first rows of its transaction. `superseded`: the task
    has found that its lease is no longer the newest one, and has aborted its transaction.
    """

    lease: Lease
    query: str
    batch: int
    partition: int
    step: Step
    prepared: PreparedTransaction | None = None
    records: int = 0
    rows: int = 0
    topics: Sequence[str] = ()
    rows_in_ledger: int | None = None
    topics_in_ledger: Sequence[str] | None = None
    planned_at: float | None = None
    open_for: float = 0.0
    superseded: bool = False

    def to_values(self) -> dict[str, Any]:
        """Return the attempt as values that JSON can represent."""
        return attrs.asdict(self, value_serializer=_plain)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the attempt that `to_values` was called on."""
        prepared, topics_in_ledger = values["prepared"], values["topics_in_ledger"]
        parts = {
            "topics": tuple(values["topics"]),
            "topics_in_ledger": None if topics_in_ledger is None else tuple(topics_in_ledger),
            "lease": Lease(**values["lease"]),
            "step": Step(values["step"]),
            "prepared": None if prepared is None else PreparedTransaction(**prepared),
        }
        return cls(**{**values, **parts})


def _plain(_owner: object, _field: object, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value
