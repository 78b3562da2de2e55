"""Records awaited on event loops: wake-ups, cancelled tasks, callbacks, and batches that are forwarded."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

import error_copies
import pytest
from event_loop_kinds import KINDS, run_on
from unretrieved import unretrieved_errors
from wait_kinds import WAIT_KINDS

from machine import Queues, wait_until
from ottla import Delivery, DeliveryError, RecordMetadata
from ottla.accumulator import event_loops
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded, ForwardedRecords
from ottla.accumulator.event_loops import LaterTurn, UntilCalled, running_inbox
from ottla.accumulator.loop_callbacks import LoopCallback
from ottla.accumulator.running_loop import RUNNING_LOOP, DescriptorWatch

T = TypeVar("T")

REFUSED = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)


@pytest.fixture(autouse=True, params=WAIT_KINDS)
def _wait_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests run with each kind of wait."""
    monkeypatch.setitem(globals(), "delivery_class", WAIT_KINDS[request.param][0])


delivery_class: type[Delivery] = Delivery


@pytest.fixture(autouse=True, params=KINDS)
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests run on each kind of event loop."""
    monkeypatch.setitem(globals(), "kind", request.param)


kind = "asyncio"


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, within a time limit."""
    return run_on(kind, main, within=20)


class Batches:
    """Records of partition 0, and their completion on another thread, as by the I/O thread."""

    def __init__(self) -> None:
        self.queues = Queues(linger=1.0)

    def send(self, value: bytes = b"v") -> Delivery:
        return delivery_class(*self.queues.append(value, partition=0)._place())

    def close(self) -> None:
        """Let the next record begin a batch."""
        self.queues.accumulator.close_open_batches()

    def complete(self, *deliveries: Delivery, outcome: Acknowledged | Failed | None = None) -> None:
        """Complete the batches of these records on another thread, one after the other."""
        batches: list[ProducerBatch] = [delivery._place()[0] for delivery in deliveries]

        def complete() -> None:
            for batch in batches:
                batch.complete_and_call_back(outcome or Acknowledged(base_offset=10))

        thread = threading.Thread(target=complete)
        thread.start()
        thread.join()

    def count(self, delivery: Delivery) -> None:
        """Count a completed batch, as its completion does after its callbacks."""
        self.queues.accumulator._completion._count([delivery._place()[0]])


def never() -> None:
    raise AssertionError("the loop is not closed")


async def awaited(delivery: Delivery) -> RecordMetadata:
    return await delivery


@contextlib.contextmanager
def interrupted(main: Coroutine[Any, Any, T]) -> Iterator[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]]:
    """A loop that KeyboardInterrupt has ended while it ran a coroutine, and that coroutine's task. It may run again."""
    loop = KINDS[kind]()
    try:
        running = loop.create_task(main)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(running)
        yield loop, running
    finally:
        loop.close()


async def begun(*tasks: asyncio.Task[Any]) -> None:
    """Let tasks run until they wait."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def test_a_completed_record_is_awaited_without_a_turn_of_the_loop() -> None:
    batches = Batches()
    delivery = batches.send()
    batches.complete(delivery)

    with pytest.raises(StopIteration) as ended:
        next(delivery.__await__())

    assert ended.value.value.offset == 10


def test_many_tasks_get_the_metadata_of_their_records() -> None:
    async def main() -> list[int]:
        batches = Batches()
        deliveries = [batches.send() for _ in range(100)]
        tasks = [asyncio.create_task(awaited(delivery)) for delivery in deliveries]
        await begun(*tasks)
        batches.complete(deliveries[0])
        offsets = [metadata.offset for metadata in await asyncio.gather(*tasks)]
        assert not running_inbox().waiters  # which would keep each batch
        return offsets

    assert run(main()) == list(range(10, 110))


def test_a_loop_is_woken_once_for_batches_that_complete_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        batches = Batches()
        wakes: list[object] = []
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def noted(call: Callable[..., object], *arguments: Any) -> object:
            wakes.append(call)
            return wake(call, *arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
        deliveries = []
        for _ in range(5):
            deliveries += [batches.send(), batches.send()]
            batches.close()
        tasks = [asyncio.create_task(awaited(delivery)) for delivery in deliveries]
        await begun(*tasks)
        batches.complete(*deliveries[::2])
        await asyncio.gather(*tasks)

        assert len(wakes) == 1

    run(main())


def test_several_tasks_await_one_record_on_several_loops() -> None:
    batches = Batches()
    delivery = batches.send()
    ready, results = threading.Barrier(3), []

    async def main() -> None:
        tasks = [asyncio.create_task(awaited(delivery)) for _ in range(2)]
        await begun(*tasks)
        ready.wait(20)
        results.extend(await asyncio.gather(*tasks))

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(20)
    batches.complete(delivery)
    for thread in threads:
        thread.join(20)

    assert [metadata.offset for metadata in results] == [10] * 4


def test_a_failed_record_raises_and_its_error_is_retrieved() -> None:
    async def main() -> None:
        batches = Batches()
        first, second = batches.send(), batches.send()
        task = asyncio.create_task(awaited(first))
        await begun(task)
        batch = first._place()[0]
        batches.complete(first, outcome=Failed(error=REFUSED))

        assert unretrieved_errors(batch) == 1  # before the loop has run: a flush may count the batch now
        with pytest.raises(DeliveryError, match="refused"):
            await task
        with pytest.raises(DeliveryError, match="refused"):
            await second
        assert unretrieved_errors(batch) == 0

    run(main())


def test_an_error_counts_as_retrieved_before_its_loop_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the task could be cancelled, and the error count as retrieved only then."""

    async def main() -> None:
        batches = Batches()
        failing = batches.send()
        task = asyncio.create_task(awaited(failing))
        await begun(task)
        loop, seen = asyncio.get_running_loop(), list[int]()
        wake = loop.call_soon_threadsafe

        def noted(call: Callable[..., object], *arguments: Any) -> object:
            seen.append(unretrieved_errors(failing._place()[0]))
            return wake(call, *arguments)

        monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        with pytest.raises(DeliveryError):
            await task

        assert seen == [0]

    run(main())


