"""The delivery that `send_table` returns: the future of all rows of a table, without an object for each.

Rows are numbered from 0 in the order of the table. A row's outcome is that of its batch, or of its part of the batch
if that was split for being too large.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery import ObservingCallback
from ottla.config.wait_limit import check_timeout
from ottla.errors import DeliveryError, TableDeliveryError, counted, were
from ottla.errors.robust_logger import robust_logger
from ottla.results import PartitionResult, RecordMetadata, TableProgress, TableResult, html
from ottla.results.stories import RecordStory
from ottla.tables.progress import INTERVAL, ProgressCalls

logger = robust_logger(__name__)


@attrs.frozen(eq=False, repr=False)
class _BatchRows:
    """Rows that were queued as one batch: row `offset + rows[index]` is the batch's record *index*."""

    batch: ProducerBatch
    offset: int
    rows: Sequence[int]


class TableDelivery:
    """The future of a table's outcome. Usable from any thread, once `send_table` has returned it or raised."""

    def __init__(
        self, topic: str, *, topic_column: str | None = None, on_progress: ProgressCalls | None = None
    ) -> None:
        self.topic = topic
        """The topic; with a column of topics, that of rows without one, or "" if there is none."""
        self._topic_column = topic_column
        self._progress = on_progress
        self._completed_rows = _CompletedRows()
        self.rows = 0
        """The number of rows that were taken from the table."""
        self._pieces: list[_BatchRows] = []
        self._chunks: dict[int, list[_BatchRows]] = {}  # by their first rows

    def done(self) -> bool:
        """Return whether every row's outcome is known; never blocks."""
        return all(_completed(batch) for batch, _rows in self._leaves())

    def result(self, timeout: float | None = None) -> TableResult:
        """Wait for all rows, and return their counts. Without *timeout*, in seconds, it waits as long as it takes.

        Raises TimeoutError when rows are still pending then, and TableDeliveryError when some failed.
        """
        result, error = self._wait(timeout)
        if error is not None:
            raise error
        return result

    def exception(self, timeout: float | None = None) -> TableDeliveryError | None:
        """The error if rows failed, None when all were acknowledged; waits like `result`."""
        return self._wait(timeout)[1]

    def __await__(self) -> Generator[Any, None, TableResult]:
        """Wait on the running event loop of asyncio for all rows, and return or raise as `result` does."""
        if not self.done():
            from ottla.accumulator.event_loops import UntilCalled  # with asyncio, which other programs do not need

            yield from UntilCalled(self.add_done_callback).__await__()
        return self.result(0)

    def failed_rows(self) -> Mapping[int, DeliveryError]:
        """The rows that have failed so far, in order, with their errors; never blocks."""
        failed: dict[int, DeliveryError] = {}
        for batch, rows in self._leaves():
            if isinstance(outcome := batch.outcome, Failed):
                for index, row in enumerate(rows()):
                    failed[row] = outcome.error_of(index)
                    batch.mark_error_retrieved(index)
        return dict(sorted(failed.items()))

    def metadata(self, row: int) -> RecordMetadata | None:
        """A row's metadata, None while it is pending; never blocks. Raises the row's error, or IndexError.

        Each call searches the row's chunk, some ten thousand rows: do not call it for all rows of a table.
        """
        if not 0 <= row < self.rows:
            raise IndexError(f"no row {row}: {counted(self.rows, 'row')} {were(self.rows)} taken from the table")
        batch, index = self._place(row)
        match batch.outcome:
            case Acknowledged() as acknowledged:
                return batch.metadata(index, acknowledged)
            case Failed() as failed:
                batch.mark_error_retrieved(index)
                raise failed.error_of(index).with_traceback(None)
        return None

    def story(self) -> RecordStory | None:
        """What happened to the rows of the slowest batch until now, and what they waited for. Never blocks.

        Returns None if no row was taken from the table.
        """
        stories = (batch.story() for batch, _rows in self._leaves())
        return max(stories, key=lambda story: story.seconds, default=None)

    def add_done_callback(self, callback: Callable[[TableDelivery], object]) -> None:
        """Call *callback* with this delivery once it is done, on the I/O thread.

        If the delivery is done already, *callback* runs immediately, on this thread. An exception that it
        raises is logged and stops nothing.
        """

        def done() -> None:
            self._retrieve_errors()
            self._call(callback)

        _Progress(self._pieces, done, retrieves_error=True)(None)

    def observe(self, callback: Callable[[TableResult, TableDeliveryError | None], object]) -> None:
        """Call *callback* as `add_done_callback` would, with the counts and the error; this retrieves no error."""

        def done() -> None:
            callback(*self._counts())

        _Progress(self._pieces, done, retrieves_error=False)(None)

    def begin_chunk(self, count: int) -> int:
        """Add *count* rows, which follow, and return the number of the first one."""
        start = self.rows
        self._chunks[start] = []
        self.rows += count
        return start

    def add(self, batch: ProducerBatch, *, offset: int, rows: Sequence[int]) -> None:
        """Note that these rows of the chunk that begins at *offset* are in *batch*."""
        piece = _BatchRows(batch, offset, rows)
        self._pieces.append(piece)
        self._chunks[offset].append(piece)

    def report_progress(self, *, last: bool = False) -> None:
        """Call `on_progress`, if it was given and a call is due, or if no row follows that is not counted yet."""
        if self._progress is not None:
            self._progress.report(lambda: self._completed_rows.count(self.rows, self._pieces), last=last)

    def _call(self, callback: Callable[[TableDelivery], object]) -> None:
        try:
            callback(self)
        except BaseException:  # SystemExit too: on the I/O thread it must not end the thread of all others
            logger.exception(
                "a callback of a table's delivery raised an exception (%s); the producer continues", self._target
            )

    def _wait(self, timeout: float | None) -> tuple[TableResult, TableDeliveryError | None]:
        if timeout is not None:
            check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        for piece in self._pieces:
            pending = [piece.batch]
            while pending:
                batch = pending.pop()
                if not self._wait_for(batch, deadline):
                    raise TimeoutError(f"rows of the table for {self._target} are pending after {timeout} s")
                if isinstance(batch.outcome, Forwarded):
                    pending += batch.outcome.parts
        self.report_progress(last=True)
        self._retrieve_errors()
        return self._counts()

    def _wait_for(self, batch: ProducerBatch, deadline: float | None) -> bool:
        """Wait until the batch has an outcome, and report progress meanwhile. Return False if the deadline passes."""
        while True:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self._progress is None:
                return batch.wait(remaining)
            if batch.wait(INTERVAL if remaining is None else min(INTERVAL, remaining)):
                self.report_progress()
                return True
            self.report_progress()
            if remaining is not None and remaining <= INTERVAL:
                return False

    @property
    def _target(self) -> str:
        if self._topic_column is not None:
            return f"the topics of column {self._topic_column!r}"
        return f"topic {self.topic!r}"

    def _counts(self) -> tuple[TableResult, TableDeliveryError | None]:
        """The counts of a delivery that is done, and the error if rows have failed."""
        result, first = self._result()
        if first is None:
            return result, None
        error = TableDeliveryError(
            result,
            f"{result.failed} of {counted(result.rows, 'row')} for {self._target} {were(result.failed)} not delivered: "
            f"{first}",
        )
        error.__cause__ = first
        return result, error

    def _result(self) -> tuple[TableResult, DeliveryError | None]:
        topics: dict[str, dict[int, list[tuple[int, int]]]] = {}
        acknowledged = failed = 0
        first: DeliveryError | None = None
        for batch, _rows in self._leaves():
            match batch.outcome:
                case Acknowledged(base_offset=base):
                    acknowledged += batch.count
                    partitions = topics.setdefault(batch.topic, {})
                    partitions.setdefault(batch.partition, []).append((base, batch.count))
                case Failed() as outcome:
                    failed += batch.count
                    first = first or outcome.error
        found = {
            topic: {partition: _partition(batches[partition]) for partition in sorted(batches)}
            for topic, batches in sorted(topics.items())
        }
        result = TableResult(
            rows=self.rows,
            acknowledged=acknowledged,
            failed=failed,
            partitions=next(iter(found.values()), {}) if self._topic_column is None else {},
            topics={} if self._topic_column is None else found,
        )
        return result, first

    def _leaves(self) -> Iterator[tuple[ProducerBatch, Callable[[], Sequence[int]]]]:
        """The batches that have the rows now, each with a function that returns the numbers of its rows."""
        for piece in self._pieces:
            yield from _followed(piece.batch, piece, 0)

    def _retrieve_errors(self) -> None:
        for batch, _rows in self._leaves():
            if isinstance(batch.outcome, Failed):
                for index in range(batch.count):
                    batch.mark_error_retrieved(index)

    def _place(self, row: int) -> tuple[ProducerBatch, int]:
        starts = list(self._chunks)
        for piece in self._chunks[starts[bisect_right(starts, row) - 1]]:
            index = bisect_right(piece.rows, row - piece.offset) - 1
            if index >= 0 and piece.rows[index] == row - piece.offset:
                batch = piece.batch
                while isinstance(outcome := batch.outcome, Forwarded):
                    batch, index = outcome.place(index)
                return batch, index
        raise AssertionError("every row that was taken is in a batch")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a table's delivery cannot be copied or pickled, because only this process receives its outcome; wait for "
            "its result() and pickle that"
        )

    def _repr_html_(self) -> str:
        """The outcome for notebooks: that of all rows, or their counts so far. This retrieves no error."""
        if not self.done():
            counts = _CompletedRows().count(self.rows, self._pieces)
            return html.table(f"pending: {self._target}: {counts}", (), ())
        result, error = self._result()
        shown = result._repr_html_()
        return shown if error is None else shown + html.pairs("first error", [(type(error).__name__, str(error))])

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<TableDelivery of {counted(self.rows, 'row')} for {self._target}: {state}>"


