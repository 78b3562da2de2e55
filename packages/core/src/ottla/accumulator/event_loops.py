"""What ends the waits of tasks, on its way from the I/O thread into event loops: completed batches and freed memory.

A loop is woken once for all batches that complete together, and not once for each record. Only the first `await` of a
program imports this module, because asyncio takes a third of the time of `import ottla`.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import Context
from typing import Any, Final, TypeVar

import attrs

from ottla.accumulator.closable_waits import ClosableWait
from ottla.accumulator.loop_batches import BatchWaiter, NotifyingBatch
from ottla.accumulator.loop_callbacks import LoopCallback, RecordWait, WaitedDelivery, Waiting, give_up_errors
from ottla.accumulator.task_wait import TaskWait
from ottla.concurrency.copies import copy_of
from ottla.errors.robust_logger import robust_logger
from ottla.results import RecordMetadata

logger = robust_logger(__name__)
T = TypeVar("T")

LONGEST_TURN: Final = 0.001
"""Seconds after which other tasks of the loop get a turn while more records are to be completed, or one task sends."""

RECORDS_IN_A_ROW: Final = 8
"""Records that are completed, and whose tasks run, before the clock is read again."""

_NO_RECORDS: Final[Iterator[tuple[WaitedDelivery, Waiting]]] = iter(())


class EndOfTurn:
    """Functions that are called when all tasks that are ready now have run. Only the loop keeps this object.

    Each has another one, which the finalizer calls if the loop is closed before, as after `loop.stop()` in the same
    turn: a record would wait for its wake-up otherwise.
    """

    __slots__ = ("__weakref__", "functions")

    def __init__(self) -> None:
        self.functions: dict[Callable[[], object], Callable[[], object]] = {}

    def __call__(self) -> None:
        """Call the functions, each once.

        If one raises what ends the loop, such as KeyboardInterrupt, the rest count as those of a closed loop.
        """
        functions, self.functions = self.functions, {}
        rest = iter(functions)
        try:
            for function in rest:
                function()
        finally:
            for function in rest:
                functions[function]()

    def postponed(self) -> EndOfTurn:
        """Another object with the functions of this one, which has none any more."""
        later = EndOfTurn()
        later.functions, self.functions = self.functions, {}
        return later

    def __del__(self) -> None:
        for if_closed in self.functions.values():
            if_closed()


class ExpectedTurn:
    """What only the loop keeps until the turn that it is about to have. If it is closed before, the finalizer acts.

    It runs on the thread that closes or drops the loop, at any point of its code, so it writes no log line, and takes a
    lock only as `_call_outside_of_locks` does.
    """

    __slots__ = ("_due", "_inbox")

    def __init__(self, inbox: LoopInbox, due: object) -> None:
        self._inbox = inbox
        self._due = due

    def __del__(self) -> None:
        self._inbox.turn_is_over(self._due)


class LoopInbox:
    """The completed batches of one loop, in order. All methods but `put` are for the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = weakref.ref(loop)
        """A weak reference: the loop's thread keeps this inbox, and must not keep every loop that it has closed."""
        self.waiters: dict[NotifyingBatch, BatchWaiter] = {}
        """The batches that are waited for, until their turn comes."""
        self._arrived: deque[BatchWaiter | ClosableWait] = deque()
        self._records = _NO_RECORDS
        self._batch: NotifyingBatch | None = None  # that of these records,
        self._metadata: Sequence[RecordMetadata] | None = None  # and the metadata of all its records, if known
        self._due: object | None = None  # the next turn: each is an object, and a call of another one does nothing
        self._turn_follows = False  # the code that runs on the loop now ends with a turn
        self._end_of_turn: weakref.ref[EndOfTurn] | None = None
        self._ends_here = False  # the turn that runs now calls the functions of its end itself
        self._end: EndOfTurn | None = None  # which has these
        self._warned = False  # of callbacks that a closed loop does not call

    def is_closed(self) -> bool:
        """Return whether the loop will have no turn any more."""
        loop = self.loop()
        return loop is None or loop.is_closed()

    def put(self, arrived: BatchWaiter | ClosableWait) -> None:
        """Take a completed batch, or a wait that is over, on any thread."""
        if self.is_closed():
            self._give_up(arrived)
            return
        self._arrived.append(arrived)
        # `_turn` resets `_due` before it takes what has arrived. So if it is set here, that turn takes this.
        if self._due is None:
            due = self._due = object()
            loop = self.loop()
            try:
                # Not `loop.is_running()`: a loop that began on this thread may run on another one by now.
                if loop is not None and asyncio._get_running_loop() is loop:
                    if not self._turn_follows:
                        # A round on the loop's own thread: it need not be woken.
                        loop.call_soon(self._turn, due, ExpectedTurn(self, due))
                elif loop is not None:
                    loop.call_soon_threadsafe(self._turn, due, ExpectedTurn(self, due))
            except RuntimeError:  # it has been closed meanwhile
                self._give_up(arrived)

    def turn_is_over(self, due: object) -> None:
        """Give up what has arrived if the loop has been closed before the turn *due*."""
        if self._due is due and self.is_closed():
            give_up_errors(list(self._records))
            for arrived in copy_of(self._arrived):
                arrived.give_up()

    def _give_up(self, arrived: BatchWaiter | ClosableWait) -> None:
        if arrived.give_up() and not self._warned:
            self._warned = True
            logger.warning(
                "delivery callbacks are not called, because the event loop on which their records were sent has been "
                "closed: close the producer, or flush it, before the loop ends"
            )
        elif isinstance(arrived, BatchWaiter):  # another wait may be given up under a lock, where nothing is logged
            logger.debug("a wait was over after the event loop of its task had been closed")

    def add(self, delivery: WaitedDelivery, waiting: Waiting) -> bool:
        """Complete *waiting* once the record, or the batch that it is in now, has an outcome.

        Return False if it has.
        """
        while True:
            batch, _index = delivery._place()
            if batch.outcome is not None:
                return False
            if self.add_to(batch, delivery, waiting):
                return True

    def add_to(self, batch: NotifyingBatch, delivery: WaitedDelivery, waiting: Waiting) -> bool:
        """Complete *waiting* once this batch, which holds the record, has an outcome.

        Return False if it has one by now.
        """
        waiter = self.waiters.get(batch)
        if waiter is not None:
            waiter.records.append((delivery, waiting))
            if waiter.is_set:  # its turn may be over
                self.put(waiter)
            return True
        waiter = BatchWaiter(self, batch)
        waiter.records.append((delivery, waiting))
        if not batch.add_latch(waiter):
            return False
        self.waiters[batch] = waiter
        return True

    def add_completed(self, delivery: WaitedDelivery, waiting: Waiting) -> None:
        """Complete *waiting*, whose record has an outcome, behind all that wait for records before it."""
        batch, _index = delivery._place()
        waiter = BatchWaiter(self, batch)
        waiter.records.append((delivery, waiting))
        self.put(waiter)

    def call_at_end_of_turn(self, function: Callable[[], object], if_closed: Callable[[], object]) -> None:
        """Call a function once when all tasks that are ready now have run, however often it is given before."""
        end = None if self._end_of_turn is None else self._end_of_turn()
        if end is None or not end.functions:  # it was called, or the loop that was to call it is closed
            end = EndOfTurn()
            self._end_of_turn = weakref.ref(end)
            # Also if the turn ends before: a task may run the loop itself, as with nest_asyncio, and wait for the end.
            # In an empty context, as on the I/O thread: rounds call plugins, for records of any task.
            asyncio.get_running_loop().call_soon(self.call_and_complete, end, context=Context())
            if self._ends_here:
                self._end = end
        end.functions[function] = if_closed

    def call_and_complete(self, function: Callable[[], T]) -> T:
        """Call a function, and complete the records that it has brought an outcome for; returns what it returns.

        For callbacks of the loop, outside of any task. What the tasks of these records send leaves at the end of this
        call. Turns of their own would be two more calls of the loop for each record that is awaited alone.
        """
        self._turn_follows = True
        try:
            return function()
        finally:
            self._turn_follows = False
            if self._due is not None:
                self._turn_with_end(self._due)

    def _turn_with_end(self, due: object) -> None:
        self._ends_here = True
        try:
            self._turn(due)
        finally:
            self._ends_here = False
            end, self._end = self._end, None
            if end is not None and self._due is None:
                end()
            elif end is not None:  # what tasks send that have not had their turn yet is to leave together with these
                later = end.postponed()
                self._end_of_turn = weakref.ref(later)
                asyncio.get_running_loop().call_soon(self.call_and_complete, later, context=Context())

    def _turn(self, due: object, _expected: ExpectedTurn | None = None) -> None:
        """Complete records and run tasks for a while, the rest in another turn."""
        if due is not self._due:  # it came earlier, as `call_and_complete`; else two turns would follow each other
            return
        self._due = None
        loop = asyncio.get_running_loop()
        try:
            finished = self._complete(loop.time, until=loop.time() + LONGEST_TURN)
        except BaseException:  # of a callback that ends the loop; the loop may run again
            self._begin_turn(loop)
            raise
        if not finished:
            self._begin_turn(loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._due is None:  # else what has arrived meanwhile has begun one
            due = self._due = object()
            loop.call_soon(self._turn, due, ExpectedTurn(self, due))

    def _complete(self, clock: Callable[[], float], *, until: float) -> bool:
        count = 0
        while True:
            batch, metadata, records = self._batch, self._metadata, self._records
            for delivery, waiting in records:
                if isinstance(waiting, LoopCallback):
                    self._call(delivery, waiting)
                elif waiting.pending:
                    # With None, the task looks for the outcome, and waits again if its record is in another batch.
                    known = metadata is not None and delivery._batch is batch
                    waiting.complete(metadata[delivery._index] if known else None)  # type: ignore[index]
                else:  # cancelled after its record got the outcome
                    give_up_errors([(delivery, waiting)])
                count += 1
                if count % RECORDS_IN_A_ROW == 0 and clock() >= until:
                    return False
            if self._records is not records:  # a task ran the loop, as with nest_asyncio, and it began another batch
                continue
            # Without the GIL, an iterator that has ended keeps its list, and so the loop of the waits in it.
            self._batch, self._metadata, self._records = None, None, _NO_RECORDS
            if not self._arrived:
                return True
            waiter = self._arrived.popleft()
            if isinstance(waiter, ClosableWait):
                if waiter.pending:
                    waiter.complete(None)
                if clock() >= until:  # its task may have sent many records
                    return False
                continue
            if self.waiters.get(waiter.batch) is waiter:
                del self.waiters[waiter.batch]
            waiting_records, waiter.records = waiter.records, []
            self._records = iter(waiting_records)  # first: if the rest is interrupted, none of them is lost
            self._batch, self._metadata = waiter.batch, waiter.metadata(len(waiting_records))

    def _call(self, delivery: WaitedDelivery, callback: LoopCallback) -> None:
        if not self.add(delivery, callback):  # its record is not in another batch now
            callback.run(delivery)


class _LoopOfThread(threading.local):
    inbox: LoopInbox | None = None


of_thread = _LoopOfThread()


def running_inbox() -> LoopInbox:
    """The inbox of the running event loop. Raises RuntimeError if none runs on this thread."""
    return inbox_of(asyncio.get_running_loop())


def inbox_of(loop: asyncio.AbstractEventLoop) -> LoopInbox:
    inbox = of_thread.inbox
    if inbox is None or inbox.loop() is not loop:
        inbox = of_thread.inbox = LoopInbox(loop)
    return inbox


def record_wait(delivery: WaitedDelivery, batch: NotifyingBatch) -> RecordWait | None:
    """A wait on the running loop for this batch of a delivery, or None if it has an outcome. For `__await__`."""
    loop = asyncio.get_running_loop()
    inbox = of_thread.inbox
    if inbox is None or inbox.loop() is not loop:
        inbox = inbox_of(loop)
    wait: RecordWait = TaskWait(loop)
    waiter = inbox.waiters.get(batch)
    if waiter is not None:  # as in `add_to`, whose call would take a tenth of a wait
        waiter.records.append((delivery, wait))
        if waiter.is_set:
            inbox.put(waiter)
        return wait
    return wait if inbox.add_to(batch, delivery, wait) else None


class LaterTurn:
    """An awaitable: a task lets others run, behind all that wait here. Of such tasks, few run in one turn of the loop.

    After `asyncio.sleep(0)` all of them would run in the next one.
    """

    def __await__(self) -> Generator[Any, None, None]:
        """Wait on the running event loop of asyncio."""
        wait = ClosableWait(asyncio.get_running_loop(), lambda: None)
        running_inbox().put(wait)
        yield wait


@attrs.frozen
class UntilCalled:
    """An awaitable: a task waits until a function that *register* was called with is called, on any thread.

    If the loop of the task is closed by then, *if_closed* is called, on that thread, or if it is closed before the turn
    of the task, on the thread that closes it.
    """

    register: Callable[[Callable[..., object]], object]
    if_closed: Callable[[], object] = lambda: None

    def __await__(self) -> Generator[Any, None, None]:
        """Wait on the running event loop of asyncio."""
        inbox = running_inbox()
        wait = ClosableWait(asyncio.get_running_loop(), self.if_closed)
        self.register(lambda *_arguments: inbox.put(wait))
        yield wait
