"""How a producer fares, in figures with the names that Java's producer has for them."""

from ottla.metrics.counters import Tallies
from ottla.metrics.values import Figures

__all__ = ["Figures", "Tallies"]
