"""Batches of a table are compressed before they are queued: by which thread, in which order, with which faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest

from ottla import BufferExhaustedError, DeliveryError, ErrorCode, InvalidPluginError, TableReadError
from ottla.interfaces import Buffer, Columns, Compressor, Facts
from ottla.protocol import PRODUCE
from ottla.recordbatch.finished_columns import FinishedColumns
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.sealed_records import SealedRecords, finish
from ottla.tables import piece_queue
from ottla.tables.compression_pool import CompressionPool, PartitionRows, SealedPiece, threads
from ottla.tables.table_delivery import TableDelivery
from ottla_testkit.simulation import SimulatedCluster, batch_checks
from simulated_producer import Simulated, simulated

HANG_GUARD = 20.0
ENCODERS = ["python", "native"]


def piece(number: int) -> PartitionRows:
    facts = Facts((0,), None, (0,))
    columns = FinishedColumns(b"%d" % number, count=1, first_timestamp=0, highest_timestamp=0, facts=facts)
    return PartitionRows("t", 0, number, (0,), columns)


def plain(columns: Columns) -> SealedRecords:
    return finish(columns.encode(2), magic=2, compressor=None)


def numbers(given: Sequence[SealedPiece]) -> list[int]:
    return [finished.piece.offset for finished in given]


def contents(given: Sequence[SealedPiece]) -> list[bytes]:
    return [b"".join(finished.sealed.chunks) for finished in given if finished.sealed is not None]


# Between being cut and being queued


def test_compressed_pieces_are_returned_in_order() -> None:
    late = threading.Event()

    def seal(columns: Columns) -> SealedRecords:
        sealed = plain(columns)
        if b"".join(sealed.chunks) == b"1":
            assert late.wait(HANG_GUARD)
        if b"".join(sealed.chunks) == b"3":
            late.set()
        return sealed

    pool = CompressionPool(seal, threads=2)
    given = [finished for number in range(4) for finished in pool.put(piece(number))]
    given += pool.rest()

    assert numbers(given) == [0, 1, 2, 3]
    assert contents(given) == [b"0", b"1", b"2", b"3"]
    assert pool.close() == []


def test_at_most_one_piece_more_than_threads_is_in_progress() -> None:
    pool = CompressionPool(plain, threads=3)
    put = 0
    for number in range(40):
        put += 1
        put -= len(list(pool.put(piece(number))))

        assert put <= 4
    assert len(list(pool.rest())) == put
    pool.close()


@pytest.mark.parametrize("count", [0, 2])
def test_a_single_piece_is_compressed_by_the_calling_thread(count: int) -> None:
    by: list[str] = []

    def seal(columns: Columns) -> SealedRecords:
        by.append(threading.current_thread().name)
        return plain(columns)

    pool = CompressionPool(seal, threads=count)
    given = [*pool.put(piece(0)), *pool.rest()]

    assert numbers(given) == [0]
    assert by == [threading.current_thread().name]


def test_without_a_codec_a_piece_is_returned_at_once_unchanged() -> None:
    pool = CompressionPool(None, threads=4)

    [given] = pool.put(piece(0))

    assert (given.sealed, given.error, len(given.piece.columns.encode(2).chunks)) == (None, None, 1)


def test_a_piece_that_the_codec_refuses_fails_alone_with_the_reason() -> None:
    def seal(columns: Columns) -> SealedRecords:
        sealed = plain(columns)
        if sealed.chunks == [b"1"]:
            raise ValueError("no ones")
        return sealed

    pool = CompressionPool(seal, threads=2)
    given = [finished for number in range(3) for finished in pool.put(piece(number))] + [*pool.rest()]
    pool.close()

    assert contents(given) == [b"0", b"2"]
    assert [str(sealed.error) for sealed in given] == ["None", "no ones", "None"]


def test_close_ends_the_threads_and_returns_the_remaining_pieces() -> None:
    before = threading.active_count()
    pool = CompressionPool(plain, threads=2)
    taken = [finished for number in range(4) for finished in pool.put(piece(number))]

    left = pool.close()

    assert [*numbers(taken), *(each.offset for each in left)] == [0, 1, 2, 3]
    assert threading.active_count() == before
    assert pool.close() == []


def test_at_interpreter_exit_the_calling_thread_compresses() -> None:
    pool = CompressionPool(plain, threads=1)
    list(pool.put(piece(0)))
    list(pool.put(piece(1)))
    assert pool._pool is not None
    pool._pool.shutdown()  # as the interpreter does

    assert contents([*pool.put(piece(2)), *pool.rest()])[-1] == b"2"


@pytest.mark.parametrize("begun", [0, 1])
def test_if_no_thread_can_start_every_piece_is_compressed_once(monkeypatch: pytest.MonkeyPatch, begun: int) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def refuse(thread: threading.Thread) -> None:
        if len(started) == begun:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool = CompressionPool(plain, threads=3)
    given = [finished for number in range(30) for finished in pool.put(piece(number))] + [*pool.rest()]
    pool.close()

    assert [finished.error for finished in given] == [None] * 30
    assert contents(given) == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_a_piece_whose_wait_is_interrupted_is_returned_by_close(interruption: type[BaseException]) -> None:
    def seal(columns: Columns) -> SealedRecords:
        sealed = plain(columns)
        if sealed.chunks == [b"1"]:
            raise interruption
        return sealed

    pool = CompressionPool(seal, threads=2)
    taken = [finished for number in range(3) for finished in pool.put(piece(number))]
    with pytest.raises(interruption):
        taken.extend(pool.rest())

    assert numbers(taken) == [0]
    assert [each.offset for each in pool.close()] == [1, 2]


def test_one_processor_needs_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, expected in ((1, 0), (2, 2), (64, 4)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid, count=count: set(range(count)), raising=False)

        assert threads() == expected


# In a producer


@attrs.define
class Doubling:
    """A third-party codec that writes every byte twice and records its threads; *refuse* raises for some."""

    refuse: Callable[[bytes], bool] = lambda _plain: False
    by: list[str] = attrs.field(factory=list)
    codec_id: int = 1

    def compress(self, chunks: Sequence[Buffer], *, level: int | None) -> bytes:
        plain = b"".join(chunks)
        self.by.append(threading.current_thread().name)
        if self.refuse(plain):
            raise OverflowError("not this one")
        return bytes(byte for byte in plain for _ in range(2))

    def decompress(self, buffer: Buffer, *, limit: int) -> bytes:
        return bytes(buffer)[::2]


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def two_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_queue, "threads", lambda: 2)


@pytest.fixture(autouse=True)
def brokers_that_know_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    codecs: dict[int, Compressor] = {1: Doubling()}
    monkeypatch.setattr(batch_checks, "parse_batches", lambda data, **_: parse_batches(data, compressors=codecs))


def numbered(count: int, **columns: Any) -> Any:
    return pa.table({"value": [b"%4d" % number + bytes(96) for number in range(count)], **columns})


def of_old() -> SimulatedCluster:
    """A cluster that takes messages of v1 at most."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, 2)
    return cluster