def test_the_error_of_a_cancelled_task_is_not_retrieved() -> None:
    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        task = asyncio.create_task(awaited(delivery))
        await begun(task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        batches.complete(delivery, outcome=Failed(error=REFUSED))

        assert unretrieved_errors(delivery._place()[0]) == 1

    run(main())


def test_a_task_waits_on_in_the_batch_that_has_its_record_now() -> None:
    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        whole = delivery._place()[0]
        batches.close()
        part = batches.send()._place()[0]
        waiting = asyncio.create_task(awaited(delivery))
        called: list[Delivery] = []
        running_inbox().add(delivery, LoopCallback(called.append))
        await begun(waiting)
        whole.forward_to(Forwarded(pieces=[ForwardedRecords(batch=part, start=0, indexes=[0])]))
        await begun(waiting)
        assert not called
        part.complete_and_call_back(Acknowledged(base_offset=3))

        assert (await waiting).offset == 3
        assert called == [delivery]

    run(main())


@pytest.mark.parametrize("times", [1, 2])
def test_errors_of_forwarded_records_are_retrieved_before_the_turn(times: int) -> None:
    async def main() -> None:
        batches = Batches()
        delivery, unread = batches.send(), batches.send()
        waiting = asyncio.create_task(awaited(delivery))
        called: list[Delivery] = []
        running_inbox().add(delivery, LoopCallback(called.append))
        await begun(waiting)
        for _ in range(times):
            whole = delivery._place()[0]
            batches.close()
            [part] = {batches.send()._place()[0] for _ in range(2)}
            whole.forward_to(Forwarded(pieces=[ForwardedRecords(batch=part, start=0, indexes=[0, 1])]))
        batches.complete(delivery, outcome=Failed(error=REFUSED))

        assert unretrieved_errors(part) == 1  # that of the record which nothing waits for
        with pytest.raises(DeliveryError, match="refused"):
            await waiting
        assert called == [delivery]
        assert error_copies.same(unread.error, REFUSED)

    run(main())


def test_the_error_of_a_part_that_fails_at_once_is_retrieved() -> None:
    class FailsThePart:
        def set(self) -> None:
            part.complete_and_call_back(Failed(error=REFUSED))

    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        whole = delivery._place()[0]
        whole.add_latch(FailsThePart())  # as a close on another thread may at this moment
        waiting = asyncio.create_task(awaited(delivery))
        await begun(waiting)
        whole.forward_to(Forwarded(pieces=[ForwardedRecords(batch=part, start=0, indexes=[0])]))

        assert unretrieved_errors(part) == 0
        with pytest.raises(DeliveryError, match="refused"):
            await waiting

    part = Batches().send()._place()[0]
    run(main())


def test_forwarded_records_get_the_metadata_of_their_new_places() -> None:
    async def main() -> list[int]:
        batches = Batches()
        deliveries = [batches.send() for _ in range(3)]
        whole = deliveries[0]._place()[0]
        batches.close()
        [part] = {batches.send()._place()[0] for _ in range(5)}
        whole.forward_to(Forwarded(pieces=[ForwardedRecords(batch=part, start=2, indexes=[0, 1, 2])]))
        tasks = [asyncio.create_task(awaited(delivery)) for delivery in deliveries]
        await begun(*tasks)
        part.complete_and_call_back(Acknowledged(base_offset=100))
        return [metadata.offset for metadata in await asyncio.gather(*tasks)]

    assert run(main()) == [102, 103, 104]


def test_one_task_of_a_large_batch_gets_the_metadata_of_its_record() -> None:
    async def main() -> RecordMetadata:
        batches = Batches()
        deliveries = [batches.send(b"v" * number) for number in range(20)]
        task = asyncio.create_task(awaited(deliveries[13]))
        await begun(task)
        batches.complete(deliveries[0])
        return await task

    metadata: RecordMetadata = run(main())
    assert (metadata.offset, metadata.serialized_value_size) == (23, 13)


def test_callbacks_run_on_the_loop_in_the_order_of_their_records() -> None:
    async def main() -> None:
        batches, seen, threads = Batches(), [], set()
        inbox = running_inbox()
        deliveries = [batches.send() for _ in range(200)]

        def note(number: int) -> Callable[[Delivery], object]:
            def noted(delivery: Delivery) -> None:
                seen.append((number, delivery.result(0).offset))
                threads.add(threading.get_ident())

            return noted

        for number, delivery in enumerate(deliveries[:150]):
            assert inbox.add(delivery, LoopCallback(note(number)))
        batches.complete(deliveries[0])
        for number, delivery in enumerate(deliveries[150:], 150):  # they come late, and do not overtake
            assert not inbox.add(delivery, LoopCallback(note(number)))
            inbox.add_completed(delivery, LoopCallback(note(number)))
        await LaterTurn()

        assert seen == [(number, 10 + number) for number in range(200)]
        assert threads == {threading.get_ident()}

    run(main())


def test_a_callback_that_raises_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        batches = Batches()
        seen: list[Delivery] = []
        inbox = running_inbox()
        first, second = batches.send(), batches.send()
        inbox.add(first, LoopCallback(lambda _delivery: 1 / 0))
        inbox.add(second, LoopCallback(seen.append))
        batches.complete(first)
        await LaterTurn()

        assert seen == [second]

    run(main())

    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "ZeroDivisionError" in str(line.exc_info)


def test_a_callback_that_raises_has_the_error_of_its_record_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        batches = Batches()
        inbox = running_inbox()
        failed = batches.send()
        inbox.add(failed, LoopCallback(lambda delivery: delivery.metadata.offset))
        error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)
        batches.complete(failed, outcome=Failed(error=error))
        await LaterTurn()

    run(main())

    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "raised when it got this error, and the producer continues: " in line.getMessage()
    assert "AttributeError" in str(line.exc_info)


