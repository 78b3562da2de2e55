"""The I/O hand-off in simulated time: a thread that waits runs a producer's rounds while the I/O thread rests."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ottla import DeliveryTimeoutError
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.io_loop_interface import WokenLoop
from ottla.concurrency.environment import SYSTEM
from ottla.sender import io_handoff
from ottla.sender.io_handoff import AWAITED_IN_A_ROW, HandoffState, IoHandoff
from ottla.sender.loop_rounds import MAX_QUEUED_BYTES, LoopRounds
from simulated_producer import HANG_GUARD, Simulated, simulated

DELIVERY_SECONDS = 120.0


@pytest.fixture(autouse=True)
def _no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The I/O thread does not look up by itself: nothing but a call brings it back."""
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", HANG_GUARD)
    monkeypatch.setattr(io_handoff, "LOOP_CHECK_INTERVAL", HANG_GUARD)


def _until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


class IoThread:
    """Rests at a hand-off, as the I/O thread does between its rounds, until it is called."""

    def __init__(self, own: IoHandoff) -> None:
        self._handoff = own
        self.error: BaseException | None = None
        own._awaited_in_a_row = AWAITED_IN_A_ROW  # as if so many records had been awaited
        own.begin_round()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        # A short CHECK_INTERVAL may bring it back before this thread has seen that it rested.
        _until(lambda: own._state is HandoffState.OFFERED or not self.resting)

    @property
    def resting(self) -> bool:
        """Whether it was never called."""
        return self.thread.is_alive()

    def join(self) -> None:
        """Call it."""
        self._handoff.wake()
        self.thread.join(HANG_GUARD)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        try:
            self._handoff.yield_to_callers()
        except BaseException as error:
            self.error = error


def _handoff(simulation: Simulated) -> IoHandoff:
    handoff = simulation.thread._io_handoff
    assert isinstance(handoff, IoHandoff)
    return handoff


@contextmanager
def _resting(simulation: Simulated) -> Iterator[IoThread]:
    resting = IoThread(_handoff(simulation))
    try:
        yield resting
    finally:
        resting.join()


# A round does the same on every thread


def test_a_waiting_thread_sends_the_record_and_gets_its_outcome() -> None:
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        delivery = simulation.producer.send("t", b"value")

        assert delivery.result().offset == 0
        assert io_thread.error is None
    assert simulation.log() == [b"value"]


def test_the_io_thread_rests_only_while_it_has_nothing_to_do() -> None:
    with simulated(1, linger_ms=1_000) as simulation:
        own = _handoff(simulation)
        simulation.producer.send("t", b"v")
        assert not own._idle()  # a record waits for others
        simulation.run_until_idle()
        simulation.pass_time(1.0)
        assert own._idle()

        simulation.network.held.add(1)
        simulation.metadata.request_update()
        simulation.pass_time(1.0)
        assert not own._idle()  # a broker has not answered yet
        simulation.network.held.clear()
        simulation.pass_time(1.0)
        assert own._idle()


def test_a_waiting_thread_retries_a_record_at_a_new_leader() -> None:
    with simulated(0, 1) as simulation, _resting(simulation):
        simulation.cluster.topics["t"].leaders[0] = 1
        delivery = simulation.producer.send("t", b"value", partition=0)

        assert delivery.result().offset == 0
    assert simulation.log() == [b"value"]


def test_a_record_expires_while_its_thread_waits() -> None:
    with simulated(0) as simulation, _resting(simulation):
        simulation.cluster.topics["t"].leaders[0] = -1
        sent_at = simulation.clock()
        delivery = simulation.producer.send("t", b"value")

        with pytest.raises(DeliveryTimeoutError):
            delivery.result()
        assert simulation.clock() - sent_at == pytest.approx(DELIVERY_SECONDS, abs=1.0)


def test_a_waiting_thread_chooses_the_partition_of_a_key() -> None:
    with simulated(0, 0, 0) as simulation, _resting(simulation) as io_thread:
        delivery = simulation.producer.send("t", b"value", b"key")

        assert delivery.result().offset == 0
        assert io_thread.error is None


