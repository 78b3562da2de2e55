"""`await producer.flush()`: many at once take no thread each, and a cancelled one loses no error."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from inspect import CORO_SUSPENDED, getcoroutinestate

import pytest
from test_async_producer import asynchronous, rounds, run

from ottla import DeliveryError, DeliveryReport, FlushTimeoutError, ProducerClosedError, UndeliveredError
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.aio import calls, flushes
from ottla.aio.flushes import SharedFlush
from ottla.aio.happening import Happening
from simulated_producer import Simulated, simulated

HANG_GUARD = 20.0

REFUSED = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)


def waits_left(simulation: Simulated) -> int:
    return len(simulation.accumulator._batches._flushes)


async def begun(simulation: Simulated, flushes: int) -> None:
    """Wait until so many flushes wait for batches."""
    while waits_left(simulation) < flushes:
        await asyncio.sleep(0.001)


def test_a_thousand_tasks_that_flush_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start_thread = calls.start_thread

    def noted(name: str, call: Callable[[], object]) -> None:
        started.append(name)
        start_thread(name, call)

    monkeypatch.setattr(calls, "start_thread", noted)
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> int:
            for _ in range(1_000):
                await producer.send("t", b"v")
            with simulation.accumulator._batches.lock:  # the thread waits for this with the first flush
                flushes = [producer.flush() for _ in range(1_000)]
                tasks = [asyncio.create_task(flush) for flush in flushes]
                while any(getcoroutinestate(flush) != CORO_SUSPENDED for flush in flushes):
                    await asyncio.sleep(0)
            async with rounds(simulation):
                return sum(report.acknowledged for report in await asyncio.gather(*tasks))

        assert run(main()) == 1_000
        assert waits_left(simulation) == 0
    assert started == ["flush"]


def test_a_flush_waits_for_the_records_that_were_queued_before_it() -> None:
    with simulated(1, 1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            first = await producer.send("t", b"1", partition=0)
            flush = asyncio.create_task(producer.flush())
            await begun(simulation, 1)
            await producer.send("t", b"2", partition=1)
            other = asyncio.create_task(producer.flush())
            await begun(simulation, 2)
            simulation.accumulator.complete(first._place()[0], Acknowledged(base_offset=7))
            await flush
            assert not other.done()
            other.cancel()

        run(main())


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_a_flush_that_is_given_up_leaves_no_wait_and_no_error_is_lost(timeout: float | None) -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            batch = (await producer.send("t", b"v"))._place()[0]
            for _ in range(20):
                flush = asyncio.create_task(producer.flush(timeout))
                if timeout is None:
                    await begun(simulation, 1)
                    flush.cancel()
                with suppress(asyncio.CancelledError, FlushTimeoutError):
                    await flush
                assert waits_left(simulation) == 0
            simulation.accumulator.complete(batch, Failed(error=REFUSED))
            with pytest.raises(UndeliveredError, match="1 record failed"):
                await producer.flush()

        run(main())


def test_a_flush_that_is_cancelled_before_it_begins_leaves_no_wait() -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            await producer.send("t", b"v")
            with simulation.accumulator._batches.lock:  # the thread that begins it waits for this
                flush = asyncio.create_task(producer.flush())
                await asyncio.sleep(0.01)
                flush.cancel()
                with suppress(asyncio.CancelledError):
                    await flush
            while producer._flushes._beginning:
                await asyncio.sleep(0.001)

        run(main())
        assert waits_left(simulation) == 0
        assert simulation.accumulator.incomplete == 1


@pytest.mark.parametrize("timeout", [0, 0.0, -1, 5])
def test_a_flush_without_queued_records_returns_the_counts(timeout: float) -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        report = run(producer.flush(timeout))

        assert (report.acknowledged, report.failed, report.pending) == (0, 0, 0)


@pytest.mark.parametrize("timeout", [0, 0.02])
def test_a_flush_that_runs_out_of_time_has_let_the_records_leave(timeout: float) -> None:
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> int:
            delivery = await producer.send("t", b"v")
            with pytest.raises(FlushTimeoutError, match=f"flush ran out of time after {timeout} s"):
                await producer.flush(timeout)
            async with rounds(simulation):
                return (await delivery).offset

        assert run(main()) == 0


@contextmanager
def plugin_that_hangs(simulation: Simulated) -> Iterator[threading.Event]:
    """A thread holds the lock of the batches, as while a plugin hangs under it, until the event is set."""
    held, free = threading.Event(), threading.Event()

    def hang() -> None:
        with simulation.accumulator._batches.lock:
            held.set()
            assert free.wait(30)

    holder = threading.Thread(target=hang)
    holder.start()
    assert held.wait(20)
    try:
        yield free
    finally:
        free.set()
        holder.join()


def test_the_loop_goes_on_while_a_plugin_holds_the_lock() -> None:
    with simulated(1) as simulation, plugin_that_hangs(simulation) as free:
        producer = asynchronous(simulation)

        async def main() -> None:
            flush = asyncio.create_task(producer.flush())
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not flush.done()
            free.set()
            await flush

        run(main())


def test_the_loop_goes_on_if_flushes_run_out_of_time_as_a_plugin_hangs() -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> float:
            began = time.monotonic()
            flushes = [asyncio.create_task(producer.flush(0)) for _ in range(20)]
            for flush in flushes:
                with pytest.raises(FlushTimeoutError):
                    await flush
            return time.monotonic() - began

        with plugin_that_hangs(simulation):
            assert run(main()) < 5  # half a second, and not for each flush


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No thread of a loop's calls can be started; the names of those that were to be."""
    start, names = threading.Thread.start, list[str]()

    def refuse(thread: threading.Thread) -> None:
        if not thread.name.startswith("ottla-aio-"):
            start(thread)
            return
        names.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return names


