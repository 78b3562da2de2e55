"""The delivery that `send` returns, and that callbacks get: the future of one record.

A delivery is only a batch and an index. So the one that a callback gets is made when the callback runs, and is another
object than the one that `send` returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded, Outcome
from ottla.accumulator.plain_functions import require_plain_function
from ottla.config.wait_limit import check_timeout
from ottla.errors import DeliveryError
from ottla.results import RecordMetadata, html
from ottla.results.call_hints import DELIVERY_HINTS, with_call_hints
from ottla.results.stories import RecordStory

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ottla.accumulator.delivery_future import DeliveryFuture
    from ottla.accumulator.error_reads import ErrorReads
    from ottla.accumulator.loop_callbacks import RecordWait


class DeliveryBatch(Protocol):
    """The part of a batch's interface that deliveries use."""

    topic: str
    partition: int
    """Negative: the records have no partition yet."""

    @property
    def outcome(self) -> Outcome[Any] | None:
        """The outcome of the batch, or None until it is completed."""

    @property
    def run_while_waiting(self) -> Callable[[Any, float | None], object] | None:
        """Called by a thread that waits for the batch, before it sleeps. None once there is an outcome."""

    def wait(self, timeout: float | None) -> bool:
        """Wait until there is an outcome. Return False if time ran out."""

    def metadata(self, index: int, outcome: Acknowledged) -> RecordMetadata:
        """The metadata of an acknowledged record."""

    def story(self) -> RecordStory:
        """The story of the batch until now."""

    @property
    def failed_reads(self) -> ErrorReads:
        """Which errors of a failed batch were read."""

    def call_when_complete(self, index: int, callback: Callable[[Delivery], object]) -> None:
        """Run *callback* for a record once it has an outcome.

        It runs on the I/O thread; if the record has its outcome already, it runs immediately, on this thread.
        """