def test_a_waiting_thread_sends_the_parts_of_a_batch_that_was_split() -> None:
    with simulated(0, linger_ms=5) as simulation, _resting(simulation) as io_thread:
        simulation.cluster.topics["t"].max_message_bytes = 200
        deliveries = [simulation.producer.send("t", bytes(100)) for _ in range(3)]

        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2]
        assert io_thread.resting


# Who runs the rounds


def test_awaited_single_records_do_not_wake_the_io_thread() -> None:
    with simulated(0) as simulation, _resting(simulation):
        calls: list[bool] = []
        for _ in range(3):
            delivery = simulation.producer.send("t", b"value")
            calls.append(_handoff(simulation)._called)
            delivery.result()

    assert calls == [False] * 3


def test_a_second_record_before_the_first_wait_wakes_the_io_thread() -> None:
    with simulated(0, 0) as simulation, _resting(simulation) as io_thread:
        simulation.producer.send("t", b"one", partition=0)
        simulation.producer.send("t", b"two", partition=1)

        _until(lambda: not io_thread.resting)


def test_a_flush_wakes_the_io_thread() -> None:
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        simulation.producer.send("t", b"value")
        simulation.accumulator.close_open_batches()

        _until(lambda: not io_thread.resting)


def test_only_the_polling_thread_may_defer_work_to_the_io_thread() -> None:
    with simulated(0) as simulation, _resting(simulation):
        assert not simulation.thread._io_handoff.defer(lambda: None)


def test_deferred_work_is_done_in_order_when_the_io_thread_resumes() -> None:
    with simulated(0) as simulation:
        reported: list[tuple[str, int]] = []
        with _resting(simulation) as io_thread:
            delivery = simulation.producer.send(
                "t", b"value", on_delivery=lambda _delivery: reported.append(("first", threading.get_ident()))
            )
            delivery.add_done_callback(lambda _delivery: reported.append(("second", threading.get_ident())))
            delivery.result()
            ident = io_thread.thread.ident

        assert reported == [("first", ident), ("second", ident)]
        assert simulation.accumulator.incomplete == 0


def test_a_callback_brings_the_io_thread_back_without_another_call() -> None:
    called: list[object] = []
    with simulated(0) as simulation, _resting(simulation):
        delivery = simulation.producer.send("t", b"value", on_delivery=called.append)
        assert delivery.result().offset == 0

        _until(lambda: called)


def test_an_error_in_a_round_is_raised_when_the_io_thread_resumes() -> None:
    with simulated(0) as simulation:
        with _resting(simulation) as io_thread:
            run_once = simulation.sender.run_once

            def fail(now: float, **how: Any) -> bool:
                raise RuntimeError("on purpose")

            simulation.sender.run_once = fail  # type: ignore[method-assign]
            batch = simulation.producer.send("t", b"value")._batch
            simulation.thread._io_handoff.run_while_waiting(batch, None)
            simulation.sender.run_once = run_once  # type: ignore[method-assign]
            _until(lambda: not io_thread.resting)

        assert str(io_thread.error) == "on purpose"


def test_a_second_thread_that_waits_runs_no_round_and_calls_the_io_thread() -> None:
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        handoff, rounds = _handoff(simulation), []
        run_once = simulation.sender.run_once
        other = simulation.producer.send("t", b"other")._batch

        def run_while_another_waits(now: float, **how: Any) -> bool:
            rounds.append(threading.get_ident())
            waiting = threading.Thread(target=handoff.run_while_waiting, args=(other, None))
            waiting.start()
            waiting.join(HANG_GUARD)
            return run_once(now, **how)

        simulation.sender.run_once = run_while_another_waits  # type: ignore[method-assign]
        handoff._called, handoff._awaited_in_a_row = False, AWAITED_IN_A_ROW  # as if only one batch had been started
        handoff.run_while_waiting(other, None)
        simulation.sender.run_once = run_once  # type: ignore[method-assign]

        assert rounds == [threading.get_ident()]
        _until(lambda: not io_thread.resting)


