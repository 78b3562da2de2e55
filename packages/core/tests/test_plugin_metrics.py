"""Metrics that plugins add: their names, values and end."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from ottla.errors import IllegalStateError
from ottla.interfaces import MetricDescription, MetricName
from ottla.metrics.plugin_metric_group import PluginMetric, PluginMetricGroup
from simulated_producer import Simulated, simulated

TAGS = (("config", "partitioner.class"), ("class", "Acme"), ("plugin", "acme"))


def group_of(simulation: Simulated) -> PluginMetricGroup:
    """The metrics of one more plugin of this producer."""
    group = PluginMetricGroup()
    simulation.producer._engine.plugins.objects.metrics.publish(
        group, config="partitioner.class", class_name="Acme", plugin="acme"
    )
    return group


def test_metrics_of_a_plugin_are_in_a_snapshot_with_the_tags_of_kip_877() -> None:
    with simulated(1, client_id="me") as simulation:
        group = group_of(simulation)
        group.add_gauge("cache-size", lambda: 7, unit="keys", meaning="Keys in the cache.")
        group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "t"}).add(2)
        values = simulation.producer.metrics()

    own = (("client-id", "me"), *TAGS)
    assert values[MetricName("plugins", "cache-size", own)] == 7.0
    assert values[MetricName("plugins", "hits-total", (*own, ("topic", "t")))] == 2.0
    assert values[MetricName("kafka-metrics-count", "count", (("client-id", "me"),))] == len(values)


def test_objects_with_the_same_tags_have_metrics_of_their_own() -> None:
    with simulated(1, client_id="me") as simulation:
        for number in (1, 2, 3):
            group_of(simulation).add_counter("hits-total", unit="hits", meaning="Keys found.").add(number)
        values = simulation.producer.metrics()

    hits = {dict(name.tags)["plugin"]: value for name, value in values.items() if name.group == "plugins"}
    assert hits == {"acme": 1.0, "acme#2": 2.0, "acme#3": 3.0}


def test_metrics_of_a_plugin_are_described_with_their_unit() -> None:
    with simulated(1) as simulation:
        group_of(simulation).add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "t"})
        described = simulation.producer._engine.metric_values.describe()

    assert described[-1] == MetricDescription(
        group="plugins",
        name="hits-total",
        labels=("client-id", "config", "class", "plugin", "topic"),
        cumulative=True,
        unit="hits",
        meaning="Keys found.",
    )


def test_metrics_of_plugins_are_removed_when_the_producer_closes() -> None:
    with simulated(1) as simulation:
        group = group_of(simulation)
        group.add_counter("hits-total", unit="hits", meaning="Keys found.")
        simulation.producer.close()

        assert [name for name in simulation.producer.metrics() if name.group == "plugins"] == []
        for each in (group, group_of(simulation)):
            with pytest.raises(IllegalStateError, match="'late' cannot be added: the producer is closed"):
                each.add_counter("late", unit="hits", meaning="Keys found.")


class PanicException(BaseException):
    """The class that pyo3 makes for panics of code in Rust."""


@pytest.mark.parametrize("failure", [LookupError("no"), SystemExit(1), PanicException("rust")])
def test_a_gauge_that_fails_is_logged_and_nan(failure: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> float:
        raise failure

    with simulated(1) as simulation:
        group_of(simulation).add_gauge("cache-size", fail, unit="keys", meaning="Keys in the cache.")
        [value] = [value for name, value in simulation.producer.metrics().items() if name.group == "plugins"]

    assert math.isnan(value)
    assert f"the metric cache-size of the plugin acme cannot be read: {type(failure).__name__}" in caplog.text


def test_a_metric_can_be_removed_and_added_again() -> None:
    group = PluginMetricGroup()
    for _ in range(2):
        group.add_counter("hits-total", unit="hits", meaning="Keys found.")
        group.remove("hits-total")
    group.remove("hits-total")

    assert group.metrics() == ()


def test_the_order_of_tags_does_not_make_another_metric() -> None:
    group = PluginMetricGroup()
    group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "t", "cache": "c"})

    with pytest.raises(ValueError, match="with these tags already"):
        group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"cache": "c", "topic": "t"})
    group.remove("hits-total", {"cache": "c", "topic": "t"})
    assert group.metrics() == ()


@pytest.mark.parametrize("name", ["", " x", "a b", None])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="write one such as cache-hits-total"):
        PluginMetricGroup().add_counter(name, unit="hits", meaning="Keys found.")


def test_a_metric_that_exists_is_refused() -> None:
    group = PluginMetricGroup()
    group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "t"})
    group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "u"})

    with pytest.raises(ValueError, match="has a metric 'hits-total' with these tags already"):
        group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": "t"})
    with pytest.raises(ValueError, match="must have the same unit, meaning and labels"):
        group.add_counter("hits-total", unit="keys", meaning="Keys found.", tags={"topic": "v"})
    with pytest.raises(ValueError, match="has a tag 'class', which every plugin's metrics have"):
        group.add_counter("misses-total", unit="hits", meaning="Keys missed.", tags={"class": "x"})


@pytest.mark.parametrize(
    ("amount", "reason"),
    [
        (-1, "by -1, because it only grows"),
        (-math.inf, "by -inf, because it only grows"),
        (math.nan, "by nan, but by a finite number"),
        (math.inf, "by inf, but by a finite number"),
        pytest.param(10**5000, "by so large a number, but by a finite number", id="huge"),
    ],
)
def test_a_counter_takes_no_amount_that_would_spoil_it(amount: float, reason: str) -> None:
    counter = PluginMetricGroup().add_counter("hits-total", unit="hits", meaning="Keys found.")

    with pytest.raises(ValueError, match=reason):
        counter.add(amount)
    assert counter.total == 0


@pytest.mark.parametrize(("unit", "meaning", "wrong"), [(None, "Keys.", "unit"), ("keys", None, "meaning")])
def test_a_unit_or_meaning_that_is_no_text_is_refused(unit: Any, meaning: Any, wrong: str) -> None:
    group = PluginMetricGroup()

    with pytest.raises(ValueError, match=f"the {wrong} of the metric 'acme-keys' must be a text, not None"):
        group.add_counter("acme-keys", unit=unit, meaning=meaning)
    assert group.metrics() == ()


def test_a_gauge_without_a_function_is_refused() -> None:
    with pytest.raises(ValueError, match="'acme-keys' needs a function that returns its value, not 7"):
        PluginMetricGroup().add_gauge("acme-keys", cast(Any, 7), unit="keys", meaning="Keys.")


@pytest.mark.parametrize(
    ("name", "unit", "other", "other_unit"),
    [
        ("a-b", "s", "a_b", "s"),
        ("a.b", "keys", "A-b", "keys"),
        ("x", "keys", "x-total", "keys"),
        ("age-ms", "ms", "age", "s"),
        ("sent-bytes-total", "bytes", "sent", "bytes"),
    ],
)
def test_names_that_exporters_would_merge_are_refused(name: str, unit: str, other: str, other_unit: str) -> None:
    group = PluginMetricGroup()
    group.add_counter(name, unit=unit, meaning="Some.")

    with pytest.raises(ValueError, match=f"the metric '{other}' would be one with '{name}' where metrics are exported"):
        group.add_counter(other, unit=other_unit, meaning="Others.")
    group.remove(name)
    group.add_counter(other, unit=other_unit, meaning="Others.")


@pytest.mark.parametrize(("name", "other"), [("cache", "cache-bytes"), ("hit", "hits"), ("hits-total", "hit-ratio")])
def test_names_that_exporters_keep_apart_are_taken(name: str, other: str) -> None:
    group = PluginMetricGroup()
    group.add_gauge(name, lambda: 1, unit="keys", meaning="Some.")
    group.add_gauge(other, lambda: 2, unit="bytes", meaning="Others.")

    assert [each.name for each in group.metrics()] == [name, other]


def test_the_last_metric_of_a_name_takes_its_form_with_it() -> None:
    group = PluginMetricGroup()
    for topic in ("t", "u"):
        group.add_counter("hits-total", unit="hits", meaning="Keys found.", tags={"topic": topic})
    group.remove("hits-total", {"topic": "t"})

    with pytest.raises(ValueError, match="must have the same unit, meaning and labels"):
        group.add_counter("hits-total", unit="keys", meaning="Keys found.", tags={"topic": "t"})
    group.remove("hits-total", {"topic": "u"})
    group.add_counter("hits-total", unit="keys", meaning="Keys found.", tags={"topic": "t"})


@pytest.mark.parametrize("tagged", [True, False])
def test_a_metric_is_compared_with_no_other_one_when_it_is_added(tagged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def form(metric: PluginMetric) -> tuple[bool, str, str, tuple[str, ...]]:
        read.append(metric.name)
        return metric.cumulative, metric.unit, metric.meaning, tuple(label for label, _of in metric.tags)

    monkeypatch.setattr(PluginMetric, "form", property(form))
    group = PluginMetricGroup()
    for number in range(500):
        name, tags = ("sends", {"topic": f"t{number}"}) if tagged else (f"sends-{number}", None)
        group.add_counter(name, unit="records", meaning="Records.", tags=tags)

    assert len(read) <= 500, "the time for a metric grows with the number of metrics"


def test_every_metric_has_a_unit() -> None:
    with simulated(1) as simulation:
        units = {each.name: each.unit for each in simulation.producer._engine.metric_values.describe()}

    assert all(units.values())
    assert units["record-send-rate"] == "records/s"
    assert units["request-rate"] == "requests/s"
    assert units["outgoing-byte-rate"] == "bytes/s"
    assert units["request-latency-avg"] == "ms"
    assert units["bufferpool-wait-ratio"] == units["compression-rate-avg"] == "1"
