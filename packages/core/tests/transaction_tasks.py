"""The program of histories in which tasks write transactions together, and are cancelled while they end them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from simulated_loop import SimulatedLoop

from history_plans import Send, Transaction
from invariants import ABORTED, COMMITTED, REFUSALS, UNKNOWN, Sent, Violation, in_time, stopped_seconds, value_of
from ottla.aio import AsyncProducer
from ottla.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    IllegalStateError,
    OttlaError,
    ProducerClosedError,
    TransactionTimeoutError,
)

if TYPE_CHECKING:
    from histories import Run

LATER: Final = 5.0
"""Seconds after their limit in which calls end that are broken, so that a history does not wait for ever."""
TIMES: Final = 20
"""How often a call is repeated that runs out of time."""


class Aborts(Exception):
    """What the block of a transaction raises that is not to be committed."""


class TransactionTasks:
    """The only program of a history: one transaction after the other, the records of each by several tasks."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._producer = AsyncProducer.__new__(AsyncProducer)
        self._producer._begin(run.producer)
        self._numbers: defaultdict[int, Iterator[int]] = defaultdict(count)
        self._moved = False
        """Whether the consumer of the last offset was in a later generation when that was sent."""

    def run_loop(self) -> None:
        """Run the program on an event loop."""
        loop = SimulatedLoop(self._run.simulation.threads)
        try:
            loop.run_until_complete(self._main())
        finally:
            loop.close()

    async def _main(self) -> None:
        run, plan = self._run, self._run.plan
        try:
            await self._initialize()
            for call in plan.programs[0]:
                assert isinstance(call, Transaction)
                await self._transaction(call)
                if call.sleep:
                    await asyncio.sleep(call.sleep)
        except (ProducerClosedError, FatalTransactionError) as error:
            run.check_end(error)
        began, timeout = self._clock(), plan.close_timeout
        limit = run.longest_wait(began) if timeout is None else timeout + 0.5
        run.history.closes.append(began + (plan.config["delivery.timeout.ms"] / 1000 if timeout is None else timeout))
        run.note(f"close({timeout})")
        await self._within(self._producer.close(timeout), limit, f"close({timeout})")
        run.note("closed")
        run.history.returned_at = self._clock()
        await asyncio.sleep(5.0)  # for what comes late

    async def _initialize(self) -> None:
        """Call `init_transactions`, again while the transactional id is denied."""
        for until in self._run.denials():
            try:
                await self._until_known(self._producer.init_transactions)
            except FatalTransactionError:
                raise
            except OttlaError:
                await asyncio.sleep(max(0.0, until - self._clock()))
            else:
                return
        raise Violation("init_transactions is denied")

    async def _transaction(self, call: Transaction) -> None:
        records: list[Sent] = []
        self._run.note(f"a {'block' if call.block else 'transaction'} begins")
        outcome = UNKNOWN
        try:
            outcome = await (self._in_block(call, records) if call.block else self._by_calls(call, records))
        finally:
            self._run.note(f"the transaction is {outcome}")
            self._run.transactions.note(outcome, records, call.offset)

    async def _in_block(self, call: Transaction, records: list[Sent]) -> str:
        """Write a transaction in a block, whose task may be cancelled at any moment; return its outcome."""
        state = "before"

        async def block() -> None:
            nonlocal state
            async with self._producer.transaction():
                state = "begun"
                await self._write(call, records)
                if not call.commits:
                    raise Aborts
                state = "complete"

        for _ in range(TIMES):
            try:
                async with asyncio.timeout(call.cancelled_after):
                    await block()
            except TimeoutError:
                self._run.note(f"the task of a block is cancelled, which is {state}")
                return UNKNOWN if state == "complete" else ABORTED
            except Aborts:
                return ABORTED
            except AbortableTransactionError as error:
                self._check_failure(error)
                if state == "before":  # a commit whose task was cancelled has failed
                    await self._until_known(self._producer.abort_transaction)
                return ABORTED
            except TransactionTimeoutError:
                if state == "complete":
                    return await self._end(call, commit=True)
            except IllegalStateError as error:
                if state != "before" or "abort_transaction" not in str(error):
                    raise
                await self._until_known(self._producer.abort_transaction)  # of the last block, which ran out of time
            else:
                return COMMITTED
        raise Violation(f"no block can begin after {TIMES} times")

    async def _by_calls(self, call: Transaction, records: list[Sent]) -> str:
        """Write a transaction by one call after the other; return its outcome."""
        try:
            await self._begin()
        except AbortableTransactionError as error:
            self._check_failure(error)
            await self._until_known(self._producer.abort_transaction)
            return ABORTED
        try:
            await self._write(call, records)
            return await self._end(call, commit=call.commits)
        except AbortableTransactionError as error:
            self._check_failure(error)
            return await self._end(call, commit=False)

    async def _begin(self) -> None:
        """Begin a transaction, once the last one has ended, which may go on without a task."""
        began = self._clock()
        limit = self._run.longest_wait(began)
        while True:
            try:
                self._producer.begin_transaction()
            except IllegalStateError as error:
                if "ran out of time" in str(error):
                    raise
                await asyncio.sleep(0.1)
                self._in_time("the end of a cancelled call", began, limit)
            else:
                return

    async def _end(self, call: Transaction, *, commit: bool) -> str:
        """End the transaction; return its outcome. The task may be cancelled, and may ask again for the outcome."""
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        known = COMMITTED if commit else ABORTED
        try:
            async with asyncio.timeout(call.cancelled_after):
                await self._until_known(end)
        except TimeoutError:
            self._run.note("the task of this call is cancelled")
            if not call.asks:
                return UNKNOWN if commit else ABORTED
            if call.sleep:
                await asyncio.sleep(call.sleep)
            await self._until_known(end)
        return known

    async def _write(self, call: Transaction, records: list[Sent]) -> None:
        """Send the records, each task its own, and the offset of a consumer."""
        sends: dict[int, list[Send]] = defaultdict(list)
        for send in call.sends:
            sends[send.task].append(send)
        tasks = [self._task(task, some, records) for task, some in sorted(sends.items())]
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if error is not None:
                raise error
        if call.offset is not None:
            group = self._run.consumer()
            send_offsets = partial(self._producer.send_offsets_to_transaction, {("in", 0): call.offset}, group)
            try:
                await self._until_known(send_offsets)
            except AbortableTransactionError:
                self._moved = group != self._run.consumer()
                raise

    async def _task(self, task: int, sends: Sequence[Send], records: list[Sent]) -> None:
        for send in sends:
            await self._send(task, send, records)
            if send.sleep:
                await asyncio.sleep(send.sleep)

    async def _send(self, task: int, call: Send, records: list[Sent]) -> None:
        run, clock = self._run, self._clock
        limit = run.plan.config["max.block.ms"] / 1000
        number = next(self._numbers[task])
        record = Sent(
            program=task, number=number, topic=call.topic, partition=call.partition, size=call.size, sent_at=clock()
        )
        run.sent.append(record)
        records.append(record)
        try:
            record.delivery = await self._producer.send(
                call.topic,
                value_of(task, number, call.size),
                key=call.key,
                partition=call.partition,
                timestamp_ms=number,
                on_delivery=lambda delivery: run.on_delivery(record, call, delivery),
            )
            record.queued_at = clock()
            run.note(f"{record} is queued")
        except REFUSALS as error:
            run.refuse(record, error, limit=limit)
        except BaseException as error:
            run.leave_out(record, repr(error))
            raise
        in_time("send", began=record.sent_at, ended=clock(), timeout=limit, faults=run.plan.faults)

    def _check_failure(self, error: AbortableTransactionError) -> None:
        """Check that a transaction failed because a record did, or because its consumer is in a later generation."""
        self._run.note(f"the transaction must be aborted: {error}")
        self._run.check_failure(error, moved=self._moved)

    async def _until_known(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Call again while time runs out: it is the same outcome that is waited for."""
        began = self._clock()
        limit = self._run.longest_wait(began)
        name = getattr(call, "__name__", "send_offsets_to_transaction")
        self._run.note(f"{name}()")
        for _ in range(TIMES):
            try:
                await self._within(call(), limit, name)
            except TransactionTimeoutError:
                continue
            self._in_time(name, began, limit)
            return
        raise Violation(f"the outcome of {name} is not known after {TIMES} time-outs")

    async def _within(self, call: Coroutine[Any, Any, object], limit: float, what: str) -> None:
        # While the process is stopped no timer runs: afterwards those of the call and of this wait would end together.
        stopped = stopped_seconds(self._clock(), self._run.plan.faults)
        try:
            async with asyncio.timeout(limit + LATER + stopped) as waiting:
                await call
        except TimeoutError:
            if waiting.expired():
                raise Violation(f"{what} has not returned within {limit + LATER:g} s") from None
            raise

    def _in_time(self, what: str, began: float, limit: float) -> None:
        in_time(what, began=began, ended=self._clock(), timeout=limit, faults=self._run.plan.faults)

    def _clock(self) -> float:
        return self._run.simulation.clock()
