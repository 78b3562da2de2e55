"""Tables of random histories: their batches, and the outcomes of their rows, which count as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import attrs

from history_plans import Table
from invariants import Sent, Violation, value_of
from ottla import RecordMetadata, TableProgress
from ottla.accumulator.batch import UNASSIGNED
from ottla.errors import (
    AbortableTransactionError,
    BufferExhaustedError,
    DeliveryError,
    IllegalStateError,
    TopicUnavailableError,
)
from ottla.tables.table_delivery import TableDelivery

if TYPE_CHECKING:
    from histories import Run

NO_ROWS: Final = TableProgress(rows=0, acknowledged=0, failed=0)

ARROW: Final = find_spec("pyarrow") is not None
"""Whether tables are sent: not every interpreter has pyarrow."""

NOT_QUEUED: Final = (
    BufferExhaustedError,
    TopicUnavailableError,
    IllegalStateError,
    AbortableTransactionError,
    KeyboardInterrupt,
)
"""The causes for which rows of a table fail that were not queued."""


@attrs.define
class Row:
    """The outcome of a row of a table."""

    error: DeliveryError | None = None
    metadata: RecordMetadata | None = None

    def done(self) -> bool:
        """Return whether there is one."""
        return self.error is not None or self.metadata is not None


def new_rows(run: Run, program: int, numbers: Iterator[int], call: Table) -> Sequence[Sent]:
    """The rows of a table that is about to be sent."""
    now = run.simulation.clock()
    rows = [
        Sent(program=program, number=next(numbers), topic=call.topic, partition=None, size=call.size, sent_at=now)
        for _ in range(call.rows)
    ]
    run.sent += rows
    run.note(title(rows))
    return rows


class Progress:
    """The `on_progress` of one table, which notes what contradicts its promises."""

    def __init__(self, rows: Sequence[Sent]) -> None:
        self._rows = rows
        self.expected: int | None = None
        """The rows that were queued, once the call has returned."""
        self.last: TableProgress | None = None
        self.wrong: str | None = None

    def __call__(self, progress: TableProgress) -> None:
        before, self.last = self.last or NO_ROWS, progress
        counts = [(each.rows, each.acknowledged, each.failed) for each in (before, progress)]
        if progress.rows > len(self._rows) or progress.pending < 0:
            self.wrong = self.wrong or f"{title(self._rows)} has {len(self._rows)} rows, and on_progress got {progress}"
        if any(earlier > later for earlier, later in zip(*counts, strict=True)):
            self.wrong = self.wrong or f"on_progress of {title(self._rows)} got {progress} after {before}"

    def check(self) -> None:
        """Raise Violation for what was wrong. For a turn after the one in which the call returned."""
        if self.wrong is not None:
            raise Violation(self.wrong)
        if self.expected is not None and (self.last is None or self.last.rows != self.expected):
            raise Violation(f"on_progress of {title(self._rows)} got {self.last}, and {self.expected} rows were queued")


def title(rows: Sequence[Sent]) -> str:
    """The name of a table, for the story."""
    return f"table {rows[0].program}:{rows[0].number}-{rows[-1].number} for {rows[0].topic}"


def batches(run: Run, rows: Sequence[Sent], call: Table) -> Iterator[Any]:
    """The stream of a table with these rows."""
    import pyarrow as pa

    for first in range(0, len(rows), call.batch):
        if first:
            run.simulation.sleep(call.pause)
        some = rows[first : first + call.batch]
        values = [value_of(row.program, row.number, row.size) for row in some]
        yield pa.record_batch(
            {
                "key": pa.array([b"%d" % (row.number % 5) for row in some], pa.binary()),
                "value": pa.array(values, pa.binary()),
                "timestamp": pa.array([row.number for row in some], pa.int64()),
            }
        )


def expect(run: Run, rows: Sequence[Sent], delivery: TableDelivery | None) -> None:
    """Have the outcomes of the rows noted that are in the delivery; the others were not queued."""
    taken = 0 if delivery is None else delivery.rows
    for row in rows[taken:]:
        run.leave_out(row, "its table was refused")
    if not taken:
        return
    rows, outcomes = rows[:taken], [Row() for _ in range(taken)]
    for row, outcome in zip(rows, outcomes, strict=True):
        row.delivery, row.queued_at = outcome, run.simulation.clock()

    def done(delivery: TableDelivery) -> None:
        failed = delivery.failed_rows()
        for number, (row, outcome) in enumerate(zip(rows, outcomes, strict=True)):
            error = outcome.error = failed.get(number)
            if error is not None and error.partition == UNASSIGNED and isinstance(error.__cause__, NOT_QUEUED):
                row.delivery = None
                run.leave_out(row, error)
                continue
            outcome.metadata = row.metadata = None if error is not None else delivery.metadata(number)
            row.calls.append((run.simulation.clock(), error))
        run.note(f"{title(rows)}: {len(failed)} of {len(rows)} rows failed")

    assert delivery is not None, "rows were taken"
    delivery.add_done_callback(done)
