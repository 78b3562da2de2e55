"""Metrics of producers as OpenTelemetry's SDK collects them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

from ottla.metrics.catalogue import HISTOGRAMS, METRICS
from ottla_opentelemetry import OpenTelemetryReporter, instruments
from ottla_opentelemetry.conventions import metric_name, omitted, unit_of
from ottla_opentelemetry.instruments import _KEPT, Instruments, _Instrument, instruments_of
from ottla_opentelemetry.reporter import ottla_config_keys, ottla_reporter
from ottla_testkit.conformance import plugin_context
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.mock_producer import MockProducer


class Exported:
    """A meter provider, and what it collects."""

    def __init__(self, *others: InMemoryMetricReader, **options: Any) -> None:
        self.reader = InMemoryMetricReader(**options)
        self.provider = MeterProvider([self.reader, *others], shutdown_on_exit=False)
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
        assert values(exported.collect()["kafka.producer.record_send"]) == {"one": 1, "other": 0}
        exported.collect()

        assert values(exported.collect()["kafka.producer.record_send"]) == {"other": 0}
    assert caplog.records == []


def test_every_reader_gets_the_last_values_of_a_closed_producer() -> None:
    """Two readers, such as Prometheus and OTLP: OpenTelemetry does not say which of them asks."""
    other = InMemoryMetricReader()
    exported = Exported(other)
    with MockProducer(client_id="shop") as producer:
        reporter = exported.started(producer)
        producer.send("orders", b"value")
        reporter.close()

        found = exported.collect()
        assert values(found["kafka.producer.record_send"]) == {"shop": 1}
        assert values(found["messaging.client.sent.messages"]) == {"shop": 1}
        exported.reader = other
        assert values(exported.collect()["kafka.producer.record_send"]) == {"shop": 1}
        assert "kafka.producer.record_send" not in exported.collect()


def test_a_late_collection_has_the_last_values_of_a_closed_producer(exported: Exported) -> None:
    with MockProducer(client_id="shop") as producer:
        reporter = exported.started(producer)
        producer.send("orders", b"value")
        reporter.close()
        exported.clock.advance(3600.0)

        assert values(exported.collect()["kafka.producer.record_send"]) == {"shop": 1}
        assert "kafka.producer.record_send" not in exported.collect()


def test_producers_with_one_client_id_have_their_own_values(exported: Exported) -> None:
    with MockProducer(buffer_memory=1 << 20) as one, MockProducer(buffer_memory=1 << 21) as other:
        reporters = [exported.started(one), exported.started(other)]
        one.send("orders", b"value").result(timeout=10)
        other.send("orders", b"value").result(timeout=10)
        found = exported.collect()
        assert values(found["kafka.producer.buffer_total_bytes"]) == {"shop": 1 << 20, "shop#2": 1 << 21}
        [_one, second] = found["kafka.producer.topic.record_queue_time"].data.data_points
        assert second.attributes["messaging.client.id"] == "shop#2"
        reporters[0].close()
        exported.started(one)

        assert values(exported.collect()["kafka.producer.buffer_total_bytes"]) == {"shop": 1 << 20, "shop#2": 1 << 21}


@pytest.mark.parametrize("temporality", [AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA])
def test_a_counter_goes_on_when_a_producer_follows_a_closed_one(temporality: Any) -> None:
    exported = Exported(preferred_temporality={ObservableCounter: temporality})
    found = []
    for records in (5, 2, 1):
        with MockProducer() as producer:
            reporter = exported.started(producer)
            found.append(values(exported.collect()["kafka.producer.record_send"])["shop"])
            for _ in range(records):
                producer.send("orders", b"value").result(timeout=10)
            reporter.close()

    expected = [0, 5, 7] if temporality is AggregationTemporality.CUMULATIVE else [0, 5, 2]
    assert found == expected


def test_closed_producers_that_are_never_collected_leave_little_behind() -> None:
    shared = Instruments(NoOpMeterProvider().get_meter("ottla"))
    with MockProducer() as producer:
        registry = producer._engine.metric_values
        for number in range(3):
            shared.remove(shared.add(registry, client_id="shop", clock=ManualClock()))
            sizes = {len(each.ended) + len(each.last) for each in shared._observed.values()}
            assert sizes <= {0, 1, 2}, number
    observed = _Instrument(("a", "b"), 1.0, cumulative=True, more={})
    for number in range(_KEPT + 9):
        observed.end((("messaging.client.id", str(number)),), 1.0, until=0.0)

    assert (len(observed.ended), len(observed.last)) == (_KEPT, _KEPT)


def test_a_provider_that_is_set_later_has_all_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program whose first producer is made before OpenTelemetry is configured."""
    given: list[metrics.MeterProvider] = [metrics.get_meter_provider()]
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: given[0])
    monkeypatch.setattr(instruments, "_global", None)
    early = instruments_of(None)
    given[0] = Exported().provider

    assert instruments_of(None) is instruments_of(given[0]) is early
    assert instruments_of(Exported().provider) is not early


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # since Python 3.12
def test_a_forked_child_exports_its_own_producers_alone(exported: Exported) -> None:
    with MockProducer() as producer:
        exported.started(producer)
        exported.started(producer, "parent")
        producer.send("orders", b"value").result(timeout=10)
        exported.collect()
        child = os.fork()
        if not child:
            exported.started(producer)
            found = values(exported.collect()["kafka.producer.record_send"])
            os._exit(0 if found == {"shop": 2} else 1)  # it goes on where the SDK has read it

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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


