"""Tables on a real broker: read back by a client that is not ours, they are what they were."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from long_forms import share

from distance_kit import near_or_distant
from ottla import Producer, TableProgress
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

kafka = near_or_distant

pytestmark = pytest.mark.kafka
WAIT = 60.0
NOW = 1_700_000_000_000
ROWS = 30_000
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("codec", share(["none", "lz4", "zstd"], gate=1, why="the gate has one codec"))
def test_a_table_arrives_completely_at_the_reported_offsets(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str, encoder: str
) -> None:
    topic = make_topic(partitions=3)
    values = [b"value %d" % number * 5 for number in range(ROWS)]
    keys = [None if number % 5 == 0 else b"key %d" % (number % 977) for number in range(ROWS)]
    table = pa.table(
        {
            "value": values,
            "key": keys,
            "at": pa.array([NOW + number for number in range(ROWS)], pa.timestamp("ms")),
            "h": pa.array([[{"key": "n", "value": b"%d" % number}] for number in range(ROWS)], pa.list_(PAIR)),
        }
    )

    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, compression_type=codec, record_encoder=encoder
    ) as producer:
        delivery = producer.send_table(topic, table, headers="h", timestamp="at")
        result = delivery.result(WAIT)

    found = read_back(kafka.bootstrap_servers, topic, partitions=3)
    assert result.acknowledged == len(found) == ROWS
    rows = sorted(found, key=lambda record: record.timestamp_ms)
    assert [record.value for record in rows] == values
    assert [record.key for record in rows] == keys
    assert [record.headers for record in rows] == [(("n", b"%d" % number),) for number in range(ROWS)]
    for row in (0, 1, ROWS // 2, ROWS - 1):
        reported = delivery.metadata(row)
        assert reported is not None
        assert (reported.partition, reported.offset) == (rows[row].partition, rows[row].offset)


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_keys_of_a_table_get_the_same_partitions_as_single_records(
    kafka: KafkaCluster, make_topic: MakeTopic, encoder: str
) -> None:
    whole, single = make_topic(partitions=7), make_topic(partitions=7)
    keys = [b"%d-%s" % (number, b"x" * (number % 13)) for number in range(1_000)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, record_encoder=encoder) as producer:
        producer.send_table(whole, pa.table({"key": keys}), value=None)
        for key in keys:
            producer.send(single, None, key)

    places = [
        [(record.partition, record.key) for record in read_back(kafka.bootstrap_servers, topic, partitions=7)]
        for topic in (whole, single)
    ]
    assert places[0] == places[1]


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("codec", share(["none", "zstd"], gate=1, why="the gate has one codec"))
def test_rows_arrive_in_the_topics_of_their_column(
    kafka: KafkaCluster, make_topic: MakeTopic, codec: str, encoder: str
) -> None:
    topics = [make_topic(partitions=3) for _ in range(3)]
    names = [topics[number * number % 3] if number % 7 else None for number in range(ROWS)]
    values = [b"value %d" % number * 50 for number in range(ROWS)]
    table = pa.table({"value": values, "key": [b"%d" % (number % 100) for number in range(ROWS)], "topic": names})
    seen: list[TableProgress] = []

    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, compression_type=codec, record_encoder=encoder
    ) as producer:
        delivery = producer.send_table(topics[2], table, topic_column="topic", on_progress=seen.append)
        result = delivery.result(WAIT)

    assert seen[-1] == TableProgress(rows=ROWS, acknowledged=ROWS, failed=0)
    for topic in topics:
        found = read_back(kafka.bootstrap_servers, topic, partitions=3)
        expected = [value for value, name in zip(values, names, strict=True) if (name or topics[2]) == topic]
        assert sorted(record.value or b"" for record in found) == sorted(expected)
        assert sum(partition.rows for partition in result.topics.get(topic, {}).values()) == len(expected)
        for row in [row for row, name in enumerate(names) if (name or topics[2]) == topic][::1_000]:
            sent = delivery.metadata(row)
            assert sent is not None
            [record] = [each for each in found if (each.partition, each.offset) == (sent.partition, sent.offset)]
            assert record.value == values[row]


def test_rows_and_single_values_in_json_are_read_the_same(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    rows = [{"id": number, "name": f"n\u00e4me {number}" if number % 3 else None} for number in range(2_000)]

    with Producer(bootstrap_servers=kafka.bootstrap_servers, value_serializer="json") as producer:
        producer.send_table(topic, pa.table({"row": rows}), value="row", value_format="json").result(WAIT)
        for row in rows:
            producer.send(topic, row)

    found = [record.value for record in read_back(kafka.bootstrap_servers, topic)]
    assert found[: len(rows)] == found[len(rows) :]
    assert [json.loads(value or b"") for value in found[:5]] == [
        {name: field for name, field in row.items() if field is not None} for row in rows[:5]
    ]