def test_a_thread_that_waits_for_a_time_runs_rounds_for_no_longer() -> None:
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        simulation.network.freeze(0)
        delivery = simulation.producer.send("t", b"value")
        began_at = simulation.clock()
        with pytest.raises(TimeoutError):
            delivery.result(timeout=0.05)

        assert simulation.clock() - began_at < 1.0
        _until(lambda: not io_thread.resting)
        assert io_thread.error is None
        simulation.network.thaw(0)


@pytest.mark.parametrize("alone", [True, False])
def test_a_second_batch_before_a_wait_resets_the_count_of_awaited_ones(alone: bool) -> None:
    with simulated(0) as simulation:
        own = _handoff(simulation)
        own._awaited_in_a_row = AWAITED_IN_A_ROW
        own.batch_started(alone=True)
        own.batch_started(alone=alone)

        assert own._awaited_in_a_row == 0


class _WatchingLoop:
    """An event loop that watches a descriptor for good, whose turns end when the test says so."""

    def __init__(self) -> None:
        self.ended = False

    def at_end_of_turn(self, function: Callable[[], object], *, if_closed: Callable[[], object]) -> None:
        pass

    def watch(self, _descriptor: int, _function: Callable[[], bool]) -> _WatchingLoop:
        return self

    def end(self) -> None:
        self.ended = True


class _Network:
    descriptor = 0

    def has_events(self) -> bool:
        return False


def _with_a_loop(run: Callable[[float, bool], bool], *, queued: int = 0, due_in: float = 60.0) -> IoHandoff:
    """A hand-off whose rounds fit an event loop unless much is queued or due."""
    handoff = IoHandoff(
        run=lambda _now, _until: None,
        idle=lambda: True,
        pending=lambda: False,
        wake=lambda: None,
        loop_rounds=LoopRounds(
            run=run,
            network=_Network(),
            awaits_events=lambda: True,
            queued_bytes=lambda: queued,
            due_at=lambda: SYSTEM.clock() + due_in,
        ),
        environment=SYSTEM,
    )
    handoff._event_loop = _WatchingLoop()
    return handoff


@pytest.mark.parametrize(("queued", "due_in", "rounds"), [(0, 60.0, 1), (MAX_QUEUED_BYTES + 1, 60.0, 0), (0, 0.0, 0)])
def test_a_loop_leaves_long_and_due_rounds_to_the_io_thread(queued: int, due_in: float, rounds: int) -> None:
    run: list[float] = []

    def run_on_loop(now: float, _may_skip: bool) -> bool:
        run.append(now)
        return False

    handoff = _with_a_loop(run_on_loop, queued=queued, due_in=due_in)
    io_thread = IoThread(handoff)
    handoff._end_turn()

    assert len(run) == rounds
    handoff.wake()
    _until(lambda: not io_thread.resting)


def test_an_event_with_a_long_round_wakes_the_io_thread() -> None:
    handoff = _with_a_loop(lambda _now, _may_skip: False, queued=MAX_QUEUED_BYTES + 1)
    io_thread = IoThread(handoff)

    assert not handoff._handle_event()
    assert handoff._called
    _until(lambda: not io_thread.resting)


def test_another_loop_goes_on_to_watch_the_sockets_while_one_runs_a_round() -> None:
    """The round of a loop may not look for events."""
    watches: list[bool] = []

    def run(_now: float, _may_skip: bool) -> bool:
        if not watches:
            other = threading.Thread(target=lambda: watches.append(handoff._handle_event()))
            other.start()
            other.join(HANG_GUARD)
        return True

    handoff = _with_a_loop(run)
    io_thread = IoThread(handoff)

    handoff._end_turn()

    assert watches == [True]
    handoff.wake()
    _until(lambda: not io_thread.resting)