@with_call_hints(DELIVERY_HINTS)
class Delivery:
    """The future of one record's outcome. Usable from any thread, also after the producer was closed.

    Like those of `concurrent.futures`, but without `cancel`; a coroutine may `await` it. The properties never wait and
    never raise. Each call that raises or returns the record's error makes a copy, so that no caller's traceback and
    notes are in that of another.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: DeliveryBatch, index: int) -> None:
        self._batch: Any = batch
        self._index = index

    @property
    def topic(self) -> str:
        """The topic of the record."""
        topic: str = self._batch.topic
        return topic

    @property
    def partition(self) -> int | None:
        """The partition of the record, or None if it is not chosen yet."""
        batch, _index = self._place()
        return batch.partition if batch.partition >= 0 else None

    @property
    def metadata(self) -> RecordMetadata | None:
        """The record's metadata once it was acknowledged, or None while it is pending, or if it failed."""
        batch, index = self._place()
        outcome = batch.outcome
        return batch.metadata(index, outcome) if isinstance(outcome, Acknowledged) else None

    @property
    def error(self) -> DeliveryError | None:
        """The error with which the record failed, or None if it is pending or was acknowledged.

        Like `exception`, this retrieves the error: `flush` and `close` do not raise because of this record.
        """
        batch, index = self._place()
        outcome = batch.outcome
        if not isinstance(outcome, Failed):
            return None
        batch.failed_reads.read(index)
        return outcome.error_of(index)

    def done(self) -> bool:
        """Return whether the outcome is known; never blocks."""
        batch, _index = self._place()
        return batch.outcome is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's metadata, and return it. Without *timeout*, in seconds, it waits as long as it takes.

        Raises TimeoutError when the outcome is not known by then, and DeliveryError when the record has failed: this
        may be its subclass DeliveryTimeoutError or, in a transaction, TransactionAbortedError. Waiting does not make
        the record leave sooner: `flush` does. A thread that sends records one by one, and waits for each, does their
        I/O itself.
        """
        batch, index, outcome = self._wait(timeout)
        if isinstance(outcome, Acknowledged):
            metadata: RecordMetadata = batch.metadata(index, outcome)
            return metadata
        raise outcome.error_of(index)

    def exception(self, timeout: float | None = None) -> DeliveryError | None:
        """The error with which the record failed, or None if it was acknowledged. Waits like `result`."""
        _batch, index, outcome = self._wait(timeout)
        return None if isinstance(outcome, Acknowledged) else outcome.error_of(index)

    def story(self) -> RecordStory:
        """What happened to the record until now, and what it waited for: why it was late. Never blocks.

        It is the story of the record's batch, whose first record may have been queued earlier.
        """
        batch, _index = self._place()
        story: RecordStory = batch.story()
        return story

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait on the running event loop of asyncio for the record's metadata, or raise as `result` does.

        For any number of tasks, on any loops. A task that is cancelled ends only its own wait: the record is sent.
        """
        batch, index = self._batch, self._index
        while True:
            outcome = batch.outcome
            if isinstance(outcome, Acknowledged):
                found: RecordMetadata = batch.metadata(index, outcome)
                return found
            if outcome is None:
                wait = _record_wait(self, batch)
                if wait is not None:
                    yield wait
                    if (metadata := wait.value) is not None:
                        return metadata
            elif isinstance(outcome, Forwarded):
                batch, index = outcome.place(index)
            else:
                return self.result(0)

    def future(self) -> Future[RecordMetadata]:
        """A future of `concurrent.futures` with the record's metadata or error, for `wait` and `as_completed`.

        `asyncio.wrap_future` takes it, too. It cannot be cancelled. `result` and `exception` of the future retrieve an
        error, and so does the failure itself if the future has a callback by then, as that of `asyncio.wrap_future`;
        but not if the future of asyncio is cancelled, until its task has the error.
        """
        from ottla.accumulator.delivery_future import DeliveryFuture  # here: its base class takes long to import

        future = DeliveryFuture(outcome=partial(outcome_of, self), reads=self._error_reads)
        self._batch.call_when_complete(self._index, _Completion(future))
        return future

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call *callback* with this delivery once it is done, on the I/O thread.

        If the delivery is done already, *callback* runs immediately, on this thread. An exception that it
        raises is logged and stops nothing. Raises TypeError for a coroutine function, which nothing would await.
        """
        if getattr(callback, "__module__", None) == "asyncio.tasks":  # of `asyncio.wait`: other threads may not call it
            raise TypeError("asyncio.wait takes tasks and futures: give it asyncio.ensure_future(delivery)")
        require_plain_function(callback, "the callback")
        self._batch.call_when_complete(self._index, lambda _delivery: callback(self))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a delivery cannot be copied or pickled, because only this process receives its outcome; wait for its "
            "result() and pickle that"
        )

    def _place(self) -> tuple[Any, int]:
        """The batch that the record is in now, and its index there."""
        batch, index = self._batch, self._index
        while isinstance(outcome := batch.outcome, Forwarded):
            batch, index = outcome.place(index)
        return batch, index

    def _error_reads(self) -> tuple[ErrorReads, int]:
        """Which errors of the failed batch were read, and the record's index there."""
        batch, index = self._place()
        return batch.failed_reads, index

    def _wait(self, timeout: float | None) -> tuple[Any, int, Acknowledged | Failed]:
        if timeout is not None:
            check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            batch, index = self._place()
            run_while_waiting = batch.run_while_waiting  # None as soon as there is an outcome
            if batch.outcome is None and run_while_waiting is not None:
                run_while_waiting(batch, None if deadline is None else deadline - time.monotonic())
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not batch.wait(remaining):
                raise TimeoutError(f"the record for {batch} is still pending after {timeout} s")
            match batch.outcome:
                case Failed() as failed:
                    batch.failed_reads.read(index)
                    return batch, index, failed
                case Acknowledged() as acknowledged:
                    return batch, index, acknowledged
                # After the wait there is an outcome. If it is Forwarded, the loop waits for the batch that has the
                # record now.

    def _repr_html_(self) -> str:
        """The outcome for notebooks; this retrieves no error."""
        batch, index = self._place()
        outcome = batch.outcome
        place = [("topic", batch.topic), ("partition", _known(batch.partition))]
        match outcome:
            case Acknowledged():
                found = batch.metadata(index, outcome)
                cells = [
                    ("offset", _known(found.offset)),
                    ("timestamp (ms)", found.timestamp_ms),
                    ("bytes of the key", _known(found.serialized_key_size)),
                    ("bytes of the value", _known(found.serialized_value_size)),
                ]
                return html.pairs("acknowledged", place + cells)
            case Failed():
                error = outcome.error_of(index)
                return html.pairs("failed", [*place, ("error", type(error).__name__), ("reason", str(error))])
        return html.pairs("pending", place)

    def __repr__(self) -> str:
        batch, index = self._place()
        match batch.outcome:
            case Acknowledged(base_offset=base):
                state = f"at offset {base + index}" if base >= 0 else "acknowledged"
            case Failed() as failed:
                state = f"failed: {failed.error_of(index)}"
            case _:
                state = "pending"
        return f"<Delivery for {batch}: {state}>"


