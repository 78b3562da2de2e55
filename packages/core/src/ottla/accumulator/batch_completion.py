"""Completion of batches: set the outcome, run callbacks, count the records, return the memory to the pool.

The queues' lock is never held here, because callbacks run here, and may send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.batch_result import no_callbacks_to_run
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery_counts import DeliveryCounts, Report
from ottla.accumulator.delivery_errors import delivery_failed
from ottla.accumulator.io_loop_interface import IoLoop
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.slow_records import SlowRecords
from ottla.accumulator.unretrieved_errors import UnretrievedErrors
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.metrics import Counters
from ottla.results.stories.waits import SHORTEST, Journal, WaitKind


class Failures:
    """A count of the batches that have failed, for the I/O loop to see that some have."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class BatchCompletion:
    """Completes batches, each of them once. For any thread.

    *on_complete* gets batches that have their outcome and are counted. Callbacks are deferred to the I/O thread while
    another thread runs rounds in its place (*io_loop*).
    """

    def __init__(
        self,
        *,
        on_complete: Callable[[Sequence[ProducerBatch]], object],
        pool: BufferPool,
        sequences: Sequences,
        counters: Counters | None,
        io_loop: IoLoop,
        journal: Journal,
        environment: Environment = SYSTEM,
    ) -> None:
        self._on_complete = on_complete
        self._pool = pool
        self._sequences = sequences
        self.unretrieved = UnretrievedErrors(wake=io_loop.wake)
        """Failed records whose error the program can no longer retrieve."""
        if sequences.transactional:
            self.unretrieved.ignore()
        self.failures = Failures()
        self.on_failure: Callable[[], object] = lambda: None
        """Called without a lock when a batch has failed, so that only deliveries hold a reference to it."""
        self._counts = DeliveryCounts(counters=counters, unretrieved=self.unretrieved, environment=environment)
        self._io_loop = io_loop
        self._make_thread = environment.thread
        self._clock = journal.clock
        self._journal = journal
        self.slow = SlowRecords()
        """Batches that took longer than `slow.record.threshold.ms`; the slowest is to be logged."""

    def complete(self, batch: ProducerBatch, outcome: Acknowledged | Failed, *, off_io_thread: bool = False) -> bool:
        """Set the outcome of a batch, run its callbacks and count its records. Return False if it already had one.

        *off_io_thread*: the callbacks run on a separate thread.
        """
        run_callbacks = self._complete(batch, outcome)
        if run_callbacks is None:
            return False
        if run_callbacks is no_callbacks_to_run:
            self._count([batch])
        elif off_io_thread:
            # Not by that thread: the caller may report errors that were not retrieved before the thread runs.
            batch.retrieve_for_callbacks()
            self._make_thread(run_callbacks, "ottla-callbacks").start()
            self._count([batch])
        else:
            self._run_callbacks(batch, run_callbacks)
        return True

    def resume(self, batch: ProducerBatch) -> None:
        """Finish the completion of a batch that a failed round left half done; no step is done twice."""
        outcome = batch.outcome
        assert isinstance(outcome, Acknowledged | Failed), "only other outcomes need a completion"
        self._note(batch, outcome)
        self._run_callbacks(batch, batch.run_callbacks)

    def complete_all(self, outcomes: Iterable[tuple[ProducerBatch, Acknowledged | Failed]]) -> None:
        """Complete batches in the given order; those without callbacks are counted together.

        One response may complete thousands of batches, and each count takes three locks.
        """
        without_callbacks: list[ProducerBatch] = []
        try:
            for batch, outcome in outcomes:
                run_callbacks = self._complete(batch, outcome)
                if run_callbacks is no_callbacks_to_run:
                    without_callbacks.append(batch)
                elif run_callbacks is not None:
                    before, without_callbacks = without_callbacks, []
                    self._count(before)  # first: a callback may send, and need the memory
                    self._run_callbacks(batch, run_callbacks)
        finally:
            self._count(without_callbacks)

    def fail(
        self, batch: ProducerBatch, cause: Exception, *, why: str | None = None, off_io_thread: bool = False
    ) -> None:
        """Fail a batch for a reason other than time; *why* replaces the text of its *cause*."""
        self.complete(
            batch, Failed(error=delivery_failed(batch, cause, self._clock(), why=why)), off_io_thread=off_io_thread
        )

    def report(self, pending: Iterable[ProducerBatch]) -> Report:
        """The delivery report since the last one, the number of errors not retrieved, and the first of them."""
        return self._counts.take_report(pending)

    def _complete(self, batch: ProducerBatch, outcome: Acknowledged | Failed) -> Callable[[], object] | None:
        """Set the outcome, and return the function that runs the batch's callbacks, or None if it had an outcome."""
        now = batch.completed_at
        if now is None:
            now = batch.completed_at = self._clock()
            batch.journal = self._journal.notes  # no longer the journal: it lives as long as the producer
        run_callbacks = batch.complete(outcome)
        if run_callbacks is not None:
            if now - batch.created_at > self.slow.threshold:
                self.slow.note(batch, now)
            self._note(batch, outcome)
        return run_callbacks

    def _note(self, batch: ProducerBatch, outcome: Acknowledged | Failed) -> None:
        if isinstance(outcome, Acknowledged):
            self._sequences.acknowledge(batch)
        else:
            self.failures.count += 1
            self._sequences.fail(batch, outcome.error)

    def _run_callbacks(self, batch: ProducerBatch, run_callbacks: Callable[[], object]) -> None:
        def run() -> None:
            started_at = self._clock()
            run_callbacks()  # logs the exceptions of callbacks; if this call itself fails, `resume` continues it
            ended_at = self._clock()
            if ended_at - started_at > SHORTEST:
                self._journal.add(WaitKind.CALLBACKS, started_at, ended_at, detail=str(batch))
            self._count([batch])

        if not self._io_loop.defer(run):
            run()

    def _count(self, batches: Sequence[ProducerBatch]) -> None:
        if not batches:
            return
        failed = self._counts.add(batches)
        held = 0
        for batch in batches:
            held += batch.held_bytes
        self._pool.release(held)
        for batch in batches:  # only now: if `release` raised, `resume` releases it later
            batch.held_bytes = 0
        self._on_complete(batches)
        if failed:
            self.on_failure()
