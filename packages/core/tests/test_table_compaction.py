"""A table's delivery keeps numbers of acknowledged batches, and answers as if it had kept the batches."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import DeliveryError, TableDeliveryError
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.interfaces import Facts
from ottla.recordbatch.finished_columns import FinishedColumns
from ottla.recordbatch.number_columns import Constant
from ottla.tables import chunk_list, chunk_rows, table_delivery
from ottla.tables.chunk_list import ChunkList
from ottla.tables.table_delivery import TableDelivery, by_topic, unassigned
from simulated_producer import Simulated, simulated

ENCODERS = ["python", "native"]
LARGE = st.sampled_from([0, 1, 127, 128, 255, 256, 32_768, 65_535, 65_536, 2**31 - 1])


class Uncompacted(ChunkList):
    """Keeps all batches: the reference."""

    def compact(self) -> None:
        """Do nothing."""


@attrs.frozen
class Piece:
    """One batch of a chunk, and what happens to it. *ends_after* is the chunk whose beginning finds it completed."""

    topic: str
    partition: int
    sizes: Sequence[int]
    keyed: bool
    times: Sequence[int] | None
    end: str
    base_offset: int
    append_time_ms: int
    ends_after: int


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    rows = draw(st.integers(1, 4))
    own_times = draw(st.booleans())
    return Piece(
        topic=draw(st.sampled_from(["t", "t", "t", "u"])),
        partition=draw(LARGE),
        sizes=draw(st.lists(st.one_of(st.just(-1), LARGE), min_size=rows, max_size=rows)),
        keyed=draw(st.booleans()),
        times=draw(st.lists(st.integers(0, 2**62), min_size=rows, max_size=rows)) if own_times else None,
        end=draw(st.sampled_from(["acknowledged"] * 5 + ["failed", "split", "pending", "refused part"])),
        base_offset=draw(st.one_of(st.just(-1), LARGE, st.integers(0, 2**62))),
        append_time_ms=draw(st.sampled_from([-1, -1, 1_700_000_000_000])),
        ends_after=draw(st.integers(0, 3)),
    )


TABLES = st.lists(st.lists(pieces(), min_size=1, max_size=6), min_size=1, max_size=4)


def batch_of(piece: Piece, rows: range) -> ProducerBatch:
    sizes = array("i", piece.sizes[rows.start : rows.stop])
    times = Constant(7, len(rows)) if piece.times is None else array("q", piece.times[rows.start : rows.stop])
    columns = FinishedColumns(
        bytes(9),
        count=len(rows),
        first_timestamp=0,
        highest_timestamp=0,
        facts=Facts(times, array("i", reversed(sizes)) if piece.keyed else None, sizes),
    )
    batch = ProducerBatch(topic=piece.topic, partition=piece.partition, columns=columns, now=1.0)
    batch.close()
    return batch


def finish(piece: Piece, batch: ProducerBatch, now: float) -> None:
    acknowledged = Acknowledged(base_offset=piece.base_offset, log_append_time_ms=piece.append_time_ms)
    error = DeliveryError("refused", topic=piece.topic, partition=1, attempts=1, possibly_persisted=False)
    batch.completed_at = now
    if piece.end == "acknowledged":
        batch.complete(acknowledged)
    elif piece.end == "failed":
        batch.complete(Failed(error=error, record_errors={0: error}))
    elif piece.end != "pending":
        half = len(piece.sizes) // 2
        parts = [batch_of(piece, part) for part in (range(half), range(half, len(piece.sizes))) if part]
        batch.forward_to(Forwarded.in_order(parts))
        for part in parts:
            part.completed_at = now
        parts[0].complete(acknowledged)
        parts[-1].complete(Failed(error=error) if piece.end == "refused part" else acknowledged)


def metadata_of(delivery: TableDelivery, row: int) -> Any:
    try:
        return delivery.metadata(row)
    except DeliveryError as error:  # a copy, which is equal to no other
        return str(error)


def answers(delivery: TableDelivery) -> dict[str, Any]:
    """What the public methods return, and the functions of this module."""
    called: list[TableDelivery] = []
    delivery.add_done_callback(called.append)
    story = delivery.story()
    observed: list[tuple[Any, Any]] = []
    delivery.observe(lambda result, error: observed.append((result, repr(error))))
    found: dict[str, Any] = {
        "done": delivery.done(),
        "metadata": [metadata_of(delivery, row) for row in range(delivery.rows)],
        "failed": {row: str(error) for row, error in delivery.failed_rows().items()},
        "story": None if story is None or story.pending else story.seconds,
        "progress": table_delivery._CompletedRows().count(delivery._chunks),
        "called": len(called),
        "observed": observed,
        "unassigned": unassigned(delivery),
        "topics": {
            topic: (
                rows._result(),
                rows.rows,
                sorted(filter(None, (metadata_of(rows, row) for row in range(rows.rows))), key=repr),
            )
            for topic, rows in by_topic(delivery).items()
        },
        "repr": repr(delivery),
        "html": delivery._repr_html_(),
    }
    if delivery.done():
        try:
            found["result"] = delivery.result(0)
        except TableDeliveryError as error:
            found["result"] = (error.result, str(error), error.__cause__)
    return found


@pytest.fixture(scope="module", autouse=True)
def two_batches_are_many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (chunk_rows, chunk_list):
            patch.setattr(module, "MIN_COMPACTED", 2)
        yield


@given(table=TABLES, shuffled=st.randoms(use_true_random=False), missing=st.booleans())
def test_a_compacted_delivery_answers_as_one_with_all_batches(
    table: list[list[Piece]], shuffled: Any, missing: bool
) -> None:
    compacted, reference = TableDelivery("t"), TableDelivery("t")
    reference._chunks = Uncompacted()
    pending: list[tuple[Piece, ProducerBatch]] = []
    now = count(2)
    for number, chunk in enumerate(table):
        for piece, batch in pending:
            if batch.outcome is None and piece.ends_after <= number:
                finish(piece, batch, float(next(now)))
        total = sum(len(piece.sizes) for piece in chunk)
        rows = list(range(total))
        if chunk[0].keyed:
            shuffled.shuffle(rows)
        extra = 1 if missing and chunk is table[-1] else 0  # a row that is in no batch, as in an interrupted call
        offset = compacted.begin_chunk(total + extra)
        assert offset == reference.begin_chunk(total + extra)
        for piece in chunk:
            its, rows = sorted(rows[: len(piece.sizes)]), rows[len(piece.sizes) :]
            batch = batch_of(piece, range(len(its)))
            pending.append((piece, batch))
            taken: Sequence[int] = range(its[0], its[-1] + 1) if its[-1] - its[0] == len(its) - 1 else array("i", its)
            for delivery in (compacted, reference):
                delivery.add(batch, offset=offset, rows=taken)
    if missing:
        assert unassigned(compacted) == unassigned(reference) != []
        return

    for _ in range(2):  # the second time with all batches completed
        compacted._chunks.compact()
        assert answers(compacted) == answers(reference)
        for piece, batch in pending:
            if batch.outcome is None:
                finish(attrs.evolve(piece, end="acknowledged"), batch, float(next(now)))


def in_many_batches(simulation: Simulated, chunks: int, monkeypatch: pytest.MonkeyPatch) -> TableDelivery:
    """Send a table in so many chunks; the batches of each are acknowledged when the next one begins."""
    begin = TableDelivery.begin_chunk

    def answered(delivery: TableDelivery, count: int) -> int:
        simulation.run_until_idle()
        return begin(delivery, count)

    monkeypatch.setattr(TableDelivery, "begin_chunk", answered)
    batches = pa.table(
        {"value": [b"%d" % row for row in range(40 * chunks)], "to": [row % 20 for row in range(40 * chunks)]}
    ).to_batches(max_chunksize=40)
    return simulation.producer.send_table(
        "t", pa.RecordBatchReader.from_batches(batches[0].schema, batches), partition="to"
    )


def batches_in_memory() -> int:
    gc.collect()
    return sum(isinstance(found, ProducerBatch) for found in gc.get_objects())


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_table_keeps_no_acknowledged_batches_but_the_slowest(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.tables.sending.GATHERED_BYTES", 1)
    before = batches_in_memory()
    with simulated(*[1] * 20, record_encoder=encoder) as simulation:
        delivery = in_many_batches(simulation, 5, monkeypatch)

        assert batches_in_memory() - before <= 20 + 4  # those of the last chunk, and one of each other one
        simulation.run_until_idle()
        assert delivery.result(0).acknowledged == 200
        assert batches_in_memory() - before <= 5
        for row in range(200):
            metadata = delivery.metadata(row)
            assert metadata is not None
            assert simulation.log(metadata.partition)[metadata.offset] == b"%d" % row