def arrived(simulation: Simulated, *partitions: int) -> list[list[int]]:
    return [[int((value or b"")[:4]) for value in simulation.log(partition)] for partition in partitions]


def test_pool_threads_compress_and_the_io_thread_does_not(encoder: str) -> None:
    codec = Doubling()
    with simulated(1, plugins={"compressor": codec}, record_encoder=encoder, batch_growth_enable="false") as simulation:
        delivery = simulation.producer.send_table("t", numbered(2_000))
        reported = len(codec.by)
        sealed = [piece.batch.sealed for piece in delivery._chunks.batches()]

    assert len(sealed) == reported > 10
    assert all(each is not None and each.size == 2 * each.plain_size for each in sealed)
    assert [name for name in set(codec.by) if not name.startswith("ottla-table")] == ["MainThread"]


def test_rows_arrive_in_the_order_of_their_partitions(encoder: str) -> None:
    options: dict[str, Any] = {"record_encoder": encoder, "batch_growth_enable": "false", "batch_size": 2_000}
    with simulated(1, 1, plugins={"compressor": Doubling()}, **options) as simulation:
        simulation.producer.send_table("t", numbered(600, key=[b"%d" % (number % 50) for number in range(600)]))
        simulation.run_until_idle()

        found = arrived(simulation, 0, 1)
        assert sorted(found[0] + found[1]) == list(range(600))
        assert found == [sorted(each) for each in found]


def test_rows_that_a_codec_refuses_fail_and_the_others_arrive(encoder: str) -> None:
    codec = Doubling(lambda plain: b"  77" in plain)
    options: dict[str, Any] = {"batch_size": 2_000, "batch_growth_enable": "false", "record_encoder": encoder}
    with simulated(1, plugins={"compressor": codec}, **options) as simulation:
        delivery = simulation.producer.send_table("t", numbered(200))
        codec.by.clear()
        failed = delivery.failed_rows()

        assert 77 in failed
        assert failed.keys() == set(range(min(failed), max(failed) + 1))
        assert isinstance(failed[77], DeliveryError)
        assert "failed in compress: OverflowError: not this one" in str(failed[77])
        assert isinstance(failed[77].__cause__, InvalidPluginError)
        assert codec.by == []  # nor is it tried again
        assert [piece.batch.partition for piece in delivery._chunks.batches() if piece.batch.outcome is None] != []


