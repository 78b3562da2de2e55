"""The I/O hand-off under every kind of interleaving: a model of a producer, and threads that a seed schedules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from long_forms import LONG
from schedules import Schedule

from ottla.concurrency import io_threads
from ottla.sender import io_handoff
from ottla.sender.io_handoff import AWAITED_IN_A_ROW, CHECK_INTERVAL, IoHandoff

pytestmark = pytest.mark.unmeasured  # it traces calls itself

SEEDS = range(20_000 if LONG else 60)
ROUND_TRIP = 0.000_5
HOUR = 3_600.0


@attrs.define(eq=False)
class Batch:
    """The part of a batch that the hand-off reads."""

    started_at: float
    outcome: object = None
    ended_at: float = 0.0


class Model:
    """A producer with one record in a batch, and rounds that send all batches and complete what was answered."""

    def __init__(self, seed: int) -> None:
        self.schedule = Schedule(seed, io_handoff)
        self.random = self.schedule.random
        self.queues = self.schedule.environment.rlock()
        self.queued: list[Batch] = []
        self.in_flight: dict[Batch, float] = {}
        self.incomplete: set[Batch] = set()
        self.deferred: list[tuple[Batch, int]] = []
        self.completed: list[Batch] = []
        self.rounds_of: set[int] = set()
        self.senders = 0
        self.woken = self.in_round = False
        self.errors_due: list[Exception] = []
        self.errors: list[BaseException] = []
        self.io_ident = 0
        self.handoff = IoHandoff(
            run=self.run_round,
            idle=lambda: not self.queued and not self.in_flight,
            pending=lambda: bool(self.incomplete),
            wake=self.wake,
            environment=self.schedule.environment,
        )

    def wake(self) -> None:
        self.woken = True

    def run_round(self, now: float, until: float) -> None:
        assert not self.in_round, "two threads run rounds at once"
        self.in_round = True
        try:
            self.rounds_of.add(threading.get_ident())
            self._run_round(until)
        finally:
            self.in_round = False

    def _run_round(self, until: float) -> None:
        if self.errors_due:
            raise self.errors_due.pop()
        while self.queued:
            self.in_flight[self.queued.pop(0)] = self.schedule.now + ROUND_TRIP
        answer_at = min(self.in_flight.values(), default=float("inf"))
        self.schedule.wait_for(lambda: self.woken, min(answer_at, until) - self.schedule.now)
        self.woken = False
        for batch, at in list(self.in_flight.items()):
            if at <= self.schedule.now:
                del self.in_flight[batch]
                self._complete(batch)

    def _complete(self, batch: Batch) -> None:
        self.completed.append(batch)
        if not self.handoff.defer(lambda: self._run_callback(batch)):
            self._run_callback(batch)
        self.schedule.switch()
        self.incomplete.discard(batch)
        self.schedule.switch()
        batch.outcome, batch.ended_at = "acknowledged", self.schedule.now

    def _run_callback(self, batch: Batch) -> None:
        self.deferred.append((batch, threading.get_ident()))

    # Threads

    def io_thread(self) -> None:
        io_threads.enter()
        self.io_ident = threading.get_ident()
        try:
            while self.senders or self.incomplete:
                self.handoff.begin_round()
                try:
                    self.run_round(self.schedule.now, float("inf"))
                    if self.senders:
                        self.handoff.yield_to_callers()
                except RuntimeError as error:
                    self.errors.append(error)
        finally:
            io_threads.leave()

    def send(self) -> Batch:
        batch = Batch(self.schedule.now)
        with self.queues:
            self.queued.append(batch)
            self.incomplete.add(batch)
            self.handoff.batch_started(alone=len(self.incomplete) == 1)
        return batch

    def wait(self, batch: Batch, timeout: float | None = None) -> None:
        waited: Any = batch
        self.handoff.run_while_waiting(waited, timeout)
        self.schedule.wait_for(lambda: batch.outcome, float("inf") if timeout is None else timeout)

    def sender(self, records: int, after: Callable[[Batch], object]) -> Callable[[], None]:
        self.senders += 1

        def run() -> None:
            for _ in range(records):
                after(self.send())
            self.senders -= 1
            self.handoff.wake()

        return run

    def check(self) -> None:
        """Check that no record and no callback is missing or was handled twice."""
        assert not self.incomplete
        assert len(set(self.completed)) == len(self.completed)
        assert [batch for batch, _ident in self.deferred] == self.completed
        assert {ident for _batch, ident in self.deferred} == {self.io_ident}


@pytest.fixture(autouse=True)
def _rare_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without checks by the I/O thread, a lost call would cost an hour."""
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", HOUR)


