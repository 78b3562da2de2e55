"""Any order of events at the line for memory: no byte is lost, and free memory is given to the first in line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.accumulator.buffer_pool import TAKEN_WITHIN, BufferPool, Claim, MemoryWaiter
from ottla.concurrency.environment import Environment
from ottla.errors import BufferExhaustedError

CAPACITY = 100
LOOPS = 3

sizes = st.integers(min_value=1, max_value=CAPACITY)
loops = st.integers(min_value=0, max_value=LOOPS - 1)
choices = st.integers(min_value=0, max_value=1_000)


@attrs.define(eq=False)
class Task:
    """A task that waits for memory on a loop; *woken*: it runs in the next turn of the loop."""

    loop: int
    waiter: MemoryWaiter
    woken: bool = False

    def wake(self) -> None:
        self.woken = True


class MemoryLine(RuleBasedStateMachine):
    """A pool, the tasks of three event loops, each of which may be blocked for any time, and the I/O thread."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pool = BufferPool(CAPACITY, environment=Environment(clock=lambda: self.now))
        self.loops = [object() for _ in range(LOOPS)]
        self.tasks: list[Task] = []  # in the order of their sends
        self.held: list[int] = []

    @contextmanager
    def running(self, loop: int) -> Iterator[None]:
        asyncio._set_running_loop(self.loops[loop])  # type: ignore[arg-type]
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    @rule(size=sizes)
    def a_thread_takes_what_is_free(self, size: int) -> None:
        fits = size <= self.pool.free and not self.pool.waiting
        assert self.pool.try_reserve(size) is fits
        if fits:
            self.held.append(size)

    @rule(loop=loops, size=sizes, enough=sizes)
    def a_task_waits(self, loop: int, size: int, enough: int) -> None:
        with self.running(loop):
            task = Task(loop, self.pool.join_queue(size, min_bytes=min(enough, size)))
            self.tasks.append(task)
            self.pool.notify(task.waiter, task.wake)

    @rule(loop=loops)
    def a_loop_has_a_turn(self, loop: int) -> None:
        with self.running(loop):
            for task in [each for each in self.tasks if each.loop == loop and each.woken]:
                self.take(task)

    def take(self, task: Task) -> None:
        task.woken, claim = False, Claim()
        if self.pool.take(task.waiter, claim):
            self.held.append(claim.held)
            self.tasks.remove(task)
        else:
            self.pool.notify(task.waiter, task.wake)

    @rule(choice=choices)
    def the_time_of_a_task_is_over(self, choice: int) -> None:
        if not self.tasks:
            return
        task = self.tasks[choice % len(self.tasks)]
        with self.running(task.loop):
            if self.pool.accept_min_bytes(task.waiter):
                self.take(task)
                assert task not in self.tasks
                return
            with pytest.raises(BufferExhaustedError):
                self.pool.give_up(task.waiter, before=0.0, limit="timeout")
        self.tasks.remove(task)

    @rule(choice=choices)
    def a_task_is_cancelled(self, choice: int) -> None:
        if self.tasks:
            task = self.tasks.pop(choice % len(self.tasks))
            with self.running(task.loop):
                self.pool.leave(task.waiter)

    @rule(choice=choices)
    def a_batch_is_completed(self, choice: int) -> None:
        if self.held:
            self.pool.release(self.held.pop(choice % len(self.held)))

    @rule(seconds=st.floats(min_value=0.0, max_value=2 * TAKEN_WITHIN))
    def the_io_thread_has_a_round(self, seconds: float) -> None:
        self.now += seconds
        assert self.pool.pass_on_untaken(self.now) > self.now

    @invariant()
    def no_byte_is_lost_or_given_twice(self) -> None:
        served = sum(task.waiter.held or 0 for task in self.tasks)
        assert self.pool._free + sum(self.held) + served == CAPACITY

    @invariant()
    def free_memory_is_given_to_the_first(self) -> None:
        first = self.pool._first
        assert first is None or first.size > self.pool._free

    @invariant()
    def tasks_of_a_loop_keep_their_order(self) -> None:
        for loop in range(LOOPS):
            waits = [task.waiter.held is None for task in self.tasks if task.loop == loop]
            assert waits == sorted(waits)

    @invariant()
    def every_task_will_run(self) -> None:
        late = {id(self.loops[task.loop]) for task in self.tasks if task.woken}
        assert late >= self.pool._parked.keys()  # in its next turn the loop joins the line again
        for task in self.tasks:
            parked = task.waiter in self.pool._parked.get(id(self.loops[task.loop]), ())
            assert task.woken or parked or task.waiter in self.pool._waiters

    def teardown(self) -> None:
        """Every loop runs, and every batch is completed: all tasks get their memory."""
        for _ in range(len(self.tasks) + 1):
            for loop in range(LOOPS):
                self.a_loop_has_a_turn(loop)
            while self.held:
                self.a_batch_is_completed(0)

        assert self.tasks == []
        assert (self.pool.free, self.pool.waiting) == (CAPACITY, 0)


TestMemoryLine = pytest.mark.rule("pool.balance", "pool.fair", "pool.untaken")(MemoryLine.TestCase)
TestMemoryLine.settings = settings(stateful_step_count=40)