def test_an_interrupt_in_a_callback_loses_no_other_callback() -> None:
    seen: list[str] = []

    def interrupt(_delivery: Delivery) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        batches, inbox = Batches(), running_inbox()
        first, second = batches.send(), batches.send()
        inbox.add(first, LoopCallback(interrupt))
        inbox.add(second, LoopCallback(lambda _delivery: seen.append("second")))
        batches.complete(first)
        await LaterTurn()
        seen.append("later")

    with interrupted(main()) as (loop, running):
        loop.run_until_complete(running)

    assert seen == ["second", "later"]


def test_other_tasks_run_while_many_records_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        batches, turns = Batches(), []
        inbox = running_inbox()
        deliveries = [batches.send() for _ in range(320)]
        called: list[Delivery] = []
        for delivery in deliveries:
            inbox.add(delivery, LoopCallback(called.append))
        batches.complete(deliveries[0])
        while len(called) < len(deliveries):
            turns.append(len(called))
            await asyncio.sleep(0)

        assert called == deliveries
        assert len(turns) >= 10

    run(main())


def test_a_later_turn_comes_behind_completed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        batches = Batches()
        called: list[Delivery] = []
        deliveries = [batches.send() for _ in range(100)]
        for delivery in deliveries:
            running_inbox().add(delivery, LoopCallback(called.append))
        batches.complete(deliveries[0])
        await LaterTurn()

        assert called == deliveries

    run(main())


def test_tasks_of_completed_records_run_in_turns_that_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        batches = Batches()
        done: list[RecordMetadata] = []

        async def waits(delivery: Delivery) -> None:
            done.append(await delivery)

        deliveries = [batches.send() for _ in range(80)]
        tasks = [asyncio.create_task(waits(delivery)) for delivery in deliveries]
        await begun(*tasks)
        batches.complete(deliveries[0])
        turns = set()
        while len(done) < len(deliveries):
            turns.add(len(done))
            await asyncio.sleep(0)

        assert len(turns) >= 10
        assert [metadata.offset for metadata in done] == list(range(10, 90))

    run(main())


def test_a_function_that_is_called_again_ends_no_other_wait_of_its_task() -> None:
    async def main() -> list[str]:
        calls: list[Callable[..., object]] = []
        seen: list[str] = []
        released = asyncio.Event()

        async def waits() -> None:
            await UntilCalled(calls.append)
            seen.append("called")
            await released.wait()
            seen.append("released")

        async def is_cancelled() -> None:
            try:
                await UntilCalled(calls.append)
            except asyncio.CancelledError:
                seen.append("cancelled")
                await released.wait()
            seen.append("released")

        tasks = [asyncio.create_task(waits()), asyncio.create_task(is_cancelled())]
        await begun(*tasks)
        tasks[1].cancel()
        for call in calls * 2:
            call("argument")
        await begun(*tasks)
        seen.append("still waiting")
        released.set()
        await asyncio.gather(*tasks)
        return seen

    assert run(main()) == ["cancelled", "called", "still waiting", "released", "released"]


def test_of_tasks_that_let_others_run_one_runs_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        turn = 0
        runs: list[tuple[int, int]] = []

        async def runs_often(number: int) -> None:
            for _ in range(10):
                await LaterTurn()
                runs.append((number, turn))

        tasks = [asyncio.create_task(runs_often(number)) for number in range(4)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            turn += 1

        assert [number for number, _turn in runs] == [0, 1, 2, 3] * 10
        assert len({turn for _number, turn in runs}) == len(runs)

    run(main())


def test_a_turn_that_comes_earlier_replaces_the_one_that_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        turn = 0
        turns: list[int] = []

        async def runs_often() -> None:
            for _ in range(10):
                await LaterTurn()
                turns.append(turn)

        tasks = [asyncio.create_task(runs_often()) for _ in range(4)]
        await asyncio.sleep(0)
        for _ in range(5):
            asyncio.get_running_loop().call_soon(running_inbox().call_and_complete, lambda: True)
            await asyncio.sleep(0)
            turn += 1
        later = len(turns)
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            turn += 1

        assert later < len(turns)
        # Else each of the five began a row of turns of its own.
        assert len(set(turns[later:])) == len(turns) - later

    run(main())


def test_records_complete_in_the_callback_that_brings_their_outcome() -> None:
    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        task = asyncio.create_task(awaited(delivery))
        await begun(task)

        def complete() -> bool:
            delivery._place()[0].complete_and_call_back(Acknowledged(base_offset=10))
            return False

        results: list[object] = []

        def callback() -> None:
            results.append(running_inbox().call_and_complete(complete))
            results.append(task.done())

        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0)
        await task

        assert results == [False, True]

    run(main())


