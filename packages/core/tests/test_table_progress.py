"""The calls of `on_progress`: when, on which thread, and with which counts."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla import InvalidRecordError, TableDeliveryError, TableProgress
from ottla.aio import AsyncProducer
from ottla.aio.loop_progress import LoopProgress
from ottla.concurrency import io_threads
from ottla.tables import progress, sending
from ottla.tables.progress import ProgressCalls
from simulated_producer import Simulated, simulated

HANG_GUARD = 20.0


def numbered(count: int, **columns: Any) -> Any:
    return pa.table({"value": [b"%d" % number for number in range(count)], **columns})


def in_batches(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A table whose every row is a batch of its own."""
    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    yield from numbered(count).to_batches(max_chunksize=1)


@pytest.fixture
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)


def on_a_thread(simulation: Simulated, call: Callable[[], Any]) -> Any:
    """What *call* returns, made on a thread while this one runs rounds."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    simulation.run_until_idle()
    thread.join(HANG_GUARD)
    return results[0]


# The counts


@pytest.mark.usefixtures("always_due")
def test_progress_counts_rows_as_they_are_queued_and_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TableProgress] = []
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", in_batches(3, monkeypatch), on_progress=seen.append)
        queued = list(seen)
        simulation.run_until_idle()
        delivery.result(0)

    assert [(each.rows, each.acknowledged, each.pending) for each in queued] == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]
    assert seen[-1] == TableProgress(rows=3, acknowledged=3, failed=0)
    assert str(seen[-1]) == "rows: 3, of which 3 acknowledged, 0 failed, 0 pending"


def test_the_end_of_the_call_and_the_result_are_always_reported_once() -> None:
    seen: list[TableProgress] = []
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", numbered(2), on_progress=seen.append)
        simulation.run_until_idle()
        for _ in range(3):
            delivery.result(0)

    assert seen == [TableProgress(rows=2, acknowledged=0, failed=0), TableProgress(rows=2, acknowledged=2, failed=0)]


def test_refused_rows_count_as_failed() -> None:
    seen: list[TableProgress] = []
    with simulated(1, max_block_ms=0) as simulation:
        table = numbered(3, p=[0, 7, 0])
        delivery = simulation.producer.send_table("t", table, partition="p", on_progress=seen.append)
        simulation.run_until_idle()
        with pytest.raises(TableDeliveryError):
            delivery.result(0)

    assert seen[-1] == TableProgress(rows=3, acknowledged=2, failed=1)


def test_rows_of_all_topics_are_counted() -> None:
    seen: list[TableProgress] = []
    with simulated(1) as simulation:
        simulation.producer.send_table(
            "t", numbered(2, topic=["t", None]), topic_column="topic", on_progress=seen.append
        )

    assert seen == [TableProgress(rows=2, acknowledged=0, failed=0)]


# How often, and where


def test_calls_are_a_quarter_of_a_second_apart() -> None:
    now, seen = [0.0], list[TableProgress]()
    calls = ProgressCalls(seen.append, clock=lambda: now[0])
    for tick in range(100):
        now[0] = tick / 100
        calls.report(lambda rows=tick: TableProgress(rows=rows, acknowledged=0, failed=0))  # type: ignore[misc]

    assert [each.rows for each in seen] == [25, 50, 75]


@pytest.mark.usefixtures("always_due")
def test_calls_come_on_the_thread_that_waits_never_on_the_io_thread() -> None:
    threads: list[tuple[str, bool]] = []

    def note(_progress: TableProgress) -> None:
        threads.append((threading.current_thread().name, io_threads.on_io_thread()))

    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", numbered(2), on_progress=note)
        delivery.add_done_callback(lambda done: done.result(0))
        here = list(threads)
        on_a_thread(simulation, lambda: delivery.result(HANG_GUARD))

    assert here == [("MainThread", False)]
    assert threads[1:]
    assert not any(on_io for _name, on_io in threads)
    assert "MainThread" not in {name for name, _on_io in threads[1:]}


def test_two_threads_never_call_at_the_same_time() -> None:
    entered, leave, seen = threading.Event(), threading.Event(), list[TableProgress]()

    def slow(given: TableProgress) -> None:
        seen.append(given)
        entered.set()
        assert leave.wait(HANG_GUARD)

    calls = ProgressCalls(slow, clock=time.monotonic)
    count = TableProgress(rows=1, acknowledged=0, failed=0)
    thread = threading.Thread(target=lambda: calls.report(lambda: count, last=True))
    thread.start()
    assert entered.wait(HANG_GUARD)
    calls.report(lambda: TableProgress(rows=2, acknowledged=0, failed=0), last=True)
    leave.set()
    thread.join(HANG_GUARD)

    assert seen == [count]


def test_a_wait_without_an_outcome_times_out_as_before() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", numbered(1), on_progress=lambda _progress: None)
        with pytest.raises(TimeoutError, match=r"pending after 0\.3 s"):
            delivery.result(0.3)


# What goes wrong in it


@pytest.mark.usefixtures("always_due")
def test_an_exception_is_logged_with_the_name_and_the_table_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[TableProgress] = []

    def draw_bar(given: TableProgress) -> None:
        calls.append(given)
        raise ZeroDivisionError("no width")

    with simulated(1) as simulation, caplog.at_level(logging.ERROR):
        delivery = simulation.producer.send_table("t", in_batches(3, monkeypatch), on_progress=draw_bar)
        simulation.run_until_idle()
        assert delivery.result(0).acknowledged == 3

    [record] = caplog.records
    assert len(calls) == 1
    assert "draw_bar raised an exception; it is not called again, and the table is sent" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.usefixtures("always_due")
def test_ctrl_c_in_it_has_the_delivery_of_the_rows_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(given: TableProgress) -> None:
        if given.rows == 2 and not given.acknowledged:
            raise KeyboardInterrupt

    with simulated(1) as simulation:
        with pytest.raises(KeyboardInterrupt) as raised:
            simulation.producer.send_table("t", in_batches(5, monkeypatch), on_progress=interrupt)
        simulation.run_until_idle()
        taken: Any = raised.value.delivery  # type: ignore[attr-defined]

    assert taken.result(0).acknowledged == taken.rows == 2


class Bar:
    def update(self, progress: TableProgress, width: int) -> None:
        """Draw nothing."""


async def coroutine(_progress: TableProgress) -> None:
    """Draw nothing."""


@pytest.mark.parametrize(
    ("callback", "kind", "words"),
    [
        (5, InvalidRecordError, "on_progress must be a function that takes a TableProgress, not 5"),
        (lambda: None, TypeError, r"called with one argument, a TableProgress, which .*<lambda>\(\) does not take"),
        (Bar().update, TypeError, r"Bar\.update\(progress: .*TableProgress.*, width: .*\).* does not take"),
        (coroutine, TypeError, "called, not awaited, and coroutine is a coroutine function"),
    ],
)
def test_a_wrong_callback_is_refused_before_rows_are_read(callback: Any, kind: Any, words: str) -> None:
    with simulated(1) as simulation:
        stream = numbered(3).to_reader()
        with pytest.raises(kind, match=words):
            simulation.producer.send_table("t", stream, on_progress=callback)

        assert stream.read_all().num_rows == 3


# On an event loop


def test_on_an_event_loop_a_wrong_callback_is_refused_as_well() -> None:
    async def main() -> None:
        stream = numbered(3).to_reader()
        async with AsyncProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=0) as producer:
            with pytest.raises(InvalidRecordError, match="on_progress must be a function"):
                await producer.send_table("t", stream, on_progress=5)  # type: ignore[arg-type]

        assert stream.read_all().num_rows == 3

    asyncio.run(main())


def test_on_an_event_loop_it_is_called_there() -> None:
    seen: list[tuple[int, str]] = []

    async def report_from_another_thread() -> None:
        called = asyncio.Event()

        def note(given: TableProgress) -> None:
            seen.append((given.rows, threading.current_thread().name))
            called.set()

        report = LoopProgress(asyncio.get_running_loop(), note)
        await asyncio.to_thread(report, TableProgress(rows=5, acknowledged=0, failed=0))
        await asyncio.wait_for(called.wait(), HANG_GUARD)

    asyncio.run(report_from_another_thread())

    assert seen == [(5, threading.current_thread().name)]


def test_a_closed_loop_makes_no_call() -> None:
    loop = asyncio.new_event_loop()
    report = LoopProgress(loop, lambda _progress: pytest.fail("the loop is closed"))
    loop.close()

    report(TableProgress(rows=5, acknowledged=0, failed=0))
