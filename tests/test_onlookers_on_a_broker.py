"""Metrics, a reporter and an interceptor on a real broker: they agree with what other clients read back."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

    @hookimpl
    def ottla_reporter():
        return Last()

    @hookimpl
    def ottla_interceptor():
        return Numbering()
"""


@pytest.fixture
def onlookers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An installed package with a reporter and an interceptor, both named onlooker."""
    (tmp_path / "acme_onlookers_on_a_broker.py").write_text(textwrap.dedent(PLUGIN))
    info = tmp_path / "acme_onlookers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-onlookers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[ottla.{kind}s]\nonlooker = acme_onlookers_on_a_broker\n" for kind in ("reporter", "interceptor"))
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("acme_onlookers_on_a_broker")
    del sys.modules["acme_onlookers_on_a_broker"]


@pytest.mark.rule("producer.metrics", "producer.reporters", "producer.send.interceptors.outcomes")
@pytest.mark.parametrize("encoder", ["python", None])
def test_metrics_and_results_agree_with_the_records_read_back(
    kafka: KafkaCluster, make_topic: MakeTopic, onlookers: Any, encoder: str | None
) -> None:
    topic = make_topic(partitions=1)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": "onlooked",
        "compression.type": "gzip",
        "metric.reporters": "onlooker",
        "interceptor.classes": "onlooker",
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
    figures = onlookers.Last.figures
    assert [record.value for record in records] == [b"VALUE %d" % number for number in range(RECORDS)]
    assert {tuple(record.headers) for record in records} == {(("seen", topic.encode()),)}
    assert onlookers.Numbering.offsets == list(range(RECORDS))
    assert onlookers.Numbering.errors == [-1]
    assert figures[producer_metric("record-send-total")] == RECORDS
    assert figures[MetricName("producer-topic-metrics", "record-send-total", (*CLIENT, ("topic", topic)))] == RECORDS
    assert 0 < figures[producer_metric("compression-rate-avg")] < 1
    assert figures[producer_metric("request-latency-max")] >= figures[producer_metric("request-latency-avg")] > 0
    assert figures[producer_metric("outgoing-byte-total")] > figures[producer_metric("batch-size-max")] > 61
    assert (connections, figures[producer_metric("connection-count")]) == (1, 0)


CLIENT = (("client-id", "onlooked"),)


def producer_metric(name: str) -> MetricName:
    return MetricName("producer-metrics", name, CLIENT)
