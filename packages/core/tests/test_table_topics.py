"""A column of a table that names the topic of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import (
    InvalidRecordError,
    PartitionResult,
    SerializationError,
    TableDeliveryError,
    TableReadError,
    TableResult,
    TopicReport,
    TopicUnavailableError,
)
from ottla.interfaces import ProducerRecord, ProducerRows
from ottla.tables import topic_sending
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated

ENCODERS = ["python", "native"]
TOPICS = ("t", "a", "b")


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cluster_of(*topics: str, partitions: int = 1) -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    for topic in topics:
        cluster.create(topic, *[1] * partitions)
    return cluster


def knowing(simulation: Simulated, *topics: str) -> Simulated:
    for topic in topics:
        simulation.know(topic)
    return simulation


def log(simulation: Simulated, topic: str, partition: int = 0) -> list[Any]:
    return list(simulation.cluster.topics[topic].log.get(partition, []))


def values(simulation: Simulated, topic: str) -> list[bytes | None]:
    partitions = sorted(simulation.cluster.topics[topic].log)
    return [record.value for partition in partitions for record in log(simulation, topic, partition)]


def rows(topics: Sequence[str | None], **columns: Any) -> Any:
    return pa.table({"value": [b"%d" % number for number in range(len(topics))], "topic": topics, **columns})


# Where rows go


def test_each_row_goes_to_the_topic_that_its_column_names(encoder: str) -> None:
    with simulated(cluster=cluster_of(*TOPICS), record_encoder=encoder) as simulation:
        knowing(simulation, "a", "b")
        delivery = simulation.producer.send_table(None, rows(["b", "a", "b", "a", "b"]), topic_column="topic")
        simulation.run_until_idle()

        assert (values(simulation, "a"), values(simulation, "b")) == ([b"1", b"3"], [b"0", b"2", b"4"])
        assert delivery.result(0) == TableResult(
            rows=5,
            acknowledged=5,
            failed=0,
            partitions={},
            topics={
                "a": {0: PartitionResult(rows=2, first_offset=0, last_offset=1)},
                "b": {0: PartitionResult(rows=3, first_offset=0, last_offset=2)},
            },
        )
        assert [(found.topic, found.offset) for row in range(5) if (found := delivery.metadata(row))] == [
            ("b", 0),
            ("a", 0),
            ("b", 1),
            ("a", 1),
            ("b", 2),
        ]


def test_a_row_without_a_topic_goes_to_the_topic_of_the_call(encoder: str) -> None:
    with simulated(cluster=cluster_of(*TOPICS), record_encoder=encoder) as simulation:
        knowing(simulation, "a")
        simulation.producer.send_table("t", rows([None, "a", None, "t"]), topic_column="topic")
        simulation.run_until_idle()

        assert (values(simulation, "t"), values(simulation, "a")) == ([b"0", b"2", b"3"], [b"1"])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_topics_are_text_of_any_arrow_type(kind: Any) -> None:
    table = pa.table({"value": ["x", "y"], "where": pa.array(["a", "b"]).cast(kind)})
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        knowing(simulation, "a", "b")
        simulation.producer.send_table(None, table, topic_column="where")
        simulation.run_until_idle()

        assert (values(simulation, "a"), values(simulation, "b")) == ([b"x"], [b"y"])


def test_topics_and_columns_may_be_categories_of_polars() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.uint8()), pa.array(["a", "b"], pa.string_view()))
    pairs = pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["x", "y", "z"], pa.string_view()), names)
    table = pa.table({"value": names, "where": names, "key": pairs})
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        knowing(simulation, "a", "b")
        simulation.producer.send_table(None, table, topic_column="where", key_format="json")
        simulation.run_until_idle()

        assert [(record.key, record.value) for record in log(simulation, "a")] == [(b'{"y":"a"}', b"a")]
        assert [record.key for record in log(simulation, "b")] == [b'{"x":"b"}', b'{"z":"b"}']


def test_a_column_of_nulls_without_a_type_is_the_topic_of_the_call() -> None:
    with simulated(cluster=cluster_of("t")) as simulation:
        simulation.producer.send_table("t", pa.table({"value": ["x"], "topic": pa.nulls(1)}), topic_column="topic")
        simulation.run_until_idle()

        assert values(simulation, "t") == [b"x"]


SENT = st.tuples(
    st.sampled_from([*TOPICS, None]),
    st.none() | st.sampled_from([b"k1", b"k2", b"k3"]),
    st.none() | st.binary(max_size=4),
    st.none() | st.integers(0, 2),
    st.none() | st.integers(0, 9_999),
    st.none() | st.lists(st.tuples(st.sampled_from("xy"), st.none() | st.binary(max_size=2)), max_size=2),
)


@settings(deadline=None, max_examples=40)
@given(
    sent=st.lists(SENT, max_size=30), cuts=st.lists(st.integers(1, 9), max_size=4), encoder=st.sampled_from(ENCODERS)
)
def test_rows_arrive_as_if_they_were_sent_one_by_one(sent: list[Any], cuts: list[int], encoder: str) -> None:
    columns: Any = list(zip(*sent, strict=True)) if sent else [[]] * 6
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("partition", pa.int8()),
            ("at", pa.int64()),
            ("headers", pa.map_(pa.string(), pa.binary())),
        ]
    )
    whole = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    starts = sorted({0, *(cut for cut in cuts if cut < len(sent))})
    batches = [whole.slice(start, end - start) for start, end in zip(starts, [*starts[1:], len(sent)], strict=True)]
    options: dict[str, Any] = {"record_encoder": encoder}
    names: Any = {"topic_column": "topic", "partition": "partition", "timestamp": "at", "headers": "headers"}
    with (
        simulated(cluster=cluster_of(*TOPICS, partitions=3), **options) as ours,
        simulated(cluster=cluster_of(*TOPICS, partitions=3), **options) as theirs,
    ):
        knowing(ours, *TOPICS)
        knowing(theirs, *TOPICS)
        ours.producer.send_table("t", pa.RecordBatchReader.from_batches(schema, batches), **names)
        for topic, key, value, partition, at, headers in sent:
            if key is not None or partition is not None:
                theirs.producer.send(
                    topic or "t", value, key, partition=partition, timestamp_ms=at, headers=headers or ()
                )
        ours.run_until_idle()
        theirs.run_until_idle()

        def placed(simulation: Simulated) -> Any:
            return {
                (topic, partition): [
                    (record.key, record.value, record.headers) for record in log(simulation, topic, partition)
                ]
                for topic in TOPICS
                for partition in range(3)
            }

        found, expected = placed(ours), placed(theirs)
        unplaced = [(key, value) for _topic, key, value, partition, *_ in sent if key is None and partition is None]
        assert sum(map(len, found.values())) == len(sent)
        for place, records in expected.items():  # rows without a key come between them, wherever they were put
            remaining = iter(found[place])
            assert all(any(each == record for each in remaining) for record in records)
        assert sum(map(len, found.values())) - sum(map(len, expected.values())) == len(unplaced)


def test_a_large_table_is_sent_in_pieces_and_keeps_its_order(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_sending, "GATHERED_BYTES", 100)
    names = ["a", "b", "b"] * 2_000
    batches = rows(names).to_batches(max_chunksize=50)
    with simulated(cluster=cluster_of(*TOPICS), record_encoder=encoder) as simulation:
        knowing(simulation, "a", "b")
        delivery = simulation.producer.send_table(None, batches, topic_column="topic")
        simulation.run_until_idle()

        assert values(simulation, "a") == [b"%d" % number for number in range(0, 6_000, 3)]
        assert values(simulation, "b") == [b"%d" % number for number in range(6_000) if number % 3]
        assert len(delivery._chunks.all) > 10
        assert delivery.rows == delivery.result(0).acknowledged == 6_000


# Formats, headers, interceptors


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()], ids=str)
def test_other_columns_in_a_format_leave_the_topic_out(kind: Any) -> None:
    table = rows(["a", "b"], name=pa.array(["x", "y"], kind)).drop(["value"])
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        knowing(simulation, "a", "b")
        simulation.producer.send_table(
            None, table, topic_column="topic", value="*", value_format="json", headers={"source": b"s"}
        )
        simulation.run_until_idle()

        [record] = log(simulation, "b")
        assert (record.value, record.headers) == (b'{"name":"y"}', (("source", b"s"),))


class SchemaById:
    """A serializer whose bytes begin with the topic; values of topic b cannot be serialized."""

    ottla_spec = 1

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes:
        raise AssertionError("columns are serialized as a whole")

    def serialize_column(self, topic: str, column: Any) -> Any:
        if topic == "b" and len(column):
            raise ValueError("not this one")
        return pa.array([b"%s/%d" % (topic.encode(), number) for number in column.to_pylist()], pa.binary())


def test_a_serializer_gets_the_topic_of_its_rows() -> None:
    table = pa.table({"topic": ["a", "t", "a"], "id": [1, 2, 3]})
    with simulated(cluster=cluster_of(*TOPICS), config={"value.serializer": SchemaById()}) as simulation:
        knowing(simulation, "a")
        name = simulation.producer.config["value.serializer"]
        simulation.producer._engine.plugins.value_formats._made["by-topic"] = SchemaById()
        simulation.producer.send_table(None, table, topic_column="topic", value="id", value_format="by-topic")
        simulation.run_until_idle()

        assert (values(simulation, "a"), values(simulation, "t")) == ([b"a/1", b"a/3"], [b"t/2"]), name


def test_a_topic_whose_rows_cannot_be_serialized_ends_the_table() -> None:
    table = pa.table({"topic": ["a", "b", "t"], "id": [1, 2, 3]})
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        knowing(simulation, "a", "b")
        simulation.producer._engine.plugins.value_formats._made["by-topic"] = SchemaById()
        with pytest.raises(SerializationError, match="topic 'b'") as raised:
            simulation.producer.send_table(None, table, topic_column="topic", value="id", value_format="by-topic")
        simulation.run_until_idle()

        taken: Any = raised.value.delivery
        assert taken.rows == 3
        assert {row: error.topic for row, error in taken.failed_rows().items()} == {1: "b", 2: "t"}
        assert values(simulation, "a") == [b"a/1"]


class Recording:
    """An interceptor that notes the topics of rows and of outcomes."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[bytes], Any]] = []
        self.outcomes: list[tuple[str, int, int, object, Any]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise AssertionError("rows are no records")

    def on_acknowledgement(self, *outcome: Any) -> None:
        raise AssertionError("rows have no outcome of their own")

    def on_send_table(self, given: ProducerRows) -> ProducerRows:
        self.seen.append((given.topic, given.values.to_pylist(), given.context))
        return attrs.evolve(given, context=given.topic.upper())

    def on_table_acknowledgement(self, topic: str, result: TableResult, error: object, context: Any) -> None:
        self.outcomes.append((topic, result.rows, result.failed, error, context))


def test_interceptors_get_the_rows_and_the_outcome_of_each_topic(encoder: str) -> None:
    interceptor = Recording()
    with simulated(
        cluster=cluster_of(*TOPICS), config={"interceptor.classes": [interceptor]}, record_encoder=encoder
    ) as simulation:
        knowing(simulation, "a", "b")
        simulation.producer.send_table(None, rows(["a", "b", "a", ".."]), topic_column="topic").add_done_callback(print)
        simulation.run_until_idle()

    assert sorted(interceptor.seen) == [("a", [b"0", b"2"], None), ("b", [b"1"], None)]
    assert sorted(interceptor.outcomes) == [("a", 2, 0, None, "A"), ("b", 1, 0, None, "B")]


# What is wrong with a row, or with the table


def test_rows_without_a_valid_topic_fail_alone(encoder: str) -> None:
    with simulated(cluster=cluster_of(*TOPICS), record_encoder=encoder, max_block_ms=0) as simulation:
        delivery = simulation.producer.send_table(
            None, rows(["t", None, "no name", "t", ""], p=[0, 0, 0, 9, 0]), topic_column="topic", partition="p"
        )
        simulation.run_until_idle()

        failed = {row: str(error) for row, error in delivery.failed_rows().items()}
        assert values(simulation, "t") == [b"0"]
        assert list(failed) == [1, 2, 3, 4]
        assert "row 1 for topic '' was not queued: its topic, the column 'topic', is null; name the topic" in failed[1]
        assert "row 2 for topic 'no name' was not queued: 'no name' is not a topic name" in failed[2]
        assert "row 3 for topic 't' was not queued: it is for partition 9 of topic 't', which has 1" in failed[3]
        with pytest.raises(TableDeliveryError, match="4 of 5 rows for the topics of column 'topic' were not delivered"):
            delivery.result(0)
        report = simulation.producer.flush()
        assert report.topics["no name"] == TopicReport(failed=1)


def test_a_missing_topic_is_reported_before_its_piece_is_queued() -> None:
    with simulated(cluster=cluster_of(*TOPICS), max_block_ms=0) as simulation:
        with pytest.raises(TopicUnavailableError, match="missing"):
            simulation.producer.send_table(None, rows(["t", "missing"]), topic_column="topic")

        assert simulation.accumulator.incomplete == 0


def test_a_stream_that_fails_leaves_earlier_rows_of_all_topics(encoder: str) -> None:
    def failing() -> Iterator[Any]:
        yield from rows(["a", "b"]).to_batches()
        raise OSError("the disk is gone")

    with simulated(cluster=cluster_of(*TOPICS), record_encoder=encoder) as simulation:
        knowing(simulation, "a", "b")
        with pytest.raises(TableReadError, match="the disk is gone") as raised:
            simulation.producer.send_table(None, failing(), topic_column="topic")
        simulation.run_until_idle()

        taken: Any = raised.value.delivery
        assert taken.result(0).acknowledged == 2


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (rows(["t"]), {"topic_column": "where"}, "topic_column='where': the table has no such column; it has 'value'"),
        (rows(["t"], n=[1]), {"topic_column": "n"}, "column 'n' is int64 and cannot be the topic_column.*string"),
        (rows(["t"]), {"topic_column": 3}, "topic_column=3: a column's name is a str"),
        (rows(["t"]), {"topic_column": "topic", "value": "other"}, "value='other': the table has no such column"),
        (rows(["t"], n=[1]), {"topic_column": "topic", "value": "n"}, "column 'n' is int64 and cannot be the value"),
        (
            rows(["t"], n=[1]),
            {"topic_column": "topic", "value": ["n", "m"], "value_format": "json"},
            "the table has no column 'm'; it has 'value', 'topic', 'n'",
        ),
        (
            rows(["t"]).select(["topic"]),
            {"topic_column": "topic", "value": "*", "value_format": "json"},
            "the table has no other columns than topic",
        ),
    ],
)
def test_a_table_that_cannot_be_sent_is_refused_before_a_row_is_queued(
    table: Any, options: dict[str, Any], words: str
) -> None:
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        with pytest.raises(InvalidRecordError, match=words):
            simulation.producer.send_table(None, table, **options)

        assert simulation.accumulator.incomplete == 0


