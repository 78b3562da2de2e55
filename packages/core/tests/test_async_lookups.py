"""Lookups of serializers in `AsyncProducer.send`: tasks that need the same one share a few threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from test_async_producer import asynchronous, run

from ottla import Delivery
from ottla.aio import calls
from ottla.aio.async_producer import AsyncProducer
from ottla.aio.lookups import MAX_THREADS, USED_WITHIN, LookupsOfTasks
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import NotPreparedError, SerializationError
from ottla.interfaces import Header
from ottla.plugins.serializer_lookups import Lookup
from ottla_testkit.manual_clock import ManualClock
from simulated_producer import Simulated, simulated

WITHIN = 30.0


class Registry:
    """A serializer that needs the id of each topic and type, from a registry that responds once it is `open`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.open = threading.Event()
        self.known: set[tuple[str, type]] = set()
        self.lookups: Counter[tuple[str, type]] = Counter()
        self.most_threads = 0
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._error = error

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        if (topic, type(data)) not in self.known:
            raise NotPreparedError
        return str(data).encode()

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        thread = threading.current_thread()
        with self._lock:
            self.lookups[topic, type(data)] += 1
            self._threads.add(thread)
            self.most_threads = max(self.most_threads, len(self._threads))
        found = self.open.wait(timeout)
        with self._lock:
            self._threads.remove(thread)
        if self._error is not None:
            raise self._error
        if not found:
            raise TimeoutError
        self.known.add((topic, type(data)))

    async def looked_up(self, count: int) -> None:
        """Wait until so many lookups have begun."""
        while self.lookups.total() < count:
            await asyncio.sleep(0.001)

    async def idle(self) -> None:
        """Wait until no lookup runs."""
        while self._threads:
            await asyncio.sleep(0.001)


def sends(producer: AsyncProducer, values: Sequence[Any], **given: Any) -> list[asyncio.Task[Delivery]]:
    return [asyncio.create_task(producer.send("t", value, **given)) for value in values]


def sent(simulation: Simulated) -> int:
    """The number of records that arrived."""
    simulation.run_until_idle()
    return len(simulation.log(0))


@pytest.mark.rule("producer.send.lookup")
def test_a_thousand_tasks_that_need_a_lookup_share_few_threads() -> None:
    registry = Registry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:

        async def main() -> None:
            tasks = sends(asynchronous(simulation), range(1_000))
            await registry.looked_up(MAX_THREADS)
            await asyncio.sleep(0.01)
            registry.open.set()
            await asyncio.gather(*tasks)

        run(main())

        assert registry.most_threads == MAX_THREADS
        assert registry.lookups.total() == MAX_THREADS
        assert sent(simulation) == 1_000


@pytest.mark.rule("producer.send.lookup")
def test_tasks_behind_other_lookups_of_a_topic_make_their_own() -> None:
    registry = Registry()
    values: list[Any] = [*range(20), *("a" * n for n in range(20)), *(float(n) for n in range(20))]
    with simulated(1, plugins={"value_serializer": registry}) as simulation:

        async def main() -> None:
            tasks = sends(asynchronous(simulation), values)
            await registry.looked_up(MAX_THREADS)
            registry.open.set()
            await asyncio.gather(*tasks)

        run(main())

        assert set(registry.lookups) == {("t", int), ("t", str), ("t", float)}
        assert registry.lookups.total() <= 3 * MAX_THREADS
        assert sent(simulation) == 60


def test_a_lookup_that_fails_fails_its_own_record_alone() -> None:
    registry = Registry(OSError("the registry is down"))
    registry.open.set()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:

        async def main() -> list[Any]:
            return await asyncio.gather(*sends(asynchronous(simulation), range(50)), return_exceptions=True)

        outcomes = run(main())

        assert [type(outcome) for outcome in outcomes] == [SerializationError] * 50
        assert registry.lookups.total() == 50


@pytest.mark.rule("producer.send.timeout", "producer.send.lookup")
def test_a_task_that_waits_for_a_lookup_ends_with_its_timeout() -> None:
    registry = Registry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:

        async def main() -> None:
            producer = asynchronous(simulation)
            first = sends(producer, range(MAX_THREADS))
            await registry.looked_up(MAX_THREADS)
            started_at = time.monotonic()
            outcomes = await asyncio.gather(*sends(producer, range(100), timeout=0.05), return_exceptions=True)
            assert time.monotonic() - started_at < WITHIN / 2
            assert all("did not finish within timeout: 0.05 s" in str(outcome) for outcome in outcomes)
            assert registry.lookups.total() == MAX_THREADS
            registry.open.set()
            await asyncio.gather(*first)
            await producer.send("t", 1)

        run(main())


def test_lookups_of_cancelled_tasks_keep_their_threads() -> None:
    """Else each task that asks again, as after a timeout, would add one."""
    registry = Registry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:

        async def main() -> None:
            producer = asynchronous(simulation)
            for _ in range(5):
                tasks = sends(producer, range(50))
                await registry.looked_up(MAX_THREADS)
                await asyncio.sleep(0.002)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            assert registry.lookups.total() == MAX_THREADS
            last = sends(producer, [7])
            registry.open.set()
            await asyncio.gather(*last)

        run(main())

        assert sent(simulation) == 1


async def waiting_sends(producer: AsyncProducer, registry: Registry) -> list[asyncio.Task[Delivery]]:
    """Tasks of which some use all threads, and the others wait for one."""
    tasks = sends(producer, range(50))
    await registry.looked_up(MAX_THREADS)
    await asyncio.sleep(0.002)
    return tasks