class Steps(list[str]):
    """What has happened, in order."""

    async def of_a_sender(self, delivery: Delivery) -> None:
        """Await a record, and have `end` called at the end of the turn, as `send` has a round run."""
        await delivery
        self.append("task")
        RUNNING_LOOP.at_end_of_turn(self.end, if_closed=never)

    def end(self) -> None:
        self.append("end")


def test_a_turn_in_a_callback_ends_in_the_same_callback() -> None:
    async def main() -> None:
        batches, done = Batches(), Steps()
        deliveries = [batches.send() for _ in range(2)]
        tasks = [asyncio.create_task(done.of_a_sender(each)) for each in deliveries]
        await begun(*tasks)

        def callback() -> None:
            running_inbox().call_and_complete(lambda: batches.complete(deliveries[0]))
            done.append("callback")

        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert done == ["task", "task", "end", "callback"]

    run(main())


def test_a_turn_whose_tasks_take_long_ends_when_all_of_them_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)

    async def main() -> None:
        batches, done = Batches(), Steps()
        deliveries = [batches.send() for _ in range(event_loops.RECORDS_IN_A_ROW + 1)]
        tasks = [asyncio.create_task(done.of_a_sender(each)) for each in deliveries]
        await begun(*tasks)

        asyncio.get_running_loop().call_soon(running_inbox().call_and_complete, lambda: batches.complete(deliveries[0]))
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        assert done == [*["task"] * len(tasks), "end"]

    run(main())


def test_a_loop_that_runs_inside_a_turn_has_the_end_of_the_turn() -> None:
    """As nest_asyncio lets a task do: it may wait for what only the end of the turn sends."""
    if kind != "asyncio":
        pytest.skip("no other loop can run so")

    async def main() -> None:
        batches, done = Batches(), Steps()
        delivery = batches.send()
        loop: Any = asyncio.get_running_loop()

        async def runs_the_loop() -> None:
            await done.of_a_sender(delivery)
            loop._run_once()
            done.append("again")

        task = asyncio.create_task(runs_the_loop())
        await begun(task)
        loop.call_soon(running_inbox().call_and_complete, lambda: batches.complete(delivery))
        await task
        assert done == ["task", "end", "again"]

    run(main())


def test_a_turn_that_ends_the_loop_has_its_end_when_the_loop_runs_again() -> None:
    batches, done = Batches(), Steps()

    async def ends_the_loop(delivery: Delivery) -> None:
        await delivery
        raise KeyboardInterrupt

    async def main() -> None:
        first, second = batches.send(), batches.send()
        tasks = [
            asyncio.create_task(done.of_a_sender(first)),
            asyncio.create_task(ends_the_loop(second)),
        ]
        await begun(*tasks)
        kept.extend(tasks)
        asyncio.get_running_loop().call_soon(running_inbox().call_and_complete, lambda: batches.complete(first))
        await asyncio.sleep(3600)

    kept: list[asyncio.Task[Any]] = []
    with interrupted(main()) as (loop, running):
        assert done == (["task", "end"] if kind == "uvloop" else ["task"])  # uvloop ends the turn before it stops
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        assert done == ["task", "end"]
        assert isinstance(kept[1].exception(), KeyboardInterrupt)  # else asyncio logs it, perhaps in a later test
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(running)


@pytest.mark.parametrize("in_a_turn", [True, False])
def test_a_batch_completed_on_the_thread_of_its_loop_wakes_nothing(
    in_a_turn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        batches, calls = Batches(), list[str]()
        delivery = batches.send()
        task = asyncio.create_task(awaited(delivery))
        await begun(task)
        call_soon = loop.call_soon

        def noted(*arguments: Any) -> object:
            calls.append("turn")
            return call_soon(*arguments)

        def complete() -> bool:
            monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_arguments: calls.append("wake"))
            monkeypatch.setattr(loop, "call_soon", noted)
            delivery._place()[0].complete_and_call_back(Acknowledged(base_offset=10))
            monkeypatch.undo()
            return True

        loop.call_soon(*((running_inbox().call_and_complete, complete) if in_a_turn else (complete,)))
        await task

        assert calls == ([] if in_a_turn else ["turn"])

    run(main())


def test_an_exception_that_ends_the_loop_loses_no_wait() -> None:
    async def main() -> None:
        batches = Batches()
        first, second = batches.send(), batches.send()

        async def ends_the_loop() -> None:
            await first
            raise KeyboardInterrupt

        tasks = [asyncio.create_task(ends_the_loop()), asyncio.create_task(awaited(second))]
        await begun(*tasks)
        batches.complete(first)
        kept.extend(tasks)
        await tasks[1]

    kept: list[asyncio.Task[Any]] = []
    with interrupted(main()) as (loop, running):
        assert isinstance(kept[0].exception(), KeyboardInterrupt)
        loop.run_until_complete(asyncio.wait_for(running, 20))
        assert kept[1].result().offset == 11


def test_a_batch_that_completes_after_its_loop_was_closed_harms_nothing() -> None:
    batches = Batches()
    delivery = batches.send()

    async def abandoned() -> None:
        task = asyncio.create_task(awaited(delivery))
        await begun(task)
        task.cancel()

    run(abandoned())
    batches.complete(delivery)

    assert delivery.result(0).offset == 10


