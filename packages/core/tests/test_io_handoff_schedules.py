"""The I/O hand-off under every kind of interleaving: a model of a producer, and threads that a seed schedules."""

from __future__ import annotations

import threading
from collections import Counter
from statistics import median

import pytest
from io_handoff_model import ROUND_TRIP, Batch, Model
from long_forms import LONG

from ottla.sender import io_handoff
from ottla.sender.io_handoff import AWAITED_IN_A_ROW, CHECK_INTERVAL, LOOP_CHECK_INTERVAL, HandoffState

pytestmark = pytest.mark.unmeasured  # it traces calls itself

SEEDS = range(20_000 if LONG else 24)
FOR_A_RATIO = range(20_000 if LONG else 60)
HOUR = 3_600.0


@pytest.fixture(autouse=True)
def _rare_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without checks by the I/O thread, a lost call would cost an hour."""
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", HOUR)
    monkeypatch.setattr(io_handoff, "LOOP_CHECK_INTERVAL", HOUR)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", CHECK_INTERVAL)
    monkeypatch.setattr(io_handoff, "LOOP_CHECK_INTERVAL", LOOP_CHECK_INTERVAL)


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
        threads_of_rounds += len(model.rounds_by) > 1
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
                assert threading.get_ident() not in model.rounds_by

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


@pytest.mark.usefixtures("checks")
def test_a_record_that_no_thread_awaits_leaves_after_two_checks() -> None:
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


# Event loops


def test_no_record_of_event_loops_and_threads_waits_for_a_lost_round() -> None:
    loops_ran_rounds = 0
    for seed in SEEDS:
        model = Model(seed)
        chance = model.random
        model.callbacks = chance.random() < 0.3
        loops = [model.loop(12, tasks=chance.choice([1, 3])) for _ in range(chance.choice([1, 1, 2]))]
        threads = [model.sender(6, model.wait) for _ in range(chance.choice([0, 0, 1]))]
        model.schedule.run(model.io_thread, *loops, *threads)

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"
        loops_ran_rounds += bool(model.rounds_by.keys() - {model.io_ident})
    assert loops_ran_rounds > len(SEEDS) / 4, "loops run rounds in many of them"


def test_rounds_that_do_not_fit_a_loop_go_back_to_the_io_thread() -> None:
    for seed in SEEDS:
        model = Model(seed)
        model.callbacks = False
        model.leaves_unread, model.gets_busy = model.random.choice([0.0, 0.3]), model.random.choice([0.0, 0.3])
        model.schedule.run(model.io_thread, model.loop(12, tasks=2))

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"


@pytest.mark.usefixtures("checks")
def test_the_io_thread_runs_a_round_that_is_due_by_time() -> None:
    linger, times = CHECK_INTERVAL / 4, []
    for seed in SEEDS:
        model = Model(seed)
        model.callbacks = False
        model.linger = linger
        model.schedule.run(model.io_thread, model.loop(25))

        model.check()
        times += [batch.ended_at - batch.started_at for batch in model.completed]
    assert median(times) <= linger + 2 * ROUND_TRIP


@pytest.mark.usefixtures("checks")
def test_the_io_thread_stays_away_while_a_loop_runs_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "MAX_UNPOLLED_SECONDS", 3 * LOOP_CHECK_INTERVAL)
    rounds: Counter[bool] = Counter()
    for seed in FOR_A_RATIO:
        model = Model(seed)
        model.callbacks = False
        model.schedule.run(model.io_thread, model.loop(60))

        model.check()
        for ident, count in model.rounds_by.items():
            rounds[ident == model.io_ident] += count
    assert rounds[True] < 1.5 * rounds[False]  # although a schedule also holds up loops that could go on


def test_a_round_that_fails_on_a_loop_costs_no_record() -> None:
    failed = 0
    for seed in SEEDS:
        model = Model(seed)
        model.callbacks = False

        def fail_now_and_then(model: Model = model) -> None:
            for _ in range(6):
                model.schedule.wait_for(lambda: False, model.random.random() * 2 * ROUND_TRIP)
                model.errors_due.append(RuntimeError("on purpose"))
                model.handoff.wake()

        model.schedule.run(model.io_thread, model.loop(12), fail_now_and_then)

        model.check()
        assert model.schedule.now < HOUR, f"seed {seed}"
        failed += len(model.errors)
    assert failed > len(SEEDS)


@pytest.mark.usefixtures("checks")
@pytest.mark.parametrize("when", ["before the turn ends", "after it"])
def test_the_io_thread_comes_back_while_a_task_keeps_its_loop_busy(when: str) -> None:
    times = []
    for seed in SEEDS:
        model = Model(seed)
        model.callbacks = False

        def compute_now_and_then(model: Model = model) -> float:
            rests = model.handoff._state is not HandoffState.IO_THREAD
            return 30 * LOOP_CHECK_INTERVAL if rests and model.random.random() < 0.2 else 0.0

        if when == "after it":
            loop = model.loop(40, computes_later=compute_now_and_then)
        else:
            loop = model.loop(40, computes=compute_now_and_then)
        model.schedule.run(model.io_thread, loop)

        model.check()
        times += loop.busy_times
    assert len(times) > len(SEEDS) / 4
    # Longer than three checks, because a schedule also holds up threads that could go on.
    assert max(times) <= 15 * LOOP_CHECK_INTERVAL
    assert median(times) <= 3 * LOOP_CHECK_INTERVAL + 2 * ROUND_TRIP
