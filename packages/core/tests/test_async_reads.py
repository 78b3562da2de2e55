"""Calls of `AsyncProducer` that only read: they wait without a thread, and a cancelled one leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from test_async_producer import asynchronous, rounds, run
from test_telemetry import collecting

from ottla import ProducerClosedError, TopicUnavailableError
from ottla.aio.async_producer import AsyncProducer
from ottla.errors import InvalidRecordError
from simulated_producer import Simulated, simulated

READS = pytest.mark.parametrize(
    "read",
    [lambda producer: producer.partitions_for("t"), lambda producer: producer.client_instance_id()],
    ids=["partitions_for", "client_instance_id"],
)
Read = Callable[[AsyncProducer], Coroutine[Any, Any, Any]]


def waits(simulation: Simulated) -> int:
    """The number of waits for metadata and for the client instance id."""
    telemetry = simulation.producer._engine.telemetry
    assert telemetry is not None
    return len(simulation.producer._engine.metadata._changed._waiting) + len(telemetry.id_decided._gates)


@READS
def test_a_thousand_tasks_that_read_take_no_thread(read: Read) -> None:
    with collecting(know=False) as (simulation, _wants):
        producer = asynchronous(simulation)

        async def main() -> list[Any]:
            before = threading.active_count()
            tasks = [asyncio.create_task(read(producer)) for _ in range(1_000)]
            while waits(simulation) < 1_000:
                await asyncio.sleep(0)
            assert threading.active_count() == before
            async with rounds(simulation):
                return await asyncio.gather(*tasks)

        found = run(main())

        assert len(found) == 1_000
        assert None not in found
        assert all(each == found[0] for each in found)


@READS
def test_a_cancelled_read_ends_at_once_and_logs_nothing(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with collecting(know=False) as (simulation, _wants):
        producer = asynchronous(simulation)

        async def main() -> None:
            tasks = [asyncio.create_task(read(producer)) for _ in range(50)]
            await asyncio.sleep(0.001)
            assert waits(simulation) == 50
            caplog.clear()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)

        run(main())

        assert waits(simulation) == 0
        assert caplog.records == []


def test_reads_end_with_their_timeout() -> None:
    with simulated(1, know=False) as simulation:
        producer = asynchronous(simulation)
        started_at = time.monotonic()
        with pytest.raises(TopicUnavailableError, match=r"topic 't' was not available within timeout \(0\.01 s\)"):
            run(producer.partitions_for("t", timeout=0.01))

        assert run(producer.client_instance_id(timeout=0.01)) is None
        assert waits(simulation) == 0
        assert time.monotonic() - started_at < 20


def test_a_read_of_partitions_raises_what_a_producer_raises() -> None:
    with simulated(1) as simulation:
        producer = asynchronous(simulation)
        with pytest.raises(InvalidRecordError, match="not a topic name"):
            run(producer.partitions_for("no topic"))
        simulation.producer.close(0)
        with pytest.raises(ProducerClosedError):
            run(producer.partitions_for("t"))
