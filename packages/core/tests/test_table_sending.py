"""A table that is sent: the partitions of its rows, refusals, and the contents of its delivery."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ottla import (
    BufferExhaustedError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    InvalidPluginError,
    InvalidRecordError,
    ProducerClosedError,
    RecordTooLargeError,
    TableDeliveryError,
    TableReadError,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla.interfaces import RecordView, TopicView
from simulated_producer import Calling, Simulated, simulated

NOW = 1_700_000_000_000
ENCODERS = ["python", "native"]


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def log(simulation: Simulated, partition: int) -> list[Any]:
    return list(simulation.cluster.topics["t"].log.get(partition, []))


def values(simulation: Simulated, partition: int) -> list[bytes | None]:
    return [record.value for record in log(simulation, partition)]


def numbered(count: int, **columns: Any) -> Any:
    return pa.table({"value": [b"%d" % number for number in range(count)], **columns})


# Where rows go


class ByValue:
    """A partitioner that reads whole records."""

    def __init__(self) -> None:
        self.records: list[RecordView] = []

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        raise AssertionError("each row is asked for")

    def partition_record(self, record: RecordView, view: TopicView) -> int:
        self.records.append(record)
        return len(record.value or b"")


@pytest.mark.rule("partitioner.record")
def test_a_partitioner_by_records_gets_each_row_without_a_partition(encoder: str) -> None:
    partitioner = ByValue()
    rows = pa.table(
        {
            "value": [b"a", b"bb", None, b"c"],
            "key": [b"k", None, b"k", None],
            "headers": pa.array([[("x", b"1"), ("y", None)], [], None, None], pa.map_(pa.string(), pa.binary())),
            "time": pa.array([5, None, None, NOW], pa.int64()),
            "part": pa.array([None, None, None, 0], pa.int32()),
        }
    )
    with simulated(1, 1, 1, record_encoder=encoder, plugins={"partitioner": partitioner}) as simulation:
        sent = simulation.producer.send_table("t", rows, headers="headers", partition="part", timestamp="time")
        Calling(simulation, simulation.producer.flush).rounds()

        assert sent.exception(0) is None
        assert [values(simulation, partition) for partition in range(3)] == [[None, b"c"], [b"a"], [b"bb"]]
    assert partitioner.records == [
        RecordView(topic="t", key=b"k", value=b"a", headers=(("x", b"1"), ("y", None)), timestamp_ms=5),
        RecordView(topic="t", key=None, value=b"bb", headers=(), timestamp_ms=None),
        RecordView(topic="t", key=b"k", value=None, headers=(), timestamp_ms=None),
    ]


part = st.none() | st.binary(max_size=9)


@settings(
    deadline=None, max_examples=15, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(part, part, st.none() | st.integers(0, 2), st.integers(0, NOW)), min_size=1, max_size=60),
    chunk=st.integers(1, 70),
    batch_size=st.integers(200, 2_000),
)
def test_rows_arrive_as_if_they_were_sent_one_by_one(
    encoder: str, rows: list[tuple[bytes | None, bytes | None, int | None, int]], chunk: int, batch_size: int
) -> None:
    keys, contents, partitions, times = zip(*rows, strict=True)
    table = pa.table(
        {
            "value": pa.array(contents, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "to": pa.array(partitions, pa.int8()),
            "at": pa.array(times, pa.int64()),
        }
    )
    options: dict[str, Any] = {"record_encoder": encoder, "batch_size": batch_size, "batch_growth_enable": "false"}
    with simulated(1, 2, 1, **options) as ours, simulated(1, 2, 1) as theirs:
        batches = table.to_batches(max_chunksize=chunk)
        stream = pa.RecordBatchReader.from_batches(table.schema, batches)
        delivery = ours.producer.send_table("t", stream, partition="to", timestamp="at")
        for key, value, partition, time in rows:
            theirs.producer.send("t", value, key, partition=partition, timestamp_ms=time)
        ours.run_until_idle()
        theirs.run_until_idle()

        placed: Counter[int] = Counter()
        for number, (key, value, partition, time) in enumerate(rows):
            reported = delivery.metadata(number)
            assert reported is not None
            record = log(ours, reported.partition)[reported.offset]
            assert (record.key, record.value, record.timestamp_ms) == (key, value, time)
            assert reported.timestamp_ms == time
            assert partition in (None, reported.partition)
            placed[reported.partition] += 1
        assert delivery.result(0).partitions.keys() == placed.keys()
        for number in range(3):
            mine, other = ([record for record in log(simulation, number)] for simulation in (ours, theirs))
            assert len(mine) == placed[number]
            if None not in keys:
                assert [(r.key, r.value, r.timestamp_ms) for r in mine] == [
                    (r.key, r.value, r.timestamp_ms) for r in other
                ]


def test_rows_keep_their_order_in_a_partition_however_it_is_chosen(encoder: str) -> None:
    """Keys, partitions and neither, in chunks of their own, between records of `send`."""
    with simulated(1, 2, record_encoder=encoder, linger_ms=1_000) as simulation:
        sent = 0
        for columns in ({}, {"key": True}, {"to": True}, {"key": True, "to": True}):
            for number in range(sent, sent + 20):
                simulation.producer.send("t", b"%d" % number, b"k" if number % 2 else None)
            sent += 20
            chosen: dict[str, Any] = {"value": [b"%d" % number for number in range(sent, sent + 300)]}
            if "key" in columns:
                chosen["key"] = [None if number % 3 else b"%d" % number for number in range(300)]
            if "to" in columns:
                chosen["to"] = [None if number % 4 else number % 2 for number in range(300)]
            simulation.producer.send_table("t", pa.table(chosen), partition="to" if "to" in columns else None)
            sent += 300
        simulation.run_until_idle()

        found = [[int(value or b"") for value in values(simulation, partition)] for partition in range(2)]
        assert sorted(found[0] + found[1]) == list(range(sent))
        assert found == [sorted(numbers) for numbers in found]


def test_rows_without_a_key_change_partition_after_a_batch(encoder: str) -> None:
    with simulated(*[1] * 8, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", pa.table({"value": [bytes(10_000)] * 800}))
        simulation.run_until_idle()

        counts = [len(log(simulation, partition)) for partition in range(8)]
        assert sum(counts) == 800
        assert len([count for count in counts if count]) > 2


@attrs.define
class Backwards:
    """A third-party partitioner: the last partition for the first row, and so on; *more* than there are."""

    more: int = 0
    asked: list[bytes | None] = attrs.field(factory=list)

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self.asked.append(key)
        return (view.partitions - len(self.asked)) % view.partitions + self.more


def test_a_partitioner_without_columns_is_called_for_each_row(encoder: str) -> None:
    with simulated(1, 1, 1, plugins={"partitioner": Backwards()}, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", numbered(6, key=[b"a", None, b"b", None, b"c", None]))
        simulation.run_until_idle()

        assert [values(simulation, partition) for partition in range(3)] == [[b"2", b"5"], [b"1", b"4"], [b"0", b"3"]]


def test_an_invalid_partition_is_reported_before_a_row_is_queued(encoder: str) -> None:
    with simulated(1, plugins={"partitioner": Backwards(more=7)}, record_encoder=encoder) as simulation:
        with pytest.raises(InvalidPluginError, match=r"the partitioner \S*Backwards chose partition 7 for .* has 1,"):
            simulation.producer.send_table("t", numbered(2))

        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda keys: ["1"] * len(keys), "chose list of str for topic 't', but a partition is an int"),
        (lambda keys: [5] * len(keys), "chose partitions from 5 to 5 for topic 't', which has 2"),
        (lambda keys: [0], "returned 1 partition for 2 keys of topic 't'"),
        (lambda keys: {}[keys[0]], "failed in partition_column for topic 't': KeyError: b'a'"),
    ],
)
def test_an_error_of_a_column_partitioner_is_reported_as_its_own(
    column: Callable[[Sequence[bytes | None]], Any], said: str
) -> None:
    class Columnar(Backwards):
        def partition_column(self, topic: str, keys: Sequence[bytes | None], view: TopicView) -> Any:
            return column(keys)

    with simulated(1, 1, plugins={"partitioner": Columnar()}) as simulation:
        with pytest.raises(InvalidPluginError, match=rf"^the partitioner \S*Columnar {re.escape(said)}"):
            simulation.producer.send_table("t", numbered(2, key=[b"a", b"b"]))

        assert simulation.pool.free == simulation.pool.capacity


# What tables may be


class Streaming:
    """A third-party table that offers only the Arrow stream."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Arrays(Streaming):
    """One that only gives single arrays."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__arrow_c_stream__":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "made",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_reader(2),
        Streaming,
        lambda table: Arrays(table.to_batches()[0]),
        lambda table: table.to_pandas(),
    ],
    ids=["table", "batch", "reader", "stream", "array", "pandas"],
)
def test_any_arrow_stream_or_array_is_a_table(made: Any) -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", made(numbered(5)))
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 5
        assert values(simulation, 0) == [b"0", b"1", b"2", b"3", b"4"]


TEXTS = ["a", None, "", "ü" * 40, "a"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_bytes_and_text_arrive_from_every_arrow_type(encoder: str, kind: Any) -> None:
    plain = pa.array([None if text is None else text.encode() for text in TEXTS], pa.binary())
    text = pa.array(TEXTS)
    if pa.types.is_dictionary(kind):
        column = (text if pa.types.is_string(kind.value_type) else plain).dictionary_encode()
    else:
        column = (text if "string" in str(kind) else plain).cast(kind)
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", pa.table({"v": column.slice(1), "k": column.slice(1)}), value="v", key="k")
        simulation.run_until_idle()

        expected = plain.to_pylist()[1:]
        assert [(record.key, record.value) for record in log(simulation, 0)] == [(part, part) for part in expected]


def test_fixed_size_bytes_and_untyped_nulls_are_accepted(encoder: str) -> None:
    with simulated(1, record_encoder=encoder) as simulation:
        table = pa.table({"v": pa.array([b"abc", None, b"xyz"], pa.binary(3)), "nothing": pa.nulls(3)})
        simulation.producer.send_table("t", table, value="v", key="nothing", headers="nothing", partition="nothing")
        simulation.producer.send_table("t", table, value=None, key="v")
        simulation.run_until_idle()

        assert [(record.key, record.value) for record in log(simulation, 0)] == [
            (None, b"abc"),
            (None, None),
            (None, b"xyz"),
            (b"abc", None),
            (None, None),
            (b"xyz", None),
        ]


@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [
        (pa.timestamp("s"), [0, 1_700_000_000], [0, 1_700_000_000_000]),
        (pa.timestamp("ms", "UTC"), [5, NOW], [5, NOW]),
        (pa.timestamp("us"), [1_999, NOW * 1_000 + 999], [1, NOW]),
        (pa.timestamp("ns"), [999_999, NOW * 1_000_000 + 1], [0, NOW]),
        (pa.int64(), [0, 2**63 - 1], [0, 2**63 - 1]),
        (pa.uint64(), [7, NOW], [7, NOW]),
        (pa.int32(), [7, 8], [7, 8]),
    ],
    ids=str,
)
def test_timestamps_are_rounded_down_to_milliseconds(
    encoder: str, kind: Any, numbers: list[int], expected: list[int]
) -> None:
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", numbered(2, at=pa.array(numbers, kind)), timestamp="at")
        simulation.run_until_idle()

        assert [record.timestamp_ms for record in log(simulation, 0)] == expected


def test_a_row_without_a_timestamp_gets_the_time_of_send(encoder: str) -> None:
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", numbered(3, at=pa.array([None, 5, None], pa.int64())), timestamp="at")
        simulation.run_until_idle()

        times = [record.timestamp_ms for record in log(simulation, 0)]
        assert times[1] == 5
        assert times[0] == times[2] > NOW


def test_a_column_named_key_is_the_key_unless_another_or_none_is_named() -> None:
    table = numbered(2, key=[b"a", b"b"], other=[b"c", b"d"])
    with simulated(1) as simulation:
        for options in ({}, {"key": "other"}, {"key": None}):
            simulation.producer.send_table("t", table, **options)
        simulation.run_until_idle()

        assert [record.key for record in log(simulation, 0)] == [b"a", b"b", b"c", b"d", None, None]


@pytest.mark.parametrize("table", [pa.table({"value": pa.array([], pa.binary())}), pa.table({"value": pa.nulls(0)})])
def test_a_table_without_rows_completes_at_once(table: Any) -> None:
    reported: list[int] = []
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table("t", table)
        delivery.add_done_callback(lambda done: reported.append(done.rows))

        assert delivery.done()
        assert delivery.result(0).rows == 0
        assert reported == [0]


# What is wrong with a whole table


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (
            pa.table({"other": [b""]}),
            {},
            "value='value'.*no such column.*'other'; name one, or set value='\\*' and a value_format",
        ),
        (numbered(1), {"key": "id"}, "key='id'.*no such column"),
        (pa.table({"value": [1]}), {}, "column 'value' is int64.*binary, string.*encode it"),
        (numbered(1, key=[1.5]), {}, "column 'key' is double"),
        (numbered(1, h=[["a"]]), {"headers": "h"}, "column 'h' is list<.*map<string, binary>"),
        (numbered(1, h=pa.array([[(b"a", b"b")]], pa.map_(pa.binary(), pa.binary()))), {"headers": "h"}, "column 'h'"),
        (numbered(1, p=["0"]), {"partition": "p"}, "column 'p' is string.*any integer"),
        (numbered(1, at=pa.array([1], pa.date32())), {"timestamp": "at"}, "column 'at' is date32"),
        (pa.table([[b""], [b""]], ["value", "value"]), {}, "2 columns of this name"),
        ([b"value"], {}, "an object of type list is not a table; send_table takes a table of pyarrow"),
        ([{"value": b""}], {}, r"pyarrow\.Table\.from_pylist makes one of a list of dicts"),
        (
            {"value": [b""]},
            {},
            "an object of type dict is not a table; send_table takes .*; pyarrow.table makes one of a dict",
        ),
        (b"value", {}, "an object of type bytes is not a table; send_table takes"),
        (numbered(1), {"value": ["value", "key"]}, "several columns need a format, such as value_format='json'"),
        (numbered(1), {"value": "*"}, "several columns need a format, such as value_format='json'"),
        (
            pa.table([[b""], [3]], ["value", "key"]),
            {},
            "column 'key' is int64 .*; cast it to text or encode it to bytes",
        ),
        (numbered(1), {"value": 3}, "name is a str"),
        (numbered(1), {"value": None, "key": None}, "the records would have no value, no key, and no headers of th"),
        (
            numbered(1),
            {"value": None, "key": None, "headers": {"a": b"b"}},
            "and no headers of their own; name a column",
        ),
    ],
)
@pytest.mark.rule("producer.table.whole")
def test_a_table_that_cannot_be_sent_is_refused_before_a_row_is_queued(
    table: Any, options: dict[str, Any], words: str
) -> None:
    with simulated(1) as simulation:
        with pytest.raises(InvalidRecordError, match=words):
            simulation.producer.send_table("t", table, **options)

        assert simulation.accumulator.incomplete == 0


def test_an_unknown_topic_is_reported_before_the_stream_is_read() -> None:
    with simulated(1, max_block_ms=0) as simulation:
        stream = numbered(3).to_reader()
        with pytest.raises(TopicUnavailableError):
            simulation.producer.send_table("unknown", stream)

        assert stream.read_all().num_rows == 3


# What is wrong with a row


def test_a_row_that_cannot_be_a_record_fails_alone(encoder: str) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "value": [b"0", b"1", b"x" * 2_000_000, b"3", b"4", b"5"],
            "to": pa.array([0, 7, 0, -1, None, 0], pa.int16()),
            "at": [0, 1, 2, 3, -4, 5],
            "h": pa.array([None, None, None, None, None, [{"key": None, "value": b""}]], pa.list_(pair)),
        }
    )
    with simulated(1, record_encoder=encoder, max_block_ms=0) as simulation:
        delivery = simulation.producer.send_table("t", table, partition="to", timestamp="at", headers="h")
        simulation.run_until_idle()

        assert values(simulation, 0) == [b"0"]
        failed = delivery.failed_rows()
        assert list(failed) == [1, 2, 3, 4, 5]
        reasons = ["partition 7 of topic 't', which has 1", "above max.request.size", "partition -1", "time", "no name"]
        assert [words for words, error in zip(reasons, failed.values(), strict=True) if words not in str(error)] == []
        assert isinstance(failed[2].__cause__, RecordTooLargeError)
        assert all(not error.possibly_persisted for error in failed.values())
        with pytest.raises(DeliveryError, match=r"row 3 .* partition -1"):
            delivery.metadata(3)
        metadata = delivery.metadata(0)
        assert metadata is not None
        assert metadata.offset == 0


def test_impossible_timestamps_are_refused_in_every_unit() -> None:
    for kind, number in (("s", 2**62), ("us", -1), ("ns", -1), ("s", -1)):
        with simulated(1) as simulation:
            delivery = simulation.producer.send_table(
                "t", numbered(2, at=pa.array([0, number], pa.timestamp(kind))), timestamp="at"
            )
            simulation.run_until_idle()

            assert list(delivery.failed_rows()) == [1]


def test_flush_raises_failures_unless_their_errors_were_retrieved() -> None:
    table = numbered(3, to=[0, 5, 0])
    with simulated(1, max_block_ms=0) as simulation:
        delivery = simulation.producer.send_table("t", table, partition="to")
        simulation.run_until_idle()
        with pytest.raises(UndeliveredError, match=r"1 record failed"):
            simulation.producer.flush(0)

        delivery = simulation.producer.send_table("t", table, partition="to")
        simulation.run_until_idle()
        assert isinstance(delivery.exception(0), TableDeliveryError)
        report = simulation.producer.flush(0)
        assert (report.acknowledged, report.failed) == (2, 1)


def test_a_result_with_failures_is_raised_with_its_counts(encoder: str) -> None:
    with simulated(1, record_encoder=encoder, max_block_ms=0) as simulation:
        delivery = simulation.producer.send_table("t", numbered(3, to=[0, 5, 0]), partition="to")
        simulation.run_until_idle()

        with pytest.raises(TableDeliveryError, match="1 of 3 rows") as caught:
            delivery.result(0)
        result = caught.value.result
        assert (result.rows, result.acknowledged, result.failed) == (3, 2, 1)
        assert (result.partitions[0].first_offset, result.partitions[0].last_offset) == (0, 1)


# In the middle of a table


def broken_after(batches: int, schema: Any, size: int) -> Iterator[Any]:
    for number in range(batches):
        yield pa.record_batch([[b"%d" % number * size] * 8], schema=schema)
    raise OSError("the disk is gone")


@pytest.mark.parametrize("size", [100_000, 1], ids=["each batch leaves", "small batches are joined first"])
def test_a_stream_that_fails_leaves_earlier_rows_and_their_number(size: int) -> None:
    schema = pa.schema([("value", pa.binary())])
    with simulated(1) as simulation:
        stream = pa.RecordBatchReader.from_batches(schema, broken_after(3, schema, size))
        with pytest.raises(TableReadError, match="the disk is gone") as caught:
            simulation.producer.send_table("t", stream)
        simulation.run_until_idle()

        delivery = caught.value.delivery
        assert delivery is not None
        assert delivery.rows == len(log(simulation, 0)) == 24


def test_rows_not_queued_for_lack_of_memory_are_reported(encoder: str) -> None:
    with simulated(1, record_encoder=encoder, buffer_memory=200_000, max_block_ms=0, batch_size=1_000) as simulation:
        table = pa.table({"value": [b"%4d" % number + bytes(996) for number in range(1_000)]})
        with pytest.raises(BufferExhaustedError) as caught:
            simulation.producer.send_table("t", table)
        simulation.run_until_idle()

        report = simulation.producer.flush(0)  # which does not raise what was raised already
        delivery = caught.value.delivery
        assert delivery is not None
        left = delivery.failed_rows()
        sent = [int((value or b"")[:4]) for value in values(simulation, 0)]
        assert 0 < len(sent) < delivery.rows < 1_000
        assert sorted([*sent, *left]) == list(range(delivery.rows))
        assert report.failed == len(left)
        assert simulation.pool.free == simulation.pool.capacity


def test_a_table_waits_for_memory_and_never_exceeds_it(encoder: str) -> None:
    options: dict[str, Any] = {"record_encoder": encoder, "buffer_memory": 200_000, "max_block_ms": 60_000}
    with simulated(1, **options) as simulation:
        table = pa.table({"value": [b"%4d" % number + bytes(996) for number in range(1_000)]})
        call = Calling(simulation, lambda: simulation.producer.send_table("t", table))
        while call.thread.is_alive():
            simulation.pass_time(0.1)
        simulation.run_until_idle()

        assert call.error is None
        assert [int((value or b"")[:4]) for value in values(simulation, 0)] == list(range(1_000))
        assert simulation.pool.free == simulation.pool.capacity


def test_a_closed_producer_takes_no_table() -> None:
    with simulated(1) as simulation:
        simulation.producer.close()
        with pytest.raises(ProducerClosedError):
            simulation.producer.send_table("t", numbered(3))


# The contents of its delivery


def test_a_delivery_is_pending_until_its_last_row_is_complete(encoder: str) -> None:
    reported: list[object] = []
    with simulated(1, 2, record_encoder=encoder) as simulation:
        delivery = simulation.producer.send_table("t", numbered(10, to=[0, 1] * 5), partition="to")
        delivery.add_done_callback(reported.append)

        assert not delivery.done()
        assert delivery.metadata(3) is None
        with pytest.raises(TimeoutError, match="pending after 0"):
            delivery.result(0)
        simulation.run_until_idle()

        assert delivery.done()
        assert reported == [delivery]
        assert delivery.exception(0) is None
        assert "done" in repr(delivery)
        with pytest.raises(IndexError, match="row 10"):
            delivery.metadata(10)


def test_a_batch_that_is_split_keeps_its_rows_separate(encoder: str) -> None:
    reported: list[object] = []
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        table = pa.table({"value": [b"%4d" % number + bytes(96) for number in range(200)]})
        delivery = simulation.producer.send_table("t", table)
        delivery.add_done_callback(reported.append)
        simulation.run_until_idle()

        for row in range(200):
            metadata = delivery.metadata(row)
            assert metadata is not None
            assert (log(simulation, 0)[metadata.offset].value or b"")[:4] == b"%4d" % row
        assert delivery.result(0).partitions[0].rows == 200
        assert reported == [delivery]


def test_only_the_rows_of_the_refused_part_of_a_split_batch_fail(encoder: str) -> None:
    with simulated(1, record_encoder=encoder) as simulation:
        codes = [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE, ErrorCode.INVALID_RECORD]
        simulation.cluster.brokers[1].codes.extend(codes)
        table = pa.table({"value": [b"%4d" % number + bytes(96) for number in range(200)]})
        delivery = simulation.producer.send_table("t", table)
        simulation.run_until_idle()

        failed = list(delivery.failed_rows())
        arrived = [int((value or b"")[:4]) for value in values(simulation, 0)]
        assert failed
        assert sorted([*arrived, *failed]) == list(range(200))


def test_rows_that_expire_have_a_clear_error(encoder: str) -> None:
    with simulated(1, record_encoder=encoder, delivery_timeout_ms=1_000, request_timeout_ms=500) as simulation:
        delivery = simulation.producer.send_table("t", numbered(10))
        simulation.clock.advance(5)
        simulation.run_until_idle()

        assert list(delivery.failed_rows()) == list(range(10))
        assert all(isinstance(error, DeliveryTimeoutError) for error in delivery.failed_rows().values())


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("offsets", [(0, -5, 3), (0, 9, 3), (0, 2_000_000_000, 3)])
@pytest.mark.parametrize("column", ["value", "key"])
def test_offsets_outside_their_data_are_refused(encoder: str, offsets: tuple[int, int, int], column: str) -> None:
    data = pa.py_buffer(b"hello world")
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(struct.pack("<3i", *offsets)), data])
    table = pa.RecordBatch.from_arrays([lying, pa.array([b"x", b"y"])], [column, "value" if column == "key" else "key"])

    with simulated(1, config={"record.encoder": encoder}) as simulation, pytest.raises(TableReadError):
        simulation.producer.send_table("t", table)


def of_bytes(kind: Any, count: int, *buffers: bytes | None, children: list[Any] | None = None) -> Any:
    made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, made, children=children)


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
PAIRS = pa.array([{"key": "a", "value": b"1"}], PAIR)
LYING = {
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 9_000_000], pa.int32()), pa.array(["a"]), safe=False),
    "text": of_bytes(pa.string(), 2, None, struct.pack("<3i", 0, 1_000_000, 3), b"abc"),
    "view": of_bytes(pa.binary_view(), 2, None, struct.pack("<4i4i", 20, 0, 7, 0, 20, 0, 0, 9_999_999)),
}
LYING_LISTS = {
    "list": of_bytes(pa.list_(PAIR), 2, None, struct.pack("<3i", 0, 5_000_000, 1), children=[PAIRS]),
    "no text": pa.array(
        [[{"key": b"\xff", "value": b""}]] * 2, pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    ).cast(pa.list_(PAIR), safe=False),
}


@pytest.mark.parametrize("form", LYING)
def test_columns_of_every_type_with_offsets_outside_are_refused(encoder: str, form: str) -> None:
    table = pa.RecordBatch.from_arrays([LYING[form]], ["value"])
    with simulated(1, record_encoder=encoder) as simulation, pytest.raises(TableReadError):
        simulation.producer.send_table("t", table)


@pytest.mark.parametrize("form", LYING_LISTS)
def test_headers_with_wrong_offsets_or_names_are_refused(encoder: str, form: str) -> None:
    table = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"]), LYING_LISTS[form]], ["value", "h"])
    with simulated(1, record_encoder=encoder) as simulation, pytest.raises(TableReadError):
        simulation.producer.send_table("t", table, headers="h")


def test_a_text_that_is_not_utf8_is_sent_unchanged(encoder: str) -> None:
    table = pa.RecordBatch.from_arrays(
        [of_bytes(pa.string(), 2, None, struct.pack("<3i", 0, 1, 3), b"\xff\xfe\xfd")], ["value"]
    )
    with simulated(1, record_encoder=encoder) as simulation:
        simulation.producer.send_table("t", table)
        simulation.run_until_idle()

        assert values(simulation, 0) == [b"\xff", b"\xfe\xfd"]
