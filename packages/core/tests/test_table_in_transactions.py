"""A table is part of the transaction that is open, and goes nowhere without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla.aio import AsyncProducer
from ottla.errors import AbortableTransactionError, IllegalStateError, InvalidRecordError
from ottla.tables import sending, topic_sending
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated


def cluster() -> SimulatedCluster:
    made = SimulatedCluster.of(1, 2)
    made.create("t", 1, 2)
    return made


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_rows_become_visible_with_the_transaction(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    config = {"transactional.id": "mine", "record.encoder": encoder}
    with simulated(config=config, cluster=cluster()) as simulation:
        producer = simulation.producer
        table = pa.table({"value": [b"a", b"b"], "key": [b"1", b"1"]})
        producer.init_transactions()
        with pytest.raises(IllegalStateError):
            producer.send_table("t", table)

        with producer.transaction():
            delivery = producer.send_table("t", table)

        assert delivery.result(0).rows == 2
        log = simulation.cluster.topics["t"]
        assert [b"a", b"b"] in (log.committed(0), log.committed(1))  # one key, one partition


INVALID = pa.table(
    {
        "value": [b"a", bytes(9_000), b"b", b"c"],
        "partition": pa.array([0, 0, 0, 0], pa.int32()),
        "timestamp": pa.array([0, 0, -1, 0], pa.int64()),
    }
)


@pytest.mark.parametrize("limit", ["max.request.size", "buffer.memory"])
def test_a_row_that_cannot_be_a_record_fails_the_transaction(limit: str) -> None:
    config = {"transactional.id": "mine", limit: 7_000, "batch.size": 500}
    with simulated(config=config, cluster=cluster()) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        for row in (1, 2):
            producer.begin_transaction()
            producer.send_table("t", INVALID.slice(row, 1), partition="partition", timestamp="timestamp")
            with pytest.raises(AbortableTransactionError):
                producer.commit_transaction()
            producer.abort_transaction()


@pytest.mark.parametrize("limit", ["max.request.size", "buffer.memory"])
def test_rows_that_the_caller_refuses_leave_the_transaction_to_the_others(limit: str) -> None:
    config = {"transactional.id": "mine", limit: 7_000, "batch.size": 500}
    columns = {"key": None, "value": "value", "headers": None, "partition": "partition", "timestamp": "timestamp"}
    with simulated(config=config, cluster=cluster()) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        with producer.transaction():
            delivery = producer._table_calls.send_tolerantly("t", INVALID, columns)

        failed = delivery.failed_rows()
        assert list(failed) == [1, 2]
        assert all(isinstance(error.__cause__, InvalidRecordError) for error in failed.values())
        assert simulation.cluster.topics["t"].committed(0) == [b"a", b"c"]


def asynchronous(simulation: Simulated) -> AsyncProducer:
    made = object.__new__(AsyncProducer)
    made._begin(simulation.producer)
    return made


async def call_ended(name: str) -> None:
    """Wait until the calls of this name that go on without a task have ended."""
    while any(thread.name == f"ottla-aio-{name}" for thread in threading.enumerate()):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("stops", ["in its stream", "in a wait for memory"])
@pytest.mark.parametrize("topic_column", [None, "topic"])
def test_a_cancelled_table_adds_nothing_to_the_next_transaction(
    stops: str, topic_column: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    monkeypatch.setattr(topic_sending, "GATHERED_BYTES", 1)
    config = {"transactional.id": "mine", "buffer.memory": 7_000, "batch.size": 2_000}
    with simulated(config=config, cluster=cluster()) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        wait_in_stream = stops == "in its stream"
        stopped, go_on = asyncio.Event(), threading.Event()

        async def main() -> None:
            loop = asyncio.get_running_loop()

            def batches() -> Iterator[Any]:
                for number in range(4):
                    if number == (1 if wait_in_stream else 2):
                        loop.call_soon_threadsafe(stopped.set)
                        if wait_in_stream:
                            go_on.wait(20)
                    yield pa.record_batch({"value": [b"old %d" % number + bytes(1_000)], "topic": ["t"]})

            producer.begin_transaction()
            table = asynchronous(simulation).send_table("t", batches(), topic_column=topic_column, timeout=10)
            task = asyncio.create_task(table)
            await stopped.wait()
            while not (wait_in_stream or simulation.pool.waiting):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            producer.abort_transaction()  # frees the memory
            producer.begin_transaction()
            go_on.set()
            await call_ended("send_table")
            producer.send("t", b"new", partition=0)
            producer.commit_transaction()

        asyncio.run(asyncio.wait_for(main(), 20))

        log = simulation.cluster.topics["t"]
        assert [*log.committed(0), *log.committed(1)] == [b"new"]
        assert simulation.pool.waiting == 0
        assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


@pytest.mark.parametrize("cancelled", [True, False])
def test_rows_of_a_cancelled_table_are_sent_if_they_were_queued(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    with simulated(cluster=cluster()) as simulation:
        reached, go_on = asyncio.Event(), threading.Event()

        async def main() -> None:
            loop = asyncio.get_running_loop()

            def batches() -> Iterator[Any]:
                yield pa.record_batch({"value": [b"first"]})
                loop.call_soon_threadsafe(reached.set)
                go_on.wait(20)
                yield pa.record_batch({"value": [b"second"]})

            task = asyncio.create_task(asynchronous(simulation).send_table("t", batches()))
            await reached.wait()
            if cancelled:
                task.cancel()
                await asyncio.wait([task])
            go_on.set()
            await call_ended("send_table")
            await asyncio.wait([task])

        asyncio.run(asyncio.wait_for(main(), 20))
        simulation.run_until_idle()

        sent = {*simulation.log(0), *simulation.log(1)}
        assert sent == ({b"first"} if cancelled else {b"first", b"second"})
        assert simulation.producer.flush(0).failed == 0


@pytest.mark.parametrize("topic_column", [None, "topic"])
def test_a_cancelled_table_is_read_no_further(topic_column: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    monkeypatch.setattr(topic_sending, "GATHERED_BYTES", 1)
    taken = []
    with simulated(cluster=cluster()) as simulation:
        reached, go_on = asyncio.Event(), threading.Event()

        async def main() -> None:
            loop = asyncio.get_running_loop()

            def batches() -> Iterator[Any]:
                for number in range(10):
                    taken.append(number)
                    yield pa.record_batch({"value": [b"v"], "topic": ["t"], "time": [-1]})  # no row can be a record
                    if number == 0:
                        loop.call_soon_threadsafe(reached.set)
                        go_on.wait(20)

            table = asynchronous(simulation).send_table("t", batches(), timestamp="time", topic_column=topic_column)
            task = asyncio.create_task(table)
            await reached.wait()
            task.cancel()
            await asyncio.wait([task])
            go_on.set()
            await call_ended("send_table")

        asyncio.run(asyncio.wait_for(main(), 20))

        assert taken == [0, 1]
        report, _unretrieved, _error = simulation.accumulator.report()
        assert report.failed == 1
