"""`AsyncProducer` without a network: what interceptors get of records that are refused while a task waits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any

import pytest

from ottla import (
    BufferExhaustedError,
    Delivery,
    FlushTimeoutError,
    InvalidRecordError,
    OttlaError,
    RecordMetadata,
    SerializationError,
    TopicUnavailableError,
)
from ottla.accumulator import event_loops
from ottla.accumulator.event_loops import LaterTurn
from ottla.accumulator.record_appender import MemoryWait
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.aio import AsyncProducer, pacing
from ottla.aio.pacing import SENDS_IN_A_ROW
from ottla.errors import AbortableTransactionError, NotPreparedError
from ottla.interfaces import Header, ProducerRecord
from ottla.plugins.serializer_lookups import MAX_LOOKUPS
from ottla.sender.io_handoff import IoHandoff
from simulated_producer import Simulated, simulated


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(main, 20)

    return asyncio.run(limited())


def asynchronous(simulation: Simulated) -> AsyncProducer:
    made = object.__new__(AsyncProducer)
    made._begin(simulation.producer)
    return made


class Noting:
    """An interceptor that notes the errors of records."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.errors: list[type[Exception] | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: object) -> None:
        self.errors.append(None if error is None else type(error))


class BrokenRegistry:
    """A serializer whose lookup fails, or never finds anything."""

    def __init__(self, error: Exception | None = None) -> None:
        self.lookups = 0
        self._error = error

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        raise NotPreparedError

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.lookups += 1
        if self._error is not None:
            raise self._error


def test_interceptors_get_the_error_of_a_lookup() -> None:
    noting = Noting()
    plugins = {
        "interceptors": {"noting": noting},
        "value_serializer": BrokenRegistry(OSError("the registry does not respond")),
    }
    with simulated(1, plugins=plugins) as simulation:
        with pytest.raises(SerializationError, match="the registry does not respond"):
            run(asynchronous(simulation).send("t", b"v"))

        assert noting.errors == [SerializationError]


@pytest.mark.parametrize("partition", [None, 0])
def test_no_headers_may_be_given_as_none(partition: int | None) -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        for value in (b"first of its batch", b"second"):
            run(producer.send("t", value, headers=None, partition=partition))
        simulation.run_until_idle()

        assert [(record.value, record.headers) for record in simulation.cluster.topics["t"].log[0]] == [
            (b"first of its batch", ()),
            (b"second", ()),
        ]


def test_interceptors_get_the_error_of_a_wrong_callback() -> None:
    noting = Noting()
    wrong: list[Any] = [5, lambda: None]
    with simulated(1, plugins={"interceptors": {"noting": noting}}) as simulation:
        producer = asynchronous(simulation)
        for on_delivery in wrong:
            with pytest.raises((InvalidRecordError, TypeError), match="on_delivery"):
                run(producer.send("t", b"v", on_delivery=on_delivery))

        assert noting.errors == [InvalidRecordError, TypeError]


@pytest.mark.parametrize("end", [lambda task: task.cancel(), None], ids=["cancelled", "closed"])
def test_interceptors_get_the_error_of_a_send_that_was_given_up(end: Callable[[Any], object] | None) -> None:
    noting = Noting()
    with simulated(1, know=False, plugins={"interceptors": {"noting": noting}}) as simulation:

        async def main() -> None:
            call = asynchronous(simulation).send("t", b"v")
            if end is None:
                call.send(None)
                call.close()
                return
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            end(task)
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main())

        assert noting.errors == [OttlaError]


@pytest.mark.rule("producer.send.timeout")
@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (0, "topic 't' is not available: its metadata has not arrived yet, and the call does not wait for it"),
        (0.01, "topic 't' was not available within timeout (0.01 s): no broker answered"),
    ],
)
def test_an_error_after_the_timeout_of_a_call_names_it(timeout: float, error: str) -> None:
    with simulated(1, know=False) as simulation:
        with pytest.raises(TopicUnavailableError) as refused:
            run(asynchronous(simulation).send("t", b"v", timeout=timeout))

        assert str(refused.value).startswith(error)


