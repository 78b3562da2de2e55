"""Memory that an event loop does not take goes to others, and its tasks come back to their places."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla import BufferExhaustedError, ProducerClosedError
from ottla.accumulator.buffer_pool import BufferPool, Claim
from ottla.accumulator.memory_line import UNTAKEN_SECONDS, MemoryWaiter
from ottla.aio import AsyncProducer
from ottla.concurrency.environment import Environment
from ottla_testkit.manual_clock import ManualClock
from simulated_producer import Simulated, simulated


class Pool(BufferPool):
    """A pool of 100 bytes, all of them held, with tasks of two threads; `wakes` counts calls for the I/O thread."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wakes = 0
        super().__init__(100, environment=Environment(clock=self.clock), wake=self.count_wake)
        assert self.try_reserve(100)

    def count_wake(self) -> None:
        self.wakes += 1

    def task(self, size: int, *, thread: int = 1, notified: Callable[[], object] = lambda: None) -> MemoryWaiter:
        """A task that waits, of a loop on this *thread*."""
        self.clock.advance(0.001)
        waiter = self.join_queue(size)
        waiter.thread = thread
        self.notify(waiter, notified)
        return waiter

    def let_time_pass(self) -> None:
        self.clock.advance(UNTAKEN_SECONDS)
        self.reclaim_untaken(self.clock())


def test_others_get_what_a_task_has_not_taken_in_time() -> None:
    pool = Pool()
    blocked, other = pool.task(60), pool.task(50, thread=2)
    pool.release(60)
    assert blocked.served.is_set

    pool.clock.advance(UNTAKEN_SECONDS / 2)
    pool.reclaim_untaken(pool.clock())
    assert not other.served.is_set
    assert pool.untaken_at() == pytest.approx(pool.clock() + UNTAKEN_SECONDS / 2)

    pool.let_time_pass()
    assert other.served.is_set
    assert not blocked.served.is_set
    assert (pool.free, pool.waiting) == (10, 0)


def test_a_task_that_takes_its_bytes_in_time_keeps_them() -> None:
    pool, claim = Pool(), Claim()
    task, other = pool.task(60), pool.task(50, thread=2)
    pool.release(60)

    assert pool.take(task, claim)
    pool.let_time_pass()

    assert claim.held == 60
    assert not other.served.is_set
    assert pool.untaken_at() == float("inf")


def test_bytes_that_no_other_waits_for_stay_with_their_task() -> None:
    pool, claim = Pool(), Claim()
    task = pool.task(60)
    pool.release(60)
    assert pool.untaken_at() == float("inf")

    pool.let_time_pass()

    assert pool.take(task, claim)


def test_a_call_that_does_not_wait_gets_what_is_not_taken_in_time() -> None:
    pool = Pool()
    pool.task(60)
    pool.release(60)
    with pytest.raises(BufferExhaustedError):
        pool.reserve(50, timeout=0)
    pool.clock.advance(UNTAKEN_SECONDS)

    pool.reserve(50, timeout=0)

    assert pool.free == 10


def test_all_tasks_of_a_blocked_thread_leave_the_line_together() -> None:
    pool, notified = Pool(), list[str]()
    blocked = [pool.task(40, notified=lambda: notified.append("blocked")) for _ in range(3)]
    other = pool.task(80, thread=2, notified=lambda: notified.append("other"))
    pool.release(60)  # the first has all of its bytes, the second some
    pool.release(20)

    pool.let_time_pass()

    assert other.served.is_set
    assert not any(each.served.is_set for each in blocked)
    assert pool.free == 0
    assert sorted(notified) == ["blocked"] * 3 + ["other"]  # those that have turns all the same come back


def test_a_task_that_comes_back_is_in_its_place() -> None:
    pool, order, claim = Pool(), list[str](), Claim()
    first, second = pool.task(60), pool.task(60)
    third = pool.task(60, thread=2)
    fourth = pool.task(30, thread=2, notified=lambda: order.append("fourth"))
    pool.release(60)
    pool.let_time_pass()
    assert third.served.is_set
    assert pool.take(third, claim)
    assert not pool.take(first, Claim())
    assert not pool.take(second, Claim())

    pool.notify(second, lambda: order.append("second"))
    pool.notify(first, lambda: order.append("first"))
    assert pool.waiting == 3
    for size in (40, 50, 60):
        pool.release(size)

    assert order == ["first", "second", "fourth"]
    assert fourth.served.is_set


