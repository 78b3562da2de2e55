"""The budget: fair, bounded in time, and never wrong by a byte."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.accumulator.buffer_pool import TAKEN_WITHIN, BufferPool, Claim, MemoryWaiter
from ottla.concurrency import io_threads
from ottla.concurrency.environment import Environment
from ottla.errors import BufferExhaustedError, ProducerClosedError
from ottla_testkit.manual_clock import ManualClock

HANG_GUARD = 30.0


def make_pool(capacity: int = 100) -> BufferPool:
    return BufferPool(capacity)


def full_pool() -> BufferPool:
    """A pool whose 100 bytes are all taken."""
    pool = make_pool()
    pool.reserve(100, timeout=0)
    return pool


class Waiting:
    """A thread that waits for memory; `ended` once it has it or was refused."""

    def __init__(
        self, pool: BufferPool, size: int, *, log: list[int] | None = None, timeout: float = HANG_GUARD
    ) -> None:
        in_line = threading.Event()
        self.error: Exception | None = None

        def run() -> None:
            try:
                pool.reserve(size, timeout=timeout, on_wait=in_line.set)
                if log is not None:
                    log.append(size)
            except Exception as error:
                self.error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()
        assert in_line.wait(HANG_GUARD)

    def join(self) -> None:
        self._thread.join(HANG_GUARD)
        assert not self._thread.is_alive()


def test_reserved_memory_is_not_free_until_it_is_released() -> None:
    pool = make_pool()

    pool.reserve(60, timeout=0)

    assert pool.free == 40
    pool.release(60)
    assert pool.free == 100


@pytest.mark.rule("pool.free")
def test_a_reservation_that_fits_does_not_wait() -> None:
    waits: list[str] = []

    make_pool().reserve(100, timeout=0, on_wait=lambda: waits.append("waited"))

    assert waits == []


@pytest.mark.rule("pool.timeout")
def test_without_memory_in_time_the_error_says_what_was_requested() -> None:
    pool = make_pool()
    pool.reserve(90, timeout=0)

    with pytest.raises(
        BufferExhaustedError,
        match=r"for 20 bytes .* 0 of buffer\.memory=100 bytes free; .* cannot be reached",
    ):
        pool.reserve(20, timeout=0)


@pytest.mark.rule("pool.gives-back")
def test_memory_collected_by_a_waiter_is_returned_when_it_times_out() -> None:
    pool = make_pool()
    pool.reserve(90, timeout=0)

    with pytest.raises(BufferExhaustedError):
        pool.reserve(20, timeout=0)

    assert pool.free == 10
    assert pool.waiting == 0


@pytest.mark.rule("pool.overtake")
def test_try_reserve_never_overtakes_a_waiter() -> None:
    pool = make_pool()
    pool.reserve(95, timeout=0)
    waiter = Waiting(pool, 50)

    assert not pool.try_reserve(1)

    pool.release(95)
    waiter.join()
    assert pool.try_reserve(1)


@pytest.mark.rule("pool.some")
@pytest.mark.parametrize(("free", "taken"), [(100, 80), (80, 80), (79, 79), (30, 30)])
def test_a_flexible_reservation_gets_the_free_memory(free: int, taken: int) -> None:
    pool = make_pool()
    pool.reserve(100 - free, timeout=0)

    assert pool.reserve_some(min_bytes=30, max_bytes=80) == taken
    assert pool.free == free - taken


@pytest.mark.rule("pool.some")
def test_a_flexible_reservation_below_its_minimum_gets_nothing() -> None:
    pool = make_pool()
    pool.reserve(71, timeout=0)

    assert pool.reserve_some(min_bytes=30, max_bytes=80) == 0
    assert pool.free == 29


@pytest.mark.rule("pool.some", "pool.overtake")
def test_a_flexible_reservation_never_overtakes_a_waiter() -> None:
    pool = full_pool()
    waiter = Waiting(pool, 50)

    assert pool.reserve_some(min_bytes=0, max_bytes=1) == 0

    pool.release(100)
    waiter.join()
    assert pool.reserve_some(min_bytes=0, max_bytes=1) == 1


@pytest.mark.rule("pool.fair")
def test_the_longest_waiter_is_served_first_even_for_more_memory() -> None:
    pool = full_pool()
    served: list[int] = []
    large = Waiting(pool, 80, log=served)
    small = Waiting(pool, 10, log=served)

    pool.release(50)
    assert served == []
    pool.release(30)
    large.join()

    assert served == [80]
    pool.release(10)
    small.join()
    assert served == [80, 10]


@pytest.mark.rule("pool.close")
def test_close_refuses_present_and_future_waiters() -> None:
    pool = full_pool()
    waiter = Waiting(pool, 1)

    pool.close(ProducerClosedError("closed"))
    waiter.join()

    assert isinstance(waiter.error, ProducerClosedError)
    with pytest.raises(ProducerClosedError):
        pool.reserve(0, timeout=0)


@pytest.mark.rule("pool.close")
def test_reserved_memory_may_be_released_after_close() -> None:
    pool = full_pool()
    pool.close(ProducerClosedError("closed"))

    pool.release(100)

    assert pool.free == 100


@given(st.lists(st.integers(min_value=0, max_value=100), max_size=50))
def test_memory_adds_up_after_any_sequence_of_reservations(sizes: list[int]) -> None:
    pool = make_pool()
    held = [size for size in sizes if pool.try_reserve(size)]

    assert pool.free == 100 - sum(held)
    for size in held:
        pool.release(size)
    assert pool.free == 100


@pytest.mark.rule("pool.bound")
def test_many_threads_never_reserve_more_than_the_total() -> None:
    pool = make_pool(1_000)
    lock = threading.Lock()
    held = 0
    most = 0

    def work(seed: int) -> None:
        nonlocal held, most
        for step in range(200):
            size = (seed * 37 + step * 11) % 300 + 1
            pool.reserve(size, timeout=HANG_GUARD)
            with lock:
                held += size
                most = max(most, held)
            with lock:
                held -= size
            pool.release(size)

    run_together([functools.partial(work, seed) for seed in range(8)])

    assert most <= 1_000
    assert pool.free == 1_000
    assert pool.waiting == 0


def run_together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_GUARD)
    assert not any(thread.is_alive() for thread in threads)


def test_a_waiter_that_is_served_as_it_gives_up_keeps_its_memory() -> None:
    pool = BufferPool(100)
    assert pool.try_reserve(100)
    waiter, claim = pool.join_queue(60), Claim()
    assert not pool.accept_min_bytes(waiter)
    pool.release(100)

    pool.give_up(waiter, before=0.0, limit="timeout")
    pool.take(waiter, claim)

    assert claim.held == 60
    assert pool.free == 40


def test_a_waiter_that_gives_up_returns_what_it_has_collected() -> None:
    pool = BufferPool(100)
    assert pool.try_reserve(100)
    waiter = pool.join_queue(60)
    pool.release(30)

    with pytest.raises(BufferExhaustedError, match="within timeout"):
        pool.give_up(waiter, before=0.0, limit="timeout")

    assert pool.free == 30


@pytest.mark.parametrize("waiters", [0, 3])
def test_without_memory_a_release_gives_all_bytes_back_or_none(waiters: int) -> None:
    """Wherever the memory of the system ends. Given back twice, they would let the producer hold more and more."""
    testcapi = pytest.importorskip("_testcapi")
    failures = 0
    for fails in range(40):
        pool = make_pool(1_000_000)
        assert pool.try_reserve(900_000)
        waiting = [pool.join_queue(300_000) for _ in range(waiters)]
        testcapi.set_nomemory(fails, fails + 1)
        try:
            pool.release(900_000)
        except MemoryError:
            testcapi.remove_mem_hooks()
            failures += 1
            pool.release(900_000)
        finally:
            testcapi.remove_mem_hooks()
        failures += not all(waiter.served.is_set for waiter in waiting)
        pool.release(0)  # serves the rest

        assert all(waiter.served.is_set for waiter in waiting)
        assert pool.free == 1_000_000 - 300_000 * waiters
    assert failures or (not waiters and sys.version_info >= (3, 14))  # there, the sum has the memory of another number


def test_a_waiter_is_notified_once_it_has_all_its_memory() -> None:
    pool, notified = make_pool(), list[bool]()
    assert pool.try_reserve(100)
    waiter = pool.join_queue(60)
    pool.notify(waiter, lambda: notified.append(waiter.served.is_set))

    pool.release(30)
    assert notified == []
    pool.release(30)
    assert notified == [True]


def test_a_waiter_that_leaves_has_the_next_one_notified() -> None:
    pool, notified = make_pool(), list[bool]()
    assert pool.try_reserve(100)
    first, second = pool.join_queue(60), pool.join_queue(30)
    pool.notify(second, lambda: notified.append(second.served.is_set))
    pool.release(30)

    pool.leave(first)
    assert notified == [True]


def of_loop(pool: BufferPool, owner: int, size: int) -> MemoryWaiter:
    """A waiter for a task of an event loop."""
    waiter = pool.join_queue(size)
    waiter.owner = owner
    return waiter


def late(pool: BufferPool) -> None:
    """Have a round of the I/O thread, long after all that is served now."""
    pool.pass_on_untaken(pool._clock() + 2 * TAKEN_WITHIN)


@pytest.mark.rule("pool.untaken")
def test_memory_that_a_task_does_not_take_goes_to_another_loop() -> None:
    pool = full_pool()
    blocked, behind = of_loop(pool, 1, 100), of_loop(pool, 1, 100)
    other = of_loop(pool, 2, 60)
    pool.release(100)
    assert (blocked.served.is_set, other.served.is_set) == (True, False)
    now = pool._clock()

    assert now < pool.pass_on_untaken(now) <= now + TAKEN_WITHIN
    assert not other.served.is_set

    late(pool)
    assert other.served.is_set  # before the tasks of the loop that does not run
    assert not behind.served.is_set
    assert pool.try_reserve(40)  # and the rest is for any call
    pool.release(40)
    for each in (blocked, behind, other):
        pool.leave(each)
    assert pool.free == 100


@pytest.mark.rule("pool.untaken")
def test_tasks_that_have_lost_their_memory_are_the_first_to_get_some() -> None:
    pool = full_pool()
    lost = [of_loop(pool, 1, 50) for _ in range(2)]
    behind, other = of_loop(pool, 1, 100), of_loop(pool, 2, 100)
    pool.release(100)
    late(pool)

    claim = Claim()
    assert not pool.take(lost[0], claim)
    assert pool.take(other, claim)
    pool.release(50)
    assert [each.served.is_set for each in (*lost, behind)] == [True, False, False]
    pool.release(50)
    assert [each.served.is_set for each in (*lost, behind)] == [True, True, False]


class LateGuard:
    """The lock of a pool; the I/O thread gets it first, and takes tasks out of the line that are late."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool, self._guard, self._round_is_due = pool, pool._guard, True
        pool._guard = self  # type: ignore[assignment]

    def __enter__(self) -> None:
        if self._round_is_due:
            self._round_is_due = False
            self._pool._guard = self._guard
            late(self._pool)
        self._guard.__enter__()

    def __exit__(self, *error: object) -> None:
        self._guard.__exit__(*error)  # type: ignore[arg-type]


