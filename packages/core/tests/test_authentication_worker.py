"""The helper threads of mechanisms that may block: as many as allowed, and none that hangs keeps the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from machine import wait_until
from ottla.errors import AuthenticationError, ConnectionFailedError
from ottla.interfaces import Step
from ottla.network.authentication import AuthWorker
from ottla.network.authentication.worker import MAX_ABANDONED

HANG_GUARD = 20.0
DONE = Step(reply=b"done", done=True)


class Wakes:
    """A count of wake-ups; `wait` for the n-th."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __call__(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count, HANG_GUARD)


@pytest.fixture
def wakes() -> Wakes:
    return Wakes()


@pytest.fixture
def helper(wakes: Wakes) -> Iterator[AuthWorker]:
    made = AuthWorker(name="ottla-login-test", wake=wakes)
    yield made
    made.close()
    for thread in ours():
        thread.join(HANG_GUARD)
    assert ours() == []


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ottla-login-test"]


def held(until: threading.Event) -> tuple[Callable[[], Step], threading.Event]:
    """A computation that runs until it may end, with an event that it has begun."""
    begun = threading.Event()

    def work() -> Step:
        begun.set()
        assert until.wait(HANG_GUARD)
        return DONE

    return work, begun


def test_no_thread_is_started_before_the_first_computation(helper: AuthWorker) -> None:
    assert ours() == []


def test_the_io_thread_is_woken_when_a_result_is_ready(helper: AuthWorker, wakes: Wakes) -> None:
    computation = helper.begin(lambda: DONE)

    wakes.wait(1)
    assert computation.outcome is DONE
    assert [thread.daemon for thread in ours()] == [True]


def test_a_refusal_by_the_mechanism_is_a_result(helper: AuthWorker, wakes: Wakes) -> None:
    refusal = AuthenticationError("no")

    def work() -> Step:
        raise refusal

    computation = helper.begin(work)

    wakes.wait(1)
    assert computation.outcome is refusal


def test_computations_run_one_at_a_time_in_order(helper: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    work, begun = held(may_end)
    order: list[int] = []

    def second() -> Step:
        order.append(2)
        return DONE

    first, later = helper.begin(work), helper.begin(second)
    assert begun.wait(HANG_GUARD)
    assert (first.outcome, later.outcome, order) == (None, None, [])

    may_end.set()
    wakes.wait(2)
    assert (first.outcome, later.outcome) == (DONE, DONE)


def test_a_computation_that_hangs_is_abandoned_and_the_others_run(helper: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    work, begun = held(may_end)
    hanging = helper.begin(work)
    assert begun.wait(HANG_GUARD)
    later = helper.begin(lambda: DONE)

    helper.cancel(hanging)

    wakes.wait(1)
    assert later.outcome is DONE
    may_end.set()


def test_a_waiting_computation_runs_once_after_its_thread_hung(helper: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    work, begun = held(may_end)
    counted: list[int] = []

    def count() -> Step:
        counted.append(1)
        return DONE

    hanging = helper.begin(work)
    assert begun.wait(HANG_GUARD)
    computations = [helper.begin(count) for _ in range(50)]
    helper.cancel(hanging)
    may_end.set()

    wakes.wait(51)
    assert {computation.outcome for computation in computations} == {DONE}
    assert len(counted) == 50


def test_an_abandoned_computation_does_not_run(helper: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    work, begun = held(may_end)
    helper.begin(work)
    assert begun.wait(HANG_GUARD)
    unwanted, last = helper.begin(lambda: DONE), helper.begin(lambda: DONE)

    helper.cancel(unwanted)
    may_end.set()

    wakes.wait(2)
    assert last.outcome is DONE
    assert unwanted.outcome is None


def test_forgetting_a_finished_computation_has_no_effect(helper: AuthWorker, wakes: Wakes) -> None:
    over = helper.begin(lambda: DONE)
    wakes.wait(1)

    helper.cancel(over)

    assert helper.begin(lambda: DONE)
    wakes.wait(2)
    assert len(ours()) == 1


def test_if_no_thread_can_be_started_the_connection_fails(helper: AuthWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ConnectionFailedError, match="could not start a thread for the login"):
            helper.begin(lambda: DONE)

    assert helper.begin(lambda: DONE)


def test_a_thread_that_ends_after_the_close_was_not_abandoned(helper: AuthWorker) -> None:
    may_end = threading.Event()
    work, begun = held(may_end)
    helper.begin(work)
    assert begun.wait(HANG_GUARD)
    helper.close()
    may_end.set()
    wait_until(lambda: ours() == [], timeout=HANG_GUARD)

    assert helper._abandoned == 0


@pytest.fixture
def pair(wakes: Wakes, helper: AuthWorker) -> Iterator[AuthWorker]:
    """A worker with two threads."""
    made = AuthWorker(name="ottla-login-test", wake=wakes, threads=2)
    yield made
    made.close()


@pytest.mark.rule("security.sasl.concurrent")
def test_a_worker_of_two_threads_runs_two_computations_at_a_time(pair: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    (first, first_begun), (second, second_begun), (third, third_begun) = (held(may_end) for _ in range(3))
    computations = [pair.begin(work) for work in (first, second, third)]
    assert first_begun.wait(HANG_GUARD)
    assert second_begun.wait(HANG_GUARD)

    assert not third_begun.is_set()
    assert [computation.begun for computation in computations] == [True, True, False]
    assert len(ours()) == 2

    may_end.set()
    wakes.wait(3)
    assert [computation.outcome for computation in computations] == [DONE] * 3


@pytest.mark.rule("security.sasl.concurrent")
def test_of_threads_that_have_nothing_to_do_only_one_is_kept(pair: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    (first, first_begun), (second, second_begun) = held(may_end), held(may_end)
    pair.begin(first)
    pair.begin(second)
    assert first_begun.wait(HANG_GUARD)
    assert second_begun.wait(HANG_GUARD)
    before = ours()
    may_end.set()
    wakes.wait(2)

    wait_until(lambda: sum(thread.is_alive() for thread in before) == 1, timeout=HANG_GUARD)
    assert pair.begin(lambda: DONE)
    wakes.wait(3)
    assert len(ours()) == 1


def test_a_mechanism_that_always_hangs_takes_few_threads(helper: AuthWorker, wakes: Wakes) -> None:
    may_end = threading.Event()
    for _ in range(MAX_ABANDONED):
        work, begun = held(may_end)
        hanging = helper.begin(work)
        assert begun.wait(HANG_GUARD)
        helper.cancel(hanging)

    with pytest.raises(
        ConnectionFailedError, match=f"{MAX_ABANDONED} earlier calls of the mechanism have not returned"
    ):
        helper.begin(lambda: DONE)
    assert len(ours()) == MAX_ABANDONED

    may_end.set()
    wakes.wait(MAX_ABANDONED)
    wait_until(lambda: not ours(), timeout=HANG_GUARD)
    later = helper.begin(lambda: DONE)
    wakes.wait(MAX_ABANDONED + 1)
    assert later.outcome is DONE