def test_an_error_for_the_callback_of_a_closed_loop_is_left_to_others(caplog: pytest.LogCaptureFixture) -> None:
    batches = Batches()
    failing = batches.send()
    batches.close()
    written = batches.send()
    called: list[Any] = []

    async def sent() -> None:
        for delivery in (failing, written):
            running_inbox().add(delivery, LoopCallback(called.append))

    run(sent())
    batches.complete(failing, outcome=Failed(error=REFUSED))
    batches.complete(written)

    assert called == []
    assert unretrieved_errors(failing._place()[0]) == 1
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith("delivery callbacks are not called, because the event loop on which their records were")


def test_an_error_for_a_turn_that_never_comes_is_left_to_others() -> None:
    batches = Batches()
    failing = batches.send()
    called: list[Any] = []
    loop = asyncio.new_event_loop()

    async def sent() -> None:
        running_inbox().add(failing, LoopCallback(called.append))

    loop.run_until_complete(sent())
    batches.complete(failing, outcome=Failed(error=REFUSED))
    before = unretrieved_errors(failing._place()[0])
    loop.close()
    gc.collect()

    assert (before, called) == (0, [])
    assert unretrieved_errors(failing._place()[0]) == 1


def test_errors_for_the_rest_of_a_turn_that_never_comes_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)
    batches = Batches()
    failing = [batches.send() for _ in range(3 * event_loops.RECORDS_IN_A_ROW)]
    called: list[Any] = []
    loop = KINDS[kind]()

    def stop(_delivery: Delivery) -> None:
        if len(called) == 1:
            loop.stop()

    async def sent() -> None:
        for delivery in failing:
            running_inbox().add(delivery, LoopCallback(called.append))
            running_inbox().add(delivery, LoopCallback(stop))

    loop.run_until_complete(sent())
    batches.complete(failing[0], outcome=Failed(error=REFUSED))
    loop.run_forever()
    loop.close()
    gc.collect()

    assert 0 < len(called) < len(failing)
    assert unretrieved_errors(failing[0]._place()[0]) == len(failing) - len(called)


