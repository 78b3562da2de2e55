"""Calls of an `AsyncProducer` that end early: closed coroutines, cancelled calls at the end, forked children."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla import ProducerClosedError
from ottla.aio import AsyncProducer
from ottla_testkit.mock_cluster import MockCluster
from program_runs import run as run_program

WITHIN = 60.0
LATE = 30.0
"""The delay of a broker that does not respond while a test runs."""


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(main, WITHIN)

    return asyncio.run(limited())


def begin(call: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine by hand until it waits."""
    assert asyncio.isfuture(call.send(None))


async def ended(name: str) -> None:
    """Wait until the threads of this call have ended."""
    while any(thread.name == f"ottla-aio-{name}" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)


def test_a_closed_coroutine_of_send_returns_its_memory(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    async def main() -> None:
        settings = {"bootstrap.servers": mock_cluster.bootstrap_servers, "buffer.memory": 40_000}
        producer = AsyncProducer(settings)
        pool = producer._producer._engine.queueing.pool
        await producer.send_and_wait("t", b"known")
        mock_cluster.set_rtt(1, LATE)
        await producer.send("t", bytes(30_000))
        waiting = producer.send("t", bytes(30_000))
        begin(waiting)
        assert pool.waiting == 1

        waiting.close()

        assert pool.waiting == 0
        mock_cluster.set_rtt(1, 0.0)
        producer._producer._lifecycle.close(0.0)

    run(main())


def test_a_closed_coroutine_closes_its_producer_in_the_background(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    made: list[AsyncProducer] = []

    async def use() -> None:
        async with AsyncProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
            made.append(producer)
            await producer.send_and_wait("t", b"v")
            await asyncio.get_running_loop().create_future()

    async def main() -> None:
        using = asyncio.create_task(use())
        while not made or made[0]._producer._engine.queueing.accumulator.incomplete:
            await asyncio.sleep(0.001)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

        by_hand = use()
        begin(by_hand)
        by_hand.close()
        await ended("close")
        with pytest.raises(ProducerClosedError):
            await made[1].send("t", b"v")

    run(main())


def test_a_closed_coroutine_aborts_its_transaction_in_the_background(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    async def main() -> None:
        settings = {"bootstrap.servers": mock_cluster.bootstrap_servers, "transactional.id": "closed coroutine"}
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()

            async def use() -> None:
                async with producer.transaction():
                    await asyncio.get_running_loop().create_future()

            by_hand = use()
            begin(by_hand)
            by_hand.close()
            await ended("abort_transaction")

            async with producer.transaction():  # the next one may begin
                await producer.send("t", b"v")

    run(main())


def test_a_cancelled_commit_is_completed_at_the_end_of_the_program(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")
    mock_cluster.set_rtt(1, 0.2)  # so that the program sees the commit while it lasts

    log, code = run_program(
        """
        import asyncio, atexit, sys
        made = []
        atexit.register(lambda: print("at exit:", manager(made[0]).state.name))
        from ottla.aio import AsyncProducer  # after the line above: functions are called in reverse order

        def manager(producer):
            return producer._producer._engine.transactions.manager

        async def main():
            producer = AsyncProducer(bootstrap_servers=sys.argv[1], transactional_id="cancelled")
            made.append(producer)
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("t", b"v")
            committing = asyncio.create_task(producer.commit_transaction())
            while manager(producer).state.name != "COMMITTING" and not committing.done():
                await asyncio.sleep(0.001)
            committing.cancel()

        sys.stdout = sys.stderr
        asyncio.run(main())
        """,
        mock_cluster.bootstrap_servers,
    )

    assert code == 0
    assert "at exit: READY" in log
    assert "raised after the task" not in log


def test_a_program_ends_although_a_block_of_a_closed_loop_is_pending() -> None:
    log, code = run_program(
        """
        import asyncio
        from ottla.aio import AsyncProducer

        async def send():
            async with AsyncProducer(bootstrap_servers="127.0.0.1:1") as producer:
                await producer.send("t", b"v")

        async def main():
            global task  # the interpreter destroys it while it finalizes
            task = asyncio.ensure_future(send())
            await asyncio.sleep(0.1)
            asyncio.get_running_loop().stop()
            await asyncio.sleep(60)

        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(main())
        except RuntimeError:
            loop.close()
        """
    )

    assert code == 0
    assert "raised after the task" not in log


def test_a_block_in_a_forked_child_ends_without_closing(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t")

    log, code = run_program(
        """
        import asyncio, os, sys, traceback
        from ottla.aio import AsyncProducer

        async def main():
            async with AsyncProducer(bootstrap_servers=sys.argv[1]) as producer:
                await producer.send_and_wait("t", b"parent")
                child = os.fork()
                if child == 0:
                    try:
                        async with producer:
                            pass
                        os._exit(7)  # the loop is the parent's, too
                    finally:
                        traceback.print_exc()
                        os._exit(1)
                _, status = os.waitpid(child, 0)
                await producer.send_and_wait("t", b"parent")
                return os.waitstatus_to_exitcode(status)

        sys.exit(asyncio.run(main()))
        """,
        mock_cluster.bootstrap_servers,
    )

    assert (log, code) == ("", 7)
