"""Completion of batches: set the outcome, run callbacks, count the records, return the memory to the pool.

The queues' lock is never held here, because callbacks run here, and may send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.batch_result import expect_callbacks, give_up_callbacks, no_callbacks_to_run
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery_counts import DeliveryCounts, Report
from ottla.accumulator.delivery_errors import delivery_failed
from ottla.accumulator.io_loop_interface import IoLoop
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.slow_records import SlowRecords
from ottla.accumulator.unretrieved_errors import UnretrievedErrors
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import Latch
from ottla.errors import counted
from ottla.errors.robust_logger import robust_logger
from ottla.metrics import Counters
from ottla.results.stories.waits import SHORTEST, Journal, WaitKind

logger = robust_logger(__name__)


CALLBACKS_SECONDS: Final = 1.0
"""Seconds for which a close waits for callbacks that do not run on the I/O thread. Errors of the rest are its own."""


class Failures:
    """The batches that have failed: their count, for the I/O loop to see that some have, and a callback."""

    __slots__ = ("count", "on_failure")

    def __init__(self) -> None:
        self.count = 0
        self.on_failure: Callable[[], object] = lambda: None
        """Called without a lock after a batch has failed: only deliveries may keep a reference to it."""


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
        slow: SlowRecords,
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
        self._counts = DeliveryCounts(counters=counters, unretrieved=self.unretrieved, environment=environment)
        self._io_loop = io_loop
        self._environment = environment
        self._clock = environment.clock
        self._journal = journal
        self._slow = slow

    def complete(self, batch: ProducerBatch, outcome: Acknowledged | Failed) -> bool:
        """Set the outcome of a batch, run its callbacks and count its records. Return False if it already had one."""
        run_callbacks = self._complete(batch, outcome)
        if run_callbacks is None:
            return False
        if run_callbacks is no_callbacks_to_run:
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

    def fail(self, batch: ProducerBatch, cause: Exception, *, why: str | None = None) -> None:
        """Fail a batch for a reason other than time; *why* replaces the text of its *cause*."""
        self.complete(batch, Failed(error=delivery_failed(batch, cause, self._clock(), why=why)))

    def fail_off_io_thread(self, batches: Iterable[ProducerBatch], cause: Exception) -> None:
        """Fail batches while the I/O thread is blocked: their callbacks run on a separate thread, one for all.

        Callbacks do not run if the system has no thread left, or the interpreter exits and starts none, as CPython
        3.12 does. Their errors then count as not retrieved.
        """
        failed: list[ProducerBatch] = []
        with_callbacks: list[ProducerBatch] = []
        try:
            for batch in batches:
                run_callbacks = self._complete(batch, Failed(error=delivery_failed(batch, cause, self._clock())))
                if run_callbacks is not None:
                    failed.append(batch)
                    if run_callbacks is not no_callbacks_to_run:
                        with_callbacks.append(batch)
        finally:  # also after Ctrl-C: the next `close` fails the other batches
            try:
                if with_callbacks:
                    self._call_back_off_io_thread(with_callbacks)
            finally:
                self._count(failed)

    def report(self, pending: Iterable[ProducerBatch], *, leave_errors: bool = False) -> Report:
        """The delivery report since the last one; see `DeliveryCounts.take_report`."""
        return self._counts.take_report(pending, leave_errors=leave_errors)

    def _complete(self, batch: ProducerBatch, outcome: Acknowledged | Failed) -> Callable[[], object] | None:
        """Set the outcome, and return the function that runs the batch's callbacks, or None if it had an outcome."""
        now = batch.completed_at
        if now is None:
            now = batch.completed_at = self._clock()
            batch.journal = self._journal.notes  # no longer the journal: it lives as long as the producer
        run_callbacks = batch.complete(outcome)
        if run_callbacks is not None:
            if now - batch.created_at > self._slow.threshold:
                self._slow.note(batch, now)
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

    def _call_back_off_io_thread(self, batches: Sequence[ProducerBatch]) -> None:
        marked, ended = Latch(self._environment), Latch(self._environment)

        def run() -> None:
            marked.wait(None)
            for batch in batches:
                try:
                    batch.run_callbacks()
                except BaseException:
                    logger.exception("callbacks for %s could not be run", batch)
            ended.set()

        try:
            self._environment.thread(run, "ottla-callbacks").start()
        except RuntimeError as cause:
            logger.warning(
                "callbacks for %s do not run, because no thread could be started for them: %s",
                counted(len(batches), "batch"),
                cause,
            )
            return
        try:
            # Not by that thread: the caller may report errors that were not retrieved before the thread runs.
            for batch in batches:
                expect_callbacks(batch)
        finally:
            marked.set()
        if not ended.wait(CALLBACKS_SECONDS):  # one hangs, perhaps as the one on the I/O thread
            for batch in batches:
                give_up_callbacks(batch)

    def _count(self, batches: Sequence[ProducerBatch]) -> None:
        if not batches:
            return
        failed = self._counts.add(batches)
        held = 0
        for batch in batches:
            held += batch.held_bytes
        released = iter(batches)  # made before: if this had no memory afterwards, `resume` would release it again
        self._pool.release(held)
        for batch in released:  # only now: if `release` raised, `resume` releases it later
            batch.held_bytes = 0
        self._on_complete(batches)
        if failed:
            self.failures.on_failure()
