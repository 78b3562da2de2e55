"""Metrics, a reporter and interceptors on a real broker: they agree with what other clients read back."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from distance_kit import near_or_distant
from ottla import MetricName, Producer, RecordTooLargeError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

kafka = near_or_distant

pytestmark = pytest.mark.kafka

RECORDS = 2_000
PLUGIN = """
    import attrs

    from ottla.hookspecs import hookimpl

    class Last:
        figures = {}

        def start(self, registry):
            self._registry = registry

        def close(self):
            Last.figures = dict(self._registry.snapshot())

    class Numbering:
        offsets = []
        errors = []

        def on_send(self, topic, key, value, headers):
            return key, value.upper(), (*headers, ("seen", topic.encode()))

        def on_acknowledgement(self, metadata, error):
            (self.offsets if error is None else self.errors).append(metadata.offset)

    class Tracing:
        outcomes = []

        def on_send(self, record):
            return record

        def on_acknowledgement(self, metadata, error, context):
            raise AssertionError("rows have no outcome of their own")

        def on_send_table(self, rows):
            header = ("span", b"%d rows" % rows.count)
            return attrs.evolve(rows, added_headers=(*rows.added_headers, header), context=(rows.context or 0) + 1)

        def on_table_acknowledgement(self, topic, result, error, context):
            self.outcomes.append((topic, result, error, context))

    class Dropping(Tracing):
        def on_send_table(self, rows):
            return attrs.evolve(rows, values=rows.values.slice(1))

    class Newest:
        ottla_spec = 2

        def __init__(self, interceptor):
            self.interceptor = interceptor

        @hookimpl
        def ottla_interceptor(self):
            return self.interceptor

    TRACING = Newest(Tracing())
    DROPPING = Newest(Dropping())

    @hookimpl
    def ottla_reporter():
        return Last()

    @hookimpl
    def ottla_interceptor():
        return Numbering()
"""


@pytest.fixture
def interceptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An installed package with a reporter and interceptors."""
    (tmp_path / "acme_observers_on_a_broker.py").write_text(textwrap.dedent(PLUGIN))
    info = tmp_path / "acme_observers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-observers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ottla.reporters]\nobserver = acme_observers_on_a_broker\n"
        "[ottla.interceptors]\nobserver = acme_observers_on_a_broker\n"
        "tracing = acme_observers_on_a_broker:TRACING\ndropping = acme_observers_on_a_broker:DROPPING\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("acme_observers_on_a_broker")
    del sys.modules["acme_observers_on_a_broker"]


@pytest.mark.rule("producer.metrics", "producer.reporters", "producer.send.interceptors.outcomes")
@pytest.mark.parametrize("encoder", ["python", None])
def test_metrics_and_results_agree_with_the_records_read_back(
    kafka: KafkaCluster, make_topic: MakeTopic, interceptors: Any, encoder: str | None
) -> None:
    topic = make_topic(partitions=1)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": "onlooked",
        "compression.type": "gzip",
        "metric.reporters": "observer",
        "interceptor.classes": "observer",
        **({} if encoder is None else {"record.encoder": encoder}),
    }
    with Producer(settings) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"value %d" % number)
        with pytest.raises(RecordTooLargeError):
            producer.send(topic, bytes(2_000_000))
        assert producer.flush(60).acknowledged == RECORDS
        connections = producer.metrics()[producer_metric("connection-count")]

    records = read_back(kafka.bootstrap_servers, topic)
    figures = interceptors.Last.figures
    assert [record.value for record in records] == [b"VALUE %d" % number for number in range(RECORDS)]
    assert {tuple(record.headers) for record in records} == {(("seen", topic.encode()),)}
    assert interceptors.Numbering.offsets == list(range(RECORDS))
    assert interceptors.Numbering.errors == [-1]
    assert figures[producer_metric("record-send-total")] == RECORDS
    assert figures[MetricName("producer-topic-metrics", "record-send-total", (*CLIENT, ("topic", topic)))] == RECORDS
    assert 0 < figures[producer_metric("compression-rate-avg")] < 1
    assert figures[producer_metric("request-latency-max")] >= figures[producer_metric("request-latency-avg")] > 0
    assert figures[producer_metric("outgoing-byte-total")] > figures[producer_metric("batch-size-max")] > 61
    assert (connections, figures[producer_metric("connection-count")]) == (1, 0)


@pytest.mark.rule("producer.send-table.interceptors", "producer.send-table.interceptors.outcomes")
def test_a_header_of_an_interceptor_is_read_back_with_every_row(
    kafka: KafkaCluster, make_topic: MakeTopic, interceptors: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(partitions=3)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "compression.type": "gzip",
        "interceptor.classes": "tracing,dropping",
    }
    own = [None if row % 3 else [("own", b"%d" % row)] for row in range(RECORDS)]
    table = pa.table(
        {
            "key": [b"key %d" % row for row in range(RECORDS)],
            "value": [f"value {row}" for row in range(RECORDS)],
            "headers": pa.array(own, pa.map_(pa.string(), pa.binary())),
        }
    )
    with Producer(settings) as producer:
        result = producer.send_table(topic, table, headers="headers").result(60)

    records = read_back(kafka.bootstrap_servers, topic, partitions=3)
    span = ("span", b"%d rows" % RECORDS)
    assert {(record.key, record.value, record.headers) for record in records} == {
        (b"key %d" % row, b"value %d" % row, (*(own[row] or ()), span)) for row in range(RECORDS)
    }
    assert interceptors.Tracing.outcomes == [(topic, result, None, 1), (topic, result, None, None)]
    assert {partition: found.last_offset for partition, found in result.partitions.items()} == {
        partition: max(record.offset for record in records if record.partition == partition) for partition in range(3)
    }
    assert (
        "the interceptor 'dropping' of acme-observers 1.0 (acme_observers_on_a_broker:DROPPING) failed in "
        "on_send_table; the rows are sent without its change: ValueError"
    ) in caplog.messages


CLIENT = (("client-id", "onlooked"),)


def producer_metric(name: str) -> MetricName:
    return MetricName("producer-metrics", name, CLIENT)
