"""The delivery that `send_table` returns: the future of all rows of a table, without an object for each.

Rows are numbered from 0 in the order of the table. A row's outcome is that of its batch, or of its part of the batch
if that was split for being too large.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery import ObservingCallback
from ottla.accumulator.plain_functions import require_plain_function
from ottla.accumulator.raising_callbacks import raising_callbacks
from ottla.config.wait_limit import check_timeout
from ottla.errors import DeliveryError, TableDeliveryError, counted, were
from ottla.errors.notes import unshared
from ottla.errors.robust_logger import robust_logger
from ottla.results import PartitionResult, RecordMetadata, TableProgress, TableResult, html
from ottla.results.stories import RecordStory
from ottla.tables.batch_rows import BatchRows, is_completed
from ottla.tables.chunk_list import ChunkList
from ottla.tables.progress import INTERVAL, ProgressCalls

logger = robust_logger(__name__)


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
        self._chunks = ChunkList()
        self._expecting: set[_Progress] = set()
        """The waits that are expected to pass the errors on; `add` and `discard` are one step for several threads."""

    @property
    def rows(self) -> int:
        """The number of rows that were taken from the table."""
        return self._chunks.rows

    def done(self) -> bool:
        """Return whether every row's outcome is known; never blocks."""
        return all(is_completed(batch) for batch, _rows in self._chunks.leaves())

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

            wait = _Progress(self._chunks, expecting=self._expecting)
            try:
                yield from UntilCalled(wait.begin, wait.give_up).__await__()
            except BaseException:  # it is cancelled, or its loop is closed: the task gets no errors
                wait.give_up()
                raise
            self._expecting.discard(wait)
        return self.result(0)

    def failed_rows(self) -> Mapping[int, DeliveryError]:
        """The rows that have failed so far, in order, with their errors; never blocks.

        Rows share an error if their batch failed as a whole.
        """
        failed: dict[int, DeliveryError] = {}
        for batch, rows in self._chunks.leaves():
            if isinstance(outcome := batch.outcome, Failed):
                error = unshared(outcome.error)  # not one for each row: there may be millions
                for index, row in enumerate(rows()):
                    failed[row] = outcome.error_of(index) if index in outcome.record_errors else error
                    batch.failed_reads.read(index)
        return dict(sorted(failed.items()))

    def metadata(self, row: int) -> RecordMetadata | None:
        """A row's metadata, None while it is pending; never blocks. Raises the row's error, or IndexError.

        Each call searches the row's chunk, some ten thousand rows: do not call it for all rows of a table.
        """
        if not 0 <= row < self.rows:
            raise IndexError(f"no row {row}: {counted(self.rows, 'row')} {were(self.rows)} taken from the table")
        found = self._chunks.of(row).find(row)
        if isinstance(found, RecordMetadata):
            return found
        batch, index = found
        match batch.outcome:
            case Acknowledged() as acknowledged:
                return batch.metadata(index, acknowledged)
            case Failed() as failed:
                batch.failed_reads.read(index)
                raise failed.error_of(index)
        return None

    def story(self) -> RecordStory | None:
        """What happened to the rows of the slowest batch until now, and what they waited for. Never blocks.

        Returns None if no row was taken from the table.
        """
        kept = (batch for batch, _rows in self._chunks.leaves())
        slowest = (rows.slowest for chunk in self._chunks.all for rows in chunk.content.acknowledged)
        stories = (batch.story() for batch in chain(kept, slowest) if batch is not None)
        return max(stories, key=lambda story: story.seconds, default=None)

    def add_done_callback(self, callback: Callable[[TableDelivery], object]) -> None:
        """Call *callback* with this delivery once it is done, on the I/O thread.

        If the delivery is done already, *callback* runs immediately, on this thread. An exception that it
        raises is logged and stops nothing; errors that it has not read by then are not retrieved. Raises TypeError for
        a coroutine function, which nothing would await.
        """
        require_plain_function(callback, "the callback")

        def done() -> None:
            if self._call(callback):
                self._retrieve_errors()
                self._expecting.discard(progress)
            else:  # errors that it has not read are for others
                progress.give_up()

        progress = _Progress(self._chunks, expecting=self._expecting)
        progress.begin(done)

    def observe(self, callback: Callable[[TableResult, TableDeliveryError | None], object]) -> None:
        """Call *callback* as `add_done_callback` would, with the counts and the error; this retrieves no error."""

        def done() -> None:
            callback(*self._counts())

        _Progress(self._chunks).begin(done)

    def begin_chunk(self, count: int) -> int:
        """Add *count* rows, which follow, and return the number of the first one."""
        self._chunks.compact()
        return self._chunks.begin(count).start

    def add(self, batch: ProducerBatch, *, offset: int, rows: Sequence[int]) -> None:
        """Note that these rows of the chunk that begins at *offset* are in *batch*."""
        self._chunks.add(BatchRows(batch, offset, rows))

    def report_progress(self, *, last: bool = False) -> None:
        """Call `on_progress`, if it was given and a call is due, or if no row follows that is not counted yet."""
        if self._progress is not None:
            self._progress.report(lambda: self._completed_rows.count(self._chunks), last=last)

    def _call(self, callback: Callable[[TableDelivery], object]) -> bool:
        """Call it, and log what it raises, as `raising_callbacks` lets it. Return whether it has returned."""
        try:
            callback(self)
            return True
        except BaseException:  # SystemExit too: on the I/O thread it must not end the thread of all others
            error = self._counts()[1]
            more = raising_callbacks.line(failed=error is not None)
            if more is not None and error is None:
                logger.exception(
                    "a callback of a table's delivery raised an exception (%s); the producer continues%s",
                    self._target,
                    more,
                )
            elif more is not None:
                logger.exception(
                    "a callback of a table's delivery (%s) raised when it got this error, and the producer continues: "
                    "%s%s",
                    self._target,
                    error,
                    more,
                )
            return False

    def _wait(self, timeout: float | None) -> tuple[TableResult, TableDeliveryError | None]:
        if timeout is not None:
            check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        for piece in self._chunks.batches():
            pending = [piece.batch]
            while pending:
                batch = pending.pop()
                if not self._wait_for(batch, deadline):
                    raise TimeoutError(f"rows of the table for {self._target} are pending after {timeout} s")
                if isinstance(batch.outcome, Forwarded):
                    pending += batch.outcome.parts
        self.report_progress(last=True)
        self._chunks.compact()
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
        totals: dict[tuple[str, int], _PartitionTotals] = {}
        acknowledged = failed = 0
        first: DeliveryError | None = None
        for chunk in self._chunks.all:
            content = chunk.content
            for batch, _rows in content.leaves():
                match batch.outcome:
                    case Acknowledged(base_offset=base):
                        acknowledged += batch.count
                        totals.setdefault((batch.topic, batch.partition), _PartitionTotals()).add(base, batch.count)
                    case Failed() as outcome:
                        failed += batch.count
                        first = first or outcome.error
            for rows in content.acknowledged:
                acknowledged += rows.count
                for topic, partition, base, count in rows.batches():
                    totals.setdefault((topic, partition), _PartitionTotals()).add(base, count)
        found: dict[str, dict[int, PartitionResult]] = {}
        for (topic, partition), partition_totals in sorted(totals.items()):
            found.setdefault(topic, {})[partition] = partition_totals.result()
        result = TableResult(
            rows=self.rows,
            acknowledged=acknowledged,
            failed=failed,
            partitions=next(iter(found.values()), {}) if self._topic_column is None else {},
            topics={} if self._topic_column is None else found,
        )
        return result, first

    def _retrieve_errors(self) -> None:
        for batch, _rows in self._chunks.leaves():
            if batch.error_reads is not None:
                batch.error_reads.read_all()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a table's delivery cannot be copied or pickled, because only this process receives its outcome; wait for "
            "its result() and pickle that"
        )

    def _repr_html_(self) -> str:
        """The outcome for notebooks: that of all rows, or their counts so far. This retrieves no error."""
        if not self.done():
            counts = _CompletedRows().count(self._chunks)
            return html.table(f"pending: {self._target}: {counts}", (), ())
        result, error = self._result()
        shown = result._repr_html_()
        return shown if error is None else shown + html.pairs("first error", [(type(error).__name__, str(error))])

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<TableDelivery of {counted(self.rows, 'row')} for {self._target}: {state}>"