class CollectingMeter(NoOpMeter):
    """A meter with one lock for instruments and collections, which collects whenever an instrument is made."""

    def __init__(self) -> None:
        super().__init__("collecting")
        self._lock = threading.Lock()
        self._callbacks: list[Any] = []
        self.made = 0
        self.stuck = False

    def create_observable_gauge(self, name: str, callbacks: Any = None, *_: Any) -> Any:
        return self._make(callbacks)

    def create_observable_counter(self, name: str, callbacks: Any = None, *_: Any) -> Any:
        return self._make(callbacks)

    def create_histogram(self, name: str, *_: Any, **__: Any) -> Any:
        self._make(())
        return super().create_histogram(name)

    def _make(self, callbacks: Sequence[Any]) -> None:
        began = threading.Event()
        threading.Thread(target=self._collect, args=[began], daemon=True).start()
        assert began.wait(10.0)
        if not self._lock.acquire(timeout=0 if self.stuck else 10.0):
            self.stuck = True
            return
        self._callbacks += callbacks
        self.made += 1
        self._lock.release()

    def _collect(self, began: threading.Event) -> None:
        if self.stuck:
            began.set()
            return
        with self._lock:
            began.set()
            for each in self._callbacks:
                list(each(CallbackOptions()))


class CollectingProvider(NoOpMeterProvider):
    def __init__(self) -> None:
        self.meter = CollectingMeter()

    def get_meter(self, *_: Any, **__: Any) -> NoOpMeter:
        return self.meter


def test_instruments_are_made_while_the_provider_collects() -> None:
    """The SDK makes an instrument under a lock that a collection holds while it observes."""
    provider = CollectingProvider()
    context = plugin_context(ManualClock(), client_id="shop")
    with MockProducer(client_id="shop") as producer:
        producer.send("orders", b"value")
        reporter = OpenTelemetryReporter(meter_provider=provider, context=context)
        reporter.start(producer._engine.metric_values)
        observables = provider.meter.made
        producer.send("orders", b"value")
        producer.flush()
        histograms = provider.meter.made - observables
        reporter.close()

    assert not provider.meter.stuck
    assert observables > 10
    assert histograms > 0


def test_histograms_of_many_topics_are_described_once(exported: Exported) -> None:
    """To describe them takes longer with each topic, on the thread that completes batches."""
    with MockProducer(client_id="shop") as producer:
        reads = 0
        registry = producer._engine.metric_values
        histograms = registry.histograms

        def counted() -> Any:
            nonlocal reads
            reads += 1
            return histograms()

        registry.histograms = counted  # type: ignore[method-assign]
        exported.started(producer)
        for _ in range(2):  # a producer keeps no more than some of the names
            for number in range(_KEPT // 4 + 50):
                producer.send(f"t{number}", b"value")
            producer.flush()
        found = exported.collect()

    assert reads <= len(HISTOGRAMS)
    points = found["kafka.producer.topic.record_queue_time"].data.data_points
    assert {point.count for point in points} == {2}
    assert len(points) == _KEPT // 4 + 50


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