def test_no_loop_watches_the_sockets_while_a_thread_runs_rounds() -> None:
    """These look for events themselves, and the loop would call again and again."""
    batch: Any = SimpleNamespace(outcome=None)
    watches: list[bool] = []

    def run(_now: float, _until: float) -> None:
        loop = threading.Thread(target=lambda: watches.append(handoff._handle_event()))
        loop.start()
        loop.join(HANG_GUARD)
        batch.outcome = "acknowledged"

    handoff = _with_a_loop(lambda _now, _may_skip: False)
    handoff._run = run
    io_thread = IoThread(handoff)

    handoff.run_while_waiting(batch, None)

    assert watches == [False]
    handoff.wake()
    _until(lambda: not io_thread.resting)


def test_a_signal_during_a_round_of_a_loop_is_handled_after_it() -> None:
    handled: list[int] = []
    within: list[int] = []

    def run(_now: float, _may_skip: bool) -> bool:
        signal.raise_signal(signal.SIGTERM)
        within.append(len(handled))
        return False

    handoff = _with_a_loop(run)
    io_thread = IoThread(handoff)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: handled.append(number))
    try:
        handoff._end_turn()
    finally:
        signal.signal(signal.SIGTERM, before)
    handoff.wake()
    _until(lambda: not io_thread.resting)

    assert (within, handled) == ([0], [signal.SIGTERM])