class _CompletedRows:
    """Counts of rows with an outcome. Chunks at the beginning whose rows have theirs are counted only once."""

    def __init__(self) -> None:
        self._chunks = self._acknowledged = self._failed = 0

    def count(self, chunks: ChunkList) -> TableProgress:
        """The counts now; for one thread at a time."""
        acknowledged, failed, unbroken = self._acknowledged, self._failed, True
        for place in range(self._chunks, len(chunks.all)):
            chunk = chunks.all[place]
            more, more_failed = chunk.content.completed()
            acknowledged, failed = acknowledged + more, failed + more_failed
            unbroken = unbroken and more + more_failed == chunk.count
            if unbroken:
                self._chunks, self._acknowledged, self._failed = place + 1, acknowledged, failed
        return TableProgress(rows=chunks.rows, acknowledged=acknowledged, failed=failed)


class _PartitionTotals:
    """The rows of one partition, and their offsets as far as they are known."""

    __slots__ = ("_first", "_last", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._first = self._last = -1

    def add(self, base_offset: int, count: int) -> None:
        """Add the rows of one batch."""
        self._rows += count
        if base_offset >= 0:
            self._first = base_offset if self._first < 0 else min(self._first, base_offset)
            self._last = max(self._last, base_offset + count - 1)

    def result(self) -> PartitionResult:
        """The totals as a value."""
        return PartitionResult(rows=self._rows, first_offset=self._first, last_offset=self._last)


class _Progress(ObservingCallback):
    """The callback of one batch after the other, until all that have rows of a table are completed.

    One batch at a time, because its call costs the I/O thread time.
    """

    __slots__ = ("_chunks", "_done", "_expecting", "_piece", "_pieces")

    def __init__(self, chunks: ChunkList, *, expecting: set[_Progress] | None = None) -> None:
        """Of the waits that are *expecting* errors, this becomes one. None: it passes no errors on."""
        self._chunks = chunks
        self._pieces = chunks.batches()
        self._piece = next(self._pieces, None)
        self._done: Callable[[], object] | None = None
        self._expecting = expecting
        if expecting is not None:
            expecting.add(self)

    def begin(self, done: Callable[[], object]) -> None:
        """Call *done* when all are completed: at once, or on the I/O thread."""
        self._done = done
        self(None)

    def give_up(self) -> None:
        """Call nothing any more, and leave the errors to others. Takes no lock: finalizers call this.

        Not while another wait expects the same errors: they are for that one.
        """
        self._done = None
        if self._expecting is None:
            return
        self._expecting.discard(self)
        if not self._expecting:
            for batch, _rows in self._chunks.leaves():
                if batch.error_reads is not None:
                    batch.error_reads.give_up_all()

    def expect_errors(self, batch: ProducerBatch, index: int) -> None:
        """Expect those of all rows in the batch."""
        reads = batch.error_reads
        if self._expecting and reads is not None:
            reads.expect_all()
            if not self._expecting:  # given up meanwhile, on another thread, which has not seen these
                reads.give_up_all()

    def give_up_errors(self, batch: ProducerBatch, index: int) -> None:
        """Leave those of all rows in the batch to others."""
        if batch.error_reads is not None:
            batch.error_reads.give_up_all()

    def __call__(self, _delivery: object) -> None:
        while self._piece is not None and self._done is not None:
            for batch, _rows in self._piece.leaves():
                if not is_completed(batch):
                    batch.call_when_complete(0, self)
                    return
                self.expect_errors(batch, 0)
            self._piece = next(self._pieces, None)
        done, self._done = self._done, None  # no cycle keeps the batches
        if done is not None:
            done()


def by_topic(delivery: TableDelivery) -> Mapping[str, TableDelivery]:
    """Deliveries of the rows that are in batches by now, by topic; they number the rows from 0, batch by batch."""
    found: dict[str, TableDelivery] = {}
    for chunk in delivery._chunks.all:
        content = chunk.content
        for acknowledged in content.acknowledged:
            for topic, rows in acknowledged.by_topic().items():
                part = found.setdefault(topic, TableDelivery(topic))._chunks.begin(rows.count)
                part.add_acknowledged(attrs.evolve(rows, offset=part.start))
        for piece in content.batches:
            topic, count = piece.batch.topic, len(piece.rows)
            part = found.setdefault(topic, TableDelivery(topic))._chunks.begin(count)
            part.add(BatchRows(piece.batch, part.start, range(count)))
    return found


def unassigned(delivery: TableDelivery) -> list[tuple[int, list[int]]]:
    """The rows that are in no batch, by chunk: its first row, and their numbers in it."""
    found = [(chunk.start, chunk.unassigned()) for chunk in delivery._chunks.all]
    return [(start, rows) for start, rows in found if rows]
