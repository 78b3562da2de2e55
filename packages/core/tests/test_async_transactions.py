"""Transactions of an `AsyncProducer` whose tasks are cancelled: a call takes effect at once, and its result is kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ottla import Delivery
from ottla.aio import AsyncProducer
from ottla.errors import (
    AbortableTransactionError,
    ErrorCode,
    IllegalStateError,
    OttlaError,
    TransactionTimeoutError,
    UndeliveredError,
)
from ottla.producer.table_calls import TableCalls
from ottla.transactions.state_table import State
from simulated_producer import Simulated, simulated

CONFIG: dict[str, Any] = {"transactional.id": "mine"}


def in_a_loop(simulation: Simulated, main: Callable[[AsyncProducer], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine with a producer that may begin transactions, while the test's rounds go on."""
    producer = object.__new__(AsyncProducer)
    producer._begin(simulation.producer)

    async def whole() -> None:
        async with rounds(simulation):
            await producer.init_transactions()
            await main(producer)

    asyncio.run(asyncio.wait_for(whole(), 60))  # the first table imports pyarrow


@asynccontextmanager
async def rounds(simulation: Simulated) -> AsyncIterator[None]:
    async def rounds_for_ever() -> None:
        while True:
            simulation.round(until=simulation.clock() + 0.01)
            await asyncio.sleep(0)

    task = asyncio.create_task(rounds_for_ever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def cancelled(call: Coroutine[Any, Any, Any]) -> None:
    """Begin a call, and cancel it in the turn in which it began."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ready(simulation: Simulated) -> None:
    """Wait until the producer may begin a transaction."""
    manager = simulation.producer._engine.transactions.manager  # type: ignore[union-attr]
    while not manager.state.value.startswith("ready"):
        await asyncio.sleep(0)


def test_a_cancelled_commit_has_taken_effect() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            simulation.network.holding = True
            producer.begin_transaction()
            await producer.send("t", b"v")
            await cancelled(producer.commit_transaction())
            with pytest.raises(IllegalStateError, match="committing"):
                producer.begin_transaction()
            simulation.network.holding = False

        in_a_loop(simulation, main)
        simulation.run_until_idle()

        assert simulation.cluster.topics["t"].committed(0) == [b"v"]


@pytest.mark.parametrize("ended", [False, True])
def test_the_same_call_again_has_the_result_of_a_cancelled_one(ended: bool) -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"v")
            await cancelled(producer.commit_transaction())
            if ended:
                await ready(simulation)
            report = await producer.commit_transaction()
            assert report.acknowledged == 1
            with pytest.raises(IllegalStateError):  # once
                await producer.commit_transaction()

        in_a_loop(simulation, main)


def test_a_transaction_may_begin_after_a_cancelled_commit_has_ended() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"first")
            await cancelled(producer.commit_transaction())
            await ready(simulation)
            producer.begin_transaction()
            await producer.send("t", b"second")
            report = await producer.commit_transaction()  # of this one, not of the one before
            assert report.acknowledged == 2
            assert simulation.cluster.topics["t"].committed(0) == [b"first", b"second"]

        in_a_loop(simulation, main)


def test_a_block_waits_for_the_cancelled_end_of_the_one_before() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            for number in range(4):
                producer.begin_transaction()
                await producer.send("t", b"%d" % number)
                await cancelled(producer.abort_transaction() if number % 2 else producer.commit_transaction())
                async with producer.transaction():
                    await producer.send("t", b"block")

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"0", b"block", b"block", b"2", b"block", b"block"]


def test_a_block_before_init_transactions_says_which_call_is_missing() -> None:
    with simulated(1, config=CONFIG) as simulation:
        producer = object.__new__(AsyncProducer)
        producer._begin(simulation.producer)

        async def block() -> None:
            async with producer.transaction():
                pytest.fail("the block has begun")

        with pytest.raises(IllegalStateError, match="init_transactions"):
            asyncio.run(block())


def test_the_next_block_raises_the_failure_of_a_cancelled_commit() -> None:
    with simulated(1, config=CONFIG | {"linger.ms": 1_000}) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"failed")
            error = OttlaError("failed by the test")
            asyncio.get_running_loop().call_soon(simulation.accumulator.fail_queued, error)
            await cancelled(producer.commit_transaction())
            with pytest.raises(AbortableTransactionError, match="failed by the test"):
                async with producer.transaction():
                    pytest.fail("the block has begun")
            async with producer.transaction():
                await producer.send("t", b"committed")

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"]


def test_a_commit_need_not_wait_for_the_result_of_a_cancelled_prepare() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"v")
            await cancelled(producer.prepare_transaction())
            state = simulation.producer._engine.transactions.manager._state  # type: ignore[union-attr]
            while state.result is None or not state.result.ended:
                await asyncio.sleep(0)
            await producer.commit_transaction()

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"v"]


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_commit_that_takes_too_long_has_the_same_outcome_later(seconds: float) -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"v")
            simulation.network.holding = True
            with pytest.raises(TransactionTimeoutError, match="commit_transaction was not done within"):
                await producer.commit_transaction(timeout=seconds)
            simulation.network.holding = False
            await ready(simulation)
            with pytest.raises(IllegalStateError, match="the caller of commit_transaction has not got its outcome"):
                producer.begin_transaction()
            assert (await producer.commit_transaction()).acknowledged == 1

        in_a_loop(simulation, main)


def test_calls_that_ran_out_of_time_leave_no_wait_behind() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"v")
            simulation.network.holding = True
            for _ in range(10):
                with pytest.raises(TransactionTimeoutError):
                    await producer.commit_transaction(timeout=0.01)
            pending = producer._producer._transactional("commit_transaction").end(None, commit=True).pending
            assert pending._ended._gates == []
            simulation.network.holding = False
            await producer.commit_transaction()

        in_a_loop(simulation, main)


def test_the_program_goes_on_while_a_closed_loop_had_a_commit() -> None:
    with simulated(1, config=CONFIG) as simulation:
        simulation.producer.init_transactions()
        producer = object.__new__(AsyncProducer)
        producer._begin(simulation.producer)

        async def leave() -> None:
            producer.begin_transaction()
            await producer.send("t", b"v")
            asyncio.get_running_loop().create_task(producer.commit_transaction())
            await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        loop.close()
        simulation.run_until_idle()
        simulation.producer.begin_transaction()
        simulation.producer.commit_transaction()

        assert simulation.cluster.topics["t"].committed(0) == [b"v"]


def test_an_abort_that_ran_out_of_time_lets_the_next_block_begin() -> None:
    with simulated(1, config=CONFIG | {"max.block.ms": 50}) as simulation:

        async def aborted(producer: AsyncProducer) -> None:
            async with producer.transaction():
                await producer.send("t", b"aborted")
                while not simulation.log():
                    await asyncio.sleep(0)
                simulation.network.holding = True
                raise ZeroDivisionError

        async def main(producer: AsyncProducer) -> None:
            with pytest.raises(ZeroDivisionError) as raised:
                await aborted(producer)
            assert "abort_transaction was not done within" in raised.value.__notes__[0]
            simulation.network.holding = False
            async with producer.transaction():
                await producer.send("t", b"committed")

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"]


def test_records_of_a_cancelled_abort_do_not_fail_the_next_flush() -> None:
    with simulated(1, config=CONFIG | {"linger.ms": 1_000}) as simulation:

        async def main(producer: AsyncProducer) -> None:
            for waits in (False, True):
                producer.begin_transaction()
                await producer.send("t", b"aborted")
                await cancelled(producer.abort_transaction())
                if waits:
                    await ready(simulation)
                async with producer.transaction():
                    await producer.send("t", b"committed")
                    report = await producer.flush()
                    assert report.failed == 0

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"committed"] * 2


def test_a_cancelled_abort_hides_no_failure_of_the_next_transaction() -> None:
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            await producer.send("t", b"aborted")
            await cancelled(producer.abort_transaction())
            await ready(simulation)
            producer.begin_transaction()
            simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
            await producer.send("t", b"refused")
            with pytest.raises(UndeliveredError, match="INVALID_RECORD"):
                await producer.flush()
            await producer.abort_transaction()

        in_a_loop(simulation, main)


@pytest.mark.rule("producer.close.left-abort")
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("method", ["flush", "close"])
def test_records_of_a_cancelled_abort_fail_neither_flush_nor_close(method: str, ended: bool) -> None:
    with simulated(1, config=CONFIG | {"linger.ms": 1_000}) as simulation:

        async def main(producer: AsyncProducer) -> None:
            async def block() -> None:
                async with producer.transaction():
                    await producer.send("t", b"aborted")
                    queued.set()
                    await asyncio.sleep(100)

            queued = asyncio.Event()
            task = asyncio.create_task(block())
            await queued.wait()
            simulation.network.holding = not ended
            for _ in range(2):  # the second one ends the wait for the abort
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            if ended:
                await ready(simulation)
            elif method == "close":
                simulation.network.holding = False
            report = await getattr(producer, method)()
            simulation.network.holding = False

            assert task.cancelled()
            assert report.failed == 1

        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == []


@pytest.mark.rule("producer.close.left-abort")
def test_records_of_an_abort_that_ran_out_of_time_do_not_fail_flush() -> None:
    with simulated(1, config=CONFIG | {"linger.ms": 1_000}) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            delivery = await producer.send("t", b"aborted")
            simulation.network.holding = True
            with pytest.raises(TransactionTimeoutError):
                await producer.abort_transaction(0)
            while not delivery.done():
                await asyncio.sleep(0)

            assert (await producer.flush(0)).failed == 1

            simulation.network.holding = False
            await producer.abort_transaction()

        in_a_loop(simulation, main)


@pytest.mark.rule("producer.close.left-abort")
def test_a_cancelled_abort_that_failed_leaves_its_errors_to_flush() -> None:
    with simulated(1, config=CONFIG | {"linger.ms": 1_000}) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            delivery = await producer.send("t", b"aborted")
            await cancelled(producer.abort_transaction())
            manager = simulation.producer._engine.transactions.manager  # type: ignore[union-attr]
            while not delivery.done():
                await asyncio.sleep(0)
            assert manager.left_abort
            manager._state.result.error = TransactionTimeoutError("no broker")  # type: ignore[union-attr]
            assert not manager.left_abort
            with pytest.raises(UndeliveredError):
                await producer.flush()

        in_a_loop(simulation, main)


@pytest.mark.parametrize("waits_for", ["its topic", "memory"])
def test_a_record_that_waits_is_not_queued_in_the_next_transaction(waits_for: str) -> None:
    with simulated(1, config=CONFIG) as simulation:
        pool = simulation.pool

        async def main(producer: AsyncProducer) -> None:
            await producer.partitions_for("t")
            producer.begin_transaction()
            held = pool.reserve_some(min_bytes=1, max_bytes=pool.capacity) if waits_for == "memory" else 0
            waiting = asyncio.create_task(producer.send("t" if held else "u", b"v"))
            await asyncio.sleep(0)
            await producer.abort_transaction()
            producer.begin_transaction()
            simulation.cluster.create("u", 1)
            pool.release(held)
            with pytest.raises(IllegalStateError, match=r"until its transaction had ended"):
                await waiting
            await producer.commit_transaction()

        in_a_loop(simulation, main)

        assert all(not topic.committed(0) for topic in simulation.cluster.topics.values())
        assert pool.free == pool.capacity


def test_a_table_whose_thread_starts_late_is_not_in_the_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    begun = threading.Event()

    send = TableCalls.send

    def late(*given: Any, **options: Any) -> Any:
        assert begun.wait(20)
        return send(*given, **options)

    monkeypatch.setattr(TableCalls, "send", late)
    with simulated(1, config=CONFIG) as simulation:

        async def main(producer: AsyncProducer) -> None:
            producer.begin_transaction()
            table = asyncio.create_task(producer.send_table("t", pyarrow.table({"value": [b"v"]})))
            await asyncio.sleep(0)
            await producer.abort_transaction()
            producer.begin_transaction()
            begun.set()
            with pytest.raises(IllegalStateError, match=r"until its transaction had ended"):
                await table
            await producer.commit_transaction()

        in_a_loop(simulation, main)

        assert not simulation.cluster.topics["t"].committed(0)


async def closed_in(block: Callable[[], AsyncIterator[None]]) -> None:
    """Begin an asynchronous generator, and close it where it is: it gets GeneratorExit, as a closed coroutine does."""
    generator = block()
    await anext(generator)
    await generator.aclose()  # type: ignore[attr-defined]


def test_a_closed_coroutine_aborts_its_transaction() -> None:
    async def main(producer: AsyncProducer) -> None:
        async def block() -> AsyncIterator[None]:
            async with producer.transaction():
                await producer.send("t", b"given up")
                yield

        await closed_in(block)
        while producer._producer._transactions.manager.state is not State.READY:  # type: ignore[union-attr]
            await asyncio.sleep(0)
        async with producer.transaction():
            await producer.send("t", b"after")

    with simulated(1, config=CONFIG) as simulation:
        in_a_loop(simulation, main)

        assert simulation.cluster.topics["t"].committed(0) == [b"after"]


def test_a_closed_coroutine_closes_its_producer_and_sends_what_is_queued() -> None:
    async def main() -> None:
        producer = object.__new__(AsyncProducer)
        producer._begin(simulation.producer)

        async def block() -> AsyncIterator[None]:
            async with producer:
                delivery.append(await producer.send("t", b"queued"))
                yield

        async with rounds(simulation):
            await closed_in(block)
            await delivery[0]
            while "closed" not in repr(simulation.producer):
                await asyncio.sleep(0)

    delivery: list[Delivery] = []
    with simulated(1, linger_ms=60_000) as simulation:
        asyncio.run(asyncio.wait_for(main(), 60))
        assert simulation.log() == [b"queued"]