def test_a_task_that_comes_back_gets_free_bytes_immediately() -> None:
    pool, notified, claim = Pool(), list[bool](), Claim()
    blocked, other = pool.task(60), pool.task(20, thread=2)
    pool.release(60)
    pool.let_time_pass()
    assert pool.take(other, Claim())
    pool.release(60)

    pool.notify(blocked, lambda: notified.append(True))

    assert notified
    assert pool.take(blocked, claim)
    assert claim.held == 60
    assert pool.free == 40


def test_two_loops_with_long_turns_both_get_memory() -> None:
    pool = Pool()
    pool.task(60, thread=1)
    other = pool.task(60, thread=2)
    pool.release(60)
    pool.let_time_pass()
    pool.clock.advance(UNTAKEN_SECONDS)  # now the second loop is too late, too
    first = pool.task(60, thread=1)

    assert first.served.is_set
    assert not other.served.is_set


def test_a_task_that_comes_back_to_a_closed_pool_is_refused() -> None:
    pool, notified = Pool(), list[bool]()
    blocked, other = pool.task(60), pool.task(60, thread=2)
    pool.release(60)
    pool.let_time_pass()
    pool.close(ProducerClosedError("closed"))
    assert not pool.take(blocked, Claim())

    pool.notify(blocked, lambda: notified.append(True))

    assert notified
    with pytest.raises(ProducerClosedError):
        pool.take(blocked, Claim())
    pool.leave(other)
    pool.release(40)
    assert pool.free == 100


@pytest.mark.parametrize("end", ["leave", "give_up"])
def test_a_task_that_does_not_come_back_holds_nothing(end: str) -> None:
    pool = Pool()
    blocked, other = pool.task(60), pool.task(60, thread=2)
    pool.release(60)
    pool.let_time_pass()

    if end == "leave":
        pool.leave(blocked)
    else:
        with pytest.raises(BufferExhaustedError):
            pool.give_up(blocked, before=0.0, limit="timeout")
    pool.leave(other)
    pool.release(40)

    assert (pool.free, pool.waiting) == (100, 0)


def test_the_io_thread_is_woken_to_watch_tasks_that_others_serve() -> None:
    pool = Pool()
    first, _second, _third = pool.task(30), pool.task(30), pool.task(30, thread=2)
    pool.release(20)
    assert pool.wakes == 0

    pool.release(10)  # by a round, which reads the time itself
    pool.leave(first)

    assert pool.wakes == 1


# Whole producers


def in_a_loop_that_stops(producer: AsyncProducer, count: int) -> list[asyncio.Task[object]]:
    """Tasks that send, on a loop that runs no more and is not closed."""
    loop = asyncio.new_event_loop()
    tasks: list[asyncio.Task[object]] = [loop.create_task(producer.send("t", b"old")) for _ in range(count)]
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    return tasks


def asynchronous(simulation: Simulated) -> AsyncProducer:
    made = object.__new__(AsyncProducer)
    made._begin(simulation.producer)
    return made


def test_a_blocked_loop_does_not_keep_memory_from_a_thread() -> None:
    with simulated(1, config={"buffer.memory": 3_000, "batch.size": 1_000}) as simulation:
        producer, pool = asynchronous(simulation), simulation.pool
        assert pool.try_reserve(3_000)
        tasks = in_a_loop_that_stops(producer, 100)
        pool.release(3_000)
        assert pool.free == 0

        with ThreadPoolExecutor(1) as executor:
            sending = executor.submit(simulation.producer.send, "t", b"new")
            until = simulation.clock() + 2 * UNTAKEN_SECONDS
            while not sending.done() and simulation.clock() < until:
                simulation.round(until=simulation.clock() + 0.01)
                threading.Event().wait(0.001)
            assert sending.done()
        simulation.run_until_idle()
        assert simulation.log(0) == [b"new"]

        async def send_the_rest() -> None:
            while not all(task.done() for task in tasks):
                simulation.round(until=simulation.clock() + 0.001)
                await asyncio.sleep(0)

        loop = tasks[0].get_loop()
        loop.run_until_complete(asyncio.wait_for(send_the_rest(), 30))
        simulation.run_until_idle()
        assert simulation.log(0) == [b"new"] + 100 * [b"old"]
        loop.close()
        assert pool.free == 3_000
