"""Topics whose messages are kept in a format older than their broker's own."""

from __future__ import annotations

import time

import pytest
from old_brokers.versions import CODECS, on_brokers

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.thorough("needs a broker of its own; the formats' bytes are tested in the core"),
]
WAIT = 60.0


@pytest.mark.parametrize("codec", CODECS[:-1])
@pytest.mark.parametrize(("message_format", "magic"), [("0.9.0", 0), ("0.10.0", 1)])
@on_brokers(since="2.8", before="3.0")
def test_a_topic_of_an_older_format_accepts_records(
    old_kafka: KafkaCluster, make_old_topic: MakeTopic, message_format: str, magic: int, codec: str
) -> None:
    topic = make_old_topic(message_format_version=message_format)
    now = time.time_ns() // 1_000_000
    sent = [(b"key %d" % n if n % 3 else None, b"value %d " % n * 20 if n % 4 else None, now - n) for n in range(100)]

    with Producer(
        bootstrap_servers=old_kafka.bootstrap_servers,
        compression_type=codec,
        linger_ms=50,
        enable_idempotence=False,  # these formats have no place for it
    ) as producer:
        deliveries = [producer.send(topic, value, key, timestamp_ms=moment) for key, value, moment in sent]
        offsets = [delivery.result(WAIT).offset for delivery in deliveries]

    found = read_back(old_kafka.bootstrap_servers, topic)
    assert offsets == list(range(100))
    assert [(record.key, record.value) for record in found] == [(key, value) for key, value, _ in sent]
    assert [record.timestamp_ms for record in found] == [moment if magic else 0 for _, _, moment in sent]
    assert f"magic: {magic} " in old_kafka.dump_log(topic)
