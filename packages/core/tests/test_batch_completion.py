"""Batches complete once, all batches of a response together; a callback sees all earlier completions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_completion import BatchCompletion
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.delivery import OnDelivery
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.accumulator.sequences import Sequences
from ottla.errors import DeliveryError
from ottla.results.stories.waits import Journal
from ottla_testkit.manual_clock import ManualClock

HELD = 100


def failed() -> Failed:
    return Failed(error=DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False))


class Setup:
    """A completion with batches of one record each, which hold memory; `free` is what the pool has."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.incomplete_batches = IncompleteBatches()
        self.pool = BufferPool(10 * HELD, clock=clock)
        self.completion = BatchCompletion(
            on_complete=self.remove,
            pool=self.pool,
            sequences=Sequences(off=True),
            counters=None,
            io_loop=WokenLoop(lambda: None),
            journal=Journal(linger=0.0, clock=clock),
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


def test_an_error_given_to_a_callback_counts_as_retrieved_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    batch = setup.batch(on_delivery=lambda _delivery: None)
    monkeypatch.setattr("threading.Thread.start", lambda _thread: None)  # its turn has not come yet

    setup.completion.complete(batch, failed(), off_io_thread=True)
    report, unretrieved, error = setup.completion.report([])

    assert (report.failed, unretrieved, error) == (1, 0, None)
