"""The future that an awaited delivery yields: it runs its task at once, and is cancelled as asyncio's own."""

from __future__ import annotations

import asyncio
import asyncio.tasks
import contextvars
import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest
from event_loop_kinds import KINDS, run_on
from wait_kinds import WAIT_KINDS

from ottla import RecordMetadata

TASKS = {"compiled task": asyncio.Task, "python task": asyncio.tasks._PyTask}  # type: ignore[attr-defined]
"""The second is that of interpreters without asyncio's compiled half."""

FOUND = RecordMetadata(
    topic="t", partition=0, offset=7, timestamp_ms=1, serialized_key_size=-1, serialized_value_size=1
)


@pytest.fixture(autouse=True, params=WAIT_KINDS)
def _wait_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests run with each kind of wait."""
    monkeypatch.setitem(globals(), "TaskWait", WAIT_KINDS[request.param][1])


TaskWait: Any = WAIT_KINDS["python"][1]


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, task_kind: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Runs a coroutine on a loop of each kind, with tasks of each kind."""
    if sys.version_info >= (3, 14) and task_kind == "python task":  # which the compiled half of 3.14.10 does not see
        compiled, python = asyncio.current_task, asyncio.tasks._py_current_task
        for module in (asyncio, asyncio.tasks):
            monkeypatch.setattr(module, "current_task", lambda loop=None: compiled(loop) or python(loop))

    async def begun(main: Any) -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coroutine, **options: TASKS[task_kind](coroutine, loop=loop, **options))
        return await loop.create_task(main)

    return lambda main: run_on(request.param, begun(main), within=20)


@pytest.fixture(params=TASKS)
def task_kind(request: pytest.FixtureRequest) -> str:
    """The kind of task."""
    kind: str = request.param
    return kind


class Wait:
    """An awaitable that waits for one record, as a delivery does."""

    def __init__(self) -> None:
        self.wait: Any

    def __await__(self) -> Generator[Any, None, RecordMetadata | None]:
        self.wait = TaskWait(asyncio.get_running_loop())
        yield self.wait
        value: RecordMetadata | None = self.wait.value
        return value

    def complete(self, metadata: RecordMetadata = FOUND) -> None:
        """Complete the record in a callback of the loop."""
        asyncio.get_running_loop().call_soon(self.wait.complete, metadata)


async def waiting(wait: Wait) -> RecordMetadata | None:
    return await wait