@pytest.mark.rule("pool.untaken")
def test_a_task_that_takes_its_memory_as_others_get_it_waits_on() -> None:
    pool = full_pool()
    blocked, other = of_loop(pool, 1, 100), of_loop(pool, 2, 60)
    pool.release(100)
    claim = Claim()

    LateGuard(pool)
    assert not pool.take(blocked, claim)
    assert other.held == 60
    pool.leave(other)

    assert pool.take(blocked, claim)
    assert claim.held == 100


@pytest.mark.rule("pool.untaken", "pool.balance")
def test_a_task_that_leaves_as_others_get_its_memory_has_no_place() -> None:
    pool = full_pool()
    blocked, other = of_loop(pool, 1, 100), of_loop(pool, 2, 60)
    pool.release(100)

    LateGuard(pool)
    pool.leave(blocked)
    assert other.held == 60
    pool.leave(other)
    with of_running_loop(1):
        pool.join_queue(1)  # which would take a place that is left over into the line again

    assert (pool.free, pool.waiting) == (99, 0)


@pytest.mark.rule("pool.untaken")
@pytest.mark.parametrize("call", ["notify", "join", "time-out"])
def test_tasks_that_lose_their_memory_as_one_calls_stay_in_the_line(call: str) -> None:
    pool = full_pool()
    blocked, other = of_loop(pool, 1, 100), of_loop(pool, 2, 60)
    pool.release(100)

    LateGuard(pool)
    match call:
        case "notify":
            pool.notify(blocked, lambda: None)
        case "join":
            with of_running_loop(1):
                pool.join_queue(1)
        case "time-out":
            assert not pool.accept_min_bytes(blocked)
    pool.leave(other)

    assert blocked.held == 100


