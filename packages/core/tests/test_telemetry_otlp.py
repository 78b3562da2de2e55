"""The encoding of metrics for brokers, against protobuf and OpenTelemetry's own definition of the messages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from ottla.sender.telemetry.otlp import Attributes, OtlpMetric, Point, Temporality, metrics_data

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
attributes = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
times = st.integers(0, (1 << 64) - 1)
points = st.builds(Point, value=st.floats(allow_nan=False), at_ns=times, since_ns=times, attributes=attributes)
metrics = st.builds(
    OtlpMetric,
    name=texts,
    points=st.lists(points, max_size=3),
    temporality=st.one_of(st.none(), st.sampled_from(Temporality)),
)


def by_protobuf(metrics: list[OtlpMetric], resource: Attributes, scope: str, version: str) -> bytes:
    """The same message, encoded by protobuf."""
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    of_resource.resource.SetInParent()
    for key, value in resource:
        of_resource.resource.attributes.add(key=key).value.string_value = value
    of_scope = of_resource.scope_metrics.add()
    of_scope.scope.SetInParent()
    of_scope.scope.name, of_scope.scope.version = scope, version
    for metric in metrics:
        made = of_scope.metrics.add(name=metric.name)
        if metric.temporality is None:
            made.gauge.SetInParent()
            into = made.gauge.data_points
        else:
            made.sum.is_monotonic, made.sum.aggregation_temporality = (
                True,
                AggregationTemporality.ValueType(metric.temporality),
            )
            into = made.sum.data_points
        for point in metric.points:
            added = into.add(time_unix_nano=point.at_ns, start_time_unix_nano=point.since_ns, as_double=point.value)
            for key, value in point.attributes:
                added.attributes.add(key=key).value.string_value = value
    encoded: bytes = data.SerializeToString(deterministic=True)
    return encoded


@given(st.lists(metrics, max_size=4), attributes, texts, texts)
def test_the_bytes_are_those_of_protobuf(
    metrics: list[OtlpMetric], resource: Attributes, scope: str, version: str
) -> None:
    # Protobuf leaves a time of 0 out, which no clock shows; both mean the same.
    written = metrics_data(metrics, resource=resource, scope=scope, version=version)

    assert MetricsData.FromString(written) == MetricsData.FromString(by_protobuf(metrics, resource, scope, version))
    if all(point.at_ns for metric in metrics for point in metric.points):
        assert written == by_protobuf(metrics, resource, scope, version)


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, 1e308, 5e-324])
def test_every_number_arrives_as_it_is(value: float) -> None:
    metric = OtlpMetric(name="m", points=[Point(value=value, at_ns=1)])
    data = metrics_data([metric], resource=(), scope="s", version="")
    [point] = MetricsData.FromString(data).resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points

    assert point.HasField("as_double")
    assert math.copysign(1, value) == math.copysign(1, point.as_double)
    assert value == point.as_double


def test_text_that_protobuf_refuses_is_replaced() -> None:
    point = Point(value=1.0, at_ns=1, attributes=(("to\udcffpic", "\ud800"),))
    data = metrics_data([OtlpMetric(name="m", points=[point])], resource=(("r", "\udc80"),), scope="s", version="")
    of_resource = MetricsData.FromString(data).resource_metrics[0]
    [attribute] = of_resource.scope_metrics[0].metrics[0].gauge.data_points[0].attributes

    assert (attribute.key, attribute.value.string_value) == ("to?pic", "?")
    assert of_resource.resource.attributes[0].value.string_value == "?"
