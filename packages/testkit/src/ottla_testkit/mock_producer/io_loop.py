"""In place of the I/O thread: its rounds, run on the threads of callers whenever they ask for something.

So nothing happens behind a test's back, and whatever `wake` would bring about is there when it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.errors import AbortableTransactionError, BrokerError, ErrorCode, OttlaError, ProducerClosedError
from ottla.transactions.request_source import QueuedBatches
from ottla.transactions.states import State
from ottla_testkit.mock_producer.coordinator import MockCoordinator
from ottla_testkit.mock_producer.sent_batches import SentBatches

_ENDING: Final = (State.COMMITTING, State.PREPARED, State.LEAVING)


class MockIoLoop:
    """What `lifecycle` knows of an I/O thread, and `advance`."""

    def __init__(
        self,
        *,
        accumulator: RecordAccumulator,
        outbox: SentBatches,
        coordinator: MockCoordinator | None,
        client_id: str,
        clock: Callable[[], float],
    ) -> None:
        self._accumulator = accumulator
        self._outbox = outbox
        self._coordinator = coordinator
        self._client_id = client_id
        self._clock = clock
        self.on_end: Callable[[], object] = lambda: None
        self.ended = False

    def answer(self, error: Exception | None = None) -> bool:
        """Settle the oldest batch, with *error* or as a broker would; False: there is none."""
        coordinator = self._coordinator
        if error is None and coordinator is not None and coordinator.fenced:
            error = BrokerError(ErrorCode.PRODUCER_FENCED)
        settled = self._outbox.acknowledge() if error is None else self._outbox.fail(error)
        if settled:
            self.advance()
        return settled

    def answer_all(self) -> None:
        """Settle everything, what callbacks send meanwhile included."""
        while self.answer():
            pass

    def advance(self) -> None:
        """Do for the transaction what there is to be done, and log records that failed unnoticed."""
        self._accumulator.lost.write(self._client_id, self._clock())
        coordinator = self._coordinator
        if coordinator is None:
            return
        manager = coordinator.manager
        if manager.state in _ENDING and self._outbox.pending:
            self.answer_all()  # and comes by here again
        coordinator.advance(self._clock(), settled=not self._outbox.pending)
        if manager.queued_batches is not QueuedBatches.SEND and self._outbox.pending:
            cause = manager.cause or AbortableTransactionError("the transaction was aborted")
            if manager.queued_batches is QueuedBatches.ABORT:
                self._outbox.drop(cause)
            else:
                self._give_up(cause)
            coordinator.advance(self._clock(), settled=True)

    # As `lifecycle` knows it

    def start(self) -> None:
        """There is no thread."""

    def begin_close(self, timeout: float) -> None:
        """Answer what is queued, or give it up when there is no time for that; end the transaction, too."""
        if self.ended:
            return
        self.ended = True
        self._accumulator.close(ProducerClosedError("the producer is closed"))
        self._outbox.take()
        if self._coordinator is not None:
            self._coordinator.manager.close()
            self.advance()
        if timeout > 0:
            self.answer_all()
        self._give_up(ProducerClosedError("the producer was closed before they could be sent"))
        self.on_end()

    def abandon(self, timeout: float) -> None:
        """There is no thread to do it."""
        self.begin_close(timeout)

    def forget(self) -> None:
        """There is no thread to forget."""

    def join(self, timeout: float) -> bool:
        """It has ended already."""
        return True

    def whereabouts(self) -> str:
        """Nowhere."""
        return "its end"

    def _give_up(self, cause: OttlaError) -> None:
        while self._outbox.fail(cause):
            pass