def test_a_call_needs_a_topic_or_a_column_of_topics() -> None:
    with simulated(1) as simulation:
        with pytest.raises(InvalidRecordError, match="NoneType is not a topic name"):
            simulation.producer.send_table(None, rows(["t"]))
        with pytest.raises(InvalidRecordError, match="'no name' is not a topic name"):
            simulation.producer.send_table("no name", rows(["t"]), topic_column="topic")


def test_a_table_of_no_rows_is_complete_at_once() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send_table(None, rows(["t"]).slice(0, 0), topic_column="topic")

        assert delivery.result(0) == TableResult(rows=0, acknowledged=0, failed=0, partitions={}, topics={})
        assert repr(delivery) == "<TableDelivery of 0 rows for the topics of column 'topic': done>"


def test_rows_not_queued_because_of_an_interrupt_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(cluster=cluster_of(*TOPICS)) as simulation:
        knowing(simulation, "a", "b")
        appender: Any = simulation.accumulator.appender
        queued = appender.enqueue

        def interrupted(topic: str, *given: Any, **options: Any) -> Any:
            if topic == "b":
                raise KeyboardInterrupt
            return queued(topic, *given, **options)

        monkeypatch.setattr(type(appender), "enqueue", lambda _self, *given, **options: interrupted(*given, **options))
        with pytest.raises(KeyboardInterrupt) as raised:
            simulation.producer.send_table(None, rows(["a", "b", "a", "t"]), topic_column="topic")
        monkeypatch.undo()
        simulation.run_until_idle()

        taken: Any = raised.value.delivery  # type: ignore[attr-defined]
        assert {row: error.topic for row, error in taken.failed_rows().items()} == {1: "b", 3: "t"}
        assert values(simulation, "a") == [b"0", b"2"]
