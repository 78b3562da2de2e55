"""The memory of a table's chunks: what is reserved for large ones, how much is left, and that all of it comes back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.accumulator.batch_memory import BATCH_COST
from ottla.accumulator.buffer_pool import BufferPool
from ottla.concurrency.environment import Environment
from ottla.errors import TableReadError
from ottla.tables import sending
from ottla.tables.chunk_memory import COPIES, ChunkMemory
from simulated_producer import simulated

ENCODERS = ["python", "native"]
PARTITIONS = 20


def pool_of(capacity: int) -> BufferPool:
    return BufferPool(capacity, environment=Environment(clock=lambda: 0.0))


def test_a_chunk_of_the_wanted_size_is_enough_and_reserves_nothing() -> None:
    pool = pool_of(100_000)
    memory = ChunkMemory(pool=pool, usual=8_000, wanted=1_000, max_record=1_000)

    assert [memory.is_enough(size) for size in (999, 1_000)] == [False, True]
    assert pool.free == 100_000


def test_a_table_smaller_than_a_usual_chunk_reserves_nothing() -> None:
    pool = pool_of(100_000)
    memory = ChunkMemory(pool=pool, usual=8_000, wanted=50_000, max_record=1_000)

    assert not memory.is_enough(7_999)
    assert pool.free == 100_000


@pytest.mark.parametrize(
    ("capacity", "max_record", "most"),
    [
        (1_000_000, 1_000, 50_000),
        (100_000, 1_000, 8_000 + 25_000),
        (100_000, 90_000, 8_000 + 4_000),
        (100_000, 10**6, 8_000),
    ],
)
def test_a_chunk_grows_with_what_tables_may_reserve(capacity: int, max_record: int, most: int) -> None:
    pool = pool_of(capacity)
    memory = ChunkMemory(pool=pool, usual=8_000, wanted=50_000, max_record=max_record)

    with memory.returned():
        assert [memory.is_enough(size) for size in (most - 1, most)] == [False, True]
        assert pool.free == capacity - COPIES * (most - 8_000)
    assert pool.free == capacity


def test_without_a_pool_chunks_have_the_usual_size() -> None:
    memory = ChunkMemory(pool=None, usual=8_000, wanted=50_000, max_record=1_000)

    with memory.returned():
        assert [memory.is_enough(size) for size in (7_999, 8_000)] == [False, True]


def test_nothing_is_reserved_while_a_record_waits_for_memory() -> None:
    pool = pool_of(100_000)
    waiter = pool.join_queue(100_001)
    memory = ChunkMemory(pool=pool, usual=8_000, wanted=50_000, max_record=1_000)

    assert memory.is_enough(8_000)
    pool.leave(waiter)
    assert pool.free == 100_000


@given(
    tables=st.lists(st.tuples(st.integers(1, 50_000), st.integers(1, 500_000)), max_size=6),
    max_record=st.integers(1, 100_000),
)
def test_tables_never_reserve_what_the_largest_record_needs(tables: list[tuple[int, int]], max_record: int) -> None:
    pool = pool_of(100_000)
    memories = [ChunkMemory(pool=pool, usual=usual, wanted=wanted, max_record=max_record) for usual, wanted in tables]
    for memory in memories * 2:
        memory.is_enough(memory.usual)

    assert pool.free >= 50_000
    assert pool.free == 100_000 or pool.free >= max_record + BATCH_COST
    for memory in memories:
        with memory.returned():
            pass
    assert pool.free == 100_000


def keyed(count: int) -> Any:
    return pa.table({"value": [bytes(80)] * count, "key": [b"%d" % row for row in range(count)]})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("max_record", "chunks"), [(500_000, 3), (40_000, 1)])
def test_with_memory_the_batches_of_many_partitions_have_more_rows(
    encoder: str, max_record: int, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "CHUNK_BYTES", 10_000)
    options: dict[str, Any] = {"record_encoder": encoder, "max_request_size": max_record, "buffer_memory": 500_000}
    with simulated(*[1] * PARTITIONS, **options) as simulation:
        delivery = simulation.producer.send_table("t", keyed(300).to_reader(max_chunksize=20))

        assert len(delivery._chunks.all) == chunks
        assert simulation.pool.free == 500_000 - sum(piece.batch.held_bytes for piece in delivery._chunks.batches())
        simulation.run_until_idle()
        assert delivery.result(0).acknowledged == 300
        assert simulation.pool.free == simulation.pool.capacity


def test_a_stream_that_fails_returns_the_memory_of_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "CHUNK_BYTES", 1_000)
    schema = keyed(1).schema
    free: list[int] = []

    def stream() -> Any:
        yield from keyed(100).to_batches(max_chunksize=10)
        free.append(simulation.pool.free)
        raise OSError("the disk is gone")

    with simulated(*[1] * PARTITIONS) as simulation:
        with pytest.raises(TableReadError):
            simulation.producer.send_table("t", pa.RecordBatchReader.from_batches(schema, stream()))

        assert free[0] < simulation.pool.capacity
        simulation.run_until_idle()
        assert simulation.pool.free == simulation.pool.capacity