async def turns(count: int = 2) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_task_runs_on_in_the_callback_that_completes_its_record(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait, seen = Wait(), []

        async def waits() -> None:
            seen.append(await wait)

        def completes() -> None:
            wait.wait.complete(FOUND)
            seen.append(None)

        task = asyncio.ensure_future(waits())
        await turns()
        asyncio.get_running_loop().call_soon(completes)
        await task

        assert seen == [FOUND, None]

    run(main())


def test_a_cancelled_wait_ends_with_the_message_of_its_cancellation(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = Wait()
        task = asyncio.ensure_future(waiting(wait))
        await turns()
        task.cancel("enough")
        assert not wait.wait.pending
        assert not wait.wait.cancel("again")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task

    run(main())


def test_only_the_first_cancellation_of_a_wait_ends_it() -> None:
    async def main() -> None:
        wait = TaskWait(asyncio.get_running_loop())

        assert [wait.cancel(), wait.cancel()] == [True, False]

    asyncio.run(main())


def test_a_task_that_was_cancelled_before_it_waits_does_not_wait(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = Wait()

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await wait

        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(cancels_itself())

        assert not wait.wait.pending

    run(main())


def test_a_task_that_catches_its_cancellation_waits_for_the_next_record(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        first, second = Wait(), Wait()

        async def insists() -> RecordMetadata | None:
            try:
                return await first
            except asyncio.CancelledError:
                return await second

        task = asyncio.ensure_future(insists())
        await turns()
        task.cancel()
        await turns()
        second.complete()

        assert await task is FOUND

    run(main())


def test_a_time_limit_ends_the_wait_and_the_task_goes_on(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait, other = Wait(), Wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await wait
        assert not wait.wait.pending
        task = asyncio.ensure_future(waiting(other))
        await turns()
        other.complete()

        assert await asyncio.wait_for(task, 20) is FOUND

    run(main())


def test_a_woken_task_has_the_context_that_it_was_made_with(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = Wait()
        variable = contextvars.ContextVar("variable", default="of the loop")

        async def reads() -> str:
            variable.set("of the task")
            await wait
            return variable.get()

        task = asyncio.ensure_future(reads())
        await turns()
        wait.complete()

        assert await task == "of the task"
        assert variable.get() == "of the loop"

    run(main())


def test_a_cancelled_task_has_its_context_and_a_plain_error(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = Wait()
        variable = contextvars.ContextVar("variable", default="of the loop")

        async def reads() -> tuple[str, tuple[Any, ...]]:
            variable.set("of the task")
            try:
                await wait
            except asyncio.CancelledError as error:
                return variable.get(), error.args
            return "not cancelled", ()

        task = asyncio.ensure_future(reads())
        await turns()
        task.cancel()

        assert await task == ("of the task", ())

    run(main())


def test_the_woken_task_is_the_current_one_and_may_wait_again(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        waits = [Wait() for _ in range(3)]
        current = []

        async def waits_often() -> None:
            for wait in waits:
                await wait
                current.append(asyncio.current_task())

        task = asyncio.ensure_future(waits_often())
        await turns()
        for wait in waits:
            wait.complete()
            await turns()
        await task

        assert current == [task] * 3

    run(main())


def test_an_error_of_a_woken_task_is_its_own_and_stops_nothing(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait, seen = Wait(), []

        async def fails() -> None:
            await wait
            raise ValueError("mine")

        def completes() -> None:
            wait.wait.complete(FOUND)
            seen.append("after it")

        task = asyncio.ensure_future(fails())
        await turns()
        asyncio.get_running_loop().call_soon(completes)
        with pytest.raises(ValueError, match="mine"):
            await task

        assert seen == ["after it"]

    run(main())


def test_an_exception_that_ends_the_loop_is_raised_by_complete(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait, seen = Wait(), []

        async def exits() -> None:
            await wait
            raise SystemExit(3)

        def completes() -> None:
            with pytest.raises(SystemExit):
                wait.wait.complete(FOUND)
            seen.append("raised")

        task = asyncio.ensure_future(exits())
        await turns()
        asyncio.get_running_loop().call_soon(completes)
        await turns()

        assert seen == ["raised"]
        assert isinstance(task.exception(), SystemExit)

    run(main())


def test_a_callback_that_comes_late_is_called_in_a_later_turn(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = TaskWait(asyncio.get_running_loop())
        seen: list[object] = []
        wait.complete(FOUND)
        wait.add_done_callback(seen.append)
        assert not seen
        await turns()

        assert seen == [wait]
        assert wait.result() is FOUND

    run(main())


def test_all_callbacks_are_called_when_the_wait_is_cancelled(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = TaskWait(asyncio.get_running_loop())
        seen: list[object] = []
        wait.add_done_callback(seen.append)
        wait.add_done_callback(seen.append)
        wait.cancel()
        assert not seen
        await turns()

        assert seen == [wait, wait]
        with pytest.raises(asyncio.CancelledError):
            wait.result()

    run(main())


def test_the_repr_of_a_task_says_that_it_waits(run: Callable[[Any], Any]) -> None:
    async def main() -> None:
        wait = Wait()
        task = asyncio.ensure_future(waiting(wait))
        await turns()
        assert "<TaskWait pending>" in repr(task)
        task.cancel()
        assert repr(wait.wait) == "<TaskWait cancelled>"
        await asyncio.wait([task])

    run(main())