class _CompletedRows:
    """Counts of rows with an outcome. Batches at the beginning that have theirs are counted only once."""

    def __init__(self) -> None:
        self._pieces = self._acknowledged = self._failed = 0

    def count(self, rows: int, pieces: Sequence[_BatchRows]) -> TableProgress:
        """The counts now; for one thread at a time."""
        acknowledged, failed, unbroken = self._acknowledged, self._failed, True
        for place in range(self._pieces, len(pieces)):
            complete = True
            for batch, _rows in _followed(pieces[place].batch, pieces[place], 0):
                match batch.outcome:
                    case Acknowledged():
                        acknowledged += batch.count
                    case Failed():
                        failed += batch.count
                    case _:
                        complete = False
            unbroken = unbroken and complete
            if unbroken:
                self._pieces, self._acknowledged, self._failed = place + 1, acknowledged, failed
        return TableProgress(rows=rows, acknowledged=acknowledged, failed=failed)


class _Progress(ObservingCallback):
    """The callback of one batch after the other, until all that have rows of a table are completed; then it is *done*.

    One batch at a time, because its call costs the I/O thread time.
    """

    __slots__ = ("_done", "_piece", "_pieces", "_retrieves_error")

    def __init__(self, pieces: Sequence[_BatchRows], done: Callable[[], object], *, retrieves_error: bool) -> None:
        self._pieces = iter(pieces)
        self._piece = next(self._pieces, None)
        self._done = done
        self._retrieves_error = retrieves_error

    @property
    def retrieves_error(self) -> bool:
        return self._retrieves_error

    def __call__(self, _delivery: object) -> None:
        while self._piece is not None:
            for batch, _rows in _followed(self._piece.batch, self._piece, 0):
                if not _completed(batch):
                    batch.call_when_complete(0, self)
                    return
            self._piece = next(self._pieces, None)
        self._done()


