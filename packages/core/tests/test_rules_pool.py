"""The rules of the byte budget that need threads in line, a clock, or any order of events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.accumulator.buffer_pool import BufferPool, Claim
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch
from ottla.errors import BufferExhaustedError, ProducerClosedError

CAPACITY = 100
HANG_GUARD = 30.0


def make_pool(*, held: int = 0) -> BufferPool:
    pool = BufferPool(CAPACITY)
    assert pool.try_reserve(held)
    return pool


class MemoryWaiter:
    """A thread that waits for memory; `error` is the error that it got."""

    def __init__(self, pool: BufferPool, size: int) -> None:
        self.size = size
        self.error: BaseException | None = None
        in_line = threading.Event()

        def wait() -> None:
            try:
                pool.reserve(size, timeout=HANG_GUARD, on_wait=in_line.set)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=wait, daemon=True)
        self._thread.start()
        assert in_line.wait(HANG_GUARD)

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(HANG_GUARD)
        assert not self.waits


@contextmanager
def interrupted_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every wait on an event is interrupted, as by Control-C."""

    def interrupt(_latch: Latch, _timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Latch, "wait", interrupt)
        yield


@pytest.mark.rule("pool.whole")
def test_a_waiter_gets_no_memory_until_it_gets_all() -> None:
    pool = make_pool(held=100)
    waiter = MemoryWaiter(pool, 60)

    pool.release(59)
    assert waiter.waits
    assert pool.free == 0  # what it has collected belongs to it alone

    pool.release(1)
    waiter.join()
    assert waiter.error is None


@pytest.mark.rule("pool.fair")
def test_returned_memory_serves_as_many_waiters_as_it_suffices_for() -> None:
    pool = make_pool(held=100)
    waiters = [MemoryWaiter(pool, size) for size in (10, 20, 30)]

    pool.release(40)
    for waiter in waiters[:2]:
        waiter.join()

    assert waiters[2].waits
    assert pool.waiting == 1
    pool.release(20)
    waiters[2].join()
    assert pool.free == 0


@pytest.mark.rule("pool.timeout")
def test_the_error_has_the_time_waited() -> None:
    pool = BufferPool(CAPACITY, environment=Environment(clock=chain((1.0,), repeat(3.5)).__next__))
    assert pool.try_reserve(100)

    with pytest.raises(BufferExhaustedError, match=r"no memory for 20 bytes within max\.block\.ms: waited 2\.500 s"):
        pool.reserve(20, timeout=0)


@pytest.mark.rule("pool.timeout")
def test_memory_that_arrives_at_the_timeout_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(held=100)

    def served_too_late(_latch: Latch, _timeout: float | None = None) -> bool:
        pool.release(100)
        return False

    monkeypatch.setattr(Latch, "wait", served_too_late)
    pool.reserve(20, timeout=0)

    assert pool.free == 80


@pytest.mark.rule("pool.gives-back")
def test_memory_collected_by_a_failed_waiter_serves_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(held=90)
    behind: list[MemoryWaiter] = []

    with pytest.raises(BufferExhaustedError):
        pool.reserve(20, timeout=0, on_wait=lambda: behind.append(MemoryWaiter(pool, 10)))

    behind[0].join()
    assert behind[0].error is None
    assert pool.free == 0
    assert pool.waiting == 0


@pytest.mark.rule("pool.gives-back")
def test_an_interrupted_waiter_leaves_the_queue_and_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(held=90)

    with interrupted_waits(monkeypatch), pytest.raises(KeyboardInterrupt):
        pool.reserve(20, timeout=HANG_GUARD)

    assert (pool.free, pool.waiting) == (10, 0)
    pool.release(90)
    assert pool.free == CAPACITY


@pytest.mark.rule("pool.close", "pool.gives-back")
def test_close_returns_the_memory_that_waiters_had_collected() -> None:
    pool = make_pool(held=90)
    waiters = [MemoryWaiter(pool, 20), MemoryWaiter(pool, 5)]

    pool.close(ProducerClosedError("closed"))
    for waiter in waiters:
        waiter.join()

    assert [type(waiter.error) for waiter in waiters] == [ProducerClosedError, ProducerClosedError]
    assert (pool.free, pool.waiting) == (10, 0)
    pool.release(90)
    assert pool.free == CAPACITY


