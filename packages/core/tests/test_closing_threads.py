"""`close` on one thread while others send: who waits learns of it, and who comes later is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from machine import Queues
from ottla import ProducerClosedError
from ottla.accumulator.batch import NewRecord
from simulated_producer import HANG_GUARD, Simulated, simulated

RECORD: NewRecord = (None, b"value", (), 0, None)


def begun(simulation: Simulated, call: Callable[[], object]) -> Future[object]:
    """A call on its own thread that has begun to wait: it has notified the I/O thread."""
    waits = threading.Event()
    wakeup = simulation.network.wakeup

    def wake() -> None:
        wakeup()
        waits.set()

    simulation.metadata._wake = simulation.accumulator._wake = simulation.accumulator.appender._wake = wake
    pool = ThreadPoolExecutor(1)
    result = pool.submit(call)
    pool.shutdown(wait=False)
    assert waits.wait(HANG_GUARD)
    return result


@pytest.mark.rule("producer.close.refuses")
def test_a_send_that_waits_for_its_topic_is_refused_on_close() -> None:
    with simulated(1, max_block_ms=30_000) as simulation:
        waiting = begun(simulation, lambda: simulation.producer.send("unknown", b"v"))

        simulation.metadata.close(ProducerClosedError("the producer is closed"))

        assert isinstance(waiting.exception(HANG_GUARD), ProducerClosedError)


@pytest.mark.rule("producer.close.refuses")
def test_a_send_that_waits_for_memory_is_refused_on_close() -> None:
    with simulated(1, max_block_ms=30_000, buffer_memory=20_000) as simulation:
        simulation.producer.send("t", bytes(12_000))
        waiting = begun(simulation, lambda: simulation.producer.send("t", bytes(12_000)))

        simulation.accumulator.close(ProducerClosedError("the producer is closed"))

        assert isinstance(waiting.exception(HANG_GUARD), ProducerClosedError)


@pytest.mark.rule("producer.close.refuses")
def test_an_open_batch_takes_no_record_after_close() -> None:
    queues = Queues()
    batch = queues.append()._batch
    assert batch.append(*RECORD) is not None

    queues.accumulator.close(ProducerClosedError("closed"))

    assert batch.append(*RECORD) is None