def by_topic(delivery: TableDelivery) -> Mapping[str, TableDelivery]:
    """Deliveries of the rows that are in batches by now, by topic; they number the rows from 0, batch by batch."""
    found: dict[str, TableDelivery] = {}
    for piece in delivery._pieces:
        topic = piece.batch.topic
        rows = found.setdefault(topic, TableDelivery(topic))
        rows.add(piece.batch, offset=rows.begin_chunk(len(piece.rows)), rows=range(len(piece.rows)))
    return found


def unassigned(delivery: TableDelivery) -> list[tuple[int, list[int]]]:
    """The rows that are in no batch, by chunk: its first row, and their numbers in it."""
    ends = [*delivery._chunks, delivery.rows][1:]
    found = [
        (start, sorted(set(range(end - start)).difference(*(piece.rows for piece in pieces))))
        for (start, pieces), end in zip(delivery._chunks.items(), ends, strict=True)
        if sum(len(piece.rows) for piece in pieces) < end - start
    ]
    return [(start, rows) for start, rows in found if rows]


def _completed(batch: ProducerBatch) -> bool:
    return isinstance(batch.outcome, Acknowledged | Failed)


def _followed(
    batch: ProducerBatch, piece: _BatchRows, start: int
) -> Iterator[tuple[ProducerBatch, Callable[[], Sequence[int]]]]:
    outcome = batch.outcome
    if isinstance(outcome, Forwarded):
        for part in outcome.parts:
            yield from _followed(part, piece, start)
            start += part.count
    else:
        rows, offset = piece.rows[start : start + batch.count], piece.offset
        yield batch, lambda: [offset + row for row in rows]


def _partition(batches: Sequence[tuple[int, int]]) -> PartitionResult:
    known = [(base, base + count - 1) for base, count in batches if base >= 0]
    return PartitionResult(
        rows=sum(count for _base, count in batches),
        first_offset=min((first for first, _last in known), default=-1),
        last_offset=max((last for _first, last in known), default=-1),
    )