@pytest.mark.parametrize("threads", [True, False], ids=["thread", "no thread"])
def test_a_flush_whose_caller_is_interrupted_disturbs_no_other(
    threads: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """As in a notebook, where the producer is used again: the handler runs at the end of the lock's block."""

    class Interrupting(SharedFlush):
        def __init__(self) -> None:
            super().__init__()
            signal.raise_signal(signal.SIGINT)

    if not threads:
        request.getfixturevalue("no_threads")
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        loop = asyncio.new_event_loop()
        with monkeypatch.context() as patch:
            patch.setattr(flushes, "SharedFlush", Interrupting)
            with pytest.raises(KeyboardInterrupt):
                loop.run_until_complete(producer.flush())
        loop.run_until_complete(asyncio.wait_for(producer.flush(), HANG_GUARD))
        loop.close()


def test_a_flush_begins_on_the_loop_where_no_thread_is_left(no_threads: list[str]) -> None:
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> int:
            await producer.send("t", b"v")
            async with rounds(simulation):
                reports = await asyncio.gather(producer.flush(), producer.flush())
            return reports[0].acknowledged

        assert run(main()) == 1
        assert waits_left(simulation) == 0
    assert no_threads == ["ottla-aio-flush"] * 2


def test_a_flush_without_a_thread_does_not_wait_for_a_plugin_that_hangs(
    no_threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushes, "LOCK_TIMEOUT_SECONDS", 0.05)
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        with plugin_that_hangs(simulation), pytest.raises(RuntimeError, match="can't start new thread"):
            run(producer.flush())
        assert run(producer.flush()).pending == 0
    assert len(no_threads) == 2


def test_a_flush_that_a_plugin_keeps_from_the_records_is_not_over() -> None:
    with simulated(1) as simulation:
        with plugin_that_hangs(simulation):
            assert not simulation.accumulator.flushes.flush(0.05)
        assert simulation.accumulator.flushes.flush(0.05)


@pytest.mark.parametrize("timeout", [None, 30, 0])
def test_a_producer_closes_where_no_thread_is_left(no_threads: list[str], timeout: float | None) -> None:
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            delivery = await producer.send("t", b"v")
            if timeout == 0:
                with pytest.raises(UndeliveredError):
                    await producer.close(timeout)
            else:
                assert (await producer.close(timeout)).acknowledged == 1
                assert delivery.done()
            with pytest.raises(ProducerClosedError):
                await producer.send("t", b"v")
            await producer.close()

        run(main())
    assert no_threads == ["ottla-aio-close"] * 2


def test_tasks_of_two_loops_share_a_flush() -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        simulation.producer.send("t", b"v")
        reports: list[DeliveryReport] = []
        threads = [threading.Thread(target=lambda: reports.append(run(producer.flush()))) for _ in range(2)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            simulation.round(until=simulation.clock() + 0.001)
        for thread in threads:
            thread.join()

        assert sum(report.acknowledged for report in reports) == 1


def test_the_time_in_which_a_flush_begins_is_part_of_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    async def main() -> bool:
        loop, passed = asyncio.get_running_loop(), [0.0]

        async def wait(_happening: Happening, timeout: float | None) -> bool:
            waits.append(timeout)
            passed[0] += 2.0
            return True

        monkeypatch.setattr(Happening, "wait", wait)
        monkeypatch.setattr(loop, "time", lambda: passed[0])
        return await asynchronous(simulation)._flushes.flush(5.0)

    with simulated(1) as simulation:
        assert asyncio.run(main())

    assert waits == [5.0, 3.0]
