"""Records, errors and counts of a task: its rows go through a whole producer to simulated brokers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spark_task_kit import PARTITIONS, TOPICS, cluster, log, numbered, options, received, sent, until

from ottla import DeliveryError, ErrorCode, TableResult, TopicUnavailableError
from ottla.interfaces import ProducerRows
from ottla_spark.errors import WriteError
from ottla_spark.sink import in_flight, row_buffer, task
from ottla_spark.sink.records import RowPlace, TopicRows
from ottla_spark.sink.refused_rows import RefusedRows
from ottla_spark.sink.task import send_rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE_HEADERS = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
TYPES = {
    "topic": [pa.string(), pa.large_string()],
    "value": [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()],
    "key": [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()],
    "partition": [pa.int32()],
    "headers": [HEADERS, LARGE_HEADERS],
    "timestamp": [pa.timestamp("us", "UTC")],
}
Row: TypeAlias = Mapping[str, Any]


def _row(**fixed: Any) -> st.SearchStrategy[Row]:
    part = st.none() | st.text(max_size=5)
    header = st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)})
    return st.fixed_dictionaries(
        {
            "topic": st.sampled_from(TOPICS),
            "value": part,
            "key": part,
            "partition": st.integers(0, PARTITIONS - 1),
            "headers": st.none() | st.lists(header, max_size=3),
            "timestamp": st.integers(0, 10**16),  # microseconds
        }
    )


@given(rows=st.lists(_row(), min_size=1, max_size=40), data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_row_is_a_record_of_its_topic_and_partition_in_order(rows: list[Row], data: st.DataObject) -> None:
    kinds = {name: data.draw(st.sampled_from(found), name) for name, found in TYPES.items()}
    size = data.draw(st.integers(1, 20), "rows of a batch")
    encoder = data.draw(st.sampled_from(["python", "native"]), "encoder")
    schema = pa.schema(kinds.items())
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}, schema)
    expected: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in rows:
        expected[row["topic"], row["partition"]].append(
            (
                _bytes(row["value"]),
                _bytes(row["key"]),
                tuple((header["key"], header["value"]) for header in row["headers"] or ()),
                row["timestamp"] // 1000,
            )
        )

    with cluster(record_encoder=encoder) as simulation:
        written = sent(simulation, table.to_batches(max_chunksize=size))
        found = {
            (topic, partition): [
                (record.value, record.key, record.headers, record.timestamp_ms)
                for record in log(simulation, topic, partition)
            ]
            for topic in TOPICS
            for partition in range(PARTITIONS)
        }

    assert {place: records for place, records in found.items() if records} == expected
    assert written.records == len(rows)
    assert written.partitions == {place: len(records) for place, records in expected.items()}
    assert written.bytes == sum(
        len(value or b"") + len(key or b"") for each in expected.values() for value, key, *_ in each
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def test_keys_get_the_same_partitions_as_in_send() -> None:
    keys = [str(number % 10) for number in range(100)]
    with cluster() as simulation:
        sent(simulation, [numbered(0, 100, key=keys)], topic="t")
        sent(simulation, [numbered(0, 100, key=keys)], topic="u")
        for key, value in zip(keys, range(100), strict=True):
            simulation.producer.send("v", b"%d" % value, key=key.encode())
        simulation.run_until_idle()
        found = [
            [[record.value for record in log(simulation, topic, at)] for at in range(PARTITIONS)] for topic in TOPICS
        ]

    assert found[0] == found[1] == found[2]


def test_a_task_without_rows_requests_no_producer() -> None:
    def unused_session() -> Any:
        raise AssertionError("a producer was asked for")

    written = send_rows(iter([numbered(0, 0)]), unused_session, options=options("t"), columns={"value": 0}, task="task")

    assert (written.records, written.bytes, written.partitions) == (0, 0, {})


def test_rows_are_sent_while_more_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", 1000)
    to_zero = pa.array([0] * 100, pa.int32())
    with cluster() as simulation:

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, 1000, 100):
                yield numbered(start, start + 100, partition=to_zero)
            until(lambda: len(log(simulation, "t", 0)) >= 900)
            yield numbered(1000, 1100, partition=to_zero)

        written = sent(simulation, batches(), topic="t")
        found = [record.value for record in log(simulation, "t", 0)]

    assert found == [b"%d" % number for number in range(1100)]
    assert (written.records, written.partitions) == (1100, {("t", 0): 1100})


@pytest.mark.parametrize(("table_bytes", "since_first"), [(1, 200.0), (1_000_000, 0.0)])
def test_a_task_knows_since_when_its_rows_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch, table_bytes: int, since_first: float
) -> None:
    """Not since when it reads them: rows may wait for others for long."""
    clock = [1000.0]
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", table_bytes)
    for module in (in_flight, task):
        monkeypatch.setattr(module, "perf_counter", lambda: clock[0])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(3):
            yield numbered(start, start + 1)
            clock[0] += 100.0 if start < 2 else 0.0

    with cluster() as simulation:
        assert sent(simulation, batches(), topic="t").since_first == since_first


def test_many_topics_together_keep_to_the_buffer_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "GATHERED_BYTES", 300)
    topics = pa.array([TOPICS[number % 3] for number in range(100)])
    with cluster() as simulation:

        def batches() -> Iterator[pa.RecordBatch]:
            yield numbered(0, 100, topic=topics)
            until(lambda: sum(len(log(simulation, topic, at)) for topic in TOPICS for at in range(PARTITIONS)) >= 50)

        assert sent(simulation, batches()).records == 100


def test_sent_rows_no_longer_count_towards_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "GATHERED_BYTES", 300)
    place = RowPlace(task="task", rows_before=0)
    sent: list[int] = []

    def take(table: row_buffer.TopicTable) -> Mapping[int, DeliveryError]:
        sent.append(table.table.num_rows)
        return {}

    gathered, after = row_buffer.RowBuffer(take, RefusedRows(None, task="task")), []
    for _ in range(6):
        gathered.put(TopicRows(topic="t", rows=numbered(0, 20), indexes=None), place)  # of 20 + 10 and 4 * 21 bytes
        after.append(sum(sent))

    assert after == [0, 0, 60, 60, 60, 120]


def test_rows_of_a_rare_topic_keep_no_others_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", 1000)
    tables: list[row_buffer.TopicTable] = []

    def take(table: row_buffer.TopicTable) -> Mapping[int, DeliveryError]:
        if table.topic == "rare":
            tables.append(table)
        return {}

    gathered = row_buffer.RowBuffer(take, RefusedRows(None, task="task"))
    memories = []
    for start in range(0, 1000, 100):
        rows, memory = received({"value": pa.array([b"%d" % number for number in range(start, start + 100)])})
        place = RowPlace(task="task", rows_before=start)
        places = pa.array(range(100), pa.int64())
        gathered.put(TopicRows(topic="rare", rows=rows.slice(7, 1), indexes=places.slice(7, 1)), place)
        gathered.put(TopicRows(topic="t", rows=rows.slice(8), indexes=places.slice(8)), place)
        memories.append(memory)
    del rows
    kept = [memory() for memory in memories if memory() is not None]
    gathered.send_all()
    [rare] = tables

    assert len(kept) <= 3  # those since the last table of the other topic
    assert rare.table.column("value").to_pylist() == [b"%d" % number for number in range(7, 1000, 100)]
    assert [rare.names(row) for row in (0, 5, 9)] == ["row 8 of task", "row 508 of task", "row 908 of task"]


def test_a_row_that_is_too_large_is_reported_with_number_and_sizes() -> None:
    batches = [
        numbered(0, 10, topic=["u"] * 10),
        pa.record_batch({"value": [b"", bytes(900), b"", bytes(2000)], "topic": ["t", "t", "u", "u"]}),
    ]
    with cluster(max_request_size=1000, batch_size=500) as simulation, pytest.raises(WriteError) as failed:
        sent(simulation, batches)

    said = str(failed.value)
    assert said.startswith("row 14 of Spark partition 7 was refused: it has 2082 bytes, above max.request.size")
    assert said.endswith("(column 'value': 2000 bytes)")


def test_a_missing_partition_is_reported_with_its_row() -> None:
    batch = numbered(0, 3, partition=pa.array([0, None, 9], pa.int32()))
    with cluster(max_block_ms=0) as simulation, pytest.raises(WriteError) as failed:
        sent(simulation, [numbered(0, 5, partition=pa.array([0] * 5, pa.int32())), batch], topic="t")

    assert str(failed.value).startswith("row 8 of Spark partition 7 was refused: it is for partition 9 of topic 't'")


def test_an_unknown_topic_is_reported_with_its_row() -> None:
    with cluster(max_block_ms=0) as simulation, pytest.raises(WriteError) as failed:
        sent(simulation, [numbered(0, 3, topic=["t", "nowhere", "t"])])

    assert "row 2 of Spark partition 7 and the later rows for topic 'nowhere' cannot be sent: " in str(failed.value)
    assert isinstance(failed.value.__cause__, TopicUnavailableError)


def test_a_broker_error_is_reported_with_row_topic_partition_and_counts() -> None:
    to_two = pa.array([2] * 3, pa.int32())
    batches = [
        numbered(0, 3, topic=["t", "u", "t"], partition=to_two),
        numbered(3, 6, topic=["t"] * 3, partition=to_two),
    ]
    with cluster() as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.INVALID_RECORD] * 2)
        with pytest.raises(WriteError) as failed:
            sent(simulation, batches)

    assert str(failed.value).startswith(
        "Spark partition 7: of 6 records these failed: 5 for topic 't' (0 of them possibly in Kafka), "
        "1 for topic 'u' (0 of them possibly in Kafka); the first, row 1 of Spark partition 7: topic 't', partition 2: "
    )


def test_the_row_that_a_broker_refused_is_named() -> None:
    rows = numbered(0, 4, timestamp=pa.array([0, 0, 10**15, 0], pa.int64()).cast(pa.timestamp("us", "UTC")))
    with cluster() as simulation:
        simulation.cluster.topics["t"].timestamp_after_max_ms = 0
        simulation.cluster.topics["t"].timestamp_before_max_ms = None
        with pytest.raises(WriteError, match=r"^Spark partition 7: of 4 records these failed: .*; the first, row 3 of"):
            sent(simulation, [rows], topic="t")


def test_a_failure_ends_the_task_before_all_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "TABLE_BYTES", 1)
    read: list[int] = []
    with cluster() as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, 1_000_000, 10):
                read.append(start)
                yield numbered(start, start + 10)
                if start == 0:
                    until(lambda: simulation.sender.idle)

        with pytest.raises(WriteError, match=re.escape("the first, row 1 of Spark partition 7")):
            sent(simulation, batches(), topic="t")

    assert len(read) < 10


class Tracing:
    """Adds a header to all rows, and counts them."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def on_send_table(self, rows: ProducerRows) -> ProducerRows:
        return attrs.evolve(rows, added_headers=(("span", b"1"),), context=rows.count + (rows.context or 0))

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: Exception | None, context: Any) -> None:
        self.outcomes.append((topic, result.acknowledged, error, context))