Step = tuple[str, int]
sizes = st.integers(min_value=1, max_value=CAPACITY)
actions = st.sampled_from(("take", "take some", "wait", "wait until the time-out", "give back"))
steps = st.lists(st.tuples(actions, sizes), max_size=14)


@pytest.mark.rule("pool.balance", "pool.bound", "pool.fair", "pool.overtake")
@given(steps)
def test_memory_adds_up_after_any_reservations_waits_and_timeouts(steps: list[Step]) -> None:
    pool = make_pool()
    free = CAPACITY
    held: list[int] = []
    line: list[tuple[MemoryWaiter, int]] = []  # with what each still lacks

    def serve() -> None:
        nonlocal free
        while line and free:
            waiter, missing = line[0]
            given = min(missing, free)
            free -= given
            line[0] = (waiter, missing - given)
            if missing == given:
                waiter.join()
                held.append(waiter.size)
                del line[0]

    def take(size: int) -> None:
        nonlocal free
        fits = size <= free and not line
        assert pool.try_reserve(size) is fits
        if fits:
            held.append(size)
            free -= size

    def take_some(size: int) -> None:
        nonlocal free
        taken = pool.reserve_some(min_bytes=size // 2, max_bytes=size)
        assert taken == (min(size, free) if free >= size // 2 and not line else 0)
        held.append(taken)
        free -= taken

    def wait(size: int) -> None:
        if size <= free and not line:
            take(size)
        else:
            line.append((MemoryWaiter(pool, size), size))
            serve()

    def wait_until_timeout(size: int) -> None:
        if size <= free and not line:
            take(size)
        else:
            with pytest.raises(BufferExhaustedError):
                pool.reserve(size, timeout=0)

    def give_back(choice: int) -> None:
        nonlocal free
        if held:
            size = held.pop(choice % len(held))
            free += size
            pool.release(size)
            serve()

    acts: dict[str, Callable[[int], None]] = {
        "take": take,
        "take some": take_some,
        "wait": wait,
        "wait until the time-out": wait_until_timeout,
        "give back": give_back,
    }
    for name, number in steps:
        acts[name](number)
        assert (pool.free, pool.waiting) == (free, len(line))
        assert sum(held) + free + sum(waiter.size - missing for waiter, missing in line) == CAPACITY
    while held:
        give_back(0)

    assert (pool.free, pool.waiting) == (CAPACITY, 0)


@pytest.mark.parametrize(("min_bytes", "held"), [(30, 40), (40, 40), (41, None)])
def test_a_wait_that_is_over_takes_what_has_come_free_if_it_is_enough(min_bytes: int, held: int | None) -> None:
    pool = make_pool(held=60)
    claim = Claim()
    if held is None:
        with pytest.raises(BufferExhaustedError, match="no memory for 80 bytes"):
            pool.reserve(80, min_bytes=min_bytes, timeout=0.0, claim=claim)
    else:
        pool.reserve(80, min_bytes=min_bytes, timeout=0.0, claim=claim)

    assert claim.held == (held or 0)
    assert pool.free == 40 - claim.held
    assert not pool.waiting


def test_only_the_first_in_line_can_have_collected_enough() -> None:
    pool = make_pool(held=60)
    first, second = pool.join_queue(80, min_bytes=30), pool.join_queue(80, min_bytes=30)

    assert not pool.accept_min_bytes(second)
    assert pool.accept_min_bytes(first)
    pool.leave(second)
    claim = Claim()
    pool.take(first, claim)

    assert (claim.held, pool.free) == (40, 0)


def test_a_closed_pool_gives_nothing_to_a_wait_that_is_over() -> None:
    pool = make_pool(held=60)
    waiter = pool.join_queue(80, min_bytes=30)
    pool.close(ProducerClosedError("closed"))

    assert pool.accept_min_bytes(waiter), "it is served, with the refusal"
    with pytest.raises(ProducerClosedError):
        pool.take(waiter, Claim())

    assert pool.free == 40


def test_a_wait_that_finds_enough_memory_has_it_at_once() -> None:
    pool = make_pool(held=60)
    waiter = pool.join_queue(40)
    claim = Claim()

    assert waiter.served.is_set
    pool.take(waiter, claim)

    assert (claim.held, pool.free, pool.waiting) == (40, 0, 0)
