"""Batches complete once, all batches of a response together; a callback sees all earlier completions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from unretrieved import unretrieved_errors

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.batch_result import give_up_callbacks
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery import OnDelivery
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.slow_records import SlowRecords
from ottla.concurrency.environment import Environment, Lock, Thread, daemon_thread
from ottla.errors import DeliveryError
from ottla.results.stories.waits import Journal
from ottla_testkit.manual_clock import ManualClock

HELD = 100


def failed() -> Failed:
    return Failed(error=DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False))


class Setup:
    """A completion with batches of one record each, which hold memory; `free` is what the pool has."""

    def __init__(
        self,
        thread: Callable[[Callable[[], object], str], Thread] = daemon_thread,
        lock: Callable[[], Lock] = threading.Lock,
    ) -> None:
        environment = Environment(clock=ManualClock(), thread=thread, lock=lock)
        self.incomplete_batches = IncompleteBatches()
        self.pool = BufferPool(10 * HELD, environment=environment)
        self.completion = BatchCompletion(
            on_complete=self.remove,
            slow=SlowRecords(float("inf"), ()),
            pool=self.pool,
            sequences=Sequences(off=True),
            counters=None,
            io_loop=WokenLoop(lambda: None),
            journal=Journal(linger=0.0, clock=environment.clock),
            environment=environment,
        )

    def remove(self, batches: Iterable[ProducerBatch]) -> None:
        with self.incomplete_batches.lock:
            self.incomplete_batches.remove_completed(batches)

    def batch(self, on_delivery: OnDelivery | None = None) -> ProducerBatch:
        batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
        batch.append(None, b"v", (), 0, on_delivery)
        assert self.pool.try_reserve(HELD)
        batch.held_bytes = HELD
        with self.incomplete_batches.lock:
            self.incomplete_batches.begin(self.incomplete_batches.queue("t", 0), batch)
        return batch

    @property
    def held(self) -> int:
        return self.pool.capacity - self.pool.free

    def acknowledged(self) -> int:
        report, _unseen, _error = self.completion.report([])
        return report.acknowledged


def test_batches_of_a_response_complete_at_once_and_are_counted_together() -> None:
    setup = Setup()
    batches = [setup.batch() for _ in range(5)]
    seen: list[tuple[int, int]] = []

    def outcomes() -> Iterator[tuple[ProducerBatch, Acknowledged]]:
        for number, batch in enumerate(batches):
            yield batch, Acknowledged(base_offset=number)
            assert batch.outcome == Acknowledged(base_offset=number)
            seen.append((setup.held, len(setup.incomplete_batches.all)))

    setup.completion.complete_all(outcomes())

    assert seen == [(5 * HELD, 5)] * 5
    assert (setup.held, dict(setup.incomplete_batches.all), setup.acknowledged()) == (0, {}, 5)


@pytest.mark.parametrize("outcome", [Acknowledged(base_offset=0), failed()], ids=["acknowledged", "failed"])
def test_a_callback_may_use_the_memory_of_batches_completed_before_it(outcome: Acknowledged | Failed) -> None:
    setup, seen = Setup(), list[tuple[int, int]]()

    def look(*_reported: object) -> None:
        seen.append((setup.held, len(setup.incomplete_batches.all)))

    batches = [setup.batch(), setup.batch(look), setup.batch(), setup.batch(), setup.batch(look)]
    setup.completion.complete_all([(batch, outcome) for batch in batches])

    assert seen == [(4 * HELD, 4), (HELD, 1)]  # its own is given back when it has run
    assert (setup.held, dict(setup.incomplete_batches.all)) == (0, {})


def test_a_completed_batch_is_not_counted_again() -> None:
    setup = Setup()
    one, other = setup.batch(), setup.batch()
    assert setup.completion.complete(one, Acknowledged(base_offset=7))

    setup.completion.complete_all([(one, Acknowledged(base_offset=8)), (other, Acknowledged(base_offset=9))])

    assert one.outcome == Acknowledged(base_offset=7)
    assert not setup.completion.complete(one, Acknowledged(base_offset=8))
    assert (setup.held, setup.acknowledged()) == (0, 2)


def test_batches_acknowledged_before_an_error_are_counted() -> None:
    setup = Setup()
    first, second = setup.batch(), setup.batch()

    def broken() -> Iterator[tuple[ProducerBatch, Acknowledged]]:
        yield first, Acknowledged(base_offset=0)
        raise RuntimeError("the next one could not be judged")

    with pytest.raises(RuntimeError, match="could not be judged"):
        setup.completion.complete_all(broken())

    assert (setup.held, list(setup.incomplete_batches.all), setup.acknowledged()) == (HELD, [second], 1)


def refused() -> None:
    raise RuntimeError("can't start new thread")


@attrs.frozen
class HeldThreads:
    """Threads that are made, and start by a call of `begin`."""

    functions: list[Callable[[], object]] = attrs.field(factory=list)
    begin: Callable[[], object] = lambda: None

    def make(self, run: Callable[[], object], name: str) -> Any:
        assert name == "ottla-callbacks"
        self.functions.append(run)
        return SimpleNamespace(start=self.begin)


def test_errors_that_callbacks_get_on_a_thread_of_their_own_are_retrieved() -> None:
    setup = Setup()

    setup.completion.fail_off_io_thread(
        [setup.batch(lambda _delivery: None) for _ in range(2)], RuntimeError("the I/O thread is blocked")
    )
    report, unretrieved, error = setup.completion.report([])

    assert (report.failed, unretrieved, error) == (2, 0, None)


def test_errors_of_callbacks_that_do_not_run_are_left_to_the_close() -> None:
    setup, released = Setup(), threading.Event()

    setup.completion.fail_off_io_thread(
        [setup.batch(lambda _delivery: released.wait(20)) for _ in range(3)], RuntimeError("the I/O thread is blocked")
    )
    report, unretrieved, error = setup.completion.report([])
    released.set()

    assert (report.failed, unretrieved) == (3, 2)  # the first callback has got its error
    assert isinstance(error, DeliveryError)


def test_callbacks_run_when_the_errors_of_all_of_them_are_expected() -> None:
    """Else a close could report an error that its callback is about to get, or lose one whose callback raises."""
    begun, seen = threading.Event(), list[int]()

    def started(run: Callable[[], object], name: str) -> Any:
        thread = daemon_thread(run, name)

        def start() -> None:
            thread.start()
            assert begun.wait(20)  # until the thread waits, or runs the first callback

        return SimpleNamespace(start=start)

    def gate() -> Lock:
        begun.set()
        return threading.Lock()

    def look(_delivery: object) -> None:
        begun.set()
        seen.append(sum(unretrieved_errors(batch) for batch in batches))

    setup = Setup(started, gate)
    batches = [setup.batch(look) for _ in range(3)]
    begun.clear()
    setup.completion.fail_off_io_thread(batches, RuntimeError("the I/O thread is blocked"))

    assert seen == [0, 0, 0]


def test_one_thread_runs_all_callbacks_if_the_io_thread_hangs() -> None:
    threads, seen = HeldThreads(), list[int]()
    setup = Setup(threads.make)
    batches = [setup.batch(lambda _delivery, number=number: seen.append(number)) for number in range(10)]  # type: ignore[misc]

    setup.completion.fail_off_io_thread(batches, RuntimeError("the I/O thread is blocked"))
    [run] = threads.functions
    run()

    assert seen == [*range(10)]
    assert (setup.held, dict(setup.incomplete_batches.all)) == (0, {})


def test_errors_are_reported_if_no_thread_can_run_the_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup(HeldThreads(begin=refused).make)
    batches = [setup.batch(lambda _delivery: None) for _ in range(3)]

    setup.completion.fail_off_io_thread([*batches, setup.batch()], RuntimeError("the I/O thread is blocked"))
    report, unretrieved, error = setup.completion.report([])

    assert all(isinstance(batch.outcome, Failed) for batch in batches)
    assert (report.failed, unretrieved) == (4, 4)
    assert error is not None
    assert caplog.messages == [
        "callbacks for 3 batches do not run, because no thread could be started for them: can't start new thread"
    ]


def test_an_interruption_between_batches_loses_no_callback() -> None:
    threads, seen = HeldThreads(), list[int]()
    setup = Setup(threads.make)
    first, second = setup.batch(lambda _delivery: seen.append(1)), setup.batch(lambda _delivery: seen.append(2))

    def interrupted() -> Iterator[ProducerBatch]:
        yield first
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup.completion.fail_off_io_thread(interrupted(), RuntimeError("the I/O thread is blocked"))
    setup.completion.fail_off_io_thread([first, second], RuntimeError("the I/O thread is blocked"))
    for run in threads.functions:
        run()

    assert seen == [1, 2]
    assert setup.held == 0


def test_an_interruption_of_the_wait_for_callbacks_costs_no_memory() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    setup = Setup(HeldThreads(begin=interrupted).make)
    batches = [setup.batch(lambda _delivery: None), setup.batch()]
    with pytest.raises(KeyboardInterrupt):
        setup.completion.fail_off_io_thread(batches, RuntimeError("the I/O thread is blocked"))

    assert (setup.held, dict(setup.incomplete_batches.all)) == (0, {})
    assert setup.completion.report([])[0].failed == 2


class EndingBatches(list[ProducerBatch]):
    """Batches for whose iterator there is no memory once the pool has got all of its own back."""

    pool: BufferPool

    def __iter__(self) -> Iterator[ProducerBatch]:
        if self.pool.free == self.pool.capacity:
            raise MemoryError
        return super().__iter__()


def test_a_completion_continued_after_the_end_of_memory_releases_once() -> None:
    """Released twice, it would let the producer hold more than `buffer.memory`."""
    setup = Setup()
    batches = EndingBatches([setup.batch(), setup.batch()])
    batches.pool = setup.pool
    first, second = batches
    for batch in (first, second):
        batch.complete(Acknowledged(base_offset=0))
    with pytest.raises(MemoryError):
        setup.completion._count(batches)
    for batch in (first, second):
        setup.completion.resume(batch)

    assert setup.pool.free == setup.pool.capacity
    assert not setup.incomplete_batches.all


def test_callbacks_that_have_run_are_not_given_up() -> None:
    """Where those of another batch hang, on the thread that runs both."""
    setup = Setup()
    batch = setup.batch(lambda _delivery: None)
    setup.completion.complete(batch, failed())

    give_up_callbacks(batch)

    assert batch.failed_reads.unread == 0
