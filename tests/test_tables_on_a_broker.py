"""Tables on a real broker: read back by a client that is not ours, they are what they were."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from distance_kit import near_or_distant
from ottla import Producer
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
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
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
        told = delivery.metadata(row)
        assert told is not None
        assert (told.partition, told.offset) == (rows[row].partition, rows[row].offset)


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
