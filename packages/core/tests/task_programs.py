"""Programs of histories whose tasks share an `AsyncProducer`, on an event loop of their own in simulated time.

Tasks send and give up, are cancelled, send tables, and wait for records. A loop may be closed while its tasks wait.
"""

from __future__ import annotations

import asyncio
import inspect
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import attrs
import error_copies
import history_tables
from simulated_loop import SimulatedLoop

from history_plans import NOTHING, SEND, Abandon, Call, Flush, Plan, PluginChoice, Send, Table
from invariants import REFUSALS, Sent, Violation, in_time, name_of, value_of
from ottla import RecordMetadata
from ottla.accumulator.delivery import Delivery
from ottla.aio import AsyncProducer
from ottla.errors import (
    BufferExhaustedError,
    DeliveryError,
    FlushTimeoutError,
    NotPreparedError,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla.interfaces import Header, ProducerRecord, TopicView
from ottla.tables.table_delivery import TableDelivery
from ottla_testkit.simulation.planned_faults import StoppedProcess

if TYPE_CHECKING:
    from histories import Run

LATER: Final = 5.0
"""Seconds after their limit in which calls end that are broken, so that a history does not wait for ever."""


class KeysTogether:
    """A partitioner for which many keys in one call are faster."""

    def __init__(self) -> None:
        self._numbers = count()

    def partition(self, _topic: str, key: bytes | None, view: TopicView) -> int:
        return (next(self._numbers) if key is None else zlib.crc32(key)) % view.partitions

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        return [self.partition(topic, key, view) for key in keys]


class Noting:
    """An interceptor that notes the records whose outcome it does not know, and what it should not have got."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.open: set[tuple[int, int]] = set()
        self.wrong: list[str] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        name = name_of(record.value)
        if name in self.open:
            self.wrong.append(f"record {name} twice")
        self.open.add(name)
        return attrs.evolve(record, context=name)

    def on_acknowledgement(self, _metadata: RecordMetadata, _error: Exception | None, context: Any) -> None:
        if context not in self.open:
            self.wrong.append(f"another outcome of record {context}")
        self.open.discard(context)

    def check(self, *, destroyed: Set[tuple[int, int]]) -> None:
        """Check that it got one outcome of each record, but of those whose tasks were destroyed in `send`."""
        if self.wrong:
            raise Violation(f"an interceptor got {self.wrong[0]}")
        if not self.open <= destroyed:
            raise Violation(f"an interceptor got no outcome of record {min(self.open - destroyed)}")


class LookedUp:
    """A serializer that needs a lookup for some values, which takes a while and sometimes fails."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._known: set[bytes] = set()

    def serialize(self, _topic: str, data: Any, _headers: Sequence[Header]) -> bytes:
        value: bytes = data
        if zlib.crc32(value) % 3 == 0 and value not in self._known:
            raise NotPreparedError
        return value

    def prepare(self, _topic: str, data: Any, _headers: Sequence[Header], *, timeout: float) -> None:
        self._sleep(min(timeout, zlib.crc32(data) % 100 / 100))
        if zlib.crc32(data) % 7 == 0:
            raise OSError("the lookup failed")
        self._known.add(data)


def plugins(plan: Plan, noting: Noting, sleep: Callable[[float], object]) -> Mapping[str, Any]:
    """The settings for the plugins of a plan."""
    match plan.plugin:
        case PluginChoice.KEYS_TOGETHER:
            return {"partitioner.class": KeysTogether()}
        case PluginChoice.INTERCEPTOR:
            return {"interceptor.classes": [noting]}
        case PluginChoice.LOOKUPS:
            return {"value.serializer": LookedUp(sleep)}
    return {}


class TaskProgram:
    """One program of a history. Each of its tasks makes its calls in their order."""

    def __init__(self, run: Run, program: int) -> None:
        self._run = run
        self._program = program
        self._producer = AsyncProducer.__new__(AsyncProducer)
        self._producer._begin(run.producer)
        self._simulation = run.simulation
        self._names = count(1_000 * (program + 1))
        self._sending: set[Sent] = set()
        self._queued: list[Sent] = []
        self._spawned: list[asyncio.Task[None]] = []
        self._over = False
        self._tables = 0
        """Tables whose errors nothing has read, since they are being sent or were given up."""
        self._progress: list[history_tables.Progress] = []
        """Those of tables of the loop that runs."""
        calls: dict[int, deque[Call]] = defaultdict(deque)
        for call in run.plan.programs[program]:
            calls[call.task].append(call)
        self._calls = [rest for _task, rest in sorted(calls.items())]

    def run_loops(self) -> None:
        """Run one event loop after the other until all calls are made, and the producer is closed."""
        while not self._over:
            self._in_a_loop()

    def _in_a_loop(self) -> None:
        loop = SimulatedLoop(self._simulation.threads)
        try:
            loop.run_until_complete(self._main())
        finally:
            loop.close()
        for task in self._spawned:
            sending: Any = task.get_coro()
            if inspect.getcoroutinestate(sending) == inspect.CORO_CREATED:
                sending.close()  # else Python warns of a coroutine that was never awaited
        self._spawned.clear()  # the next loop would wait for them for ever
        self._progress.clear()  # nothing calls `on_progress` on a closed loop
        for record in list(self._sending):  # of tasks that never run again
            self._run.leave_out(record, "its event loop is closed")
            self._run.destroyed.add(record.name)
        self._sending.clear()
        for record in self._queued:
            record.abandoned |= not record.calls
        self._queued.clear()

    async def _main(self) -> None:
        if await self._tasks():
            return
        self._run.ended_tasks += 1
        await self._end()
        self._over = True

    async def _tasks(self) -> bool:
        """Make the calls that are left, each task its own; return whether one of them abandons the loop."""
        abandoned = asyncio.Event()
        tasks = [asyncio.create_task(self._task(calls, abandoned)) for calls in self._calls]
        leaves = asyncio.create_task(abandoned.wait())
        while not abandoned.is_set() and (open_tasks := [task for task in (*tasks, *self._spawned) if not task.done()]):
            await asyncio.wait([*open_tasks, leaves], return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, *self._spawned):
            if task.done():
                task.result()
        self._spawned.clear()
        return abandoned.is_set()

    async def _task(self, calls: deque[Call], abandoned: asyncio.Event) -> None:
        name = next(self._names)
        numbers = count()
        while calls and not abandoned.is_set():
            call = calls.popleft()
            match call:
                case Send():
                    await self._send(name, next(numbers), call)
                case Table() if history_tables.ARROW:
                    await self._table(name, numbers, call)
                case Flush():
                    await self._flush(name, call)
                case Abandon():
                    self._run.note(f"program {self._program} closes its event loop")
                    abandoned.set()
            if call.sleep:
                await asyncio.sleep(call.sleep)

    async def _end(self) -> None:
        run, plan = self._run, self._run.plan
        for progress in self._progress:
            progress.check()
        if self._program:
            while not run.closed:
                await asyncio.sleep(0.5)
            await asyncio.sleep(1.0)  # for the callbacks of this loop
            return
        while run.ended_tasks < len(plan.programs):
            await asyncio.sleep(0.1)
        began, history = self._clock(), run.history
        timeout = plan.close_timeout
        limit = run.longest_wait(began) if timeout is None else timeout + 0.5
        history.closes.append(began + (plan.config["delivery.timeout.ms"] / 1000 if timeout is None else timeout))
        run.note(f"close({timeout})")
        await self._undelivered(self._producer.close(timeout), limit, f"close({timeout})")
        run.note("closed")
        if len(plan.programs) == 1:  # other loops may have callbacks to run
            history.returned_at = self._clock()
        run.closed = True
        await asyncio.sleep(5.0)  # for what comes late

    async def _send(self, program: int, number: int, call: Send) -> None:
        run, clock = self._run, self._clock
        limit = run.plan.config["max.block.ms"] / 1000 if call.timeout is None else call.timeout
        record = Sent(
            program=program, number=number, topic=call.topic, partition=call.partition, size=call.size, sent_at=clock()
        )
        run.sent.append(record)
        self._sending.add(record)
        delivery: Delivery | None = None
        try:
            async with asyncio.timeout(call.cancelled_after):
                delivery = record.delivery = await self._producer.send(
                    call.topic,
                    value_of(program, number, call.size),
                    key=call.key,
                    partition=call.partition,
                    timestamp_ms=number,
                    on_delivery=lambda delivery: self._on_delivery(record, call, delivery),
                    timeout=call.timeout,
                )
                record.queued_at = clock()
                self._queued.append(record)
                run.note(f"{record} is queued")
        except TimeoutError:
            if delivery is None:
                run.leave_out(record, "its task is cancelled")
        except REFUSALS as error:
            run.refuse(record, error, limit=limit)
        self._sending.discard(record)  # not if the task is destroyed
        in_time("send", began=record.sent_at, ended=clock(), timeout=limit, faults=run.plan.faults)
        if call.awaited and delivery is not None:
            await self._await(record, delivery)

    def _on_delivery(self, record: Sent, call: Send, delivery: Delivery) -> None:
        if call.reaction == SEND:
            call = attrs.evolve(call, reaction=NOTHING, awaited=False)
            self._spawned.append(asyncio.create_task(self._send(next(self._names), 0, call)))
        self._run.on_delivery(record, call, delivery)

    async def _await(self, record: Sent, delivery: Delivery) -> None:
        began = self._clock()
        limit = self._run.longest_wait(began)
        try:
            async with asyncio.timeout(limit + LATER):
                metadata = await delivery
        except TimeoutError:
            raise Violation(f"{record} has no outcome after {limit:g} s") from None
        except DeliveryError as error:
            if not error_copies.same(error, delivery.error):
                raise Violation(f"{record} raised {error!r}, and its delivery has {delivery.error!r}") from error
        else:
            if metadata != delivery.metadata:
                raise Violation(f"{record} returned {metadata}, and its delivery has {delivery.metadata}")
        in_time("a wait", began=began, ended=self._clock(), timeout=limit, faults=self._run.plan.faults)

    async def _table(self, program: int, numbers: Iterator[int], call: Table) -> None:
        run = self._run
        if call.cancelled_after is not None:  # the last batch may be queued while the task goes on
            program, numbers = next(self._names), count()
        rows = history_tables.new_rows(run, program, numbers, call)
        progress = history_tables.Progress(rows)
        self._progress.append(progress)
        delivery: TableDelivery | None
        self._tables += 1
        try:
            async with asyncio.timeout(call.cancelled_after):
                delivery = await self._producer.send_table(
                    call.topic,
                    history_tables.batches(run, rows, call),
                    key="key" if call.keys else None,
                    timestamp="timestamp",
                    on_progress=progress,
                    timeout=call.timeout,
                )
                progress.expected = delivery.rows
        except TimeoutError:
            run.note(f"{history_tables.title(rows)} is cancelled")  # it is not known which of its rows were queued
            return
        except (BufferExhaustedError, TopicUnavailableError) as error:
            run.note(f"{history_tables.title(rows)} is refused: {error}")
            delivery = error.delivery if isinstance(error.delivery, TableDelivery) else None
        history_tables.expect(run, rows, delivery)
        self._tables -= 1

    async def _flush(self, program: int, call: Flush) -> None:
        run, timeout, began = self._run, call.timeout, self._clock()
        before = [record for record in run.sent if record.program == program and record.delivery is not None]
        limit = run.longest_wait(began) if timeout is None else timeout
        run.note(f"task {program}: flush({timeout})")
        try:
            async with asyncio.timeout(call.cancelled_after):
                await self._undelivered(self._producer.flush(timeout), limit, f"flush({timeout})")
        except TimeoutError:
            return
        except FlushTimeoutError:
            if timeout is None or self._clock() - began < timeout - 0.001:
                raise Violation(f"flush({timeout}) gave up after {self._clock() - began:.3f} s") from None
            return
        late = [record for record in before if record.delivery is not None and not record.delivery.done()]
        if late:
            raise Violation(f"flush returned, and {late[0]} has no outcome")

    async def _undelivered(self, call: Coroutine[Any, Any, object], limit: float, what: str) -> None:
        """Wait for a flush or close. It may raise for errors that were not read.

        These are those of rows of a table that is being sent or was given up, and of records whose callback's loop is
        closed.
        """
        began = self._clock()
        # While the process is stopped no timer runs: afterwards those of the call and of this wait would end together.
        stopped = sum(fault.seconds for fault in self._run.plan.faults if isinstance(fault, StoppedProcess))
        try:
            async with asyncio.timeout(limit + LATER + stopped) as waiting:
                await call
        except UndeliveredError as error:
            unread = self._tables or any(record.abandoned for record in self._run.sent)
            if not unread and len(self._run.plan.programs) == 1:
                raise Violation(f"{what} raised for errors that were read: {error}") from error
        except TimeoutError:
            if waiting.expired():
                raise Violation(f"{what} has not returned within {limit + LATER:g} s") from None
            raise
        in_time(what, began=began, ended=self._clock(), timeout=limit, faults=self._run.plan.faults)

    def _clock(self) -> float:
        return self._simulation.clock()