def test_interceptors_get_the_tables_of_a_task_and_their_outcomes() -> None:
    tracing = Tracing()
    batch = pa.record_batch({"topic": ["t", "u", "t"], "value": ["a", "b", "c"]})
    with cluster(plugins={"interceptors": {"tracing": tracing}}) as simulation:
        assert sent(simulation, [batch]).records == 3

        logs = {topic: simulation.cluster.topics[topic].log.values() for topic in ("t", "u")}
        found = {topic: [(r.value, r.headers) for log in logs[topic] for r in log] for topic in logs}
    span = (("span", b"1"),)
    assert found == {"t": [(b"a", span), (b"c", span)], "u": [(b"b", span)]}
    assert sorted(tracing.outcomes, key=str) == [("t", 2, None, 2), ("u", 1, None, 1)]


def test_an_interceptor_that_takes_no_tables_fails_the_task_by_name() -> None:
    interceptor = type("Records", (), {"ottla_spec": 2})()
    with (
        cluster(plugins={"interceptors": {"interceptor 'records'": interceptor}}) as simulation,
        pytest.raises(WriteError, match=r"row 1 .* cannot be sent: .* the interceptor 'records', which has no on_send"),
    ):
        sent(simulation, [pa.record_batch({"value": ["a"]})], topic="t")


def test_keys_in_a_format_are_made_of_their_column() -> None:
    pairs = pa.array([{"id": 1, "of": None}, {"id": 2, "of": "b"}, None])
    batch = pa.record_batch({"key": pairs, "value": ["1", "2", "3"]})
    with cluster() as brokers:
        sent(brokers, [batch], topic="t", key_format="json")
        found = {record.value: record.key for at in range(PARTITIONS) for record in log(brokers, "t", at)}

    assert found == {b"1": b'{"id":1}', b"2": b'{"id":2,"of":"b"}', b"3": None}
