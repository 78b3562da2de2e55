"""A model of a producer for tests of the I/O hand-off: one record in a batch, threads and event loops that send."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
from schedules import Schedule

from ottla.concurrency import io_threads
from ottla.sender import io_handoff
from ottla.sender.io_handoff import IoHandoff
from ottla.sender.loop_rounds import LoopRounds

ROUND_TRIP = 0.000_5
STEPS = 100
"""Parts of the time for which a task keeps its loop busy: a schedule may hold up other threads for one of them."""
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
        self.rounds_by: Counter[int] = Counter()
        self.senders = 0
        self.woken = self.in_round = False
        self.descriptor = 7
        self.busy = False  # a round would be too long for an event loop
        self.unread: list[Batch] = []  # answers that a round has read and not handled: there is no event for them
        self.leaves_unread = 0.0  # how often a round does so
        self.callbacks = True  # of each record, for the I/O thread
        self.gets_busy = 0.0  # how often a round changes `busy`
        self.linger = 0.0
        self.due_at = float("inf")
        self.errors_due: list[Exception] = []
        self.errors: list[BaseException] = []
        self.running_loop = RunningLoop()
        self.io_ident = 0
        self.handoff = IoHandoff(
            run=self.run_round,
            idle=lambda: not (self.queued or self.in_flight or self.unread),
            pending=lambda: bool(self.incomplete),
            wake=self.wake,
            loop_rounds=LoopRounds(
                run=lambda now, may_skip_poll: self.run_round(now, now, may_skip_poll=may_skip_poll),
                network=self,
                awaits_events=lambda: not self.busy and not self.unread,
                queued_bytes=lambda: 0,
                due_at=lambda: self.due_at,
            ),
            environment=self.schedule.environment,
        )

    def wake(self) -> None:
        self.woken = True

    def has_events(self) -> bool:
        return self.woken or min(self.in_flight.values(), default=float("inf")) <= self.schedule.now

    def run_round(self, now: float, until: float, *, may_skip_poll: bool = False) -> bool:
        assert not self.in_round, "two threads run rounds at once"
        self.in_round = True
        try:
            self.rounds_by[threading.get_ident()] += 1
            return self._run_round(until, may_skip_poll=may_skip_poll)
        finally:
            self.in_round = False

    def _run_round(self, until: float, *, may_skip_poll: bool) -> bool:
        if self.errors_due:
            raise self.errors_due.pop()
        on_loop = threading.get_ident() in self.running_loop.by_thread
        assert not (on_loop and (self.busy or self.unread)), "a round on an event loop would be too long"
        sent = False
        for batch in [each for each in self.queued if each.started_at + self.linger <= self.schedule.now]:
            self.queued.remove(batch)
            self.in_flight[batch] = self.schedule.now + ROUND_TRIP
            sent = True
        self.due_at = min((each.started_at + self.linger for each in self.queued), default=float("inf"))
        if sent and may_skip_poll and not self.unread:
            return True
        answer_at = min((*self.in_flight.values(), self.due_at), default=float("inf"))
        if not self.unread:
            self.schedule.wait_for(lambda: self.woken, min(answer_at, until) - self.schedule.now)
        self.woken = False
        unread, self.unread = self.unread, []
        for batch, at in list(self.in_flight.items()):
            if at <= self.schedule.now:
                del self.in_flight[batch]
                (self.unread if self.random.random() < self.leaves_unread else unread).append(batch)
        for batch in unread:
            self._complete(batch)
        if self.random.random() < self.gets_busy:
            self.busy = not self.busy
        return False

    def _complete(self, batch: Batch) -> None:
        self.completed.append(batch)
        if self.callbacks and not self.handoff.defer(lambda: self._run_callback(batch)):
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

    def send(self, event_loop: RunningLoop | None = None) -> Batch:
        batch = Batch(self.schedule.now)
        with self.queues:
            self.queued.append(batch)
            self.incomplete.add(batch)
            self.handoff.batch_started(alone=len(self.incomplete) == 1, event_loop=event_loop)
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

    def loop(
        self,
        turns: int,
        *,
        tasks: int = 1,
        computes: Callable[[], float] = lambda: 0.0,
        computes_later: Callable[[], float] = lambda: 0.0,
    ) -> ModelLoop:
        """An event loop with so many turns, in each of which so many tasks send a record and then await it.

        *computes*: the seconds for which a task keeps the loop busy before the turn ends, *computes_later* after it.
        """
        self.senders += 1
        return ModelLoop(self, turns=turns, tasks=tasks, computes=computes, computes_later=computes_later)

    def check(self) -> None:
        """Check that no record and no callback is missing or was handled twice."""
        assert not self.incomplete
        assert len(set(self.completed)) == len(self.completed)
        if self.callbacks:
            assert [batch for batch, _ident in self.deferred] == self.completed
            assert {ident for _batch, ident in self.deferred} == {self.io_ident}


class RunningLoop:
    """The event loop of the calling thread."""

    def __init__(self) -> None:
        self.by_thread: dict[int, ModelLoop] = {}

    def at_end_of_turn(self, function: Callable[[], object], *, if_closed: Callable[[], object]) -> None:
        self.by_thread[threading.get_ident()].at_end_of_turn(function)

    def watch(self, _descriptor: int, function: Callable[[], bool]) -> ModelLoop:
        loop = self.by_thread[threading.get_ident()]
        loop.watched = function
        return loop


class ModelLoop:
    """An event loop, on a thread of its own: its turns, and the descriptor that it watches."""

    def __init__(
        self,
        model: Model,
        *,
        turns: int,
        tasks: int,
        computes: Callable[[], float],
        computes_later: Callable[[], float],
    ) -> None:
        self._model = model
        self._turns = turns
        self._tasks = tasks
        self._computes = computes
        self._computes_later = computes_later
        self._at_end: list[Callable[[], object]] = []
        self.watched: Callable[[], bool] | None = None
        """The function for events of the descriptor that it watches; None: it watches none."""
        self._ident = 0
        self.busy_times: list[float] = []
        """The times of records whose tasks kept the loop busy."""

    def __call__(self) -> None:
        self._ident = threading.get_ident()
        self._model.running_loop.by_thread[self._ident] = self
        for _ in range(self._turns):
            batches = [self._model.send(self._model.running_loop) for _ in range(self._tasks)]
            busy = self._keep_busy(self._computes())
            calls, self._at_end = self._at_end, []
            for call in calls:
                call()
            busy += self._keep_busy(self._computes_later())
            self._await(batches)
            if busy > 0:
                self.busy_times += (batch.ended_at - batch.started_at for batch in batches)
        self._model.senders -= 1
        self.watched = None
        self._model.handoff.wake()

    def _keep_busy(self, seconds: float) -> float:
        for _ in range(STEPS if seconds > 0 else 0):
            self._model.schedule.wait_for(lambda: False, seconds / STEPS)
        return seconds

    def at_end_of_turn(self, function: Callable[[], object]) -> None:
        if function not in self._at_end:
            self._at_end.append(function)

    @property
    def ended(self) -> bool:
        return self.watched is None

    def end(self) -> None:
        self.watched = None

    def _await(self, batches: Sequence[Batch]) -> None:
        model, schedule = self._model, self._model.schedule
        while any(batch.outcome is None for batch in batches):
            done = sum(batch.outcome is not None for batch in batches)
            due = min(model.in_flight.values(), default=float("inf"))
            schedule.wait_for(
                partial(self._has_work, batches, done), due - schedule.now if due > schedule.now else float("inf")
            )
            watched = self.watched
            if watched is not None and model.has_events() and not watched():
                self.watched = None

    def _has_work(self, batches: Sequence[Batch], done: int) -> bool:
        completed = sum(batch.outcome is not None for batch in batches) > done
        return completed or (self.watched is not None and self._model.has_events())