def test_callbacks_of_a_loop_that_is_closed_when_woken_are_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batches = Batches()
    failing = batches.send()
    called: list[Any] = []
    loop = KINDS[kind]()

    async def sent() -> None:
        running_inbox().add(failing, LoopCallback(called.append))

    loop.run_until_complete(sent())
    wake = loop.call_soon_threadsafe

    def closed_before(call: Callable[..., object], *arguments: Any) -> object:
        loop.close()
        return wake(call, *arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", closed_before)
    batches.complete(failing, outcome=Failed(error=REFUSED))

    assert called == []
    assert unretrieved_errors(failing._place()[0]) == 1
    [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.startswith("delivery callbacks are not called, because the event loop on which their records were")


def test_an_error_that_is_read_before_a_task_expects_it_counts_once() -> None:
    """As by a thread that the outcome has woken before the loop."""

    class Reader:
        def set(self) -> None:
            assert failing.error is not None

    async def main() -> None:
        failing._place()[0].add_latch(Reader())
        task = asyncio.create_task(awaited(failing))
        await begun(task)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        assert unretrieved_errors(failing._place()[0]) == 1  # that of the record which nothing waits for
        with pytest.raises(DeliveryError):
            await task

    batches = Batches()
    failing, _unread = batches.send(), batches.send()
    run(main())
    assert unretrieved_errors(failing._place()[0]) == 1


def test_a_wait_that_ended_before_its_loop_was_closed_is_given_up_once() -> None:
    """As one for memory that was given to a task, which has no turn any more."""
    ends: list[Callable[..., object]] = []
    given_up: list[str] = []
    loop = asyncio.new_event_loop()

    async def waiting() -> None:
        await UntilCalled(ends.append, lambda: given_up.append("given up"))

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(waiting())
        await begun(task)
        return task

    task = loop.run_until_complete(begin())
    thread = threading.Thread(target=ends[0])
    thread.start()
    thread.join()
    before = list(given_up)
    loop.close()
    gc.collect()
    ends[0]()

    assert (before, given_up) == ([], ["given up"])
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # its loop was closed on purpose


def test_an_error_that_moved_to_another_batch_is_left_to_others_as_well() -> None:
    batches = Batches()
    delivery = batches.send()
    whole, _index = delivery._place()
    batches.close()
    part, _index = batches.send()._place()
    called: list[Any] = []

    async def sent() -> None:
        running_inbox().add(delivery, LoopCallback(called.append))

    run(sent())
    whole.forward_to(Forwarded(pieces=[ForwardedRecords(batch=part, start=0, indexes=[0])]))
    batches.complete(delivery, outcome=Failed(error=REFUSED))

    assert unretrieved_errors(part) == 1
    assert called == []


def test_a_delivery_becomes_a_future_of_concurrent_futures() -> None:
    batches = Batches()
    delivery, failing = batches.send(), None
    batches.close()
    failing = batches.send()
    futures: list[Future[RecordMetadata]] = [delivery.future(), failing.future()]
    assert not any(future.done() or future.cancel() for future in futures)

    batches.complete(delivery)
    batches.complete(failing, outcome=Failed(error=REFUSED))
    done, pending = wait(futures, timeout=20)

    assert (len(done), len(pending)) == (2, 0)
    assert futures[0].result().offset == 10
    assert unretrieved_errors(failing._place()[0]) == 1
    assert error_copies.same(futures[1].exception(), REFUSED)
    assert unretrieved_errors(failing._place()[0]) == 0


def test_the_error_of_a_future_wrapped_for_a_closed_loop_is_not_read() -> None:
    """asyncio passes it on to nothing, and does not say so: it is found once the future is dropped."""
    batches = Batches()
    failing = batches.send()
    loop = KINDS[kind]()
    wrapped = asyncio.wrap_future(failing.future(), loop=loop)
    loop.close()
    batches.complete(failing, outcome=Failed(error=REFUSED))
    assert not wrapped.done()
    assert unretrieved_errors(failing._place()[0]) == 0  # until then the loop may be about to read it

    del wrapped
    gc.collect()

    assert unretrieved_errors(failing._place()[0]) == 1


def test_a_watch_that_another_thread_ends_calls_nothing_more() -> None:
    reading, writing = os.pipe()
    called: list[str] = []

    def note() -> bool:
        os.read(reading, 1)
        called.append("called")
        return True

    async def main() -> None:
        watch = RUNNING_LOOP.watch(reading, note)
        assert watch is not None
        os.write(writing, b"1")
        while not called:
            await asyncio.sleep(0)
        thread = threading.Thread(target=watch.end)
        thread.start()
        thread.join()
        while not watch.ended:
            await asyncio.sleep(0)
        os.write(writing, b"2")
        await asyncio.sleep(0.01)

    run(main())
    os.close(reading)
    os.close(writing)

    assert called == ["called"]


def test_records_that_complete_together_continue_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that takes long: for each further turn, the loop would look for events and timers."""
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 60.0)
    batches = Batches()
    continued: list[int] = []

    async def wait_for(delivery: Delivery, number: int) -> None:
        await delivery
        continued.append(number)

    async def main() -> None:
        deliveries = [batches.send() for _ in range(100)]
        tasks = [asyncio.create_task(wait_for(delivery, number)) for number, delivery in enumerate(deliveries)]
        await begun(*tasks)
        batches.complete(deliveries[0])
        while not continued:
            await asyncio.sleep(0)

        assert continued == list(range(100))
        await asyncio.gather(*tasks)

    run(main())


def test_a_watch_of_a_closed_loop_leaves_no_open_descriptor() -> None:
    reading, writing = os.pipe()
    loop = KINDS[kind]()

    async def begin() -> DescriptorWatch | None:
        return RUNNING_LOOP.watch(reading, lambda: True)

    watch = loop.run_until_complete(begin())
    assert watch is not None
    copied = watch._descriptor
    loop.close()
    del watch, loop
    for _ in range(3):  # PyPy frees in a later collection what an object with a finalizer holds
        gc.collect()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(copied)
    os.close(reading)
    os.close(writing)


def test_a_future_that_is_dropped_leaves_the_error_to_a_task() -> None:
    batches = Batches()
    failing = batches.send()

    async def both() -> None:
        task = asyncio.ensure_future(awaited(failing))
        await begun(task)
        failing.future().add_done_callback(lambda _future: None)
        batches.complete(failing, outcome=Failed(error=REFUSED))  # which drops the future
        gc.collect()

        assert unretrieved_errors(failing._place()[0]) == 0
        with pytest.raises(type(REFUSED)):
            await task

    run(both())


def test_the_error_of_a_cancelled_wrapped_future_is_not_read() -> None:
    batches = Batches()
    failing = batches.send()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(failing.future()), 0.01)

    run(give_up())
    batches.complete(failing, outcome=Failed(error=REFUSED))

    assert unretrieved_errors(failing._place()[0]) == 1


def test_a_cancelled_wait_reads_no_error_while_its_future_is_kept() -> None:
    batches = Batches()
    failing = batches.send()
    future = failing.future()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(future), 0.01)

    run(give_up())
    batches.complete(failing, outcome=Failed(error=REFUSED))

    assert future.done()
    assert unretrieved_errors(failing._place()[0]) == 1


def test_the_error_is_not_read_if_the_wait_ends_in_the_same_turn() -> None:
    batches = Batches()
    failing = batches.send()

    async def give_up() -> None:
        wrapped = asyncio.wrap_future(failing.future())
        batches.complete(failing, outcome=Failed(error=REFUSED))
        assert unretrieved_errors(failing._place()[0]) == 0
        wrapped.cancel()  # as a time-out does
        await asyncio.sleep(0)

    run(give_up())

    assert unretrieved_errors(failing._place()[0]) == 1


@pytest.mark.parametrize("gives_up", [Future[RecordMetadata].done, Future[RecordMetadata].cancel])
def test_a_future_without_a_callback_leaves_the_error_to_a_task(gives_up: Callable[[Any], object]) -> None:
    """Else a flush or close before the turn of the task would raise the error, too."""
    batches = Batches()
    failing = batches.send()

    async def both() -> None:
        task = asyncio.ensure_future(awaited(failing))
        await begun(task)
        future = failing.future()
        batches.complete(failing, outcome=Failed(error=REFUSED))
        gives_up(future)

        assert unretrieved_errors(failing._place()[0]) == 0
        with pytest.raises(type(REFUSED)):
            await task

    run(both())


def test_a_wrapped_future_that_is_not_cancelled_still_reads_the_error() -> None:
    batches = Batches()
    failing = batches.send()

    async def give_up_one_of_two() -> None:
        cancelled, kept = (asyncio.wrap_future(failing.future()) for _ in range(2))
        cancelled.cancel()
        await asyncio.sleep(0)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        with pytest.raises(type(REFUSED)):
            await kept

    run(give_up_one_of_two())

    assert unretrieved_errors(failing._place()[0]) == 0


@pytest.mark.parametrize("reads", [lambda future: future.result(0), lambda future: future.exception(0), None])
def test_an_error_counts_as_retrieved_once_the_future_is_read(reads: Callable[[Any], object] | None) -> None:
    batches = Batches()
    failing = batches.send()
    future = failing.future()
    given: list[BaseException | None] = []
    if reads is None:  # it is given to a callback
        future.add_done_callback(lambda done: given.append(done.exception()))
    batches.complete(failing, outcome=Failed(error=REFUSED))

    assert unretrieved_errors(failing._place()[0]) == (0 if reads is None else 1)
    with contextlib.suppress(DeliveryError):
        if reads is not None:
            reads(future)
    assert unretrieved_errors(failing._place()[0]) == 0
    assert future.done()
    assert len(given) == (reads is None)


def test_a_task_that_is_cancelled_after_the_failure_leaves_the_error() -> None:
    async def main() -> None:
        batches = Batches()
        failing = batches.send()
        task = asyncio.create_task(awaited(failing))
        await begun(task)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        assert unretrieved_errors(failing._place()[0]) == 0  # a flush that counts it now leaves it to the task
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

        assert unretrieved_errors(failing._place()[0]) == 1

    run(main())


@pytest.mark.parametrize("closed", [False, True])
def test_an_error_that_a_task_was_to_read_after_a_report_is_not_lost(
    closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        batches = Batches()
        failing, unread = batches.send(), batches.send()
        accumulator = batches.queues.accumulator
        task = asyncio.create_task(awaited(failing))
        await begun(task)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        batches.count(failing)
        if closed:
            accumulator.unretrieved.hold()
        assert accumulator.report()[1] == 1  # that of the record which nothing waits for
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        if not closed:
            assert accumulator.report()[1] == 1
            assert accumulator.report()[1] == 0
        del failing, unread, task, batches

    run(main())
    gc.collect()
    if closed:
        wait_until(lambda: caplog.records, timeout=20)  # another thread writes it
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ["no delivery or callback is left" in line for line in logged] == ([True] if closed else [])


def test_of_two_tasks_one_may_be_cancelled_and_the_other_gets_the_error() -> None:
    async def main() -> None:
        batches = Batches()
        failing = batches.send()
        tasks = [asyncio.create_task(awaited(failing)) for _ in range(3)]
        await begun(*tasks)
        batches.complete(failing, outcome=Failed(error=REFUSED))
        tasks[0].cancel()
        tasks[2].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

        assert [type(result) for result in results] == [asyncio.CancelledError, DeliveryError, asyncio.CancelledError]
        assert unretrieved_errors(failing._place()[0]) == 0

    run(main())


def test_asyncio_wraps_the_future_of_a_delivery() -> None:
    async def main() -> int:
        batches = Batches()
        delivery = batches.send()
        future = asyncio.wrap_future(delivery.future())
        batches.complete(delivery)
        return (await future).offset

    assert run(main()) == 10


def test_asyncio_wait_refuses_deliveries_and_takes_futures_of_them() -> None:
    async def main() -> None:
        batches = Batches()
        deliveries: list[Any] = [batches.send() for _ in range(2)]
        with pytest.raises(TypeError, match=r"asyncio\.ensure_future\(delivery\)"):
            await asyncio.wait(deliveries, timeout=20)
        futures = [asyncio.ensure_future(delivery) for delivery in deliveries]
        await begun()
        batches.complete(deliveries[0])

        done, _pending = await asyncio.wait(futures, timeout=20)

        assert {future.result().offset for future in done} == {10, 11}

    asyncio.run(main())


def test_a_closed_loop_is_freed_while_its_thread_goes_on() -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    batches = Batches()
    kept = []

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        delivery = batches.send()
        batches.close()
        kept.append(delivery)
        task = asyncio.create_task(awaited(delivery))
        running_inbox().add(delivery, LoopCallback(lambda _delivery: None))
        await begun(task)
        batches.complete(delivery)
        await task

    for _ in range(5):
        loop = asyncio.new_event_loop()  # no asyncio.run: its handler of Ctrl-C keeps the last loop a while
        loop.run_until_complete(main())
        loop.close()
        del loop
    for _ in range(3):  # PyPy frees in a later collection what an object with a finalizer holds
        gc.collect()

    assert [loop() for loop in loops] == [None] * 5


def test_a_function_is_called_once_when_the_ready_tasks_have_run() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        async def task(name: str) -> None:
            RUNNING_LOOP.at_end_of_turn(noted, if_closed=never)
            done.append(name)

        def noted() -> None:
            done.append("noted")

        await asyncio.gather(task("a"), task("b"), task("c"))
        await asyncio.sleep(0)
        await task("d")
        await asyncio.sleep(0)
        return done

    assert run(main()) == ["a", "b", "c", "noted", "d", "noted"]


def test_a_function_that_is_given_at_the_end_of_a_turn_is_called() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        def first() -> None:
            done.append("first")
            RUNNING_LOOP.at_end_of_turn(lambda: done.append("second"), if_closed=never)

        RUNNING_LOOP.at_end_of_turn(first, if_closed=never)
        for _ in range(4):
            await asyncio.sleep(0)
        return done

    assert run(main()) == ["first", "second"]


def run_until_it_stops(stopping: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that stops its loop, and close the loop."""
    loop = KINDS[kind]()
    task = loop.create_task(stopping)
    loop.run_forever()
    assert task.done()
    loop.close()
    gc.collect()


def test_a_loop_that_is_closed_in_a_turn_makes_the_calls_of_its_end() -> None:
    done: list[str] = []

    async def stopping() -> None:
        RUNNING_LOOP.at_end_of_turn(lambda: done.append("ended"), if_closed=lambda: done.append("closed"))
        asyncio.get_running_loop().stop()

    run_until_it_stops(stopping())

    assert done == (["ended"] if kind == "uvloop" else ["closed"])  # uvloop ends the turn before it stops


def test_a_loop_that_is_closed_after_other_turns_makes_its_last_calls() -> None:
    batches, done = Batches(), Steps()

    async def stopping() -> None:
        delivery = batches.send()
        task = asyncio.create_task(done.of_a_sender(delivery))
        await begun(task)
        loop = asyncio.get_running_loop()
        loop.call_soon(running_inbox().call_and_complete, lambda: batches.complete(delivery))
        await task
        await asyncio.sleep(0)
        RUNNING_LOOP.at_end_of_turn(lambda: done.append("ended"), if_closed=lambda: done.append("closed"))
        loop.stop()

    run_until_it_stops(stopping())

    assert done == ["task", "end", "ended" if kind == "uvloop" else "closed"]


def test_a_function_that_ends_the_loop_leaves_the_others_to_a_wake_up() -> None:
    done: list[str] = []

    def ends_the_loop() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        for name in ("first", "second"):
            RUNNING_LOOP.at_end_of_turn(partial(done.append, name), if_closed=never)
        RUNNING_LOOP.at_end_of_turn(ends_the_loop, if_closed=never)
        RUNNING_LOOP.at_end_of_turn(never, if_closed=lambda: done.append("woken"))
        await asyncio.sleep(0)

    with interrupted(main()) as (loop, running):
        assert done == ["first", "second", "woken"]
        loop.run_until_complete(running)


def test_a_function_is_called_immediately_without_a_loop() -> None:
    done: list[str] = []

    RUNNING_LOOP.at_end_of_turn(lambda: done.append("called"), if_closed=never)

    assert done == ["called"]


def test_a_loop_that_runs_on_another_thread_now_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches()
    delivery = batches.send()
    running = threading.Event()
    wakes: list[object] = []

    async def begin() -> asyncio.Task[RecordMetadata]:
        task = asyncio.create_task(awaited(delivery))
        await begun(task)
        return task

    loop = KINDS[kind]()
    wake = loop.call_soon_threadsafe

    def noted(call: Callable[..., object], *arguments: Any) -> object:
        wakes.append(call)
        return wake(call, *arguments)

    task = loop.run_until_complete(begin())
    loop.call_soon(running.set)
    thread = threading.Thread(target=loop.run_until_complete, args=(task,), daemon=True)
    thread.start()
    try:
        assert running.wait(20)
        monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
        delivery._place()[0].complete_and_call_back(Acknowledged(base_offset=10))

        assert len(wakes) == 1
    finally:
        wake(int)
        thread.join(20)
        loop.close()

    assert task.result().offset == 10


def test_a_loop_that_runs_inside_one_of_its_tasks_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)
    monkeypatch.setattr(event_loops, "RECORDS_IN_A_ROW", 1)

    async def main() -> None:
        batches = Batches()
        inbox = running_inbox()
        called: list[Delivery] = []
        deliveries = []
        for _ in range(3):
            batches.close()
            deliveries += [batches.send(), batches.send()]

        def runs_the_loop(delivery: Delivery) -> None:  # as nest_asyncio lets a task do
            called.append(delivery)
            inbox._complete(lambda: 0.0, until=1.0 if len(called) < 3 else -1.0)

        for delivery in deliveries:
            inbox.add(delivery, LoopCallback(runs_the_loop if delivery in deliveries[:4] else called.append))
        batches.complete(*deliveries[::2])
        await LaterTurn()

        assert called == deliveries

    run(main())


def test_an_interrupted_computation_of_metadata_loses_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    interruptions: list[None] = []

    def fails_once(_batch: ProducerBatch) -> None:
        interruptions.append(None)
        if len(interruptions) == 1:
            raise KeyboardInterrupt

    async def main() -> list[int]:
        batches = Batches()
        deliveries = [batches.send(), batches.send()]
        tasks = [asyncio.create_task(awaited(delivery)) for delivery in deliveries]
        await begun(*tasks)
        monkeypatch.setattr(ProducerBatch, "all_metadata", fails_once)
        batches.complete(deliveries[0])
        return [metadata.offset for metadata in await asyncio.gather(*tasks)]

    with interrupted(main()) as (loop, running):
        assert loop.run_until_complete(asyncio.wait_for(running, 5)) == [10, 11]


def test_a_wait_that_was_completed_without_metadata_looks_for_the_outcome() -> None:
    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        iterator = iter(delivery.__await__())
        wait = next(iterator)
        assert wait.pending
        batches.complete(delivery)
        wait.complete(None)  # as if the record had been in another batch: the task looks for the outcome itself

        with pytest.raises(StopIteration) as ended:
            next(iterator)
        assert ended.value.value.offset == 10

    run(main())


def test_a_wait_without_a_running_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        next(Batches().send().__await__())


def test_a_cancelled_wait_and_its_delivery_are_freed() -> None:
    async def main() -> None:
        batches = Batches()
        delivery = batches.send()
        task = asyncio.ensure_future(awaited(delivery))
        await begun(task)
        kept = weakref.ref(task)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        del task
        batches.complete(delivery)
        await asyncio.sleep(0.01)
        gc.collect()

        assert kept() is None

    run(main())
