"""How a producer fares, in figures with the names that Java's producer has for them."""

from ottla.metrics.counters import Counters
from ottla.metrics.values import MetricValues

__all__ = ["Counters", "MetricValues"]