@pytest.mark.rule("pool.untaken")
@pytest.mark.parametrize("call", ["take", "leave", "notify", "join", "time-out"])
def test_the_io_thread_learns_of_tasks_that_wait_again(call: str) -> None:
    """An open batch that has the memory leaves without linger only if a round of the I/O thread finds them."""
    woken: list[str] = []
    pool = BufferPool(100, wake=lambda: woken.append("woken"))
    pool.reserve(100, timeout=0)
    blocked, _behind, other = of_loop(pool, 1, 100), of_loop(pool, 1, 100), of_loop(pool, 2, 100)
    pool.release(100)
    late(pool)
    assert pool.take(other, Claim())
    pool.short = False
    woken.clear()

    match call:
        case "take":
            assert not pool.take(blocked, Claim())
        case "leave":
            pool.leave(blocked)
        case "notify":
            pool.notify(blocked, lambda: None)
        case "join":
            with of_running_loop(1):
                pool.join_queue(1)
        case "time-out":
            assert not pool.accept_min_bytes(blocked)

    assert (woken, pool.short) == (["woken"], True)


@pytest.mark.rule("pool.untaken")
@pytest.mark.parametrize("sign", ["take", "leave", "notify", "time-out", "join"])
def test_any_call_shows_that_an_event_loop_runs_again(sign: str) -> None:
    pool = full_pool()
    blocked, behind, other = of_loop(pool, 1, 50), of_loop(pool, 1, 50), of_loop(pool, 2, 100)
    pool.release(50)
    late(pool)
    assert not other.served.is_set

    match sign:
        case "take":
            assert pool.take(blocked, Claim())  # its turn has come again, and enough is free
        case "leave":
            pool.leave(blocked)
        case "notify":
            pool.notify(blocked, lambda: None)
        case "time-out":
            pool.accept_min_bytes(blocked)
        case "join":
            with of_running_loop(1):
                pool.join_queue(1)
    pool.release(50)

    assert behind.served.is_set  # in its turn again, before the other loop
    assert not other.served.is_set


