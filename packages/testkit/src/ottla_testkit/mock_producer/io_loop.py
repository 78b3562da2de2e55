"""Replacement for the I/O thread: each call of the producer runs a round on the caller's thread.

So nothing happens in the background of a test, and when `wake` returns, its round is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.concurrency import io_threads
from ottla.errors import AbortableTransactionError, BrokerError, ErrorCode, OttlaError, ProducerClosedError
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.state_table import State
from ottla_testkit.mock_producer.completion_rounds import completion_round
from ottla_testkit.mock_producer.coordinator import MockCoordinator
from ottla_testkit.mock_producer.history import History
from ottla_testkit.mock_producer.sent_batches import SentBatches, SentRecord

_ENDING: Final = (State.COMMITTING, State.PREPARED, State.LEAVING)


class CompletingLoop(WokenLoop):
    """An `IoLoop` whose waiting threads call `on_wait`, which may complete records."""

    def __init__(self) -> None:
        super().__init__(lambda: None)  # there is no thread to wake
        self.on_wait: Callable[[], object] = lambda: None

    def run_while_waiting(self, batch: ProducerBatch, timeout: float | None) -> None:
        """Call `on_wait`: a task that blocks its event loop in `result` waits for the end of its own turn."""
        if not io_threads.on_io_thread():  # else the wait raises, because it would never end
            self.on_wait()


class MockIoLoop:
    """A `RoundRunner` of `producer.lifecycle` without a thread, and the rounds of a mock producer."""

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        sent_batches: SentBatches,
        coordinator: MockCoordinator | None,
        client_id: str,
        clock: Callable[[], float],
    ) -> None:
        self._accumulator = accumulator
        self._sent_batches = sent_batches
        self._coordinator = coordinator
        self._client_id = client_id
        self._clock = clock
        self.on_end: Callable[[], object] = lambda: None
        self.ended = False
        self.auto_complete = False
        """Whether records are acknowledged as soon as they are sent; see `MockProducer.auto_complete`."""

    def take(self) -> list[SentRecord]:
        """Take the queued records, and add their partitions to the open transaction."""
        records = self._sent_batches.take()
        if self._coordinator is not None:
            for record in records:
                self._coordinator.join(record.topic, record.partition)
        return records

    def take_into(self, history: History) -> None:
        """Take the queued records; `ottla send` and Spark's writer queue some in no call of the public interface."""
        history.add(self.take(), transactional=self._coordinator is not None)

    def answer(self, error: Exception | None = None) -> bool:
        """Complete the oldest batch, with *error*, as planned, or as a broker would; return False if there is none."""
        coordinator = self._coordinator
        if error is None and coordinator is not None and coordinator.fenced:
            error = BrokerError(ErrorCode.PRODUCER_FENCED)
        with completion_round():
            completed = self._sent_batches.answer() if error is None else self._sent_batches.fail(error)
            if completed:
                self.advance()
        return completed

    def answer_all(self) -> None:
        """Complete all batches, including records that callbacks send meanwhile."""
        while self.answer():
            pass

    def complete_automatically(self) -> None:
        """Complete all batches if that is not left to the test."""
        if self.auto_complete:
            self.answer_all()

    def advance(self) -> None:
        """Do the transaction's next steps, and log failed records whose errors were not retrieved."""
        self._accumulator.unretrieved.write(self._client_id, self._clock())
        coordinator = self._coordinator
        if coordinator is None:
            return
        with completion_round():
            self._advance_transaction(coordinator)

    def _advance_transaction(self, coordinator: MockCoordinator) -> None:
        manager = coordinator.manager
        if manager.state in _ENDING and self._sent_batches.pending:
            self.answer_all()  # which calls this again
        coordinator.advance(self._clock(), all_complete=not self._sent_batches.pending)
        queued_batches = coordinator.requests.queued_batches
        if queued_batches is not QueuedBatches.SEND and self._sent_batches.pending:
            cause = manager.cause or AbortableTransactionError("the transaction was aborted")
            if queued_batches is QueuedBatches.ABORT:
                self._sent_batches.drop(cause)
            else:
                self._fail_all(cause)
            coordinator.advance(self._clock(), all_complete=True)

    # The methods of a `RoundRunner`

    def start(self) -> None:
        """Do nothing: there is no thread to start."""

    def begin_close(self, timeout: float) -> None:
        """Acknowledge the queued batches, or fail them if the time-out is 0; end the transaction, too."""
        if self.ended:
            return
        self.ended = True
        with completion_round():
            self._accumulator.close(ProducerClosedError("the producer is closed"))
            self._accumulator.close_open_batches()
            self._sent_batches.take()
            if self._coordinator is not None:
                self._coordinator.requests.close()
                self.advance()
            if timeout > 0:
                self.answer_all()
            self._fail_all(ProducerClosedError("the producer was closed before they could be sent"))
            self.on_end()

    def abandon(self, timeout: float) -> None:
        """Close immediately, because there is no thread that could do it."""
        self.begin_close(timeout)

    def give_up(self) -> None:
        """Do nothing: no round hangs, because `join` never fails."""

    def forget(self) -> None:
        """Do nothing: there is no thread to forget."""

    def join(self, timeout: float) -> bool:
        """Return True: there is no thread to wait for."""
        return True

    def current_position(self) -> str:
        """Return "its end" for messages that say where the I/O thread is; there is none here."""
        return "its end"

    def _fail_all(self, cause: OttlaError) -> None:
        while self._sent_batches.fail(cause):
            pass
