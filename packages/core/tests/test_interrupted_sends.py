"""Ctrl-C at the worst moments of `send` loses no record and no memory, and reports nothing twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from ottla.accumulator.key_partitioning import KeyPartitioner
from simulated_producer import simulated

pytestmark = pytest.mark.unmeasured  # a signal inside coverage's own lock would leave it locked


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C means what it does in a program at a terminal, also where the tests run behind one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_partitions_are_chosen_takes_effect_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, 1, 1, config={"linger.ms": 1_000}) as simulation:
        deliveries = [simulation.producer.send("t", b"v", b"%d" % number) for number in range(30)]
        carry = KeyPartitioner._carry_memory

        def interrupted(key_partitioner: KeyPartitioner, *arguments: Any, **options: Any) -> None:
            carry(key_partitioner, *arguments, **options)
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(KeyPartitioner, "_carry_memory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            simulation.producer.send("t", b"named", partition=0)
        monkeypatch.undo()
        simulation.run_until_idle()

        assert [delivery.exception() for delivery in deliveries] == [None] * 30
        assert sum(len(simulation.log(partition)) for partition in range(3)) == 30
        assert simulation.pool.free == simulation.pool.capacity


def test_an_interrupt_while_partitions_are_chosen_fails_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_arguments: Any) -> list[int]:
        raise SystemExit(3)

    with simulated(1, config={"linger.ms": 1_000}) as simulation:
        delivery = simulation.producer.send("t", b"v", b"k")
        monkeypatch.setattr(KeyPartitioner, "repartition", leave)
        with pytest.raises(SystemExit):
            simulation.producer.send("t", b"named", partition=0)
        monkeypatch.undo()
        simulation.run_until_idle()

        assert "no partition could be chosen: interrupted by SystemExit(3)" in str(delivery.exception())
        assert simulation.pool.free == simulation.pool.capacity


def test_ctrl_c_after_a_new_batch_returns_its_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1) as simulation:
        appender = simulation.accumulator.appender

        def interrupted(*_arguments: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(appender._io_loop, "batch_started", lambda **_arguments: interrupted())
        with pytest.raises(KeyboardInterrupt):
            simulation.producer.send("t", b"v")
        monkeypatch.undo()
        simulation.run_until_idle()

        assert simulation.log() == [b"v"]
        assert simulation.pool.free == simulation.pool.capacity


def test_a_record_that_needs_all_memory_never_overdraws_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, config={"buffer.memory": 2_000, "max.block.ms": 0, "linger.ms": 0}) as simulation:
        delivery = simulation.producer.send("t", bytes(1_916), b"k1")
        simulation.accumulator.flush(timeout=0)

        assert simulation.pool.free >= 0
        simulation.run_until_idle()
        assert delivery.exception() is None
        assert simulation.pool.free == simulation.pool.capacity


def test_an_encoder_that_makes_no_columns_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_limit: int) -> Any:
        raise ZeroDivisionError

    with simulated(1) as simulation:
        monkeypatch.setattr(simulation.accumulator.appender, "_columns", broken)
        with pytest.raises(ZeroDivisionError):
            simulation.producer.send("t", b"v")

        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.parametrize("second", ["while codecs end", "as rows are to fail"])
def test_rows_have_an_outcome_after_ctrl_c_twice(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from ottla.tables import piece_queue, sending
    from ottla.tables.compression_pool import CompressionPool
    from ottla.tables.table_delivery import unassigned as find_unassigned

    close, times = CompressionPool.close, count()

    def closed(pool: CompressionPool) -> object:
        pieces = close(pool)
        if second == "while codecs end" and not next(times):
            raise KeyboardInterrupt
        return pieces

    def unassigned(delivery: Any) -> Any:
        if second == "as rows are to fail" and not next(times):
            raise KeyboardInterrupt
        return find_unassigned(delivery)

    def batches() -> Iterator[Any]:
        yield pyarrow.record_batch({"value": [b"a", b"b"]})
        yield pyarrow.record_batch({"value": [b"c"]})
        raise KeyboardInterrupt

    monkeypatch.setattr(sending, "GATHERED_BYTES", 1)
    monkeypatch.setattr(CompressionPool, "close", closed)
    monkeypatch.setattr(piece_queue, "unassigned", unassigned)
    monkeypatch.setattr(piece_queue, "threads", lambda: 4)  # so that pieces wait for their compression
    with simulated(1, config={"compression.type": "gzip"}) as simulation:
        with pytest.raises(KeyboardInterrupt) as raised:
            simulation.producer.send_table("t", batches())
        simulation.run_until_idle()

        delivery = raised.value.delivery  # type: ignore[attr-defined]
        failed = delivery.failed_rows()
        written = [value for partition in simulation.cluster.topics["t"].log for value in simulation.log(partition)]
        assert len(failed) + len(written) == delivery.rows == 3
        assert "not queued: interrupted by KeyboardInterrupt()" in str(failed[2])