@pytest.mark.rule("pool.untaken", "pool.fair")
def test_an_event_loop_that_runs_again_has_its_places_in_the_line() -> None:
    clock = count(1.0)
    pool = BufferPool(100, environment=Environment(clock=lambda: next(clock)))
    pool.reserve(100, timeout=0)
    blocked, others = of_loop(pool, 1, 100), [of_loop(pool, 2, 100) for _ in range(2)]
    behind = of_loop(pool, 1, 100)
    pool.release(100)
    late(pool)
    served: list[MemoryWaiter] = []

    pool.notify(blocked, lambda: None)
    for _ in range(4):
        [waiter] = (each for each in (blocked, *others, behind) if each.held is not None)
        assert pool.take(waiter, Claim())
        served.append(waiter)
        pool.release(100)

    assert served == [others[0], blocked, others[1], behind]


@contextmanager
def of_running_loop(owner: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.accumulator.buffer_pool._owner", lambda: owner)
        yield


@pytest.mark.rule("pool.untaken")
def test_memory_that_a_task_got_without_a_wait_is_passed_on_as_well() -> None:
    pool = make_pool()
    blocked, other = of_loop(pool, 1, 100), of_loop(pool, 2, 60)
    assert (blocked.served.is_set, other.served.is_set) == (True, False)

    late(pool)

    assert other.served.is_set
    assert not pool.take(blocked, Claim())
    assert pool.free == 0


@pytest.mark.rule("pool.untaken")
def test_a_task_that_waited_for_nothing_keeps_its_place_behind_others() -> None:
    pool = full_pool()
    first = of_loop(pool, 1, 40)
    pool.release(100)
    second = of_loop(pool, 1, 10)
    _other = of_loop(pool, 2, 60)

    late(pool)

    assert [pool.take(each, Claim()) for each in (first, second)] == [True, False]


@pytest.mark.rule("pool.untaken")
def test_tasks_of_one_loop_take_no_memory_from_each_other() -> None:
    """Ten thousand of them need longer than half a second for one turn, and would take turns for ever."""
    pool = full_pool()
    waiters = [of_loop(pool, 1, 50) for _ in range(10)]
    pool.release(100)

    late(pool)

    assert [each.served.is_set for each in waiters] == [True, True, *[False] * 8]
    assert pool.take(waiters[0], Claim())


@pytest.mark.rule("pool.untaken")
def test_memory_that_a_task_has_taken_is_not_passed_on() -> None:
    pool = full_pool()
    quick, other = of_loop(pool, 1, 100), of_loop(pool, 2, 100)
    pool.release(100)
    claim = Claim()
    assert pool.take(quick, claim)

    pool.pass_on_untaken(pool._clock() + 10 * TAKEN_WITHIN)
    assert not other.served.is_set

    pool.leave(other)
    pool.release(claim.held)
    assert pool.free == 100


@pytest.mark.rule("pool.untaken")
def test_memory_of_a_task_that_has_left_is_passed_on_once() -> None:
    pool = full_pool()
    cancelled, other, behind = of_loop(pool, 1, 60), of_loop(pool, 2, 60), of_loop(pool, 3, 60)
    pool.release(60)
    pool.leave(cancelled)
    assert other.served.is_set

    pool.take(other, Claim())
    pool.pass_on_untaken(pool._clock() + 10 * TAKEN_WITHIN)
    assert not behind.served.is_set


@pytest.mark.rule("pool.untaken")
def test_a_task_learns_of_memory_that_was_passed_on_to_it() -> None:
    pool = full_pool()
    _blocked, other = of_loop(pool, 1, 100), of_loop(pool, 2, 100)
    woken: list[str] = []
    pool.notify(other, lambda: woken.append("woken"))
    pool.release(100)
    assert woken == []

    pool.pass_on_untaken(pool._clock() + 2 * TAKEN_WITHIN)
    assert woken == ["woken"]


@pytest.mark.rule("pool.untaken")
def test_the_memory_that_was_given_first_is_checked_first() -> None:
    clock = ManualClock()
    pool = BufferPool(100, environment=Environment(clock=clock))
    pool.reserve(100, timeout=0)
    for owner in (1, 2, 3):
        of_loop(pool, owner, 30)
    for _ in range(2):
        pool.release(30)
        clock.advance(0.1)

    assert pool.pass_on_untaken(clock()) == clock() - 0.2 + TAKEN_WITHIN


@pytest.mark.rule("pool.untaken")
def test_untaken_memory_that_no_other_waits_for_needs_no_check() -> None:
    pool = full_pool()
    waiter = of_loop(pool, 1, 100)
    assert pool.pass_on_untaken(pool._clock()) == float("inf")

    pool.release(100)
    assert waiter.served.is_set
    assert pool.pass_on_untaken(pool._clock() + 10 * TAKEN_WITHIN) == float("inf")


def test_memory_that_is_enough_at_the_end_of_a_wait_is_counted_once() -> None:
    pool = full_pool()
    partly = pool.join_queue(80, min_bytes=50)
    pool.release(60)
    assert pool.accept_min_bytes(partly)
    following = pool.join_queue(90)
    pool.release(40)
    assert not following.served.is_set

    claim = Claim()
    assert pool.take(partly, claim)
    pool.release(claim.held)
    assert following.served.is_set
    pool.leave(following)
    assert pool.free == 100


def test_waiters_that_a_close_has_refused_get_no_memory() -> None:
    pool = full_pool()
    refused = pool.join_queue(100)
    pool.close(ProducerClosedError("closed"))

    pool.release(100)

    assert pool.free == 100
    with pytest.raises(ProducerClosedError):
        pool.take(refused, Claim())
    assert pool.free == 100


def test_the_tasks_of_a_loop_and_those_of_a_thread_each_belong_together() -> None:
    pool = full_pool()
    owners: list[int] = []

    def join() -> None:
        owners.append(pool.join_queue(1).owner)

    async def join_twice() -> None:
        join()
        join()

    loops = [asyncio.new_event_loop() for _ in range(2)]
    for loop in loops:
        loop.run_until_complete(join_twice())
    join()
    thread = threading.Thread(target=join)
    thread.start()
    thread.join()
    for loop in loops:
        loop.close()

    first, same, second, _same, ours, other = owners
    assert first == same
    assert len({first, second, ours, other}) == 4


@pytest.mark.rule("pool.untaken")
@pytest.mark.parametrize("on_io_thread", [False, True])
def test_the_io_thread_watches_memory_that_other_threads_free(on_io_thread: bool) -> None:
    woken: list[str] = []
    pool = BufferPool(100, wake=lambda: woken.append("woken"))
    pool.reserve(100, timeout=0)
    of_loop(pool, 1, 50)
    of_loop(pool, 2, 100)
    if on_io_thread:  # it calls `pass_on_untaken` itself
        io_threads.enter()
    try:
        pool.release(50)
    finally:
        io_threads.leave()

    assert woken == ([] if on_io_thread else ["woken"])


def test_a_task_that_has_lost_its_memory_learns_of_the_close() -> None:
    pool, notified = make_pool(), list[str]()
    pool.reserve(100, timeout=0)
    blocked, behind, other = of_loop(pool, 1, 100), of_loop(pool, 1, 100), of_loop(pool, 2, 1)
    pool.notify(behind, lambda: notified.append("behind"))
    pool.release(100)
    late(pool)
    pool.leave(other)
    pool.close(ProducerClosedError("closed"))

    assert notified == ["behind"]
    for each in (blocked, behind):
        with pytest.raises(ProducerClosedError):
            pool.take(each, Claim())
    assert pool.free == 100


@pytest.mark.parametrize("end", ["release", "leave", "close"])
def test_a_callback_without_memory_costs_no_other_and_is_called_later(end: str) -> None:
    """The tasks of waiters that are served, but not notified, would sleep until max.block.ms."""
    pool = make_pool()
    assert pool.try_reserve(90)
    first = pool.join_queue(50)
    waiting = [pool.join_queue(10) for _ in range(3)]
    notified: list[int] = []
    refuses = [True]

    def notify(number: int) -> None:
        if number == 1 and refuses:
            refuses.pop()
            raise MemoryError
        notified.append(number)

    for number, waiter in enumerate(waiting):
        pool.notify(waiter, functools.partial(notify, number))
    match end:
        case "release":
            pool.release(90)
        case "leave":
            pool.release(50)
            pool.leave(first)
        case "close":
            pool.close(ProducerClosedError("closed"))

    assert notified == [0, 2]
    pool.release(0)
    assert notified == [0, 2, 1]
