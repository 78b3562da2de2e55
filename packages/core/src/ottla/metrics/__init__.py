"""Metrics of a producer, with the names of Java's producer."""

from ottla.metrics.producer_counters import Counters
from ottla.metrics.registry import MetricValues

__all__ = ["Counters", "MetricValues"]
