"""How a producer fares, in figures with the names that Java's producer has for them."""

from ottla.metrics.figures import Figures
from ottla.metrics.tallies import Tallies

__all__ = ["Figures", "Tallies"]