@pytest.mark.rule("producer.send.timeout")
@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.send_and_wait("t", b"v", timeout=0),
        lambda producer: producer.partitions_for("t", timeout=0),
    ],
    ids=["send_and_wait", "partitions_for"],
)
def test_other_calls_that_wait_for_a_topic_take_a_timeout(
    call: Callable[[AsyncProducer], Coroutine[Any, Any, Any]],
) -> None:
    unavailable = pytest.raises(TopicUnavailableError, match="topic 't' is not available: its metadata")
    with simulated(1, know=False) as simulation, unavailable:
        run(call(asynchronous(simulation)))


@pytest.mark.rule("producer.send.timeout")
def test_an_error_for_missing_memory_names_the_timeout() -> None:
    with simulated(1, config={"buffer.memory": 3_000, "linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)
        run(producer.send("t", bytes(2_000)))
        with pytest.raises(BufferExhaustedError, match=r"no memory for \d{4} bytes within timeout: "):
            run(producer.send("t", bytes(2_000), timeout=0))

        assert simulation.pool.waiting == 0


@pytest.mark.rule("producer.send.timeout")
def test_an_error_for_missing_memory_counts_the_wait_once() -> None:
    with simulated(1, config={"buffer.memory": 3_000, "linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)
        run(producer.send("t", bytes(2_000)))
        with pytest.raises(BufferExhaustedError) as refused:
            run(producer.send("t", bytes(2_000), timeout=0.01))

    assert "other waits" not in str(refused.value)


def test_a_record_that_gets_no_memory_harms_no_other_of_its_topic() -> None:
    config = {"buffer.memory": 20_000, "batch.size": 16_384, "linger.ms": 1_000, "record.encoder": "python"}
    record = (b"key", bytes(400), (), None, None)
    with simulated(1, 2, config=config) as simulation:
        appender, pool = asynchronous(simulation)._slow._parts.appender, simulation.pool
        taken = pool.free - 100
        assert pool.try_reserve(taken)
        first, second = appender.append("t", None, record), appender.append("t", None, record)
        assert isinstance(first, MemoryWait)
        assert isinstance(second, MemoryWait)
        while not first.ready:
            pool.release(100)
            taken -= 100
        placed = [appender.append("t", None, record, wait=first)]  # the second one waits now for a batch that is open
        with pytest.raises(BufferExhaustedError):
            appender.time_out(second)
        pool.release(taken)

        placed.append(appender.append("t", None, record))
        simulation.run_until_idle()

        assert all(isinstance(each, tuple) and Delivery(*each).done() for each in placed)
        assert simulation.producer.flush(0).acknowledged == 2
        assert pool.free == pool.capacity


@pytest.mark.rule("producer.send.timeout", "producer.send.lookup")
@pytest.mark.parametrize(
    ("timeout", "lookups", "said"),
    [(0, 0, "did not finish within timeout"), (None, MAX_LOOKUPS, f"not prepared by {MAX_LOOKUPS} lookups")],
)
def test_lookups_that_find_nothing_end(timeout: float | None, lookups: int, said: str) -> None:
    registry = BrokenRegistry()
    with simulated(1, plugins={"value_serializer": registry}) as simulation:
        with pytest.raises(SerializationError, match=said):
            run(asynchronous(simulation).send("t", b"v", timeout=timeout))

        assert registry.lookups == lookups


def handoff(simulation: Simulated) -> IoHandoff:
    found = simulation.thread._io_handoff
    assert isinstance(found, IoHandoff)
    return found


def test_sends_of_a_closed_loop_leave_their_memory_to_others() -> None:
    with simulated(1, config={"buffer.memory": 3_000, "batch.size": 1_000}) as simulation:
        producer, pool = asynchronous(simulation), simulation.pool
        assert pool.try_reserve(3_000)
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(producer.send("t", b"old")) for _ in range(1_000)]
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        assert pool.waiting == 1_000
        loop.close()

        pool.release(3_000)

        assert pool.waiting == 0
        assert pool.free == 3_000
        run(producer.send("t", b"new"))
        simulation.run_until_idle()
        assert simulation.log(0) == [b"new"]
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_memory_of_a_loop_that_ends_in_a_block_of_the_pool_is_returned() -> None:
    # As when the garbage collector, which runs at any point of any thread, finds a loop that nothing has closed.
    with simulated(1, config={"buffer.memory": 3_000, "batch.size": 1_000}) as simulation:
        producer, pool = asynchronous(simulation), simulation.pool
        assert pool.try_reserve(3_000)
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(producer.send("t", b"old")) for _ in range(3)]
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        pool.release(3_000)  # the waits are over, and the loop is to have a turn
        assert pool.free == 0

        with pool._guard:
            loop.close()

        until = time.monotonic() + 20
        while pool.free < 3_000:
            assert time.monotonic() < until, pool.free
            gc.collect()  # PyPy does not count references
            time.sleep(0.001)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.rule("producer.send.timeout", "producer.send.lookup")
def test_the_lookups_of_a_record_share_the_time_of_its_send() -> None:
    timeouts: list[float] = []

    class SlowRegistry(BrokenRegistry):
        def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
            timeouts.append(timeout)
            until = time.monotonic() + 0.02
            while time.monotonic() < until:
                time.sleep(0.001)

    refused = pytest.raises(SerializationError, match="not prepared")
    with simulated(1, plugins={"value_serializer": SlowRegistry()}) as simulation, refused:
        run(asynchronous(simulation).send("t", "v", timeout=10))

    assert len(timeouts) == MAX_LOOKUPS
    assert all(later <= earlier - 0.01 for earlier, later in itertools.pairwise(timeouts))


@contextlib.asynccontextmanager
async def rounds(simulation: Simulated) -> AsyncIterator[None]:
    """Rounds of the I/O thread, on the loop."""

    async def run_all() -> None:
        while True:
            simulation.round(until=simulation.clock() + 0.001)
            await asyncio.sleep(0)

    running = asyncio.create_task(run_all())
    yield
    running.cancel()


@pytest.mark.parametrize("call", [AsyncProducer.flush, AsyncProducer.close])
def test_flush_and_close_return_after_all_callbacks(
    call: Callable[[AsyncProducer], Coroutine[Any, Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)  # a few of them in each turn
    seen: list[Delivery] = []
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> int:
            for _ in range(500):
                await producer.send("t", b"v", on_delivery=seen.append)
            async with rounds(simulation):
                await call(producer)
                return len(seen)

        assert run(main()) == 500


def test_a_block_that_raises_aborts_and_another_transaction_begins() -> None:
    with simulated(1, config={"transactional.id": "mine"}) as simulation:
        producer = asynchronous(simulation)

        async def aborted() -> None:
            async with producer.transaction():
                await producer.send("t", b"aborted")
                raise ZeroDivisionError

        async def main() -> None:
            async with rounds(simulation):
                await producer.init_transactions()
                with pytest.raises(ZeroDivisionError):
                    await aborted()
                async with producer.transaction():
                    await producer.send("t", b"committed")

        run(main())

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"]


def test_a_commit_that_fails_aborts_and_another_transaction_begins() -> None:
    with simulated(1, config={"transactional.id": "mine"}) as simulation:
        producer = asynchronous(simulation)

        async def failed() -> None:
            async with producer.transaction():
                await producer.send("t", b"failed")
                simulation.accumulator.fail_queued(OttlaError("failed by the test"))

        async def main() -> None:
            async with rounds(simulation):
                await producer.init_transactions()
                with pytest.raises(AbortableTransactionError):
                    await failed()
                async with producer.transaction():
                    await producer.send("t", b"committed")

        run(main())

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"]


def test_records_lost_in_a_block_are_a_note_of_its_error_and_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            async with rounds(simulation), producer:
                await producer.send("t", b"failed")
                simulation.accumulator.fail_queued(OttlaError("failed by the test"))
                raise ZeroDivisionError("of the block")

        with pytest.raises(ZeroDivisionError, match="of the block") as raised:
            run(main())

    assert "closing the producer" in raised.value.__notes__[0]
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert ["an exception left the with block of the producer: 1 record failed" in line for line in logged] == [True]


def test_records_of_tasks_that_run_in_one_turn_leave_together(monkeypatch: pytest.MonkeyPatch) -> None:
    queued_at_wake: list[int] = []
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        monkeypatch.setattr(handoff(simulation), "_wake", lambda: queued_at_wake.append(len(sent)))
        sent: list[Delivery] = []

        async def send() -> None:
            sent.append(await producer.send("t", b"v"))

        async def main() -> None:
            await asyncio.gather(*(send() for _ in range(20)))

        run(main())
        monkeypatch.undo()

    assert queued_at_wake == [20]


def test_a_thread_that_waits_for_a_record_does_not_wait_for_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    wakes: list[None] = []
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            delivery = await producer.send("t", b"v")
            monkeypatch.setattr(handoff(simulation), "_wake", lambda: wakes.append(None))
            assert not wakes
            with pytest.raises(TimeoutError):
                delivery.result(0)
            assert len(wakes) == 1
            await asyncio.sleep(0)

        run(main())
        monkeypatch.undo()

    assert len(wakes) == 1


def test_a_callback_runs_before_the_task_that_awaits_its_record() -> None:
    """As with the testkit's mock: `testkit/test_async_mock_producer.py` has the same test."""
    order: list[tuple[str, int]] = []
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def send(number: int) -> None:
            delivery = await producer.send("t", b"v", on_delivery=lambda _each: order.append(("cb", number)))
            assert not delivery.done()  # it leaves at the end of the turn
            await delivery
            order.append(("task", number))

        async def main() -> None:
            sending = asyncio.gather(*(send(number) for number in range(3)))
            while not sending.done():
                await asyncio.sleep(0)
                simulation.run_until_idle()
            await sending

        run(main())

    assert order == [(who, number) for number in range(3) for who in ("cb", "task")]


async def count_turns(turns: list[int]) -> None:
    """Note each turn of the loop."""
    while True:
        turns.append(len(turns))
        await asyncio.sleep(0)


def test_a_task_that_never_waits_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "LONGEST_TURN", 0.0)
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)
    turns: list[int] = []
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            others = asyncio.create_task(count_turns(turns))
            for _ in range(10 * SENDS_IN_A_ROW):
                await producer.send("t", b"v")
            others.cancel()

        run(main())

    assert len(turns) >= 4


def test_a_task_that_waits_after_each_record_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "LONGEST_TURN", 0.0)
    monkeypatch.setattr(pacing, "LONGEST_EAGER_TURN", 0.0)
    turns = [0]
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def send() -> int:
            await asyncio.sleep(0)  # as a delivery of the record before
            started = turns[-1]
            await producer.send("t", b"v")
            return turns[-1] - started

        async def main() -> list[int]:
            sending = asyncio.gather(*(send() for _ in range(3 * SENDS_IN_A_ROW)))
            while not sending.done():
                turns.append(turns[-1] + 1)
                await asyncio.sleep(0)
            return await sending

        assert set(run(main())) == {0}


@pytest.fixture
def eager() -> Callable[[], object]:
    """A function that lets the tasks of its loop start eagerly."""
    if sys.version_info < (3, 12):
        pytest.skip("asyncio has eager tasks since Python 3.12")
    return lambda: asyncio.get_running_loop().set_task_factory(vars(asyncio)["eager_task_factory"])


def test_eager_tasks_that_pause_send_in_their_order(
    eager: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LONGEST_EAGER_TURN", 0.0)
    monkeypatch.setattr(event_loops, "LONGEST_TURN", 0.0)  # few of them go on in one turn
    values = [b"%d" % number for number in range(8 * SENDS_IN_A_ROW)]
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            eager()
            first = asyncio.gather(*(producer.send("t", value) for value in values[: 5 * SENDS_IN_A_ROW]))
            assert not first.done()
            await asyncio.sleep(0)
            await asyncio.gather(first, *(producer.send("t", value) for value in values[5 * SENDS_IN_A_ROW :]))
            await producer.send("t", b"last")
            assert producer._pacing.sends_left > 0

        run(main())
        with contextlib.suppress(FlushTimeoutError):
            simulation.producer.flush(0)
        simulation.run_until_idle()

        assert simulation.log(0) == [*values, b"last"]


def test_cancelled_tasks_that_paused_stop_no_others(
    eager: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LONGEST_EAGER_TURN", 0.0)
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            eager()
            sending = [asyncio.create_task(producer.send("t", b"v")) for _ in range(3 * SENDS_IN_A_ROW)]
            assert not all(task.done() for task in sending)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
            await producer.send("t", b"v")
            await producer.send("t", b"v")
            assert producer._pacing.sends_left > 0

        run(main())


@pytest.mark.parametrize("many", [False, True])
def test_tasks_that_start_eagerly_let_others_run(
    many: bool, eager: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LONGEST_EAGER_TURN", 0.0)
    turns: list[int] = []
    with simulated(1, config={"linger.ms": 60_000}) as simulation:
        producer = asynchronous(simulation)

        async def main() -> None:
            eager()
            others = asyncio.create_task(count_turns(turns))
            for _ in range(10 * SENDS_IN_A_ROW):
                if many:
                    await asyncio.gather(producer.send("t", b"v"), producer.send("t", b"v"))
                else:
                    await asyncio.create_task(producer.send("t", b"v"))
            others.cancel()

        run(main())

    assert len(turns) >= 4


def test_a_flush_returns_while_another_task_sends_again_and_again() -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)

        async def pauses_as_sends_do() -> None:
            while True:
                await LaterTurn()

        async def main() -> None:
            others = [asyncio.create_task(pauses_as_sends_do()) for _ in range(2)]
            await asyncio.sleep(0)
            await producer.flush()
            for other in others:
                other.cancel()

        run(main())


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_callback_runs_in_the_context_of_the_task_that_sent(linger_ms: int) -> None:
    request: ContextVar[int | None] = ContextVar("request", default=None)
    seen: list[tuple[int, int | None]] = []
    with simulated(1, config={"linger.ms": linger_ms}) as simulation:
        producer = asynchronous(simulation)

        async def handle(number: int) -> None:
            request.set(number)
            await producer.send("t", b"v", on_delivery=lambda _delivery: seen.append((number, request.get())))

        async def main() -> None:
            await asyncio.gather(*map(handle, range(10)))
            async with rounds(simulation):
                await producer.flush()

        run(main())

    assert seen == [(number, number) for number in range(10)]


def test_rounds_on_the_loop_have_no_context_of_a_task() -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []
    reading, writing = os.pipe()

    def see() -> bool:
        seen.append(request.get())
        return False

    async def main() -> None:
        request.set("mine")
        RUNNING_LOOP.at_end_of_turn(see, if_closed=see)
        watch = RUNNING_LOOP.watch(reading, see)
        os.write(writing, b"!")
        while len(seen) < 2:
            await asyncio.sleep(0.001)
        assert watch is not None
        assert watch.ended

    try:
        run(main())
    finally:
        os.close(reading)
        os.close(writing)
    assert seen == ["none", "none"]
