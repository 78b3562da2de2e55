"""Metrics of a producer, with the names of Java's producer."""

from ottla.metrics.counters import Counters
from ottla.metrics.values import MetricValues

__all__ = ["Counters", "MetricValues"]
