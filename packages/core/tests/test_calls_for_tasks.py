"""Blocking calls that are made for tasks, on separate threads: what they return, raise and keep."""

from __future__ import annotations

import asyncio
import gc
import logging
import platform
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from event_loop_kinds import KINDS
from lines_under_lock import lines_logged_under_lock

from machine import wait_until
from ottla.aio.calls import _Completion, _ExpectedTurn, on_a_thread
from ottla.concurrency.cancellation import Cancellation
from ottla.errors import BufferExhaustedError, OttlaError


class Table:
    """A large object that a call has."""

    def send(self, *, fails: bool) -> int:
        if fails:
            raise ValueError("no")
        return 1


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(platform.python_implementation() != "CPython", reason="only CPython counts references")
@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("fails", [True, False])
def test_a_call_and_its_error_are_freed_at_once(fails: bool) -> None:
    freed = asyncio.Event()

    async def call() -> None:
        table = Table()
        weakref.finalize(table, asyncio.get_running_loop().call_soon_threadsafe, freed.set)
        if fails:
            with pytest.raises(ValueError, match="no"):
                await on_a_thread(name="send", call=lambda: table.send(fails=True))
        else:
            assert await on_a_thread(name="send", call=lambda: table.send(fails=False)) == 1

    async def main() -> None:
        await call()
        await asyncio.wait_for(freed.wait(), 20)

    asyncio.run(main())


@pytest.mark.parametrize("error", [None, BufferExhaustedError("no memory"), ValueError("another error")])
def test_only_a_fault_of_a_cancelled_call_is_logged(error: Exception | None, caplog: pytest.LogCaptureFixture) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    cancellation = Cancellation()

    def call() -> None:
        begun.set()
        go_on.wait(20)
        try:
            if error is None:
                cancellation.check()
            else:
                raise error
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.create_task(on_a_thread(name="send_table", call=call, cancellation=cancellation))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        while any(thread.name == "ottla-aio-send_table" for thread in threading.enumerate()):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)  # what the thread has left to the loop

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())

    assert ended.is_set()
    assert type(cancellation.error) is OttlaError
    assert isinstance(cancellation.error.__cause__, asyncio.CancelledError)
    logged = [record.getMessage() for record in caplog.records]
    lost = "send_table raised after the task that waited for it was cancelled: another error"
    assert logged == ([lost] if isinstance(error, ValueError) else [])


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_that_the_loop_gets_no_turn_for_is_logged(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        go_on.wait(20)
        raise ValueError("records of a stopped loop")

    def lines() -> list[str]:
        """The lines of this call: a thread of an earlier test may still write one."""
        return [line for line in map(logging.LogRecord.getMessage, caplog.records) if "stopped loop" in line]

    async def main() -> None:
        task = asyncio.create_task(on_a_thread(name="close", call=call))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop = KINDS[kind]()
    loop.run_until_complete(main())
    go_on.set()
    while any(thread.name == "ottla-aio-close" for thread in threading.enumerate()):
        time.sleep(0.001)
    assert not lines()  # the loop may run again
    loop.close()
    gc.collect()

    wait_until(lines, timeout=20)  # another thread writes it
    assert lines() == ["close raised after the task that waited for it was cancelled: records of a stopped loop"]


@pytest.mark.usefixtures("_no_collector")
def test_a_finalizer_logs_nothing_where_a_handler_waits_for_a_lock() -> None:
    loop = asyncio.new_event_loop()
    turn = _ExpectedTurn(_Completion("close", loop.create_future(), None), ValueError("lost records"))
    kept: list[object] = [turn]
    kept.append(kept)  # a cycle, as of a loop that was dropped unclosed: the garbage collector finds it, at any time
    del turn, kept
    loop.close()
    lines = lines_logged_under_lock(gc.collect)

    assert lines == ["close raised after the task that waited for it was cancelled: lost records"]


LOST_AT_THE_END = """
import asyncio, gc, logging, _thread
from ottla.aio.calls import _Completion

logging.basicConfig()
def never_runs(*_): pass
def no_thread_left(*_): raise RuntimeError("can't start new thread")
_thread.start_new_thread = START
loop = asyncio.new_event_loop()
_Completion("close", loop.create_future(), None).fail(ValueError("lost records"))
loop.close()
gc.collect()  # PyPy does not count references
"""


@pytest.mark.parametrize("start", ["never_runs", "no_thread_left", "_thread.start_new_thread"])
def test_a_line_of_a_finalizer_is_written_before_the_program_ends(start: str) -> None:
    program = LOST_AT_THE_END.replace("START", start)
    log = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stderr

    assert log.count("close raised after the task that waited for it was cancelled: lost records") == 1


ENDS_IN_A_GENERATOR = """
import asyncio, time
import pyarrow as pa
from ottla.aio.calls import on_a_thread
from ottla.concurrency.cancellation import Cancellation

schema = pa.schema([("value", pa.int64())])
batch = pa.record_batch([[1]], schema=schema)
cancellation = Cancellation()

def batches():
    loop.call_soon_threadsafe(begun.set)
    while cancellation.error is None:
        time.sleep(0.2)
    yield batch

def read():
    for _batch in pa.RecordBatchReader.from_batches(schema, batches()):
        pass

async def main():
    global loop, begun
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.create_task(on_a_thread(name="send_table", call=read, cancellation=cancellation))
    await begun.wait()
    task.cancel()

asyncio.run(main())
"""


def test_a_program_that_ends_in_a_cancelled_table_is_not_aborted() -> None:
    pytest.importorskip("pyarrow")

    ended = subprocess.run(
        [sys.executable, "-c", ENDS_IN_A_GENERATOR], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