def test_a_closed_loop_leaves_the_thread_to_another() -> None:
    registry = Registry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:
        producer = asynchronous(simulation)
        loop = asyncio.new_event_loop()

        tasks = loop.run_until_complete(waiting_sends(producer, registry))
        loop.close()

        async def main() -> None:
            waiting = asyncio.create_task(producer.send("t", "another type", timeout=WITHIN))
            await asyncio.sleep(0)
            registry.open.set()
            await waiting

        run(main())
        assert registry.lookups["t", str] == 1
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_blocked_loop_leaves_the_thread_to_another() -> None:
    registry = Registry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:
        producer = asynchronous(simulation)
        loop = asyncio.new_event_loop()

        tasks = loop.run_until_complete(
            waiting_sends(producer, registry)
        )  # then it does not run, as if one of its tasks blocked it
        registry.open.set()

        async def main() -> None:
            sending = asyncio.create_task(producer.send("t", "another type", timeout=10))
            while not sending.done():
                simulation.clock.advance(USED_WITHIN)
                await asyncio.sleep(0.01)

        run(main())
        assert registry.lookups["t", str] == 1

        loop.run_until_complete(asyncio.gather(*tasks))  # they go on when it runs again
        loop.close()
        assert not producer._lookups._threads


def test_without_a_thread_the_error_is_one_of_ottla(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.open.set()

    def no_thread(_name: str, _call: object, _cancellation: object = None) -> None:
        raise calls.NoThreadError("can't start new thread")

    with simulated(1, plugins={"value_serializer": registry}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(calls, "start_thread", no_thread)
                outcomes = await asyncio.gather(*sends(producer, range(20)), return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {SerializationError}
            assert "no thread is left for its lookup: can't start new thread" in str(outcomes[-1])
            await producer.send("t", 1)

        run(main())


def test_a_topic_whose_lookups_have_ended_takes_no_memory() -> None:
    registry = Registry()
    registry.open.set()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            await asyncio.gather(*sends(producer, range(2 * MAX_THREADS)))

        run(main())

        assert not producer._lookups._threads


def test_threads_that_a_key_needs_are_not_those_of_the_value() -> None:
    values, keys = Registry(), Registry()
    values.open.set()
    with simulated(1, plugins={"value_serializer": values, "key_serializer": keys}) as simulation:

        async def main() -> None:
            producer = asynchronous(simulation)
            tasks = sends(producer, range(50), key=1)
            await keys.looked_up(MAX_THREADS)
            await producer.send("t", 1.5)  # a value of another type, whose lookups are free
            keys.open.set()
            await asyncio.gather(*tasks)

        run(main())

        assert keys.lookups.total() == MAX_THREADS
        assert sent(simulation) == 51


def test_a_lookup_has_the_time_that_the_waits_before_it_have_left() -> None:
    waits: list[float] = []

    class Pending:
        limit = SimpleNamespace(seconds=60.0)

        def begin_lookup(self, _lookup: object, *, waited: float) -> float:
            waits.append(waited)
            return 60.0 - waited

        def advance(self) -> str:
            return "queued"

    lookup: Any = SimpleNamespace(serializer=object(), topic="t", prepare=lambda _seconds: None, what="a value")

    async def main() -> object:
        started_at = asyncio.get_running_loop().time() - 20.0  # the record has waited for its topic
        pending: Any = Pending()
        return await LookupsOfTasks(SYSTEM).step_after(lookup, pending, started_at=started_at)

    assert asyncio.run(main()) == "queued"
    assert waits[0] >= 20.0


def test_a_thread_that_is_taken_over_is_counted_once() -> None:
    clock = ManualClock()
    lookups, place = LookupsOfTasks(Environment(clock=clock)), (1, "t")
    used = [lookups._ask(place) for _ in range(MAX_THREADS)]
    idle, running, waiting = (lookups._ask(place) for _ in range(3))
    lookups._end(used[0])  # its thread is that of a task that does not run
    lookups._take_unused(running)
    assert not running.granted.happened
    clock.advance(USED_WITHIN)
    lookups._take_unused(running)
    lookups._take_unused(running)  # harmless
    lookups._take_unused(waiting)
    assert (idle.over, running.granted.happened, waiting.granted.happened) == (True, True, False)

    lookups._end(idle)
    assert not waiting.granted.happened
    lookups._end(running)
    assert waiting.granted.happened
    for use in (*used, waiting):
        lookups._end(use)
    assert not lookups._threads


def test_a_task_that_has_lost_its_thread_makes_no_lookup_without_one() -> None:
    """Else a loop that was blocked for long would begin hundreds at once."""
    clock, registry = ManualClock(), Registry()
    registry.open.set()
    lookups = LookupsOfTasks(Environment(clock=clock))
    lookup = Lookup(serializer=registry, what="a value", topic="t", data=1, headers=())
    pending: Any = SimpleNamespace(
        limit=SimpleNamespace(seconds=60.0), advance=lambda: lookup, begin_lookup=lambda _lookup, waited: 60.0 - waited
    )
    place = (id(registry), "t")
    used = [lookups._ask(place) for _ in range(MAX_THREADS)]

    async def main() -> object:
        task = asyncio.create_task(lookups.step_after(lookup, pending, started_at=asyncio.get_running_loop().time()))
        await asyncio.sleep(0)
        running = lookups._ask(place)
        lookups._end(used[0])  # the task has its thread, but no turn before another one takes that
        clock.advance(USED_WITHIN)
        lookups._take_unused(running)
        used[0] = running
        return await task

    assert asyncio.run(main()) is lookup
    assert not registry.lookups
    for use in used:
        lookups._end(use)
    assert not lookups._threads