def test_no_call_of_threads_that_all_await_their_records_is_lost() -> None:
    threads_of_rounds = 0
    for seed in SEEDS:
        model = Model(seed)
        with_callback = model.random.choice([0.0, 0.3])
        longest_pause = model.random.choice([0, 4, 10]) * ROUND_TRIP

        def wait(
            batch: Batch,
            model: Model = model,
            with_callback: float = with_callback,
            longest_pause: float = longest_pause,
        ) -> None:
            model.wait(batch)
            if longest_pause and model.random.random() < 0.5:
                model.schedule.wait_for(lambda: False, model.random.random() * longest_pause)
            if model.random.random() < with_callback:
                model.schedule.wait_for(lambda: batch in dict(model.deferred))

        senders = [model.sender(16, wait) for _ in range(model.random.choice([1, 2, 3]))]
        model.schedule.run(model.io_thread, *senders)

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"
        threads_of_rounds += len(model.rounds_of) > 1
    assert threads_of_rounds > len(SEEDS) / 4, "the rounds are handed off in many of them"


def test_no_call_of_other_threads_is_lost_while_one_awaits_its_records() -> None:
    for seed in SEEDS:
        model = Model(seed)

        def call_often(model: Model = model) -> None:
            for _ in range(5):
                model.schedule.wait_for(lambda: False, model.random.random() * ROUND_TRIP)
                model.handoff.wake()

        def wait_a_little(batch: Batch, model: Model = model) -> None:
            model.wait(batch, model.random.choice([None, 0.0, ROUND_TRIP / 2, 2 * ROUND_TRIP]))
            model.wait(batch)

        model.schedule.run(model.io_thread, model.sender(8, wait_a_little), call_often)

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"


def test_a_thread_that_cannot_run_rounds_leaves_them_to_the_io_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        model = Model(seed)
        able: set[int] = set()
        with monkeypatch.context() as patch:
            patch.setattr(io_handoff, "_can_run_rounds", lambda able=able: threading.get_ident() in able)

            def wait_as_chance_has_it(batch: Batch, model: Model = model, able: set[int] = able) -> None:
                ident = threading.get_ident()
                if model.random.random() < 0.9:
                    able.add(ident)
                model.wait(batch)
                able.discard(ident)

            def wait_unable(batch: Batch, model: Model = model) -> None:
                model.wait(batch)
                assert threading.get_ident() not in model.rounds_of

            others = [model.sender(2, wait_unable)] if model.random.random() < 0.5 else []
            model.schedule.run(model.io_thread, model.sender(20, wait_as_chance_has_it), *others)

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"


def test_a_round_that_fails_on_any_thread_costs_no_record() -> None:
    for seed in SEEDS:
        model = Model(seed)

        def fail_now_and_then(batch: Batch, model: Model = model) -> None:
            model.wait(batch)
            if model.random.random() < 0.5:
                model.errors_due.append(RuntimeError("on purpose"))

        model.schedule.run(model.io_thread, model.sender(8, fail_now_and_then), model.sender(4, model.wait))

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"


def test_a_record_that_no_thread_awaits_leaves_after_two_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", CHECK_INTERVAL)
    for seed in SEEDS:
        model = Model(seed)
        left: list[Batch] = []

        def await_most(batch: Batch, model: Model = model, left: list[Batch] = left) -> None:
            if len(model.completed) > AWAITED_IN_A_ROW and not left:
                left.append(batch)
                model.schedule.wait_for(lambda: batch.outcome)
            else:
                model.wait(batch)

        model.schedule.run(model.io_thread, model.sender(8, await_most))

        model.check()
        assert left[0].ended_at - left[0].started_at <= 3 * CHECK_INTERVAL + 2 * ROUND_TRIP, f"seed {seed}"
