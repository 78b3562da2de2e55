"""`close` on one thread while others send: who waits learns of it, and who comes later is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from machine import Queues
from ottla import ProducerClosedError, UndeliveredError
from ottla.accumulator.batch import NewRecord
from ottla.network import NetworkClient
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


def test_records_without_a_partition_yet_do_not_linger_after_close() -> None:
    """A round may come between the refusal of new records and the end of all batches."""
    with simulated(1, linger_ms=60_000) as simulation:
        delivery = simulation.producer.send("t", b"v", b"key")
        simulation.accumulator.close(ProducerClosedError("closed"))

        simulation.run_until(delivery.done, time_passes=False)

        assert delivery.result(0).offset == 0


@pytest.mark.rule("sender.expire.arrived")
def test_a_close_that_cannot_read_the_last_responses_ends_in_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_client: NetworkClient, _now: float) -> None:
        raise OSError(9, "Bad file descriptor")

    with simulated(1) as simulation:
        simulation.network.held.add(1)
        delivery = simulation.producer.send("t", b"v")
        simulation.round()
        monkeypatch.setattr(NetworkClient, "read_responses", fail)
        with pytest.raises(UndeliveredError):
            simulation.producer.close(0)

    assert "the producer was closed" in str(delivery.exception(0))
    assert "could not read the last responses" in caplog.text
