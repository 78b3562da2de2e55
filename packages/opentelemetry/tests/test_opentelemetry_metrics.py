"""Metrics of producers as OpenTelemetry's SDK collects them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ottla.metrics.catalogue import HISTOGRAMS, METRICS
from ottla_opentelemetry import OpenTelemetryReporter
from ottla_opentelemetry.conventions import metric_name, omitted, unit_of
from ottla_opentelemetry.reporter import ottla_config_keys, ottla_reporter
from ottla_testkit.conformance import plugin_context
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.mock_producer import MockProducer


class Exported:
    """A meter provider, and what it collects."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)
        self.clock = ManualClock()

    def started(self, producer: MockProducer, client_id: str = "shop") -> OpenTelemetryReporter:
        context = plugin_context(self.clock, client_id=client_id)
        reporter = OpenTelemetryReporter(meter_provider=self.provider, context=context)
        reporter.start(producer._engine.metric_values)
        return reporter

    def collect(self) -> dict[str, Any]:
        """The metrics of a collection, by name."""
        self.clock.advance(60.0)
        data: Any = self.reader.get_metrics_data()
        scopes = [] if data is None else data.resource_metrics[0].scope_metrics
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def exported() -> Exported:
    return Exported()


def values(metric: Any) -> dict[str, float]:
    """The values of a counter by client id."""
    return {point.attributes["messaging.client.id"]: point.value for point in metric.data.data_points}


def test_sent_records_are_the_messages_of_the_conventions(exported: Exported) -> None:
    with MockProducer(client_id="shop") as producer:
        exported.started(producer)
        for _ in range(3):
            producer.send("orders", b"value")
        found = exported.collect()

    sent = found["messaging.client.sent.messages"]
    [point] = sent.data.data_points
    assert (sent.unit, sent.data.is_monotonic, point.value) == ("{message}", True, 3)
    assert dict(point.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "shop",
    }
    assert found["kafka.producer.topic.record_send"].unit == "{record}"


def test_times_are_histograms_in_seconds_with_a_value_for_each_batch(exported: Exported) -> None:
    with MockProducer(client_id="shop", linger_ms=50) as producer:
        exported.started(producer)
        for _ in range(9):
            producer.send("orders", b"value")
        producer.flush()
        found = exported.collect()

    for name in ("record_queue_time", "record_delivery_time"):
        [point] = found[f"kafka.producer.topic.{name}"].data.data_points
        assert (found[f"kafka.producer.topic.{name}"].unit, point.sum < 9) == ("s", True)
        assert point.explicit_bounds[:2] == (0.001, 0.0025)
        assert 1 <= point.count <= 9
    assert found["kafka.producer.topic.batch_size"].unit == "By"


def test_several_producers_share_the_instruments(exported: Exported, caplog: pytest.LogCaptureFixture) -> None:
    with MockProducer(client_id="one") as one, MockProducer(client_id="other") as other:
        reporters = [exported.started(one, "one"), exported.started(other, "other")]
        one.send("orders", b"value")
        assert values(exported.collect()["kafka.producer.record_send"]) == {"one": 1, "other": 0}
        reporters[0].close()
        exported.collect()

        assert values(exported.collect()["kafka.producer.record_send"]) == {"other": 0}
    assert caplog.records == []


def test_the_last_values_of_a_closed_producer_are_exported_once(exported: Exported) -> None:
    with MockProducer(client_id="shop") as producer:
        reporter = exported.started(producer)
        producer.send("orders", b"value")
        reporter.close()

        found = exported.collect()
        assert values(found["kafka.producer.record_send"]) == {"shop": 1}
        assert values(found["messaging.client.sent.messages"]) == {"shop": 1}
        assert "kafka.producer.record_send" not in exported.collect()


def test_a_collection_takes_one_snapshot(exported: Exported) -> None:
    with MockProducer(client_id="shop") as producer:
        reads = 0
        registry = producer._engine.metric_values
        snapshot = registry.snapshot

        def counted() -> Any:
            nonlocal reads
            reads += 1
            return snapshot()

        registry.snapshot = counted  # type: ignore[method-assign]
        exported.started(producer)
        exported.collect()

    assert reads == 1


def test_instruments_have_valid_names_and_units_of_their_own() -> None:
    names = [metric_name(each.group, each.name) for each in METRICS if not omitted(each.group, each.name)]
    names += [metric_name(each.group, each.name) for each in HISTOGRAMS]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"kafka\.producer\.[a-z_.]+", name) or "total" in name] == [
        "kafka.producer.buffer_total_bytes"
    ]
    assert {unit_of(each.unit)[0] for each in METRICS if not omitted(each.group, each.name)} == {
        "{record}", "{batch}", "By", "s", "{request}", "{response}", "{connection}", "{session}", "{round}", "{thread}",
        "{operation}", "1"
    }  # fmt: skip


def test_rates_and_averages_of_a_window_are_left_out(exported: Exported) -> None:
    with MockProducer(client_id="shop") as producer:
        exported.started(producer)
        producer.send("orders", b"value")
        found = exported.collect()

    assert [name for name in found if name.endswith(("rate", "avg", "ratio"))] == []


def test_histograms_can_be_left_out(exported: Exported) -> None:
    [key] = ottla_config_keys()
    reporter = ottla_reporter(config={key.name: key.type("false")}, context=plugin_context())
    with MockProducer(client_id="shop") as producer:
        reporter.start(producer._engine.metric_values)
        buckets = producer._engine.queueing.counters.topic("orders").queue_times
        reporter.close()

    assert (key.name, key.default, buckets.observe) == ("opentelemetry.histograms", True, None)