@pytest.mark.parametrize(("deferred", "rests"), [(False, True), (True, False)])
def test_the_io_thread_takes_what_the_turn_of_a_loop_has_not_sent(
    deferred: bool, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", 0.001)
    handoff = _with_a_loop(lambda _now, _may_skip: False)
    checks: list[bool] = []

    def pending() -> bool:
        checks.append(True)
        return True

    handoff._pending = pending
    handoff._watch = _WatchingLoop()
    handoff._deferred_wake.pending = deferred
    io_thread = IoThread(handoff)
    _until(lambda: len(checks) > 3 or not io_thread.resting)
    resting = io_thread.resting
    handoff.wake()
    _until(lambda: not io_thread.resting)

    assert resting is rests
    assert (handoff._turns_in_a_row < 0) is not rests  # it keeps the rounds for some turns


@pytest.mark.parametrize("caller_is_loop", [True, False])
def test_a_loop_watches_on_while_another_loop_runs_a_round(caller_is_loop: bool) -> None:
    handoff = _with_a_loop(lambda _now, _may_skip: False)
    handoff._state, handoff._caller_is_loop = HandoffState.CALLER, caller_is_loop

    assert handoff._handle_event() is caller_is_loop


def test_a_forked_child_does_not_end_the_watch_of_its_parent() -> None:
    handoff, watch = _with_a_loop(lambda _now, _may_skip: False), _WatchingLoop()
    handoff._watch = watch
    handoff.forget()

    handoff.end_watch()

    assert not watch.ended


def test_in_a_forked_child_no_thread_runs_offered_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(0) as simulation:
        own, run = _handoff(simulation), list[float]()

        def note(now: float, _until: float) -> None:
            run.append(now)
            own._called = True  # ends its rounds

        own.begin_round()
        own._state = HandoffState.OFFERED  # the I/O thread of the parent rested at the fork
        own.forget()
        batch, _index = simulation.producer.send("t", b"value")._place()
        own.begin_round()
        monkeypatch.setattr(own, "_run", note)

        own.run_while_waiting(batch, 0.01)

        assert run == []


def test_a_loop_leaves_rounds_to_the_io_thread_while_callbacks_go_there() -> None:
    handoff = _with_a_loop(lambda _now, _may_skip: False)
    handoff._turns_in_a_row = AWAITED_IN_A_ROW
    handoff.polling_thread = threading.get_ident()

    assert handoff.defer(lambda: None)
    for _ in range(AWAITED_IN_A_ROW):
        handoff.batch_started(alone=True, event_loop=_WatchingLoop())

    assert handoff._turns_in_a_row < AWAITED_IN_A_ROW


@pytest.mark.parametrize(("turns", "interval"), [(AWAITED_IN_A_ROW - 1, 1.0), (AWAITED_IN_A_ROW, 2.0)])
def test_the_io_thread_checks_seldom_while_a_loop_sends_one_by_one(
    turns: int, interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", 1.0)
    monkeypatch.setattr(io_handoff, "LOOP_CHECK_INTERVAL", 2.0)
    handoff = _with_a_loop(lambda _now, _may_skip: False)
    handoff._turns_in_a_row = turns
    intervals: list[float] = []

    def wait(seconds: float) -> None:
        intervals.append(seconds)
        handoff._called = True

    monkeypatch.setattr(handoff, "_resume", SimpleNamespace(wait=wait, set=lambda: None))
    handoff._wait_until_needed()

    assert intervals == [interval]


def test_after_a_thread_has_run_a_round_a_loop_checks_again_what_fits() -> None:
    rounds: list[float] = []
    batch = SimpleNamespace(outcome="acknowledged")

    def run(now: float, _until: float) -> bool:
        rounds.append(now)
        batch.outcome = "acknowledged"
        return False

    handoff = IoHandoff(
        run=run,
        idle=lambda: True,
        pending=lambda: False,
        wake=lambda: None,
        loop_rounds=LoopRounds(
            run=run,
            network=_Network(),
            awaits_events=lambda: len(rounds) < 3,  # the round of the thread leaves unread bytes behind
            queued_bytes=lambda: 0,
            due_at=lambda: float("inf"),
        ),
        environment=SYSTEM,
    )
    handoff._event_loop = _WatchingLoop()
    io_thread = IoThread(handoff)
    handoff._end_turn()
    handoff._end_turn()
    assert len(rounds) == 2

    batch.outcome = None
    handoff.run_while_waiting(batch, None)  # type: ignore[arg-type]
    handoff._end_turn()

    assert len(rounds) == 3
    _until(lambda: not io_thread.resting)


def test_no_thread_polls_while_the_io_thread_does() -> None:
    with simulated(0) as simulation:
        batch = simulation.producer.send("t", b"value")._batch

        simulation.thread._io_handoff.run_while_waiting(batch, None)

        assert batch.outcome is None
        simulation.run_until_idle()
        assert isinstance(batch.outcome, Acknowledged)


def test_a_thread_with_a_deep_stack_leaves_the_round_to_the_io_thread() -> None:
    def deep(calls: int, call: Callable[[], object]) -> None:
        if calls:
            deep(calls - 1, call)
        else:
            call()

    with simulated(0) as simulation, _resting(simulation) as io_thread:
        batch = simulation.producer.send("t", b"value")._batch
        deep(sys.getrecursionlimit() // 4, lambda: simulation.thread._io_handoff.run_while_waiting(batch, None))

        assert batch.outcome is None
        _until(lambda: not io_thread.resting)
        assert _handoff(simulation)._awaited_in_a_row == 0  # it rests no more until threads wait that can run rounds


def test_the_io_thread_does_not_yield_while_a_request_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(0) as simulation:
        own, rested = _handoff(simulation), list[bool]()
        monkeypatch.setattr(own, "_wait_until_needed", lambda: rested.append(True))
        simulation.network.freeze(0)
        simulation.producer.send("t", b"value")
        own._awaited_in_a_row = AWAITED_IN_A_ROW
        own.begin_round()  # so that it was not called since
        simulation.sender.run_once(simulation.clock(), until=simulation.clock())

        own.yield_to_callers()  # comes back at once

        assert rested == []


def test_the_io_thread_yields_only_after_a_failed_round_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(0) as simulation:
        thread, run_once, recover = simulation.thread, simulation.sender.run_once, simulation.sender.recover
        steps: list[str] = []

        def failing_round(now: float, **how: Any) -> bool:
            steps.append("round")
            if steps.count("round") <= 2:
                raise ZeroDivisionError
            return run_once(now, **how)

        def failing_recovery(cause: BaseException, now: float) -> None:
            steps.append("recovery")
            if steps.count("recovery") == 1:
                raise ZeroDivisionError
            recover(cause, now)

        def yield_once() -> None:
            steps.append("yield")
            thread.begin_close(0.0)

        monkeypatch.setattr(simulation.sender, "run_once", failing_round)
        monkeypatch.setattr(simulation.sender, "recover", failing_recovery)
        monkeypatch.setattr(thread._io_handoff, "yield_to_callers", yield_once)
        thread._run_rounds()

    assert steps[:7] == ["round", "recovery", "recovery", "round", "recovery", "round", "yield"]


def test_the_io_thread_does_not_yield_after_a_record_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(0) as simulation:
        own = _handoff(simulation)
        own.begin_round()
        for _ in range(AWAITED_IN_A_ROW):
            own.batch_started(alone=True, event_loop=_WatchingLoop())
        own.batch_started(alone=True)
        own.begin_round()
        rested: list[bool] = []
        monkeypatch.setattr(own, "_wait_until_needed", lambda: rested.append(True))

        own.yield_to_callers()

        assert rested == []


def test_with_the_hand_off_disabled_only_the_io_thread_runs_rounds() -> None:
    with simulated(0, io_handoff_enable=False) as simulation:
        for _ in range(2 * AWAITED_IN_A_ROW):
            batch = simulation.producer.send("t", b"value")._batch
            simulation.thread._io_handoff.run_while_waiting(batch, None)
            simulation.thread._io_handoff.yield_to_callers()  # returns at once

            assert batch.outcome is None
            simulation.run_until_idle()
            assert isinstance(batch.outcome, Acknowledged)


def test_with_the_hand_off_disabled_the_end_of_a_turn_wakes_the_io_thread() -> None:
    class Turns(_WatchingLoop):
        ends: ClassVar[list[Callable[[], object]]] = []

        def at_end_of_turn(self, function: Callable[[], object], *, if_closed: Callable[[], object]) -> None:
            self.ends.append(function)

    wakes: list[str] = []
    loop = WokenLoop(lambda: wakes.append("woken"))
    loop.batch_started(alone=True, event_loop=Turns())
    assert wakes == []
    Turns.ends[0]()
    assert wakes == ["woken"]
    Turns.ends[0]()

    assert wakes == ["woken"]  # once for all batches of the turn


def test_without_a_pending_record_the_io_thread_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", 0.001)
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        handoff = _handoff(simulation)
        pending, checks = handoff._pending, []
        handoff._pending = lambda: checks.append(pending()) or checks[-1]  # type: ignore[func-returns-value]

        _until(lambda: len(checks) > 3 or not io_thread.resting)

        assert io_thread.resting
        assert not any(checks)


def test_the_io_thread_rests_on_while_records_keep_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", 0.001)
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        handoff = _handoff(simulation)
        checks: list[bool] = []

        def pending() -> bool:
            handoff._batches_started += 1  # another thread sends and awaits
            checks.append(True)
            return True

        handoff._pending = pending
        _until(lambda: len(checks) > 3 or not io_thread.resting)

        assert io_thread.resting


def test_the_io_thread_takes_a_record_that_no_thread_runs_rounds_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_handoff, "CHECK_INTERVAL", 0.001)
    with simulated(0) as simulation, _resting(simulation) as io_thread:
        handoff = _handoff(simulation)
        handoff._pending = lambda: True

        _until(lambda: not io_thread.resting)

        assert handoff._state is HandoffState.IO_THREAD


def test_the_end_of_a_producer_ends_the_watch_before_its_sockets_close() -> None:
    ends: list[str] = []

    class Watch(_WatchingLoop):
        def end(self) -> None:
            ends.append("watch")

    with simulated(0) as simulation:
        _handoff(simulation)._watch = Watch()
        shutdown = simulation.network.shutdown

        def noted(*, forked: bool = False) -> None:
            ends.append("sockets")
            shutdown(forked=forked)

        simulation.network.shutdown = noted  # type: ignore[method-assign]
        simulation.producer.close()

    assert ends[:2] == ["watch", "sockets"]