def test_without_memory_compressed_rows_that_are_not_queued_fail(encoder: str) -> None:
    options: dict[str, Any] = {"record_encoder": encoder, "batch_size": 1_000, "buffer_memory": 50_000}
    with simulated(1, plugins={"compressor": Doubling()}, max_block_ms=0, **options) as simulation:
        with pytest.raises(BufferExhaustedError) as caught:
            simulation.producer.send_table("t", numbered(1_000))

        delivery = caught.value.delivery
        assert isinstance(delivery, TableDelivery)
        queued = sum(piece.batch.count for piece in delivery._chunks.batches() if piece.batch.outcome is None)
        left = list(delivery.failed_rows())
        assert 0 < queued < delivery.rows
        assert left == list(range(queued, delivery.rows))
        assert simulation.accumulator.report()[1] == 0  # the raised error reports this failure
        assert not [each for each in threading.enumerate() if each.name.startswith("ottla-table")]


def test_a_row_that_compression_makes_larger_than_all_memory_is_sent(encoder: str) -> None:
    with simulated(
        1, plugins={"compressor": Doubling()}, record_encoder=encoder, buffer_memory=50_000, max_block_ms=0
    ) as simulation:
        simulation.producer.send_table("t", pa.table({"value": [bytes(40_000)]}))
        simulation.run_until_idle()

        assert simulation.log() == [bytes(40_000)]
        assert simulation.pool.free == simulation.pool.capacity


def test_rows_read_before_a_stream_fails_are_still_queued() -> None:
    schema = pa.schema([("value", pa.binary())])

    def stream() -> Any:
        for number in range(5):
            yield pa.record_batch([[b"%4d" % number + bytes(50_000)] * 8], schema=schema)
        raise OSError("the disk is gone")

    with simulated(1, plugins={"compressor": Doubling()}, batch_growth_enable="false") as simulation:
        with pytest.raises(TableReadError) as caught:
            simulation.producer.send_table("t", pa.RecordBatchReader.from_batches(schema, stream()))

        delivery = caught.value.delivery
        assert isinstance(delivery, TableDelivery)
        assert sum(piece.batch.count for piece in delivery._chunks.batches() if piece.batch.outcome is None) == 40
        assert delivery.failed_rows() == {}


def test_a_compressed_table_is_converted_for_an_older_broker(encoder: str) -> None:
    options: dict[str, Any] = {"plugins": {"compressor": Doubling()}, "record_encoder": encoder}
    with simulated(1, cluster=of_old(), **options) as simulation:
        delivery = simulation.producer.send_table("t", numbered(300))
        for each in delivery._chunks.batches():
            assert each.batch.sealed is not None
            assert each.batch.sealed.magic == 2
        simulation.run_until_idle()

        assert arrived(simulation, 0) == [list(range(300))]


def test_a_row_is_found_when_chunks_are_compressed_concurrently(encoder: str) -> None:
    """The refused rows of a chunk may be reported before the batches of the previous one."""
    rows = [number for number in range(600) if number % 200 != 7]
    table = numbered(600, at=[-1 if number % 200 == 7 else number for number in range(600)])
    options: dict[str, Any] = {"record_encoder": encoder, "batch_size": 1_000}
    with simulated(1, plugins={"compressor": Doubling()}, batch_growth_enable="false", **options) as simulation:
        delivery = simulation.producer.send_table("t", table.to_reader(200), timestamp="at")
        simulation.run_until_idle()

        assert list(delivery.failed_rows()) == [7, 207, 407]
        for row in rows:
            metadata = delivery.metadata(row)
            assert metadata is not None
            assert (metadata.offset, metadata.timestamp_ms) == (rows.index(row), row)


def test_a_compressed_batch_that_is_too_large_is_split_by_rows(encoder: str) -> None:
    with simulated(1, plugins={"compressor": Doubling()}, record_encoder=encoder) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        delivery = simulation.producer.send_table("t", numbered(200))
        simulation.run_until_idle()

        assert arrived(simulation, 0) == [list(range(200))]
        assert delivery.result(0).partitions[0].rows == 200
        assert simulation.pool.free == simulation.pool.capacity
