"""Metrics that plugins add: their names, values and end."""

from __future__ import annotations

import math

import pytest

from ottla.errors import IllegalStateError
from ottla.interfaces import MetricDescription, MetricName
from ottla.metrics.plugin_metric_group import PluginMetricGroup
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


@pytest.mark.parametrize("failure", [LookupError("no"), SystemExit(1)])
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


def test_a_counter_takes_no_negative_amount() -> None:
    counter = PluginMetricGroup().add_counter("hits-total", unit="hits", meaning="Keys found.")

    with pytest.raises(ValueError, match="only grows"):
        counter.add(-1)


def test_every_metric_has_a_unit() -> None:
    with simulated(1) as simulation:
        units = {each.name: each.unit for each in simulation.producer._engine.metric_values.describe()}

    assert all(units.values())
    assert units["record-send-rate"] == "records/s"
    assert units["request-rate"] == "requests/s"
    assert units["outgoing-byte-rate"] == "bytes/s"
    assert units["request-latency-avg"] == "ms"
    assert units["bufferpool-wait-ratio"] == units["compression-rate-avg"] == "1"