def _known(number: int) -> int | None:
    return number if number >= 0 else None


class AcknowledgedDelivery(Delivery):
    """A delivery of an acknowledged record, for callbacks: its attributes are read in a tenth of the time."""

    __slots__ = ("metadata",)

    metadata: RecordMetadata
    error = None

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> RecordMetadata:
        return self.metadata

    def exception(self, timeout: float | None = None) -> None:
        return None


class LazyDelivery(AcknowledgedDelivery):
    """A delivery of an acknowledged record. The first read of one's metadata computes those of the whole batch."""

    __slots__ = ("_shared",)

    _shared: list[Sequence[RecordMetadata] | None]
    """A list of one entry that all deliveries of the batch share: the metadata of all records, while callbacks run."""

    @property
    def metadata(self) -> RecordMetadata:  # type: ignore[override]  # none of its batch sets it
        column = self._shared[0]
        if column is None:
            column = self._shared[0] = self._batch.all_metadata()
        return column[self._index]


class ObservingCallback:
    """A callback that Ottla adds itself; `retrieves_error` says whether it passes the error to the program."""

    __slots__ = ()

    @property
    def retrieves_error(self) -> bool:
        """Return whether this callback passes the error to the program."""
        return False

    def expect_errors(self, batch: Any, index: int) -> None:
        """Note which errors of a failed batch, where this is the callback of one record, the program will get."""
        if self.retrieves_error:
            batch.failed_reads.expect(index)

    def give_up_errors(self, batch: Any, index: int) -> None:
        """Undo `expect_errors`, because this callback does not run."""
        batch.failed_reads.give_up(index)


class _Completion(ObservingCallback):
    """Completes a future. It does not retrieve an error: the future does when it is read."""

    __slots__ = ("_future",)

    def __init__(self, future: DeliveryFuture) -> None:
        self._future = future

    def __call__(self, delivery: Delivery) -> None:
        self._future.complete()


OnDelivery: TypeAlias = Callable[[Delivery], object]
"""A callback of `send`. It gets a completed delivery."""


def _import_record_wait(delivery: Delivery, batch: Any) -> RecordWait | None:
    """`record_wait`, imported with asyncio by the first `await`, since other programs do not need it."""
    global _record_wait
    from ottla.accumulator.event_loops import record_wait

    _record_wait = record_wait
    return record_wait(delivery, batch)


_record_wait: Callable[[Delivery, Any], RecordWait | None] = _import_record_wait


def outcome_of(delivery: Delivery) -> tuple[RecordMetadata | None, DeliveryError | None]:
    """The metadata or the error of a completed delivery; this does not retrieve the error."""
    batch, index = delivery._place()
    match batch.outcome:
        case Acknowledged() as acknowledged:
            return batch.metadata(index, acknowledged), None
        case Failed() as failed:
            return None, failed.error_of(index)
    raise AssertionError("the delivery of a callback is completed")
