"""Metrics, and the reporters that export them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import attrs

from ottla.results.value_methods import ValueMethods


class MetricName(NamedTuple):
    """The name of a metric: the Java client's group and name, and its tags, as pairs such as ("topic", "orders").

    Names with equal fields are equal, so a name that is made by hand finds its value in a snapshot.
    """

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.group}:{self.name}" + (
            f"{{{','.join(f'{label}={of}' for label, of in self.tags)}}}" if self.tags else ""
        )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MetricDescription(ValueMethods):
    """What a metric measures, and the labels of its tags.

    `cumulative`: its value begins at 0 with the producer, and only grows. `unit` is a text like "bytes", "records/s",
    "ms", or "1" for a ratio.
    """

    group: str
    name: str
    labels: tuple[str, ...]
    cumulative: bool
    unit: str
    meaning: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Histogram(ValueMethods):
    """How often values of each size occurred since the producer began.

    `counts[0]` values were at most `bounds[0]`, `counts[1]` more than that and at most `bounds[1]`, and so on. The last
    count is of the values above all bounds. `total` is the sum of all values; `unit` is that of bounds and total.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    unit: str
    meaning: str


class MetricsRegistry(Protocol):
    """The metrics that a reporter reads. For any thread, also after the producer was closed."""

    def snapshot(self) -> Mapping[MetricName, float]:
        """Every metric's value now. An average or a maximum of nothing is NaN."""

    def describe(self) -> Sequence[MetricDescription]:
        """Descriptions of all metrics that a snapshot may have.

        Plugins may add metrics later (`PluginMetrics`), so a later snapshot may have some without a description.
        """

    def histograms(self) -> Mapping[MetricName, Histogram]:
        """The distributions of latencies and sizes. Their names are not those of a snapshot."""

    def subscribe(self, observe: Callable[[MetricName, float, int], object]) -> Callable[[], None]:
        """Call *observe* with each value that a histogram counts from now on, until the returned function is called.

        It gets the histogram's name, the value, and the number of records with this value: all records of a batch are
        one call. It is called on the I/O thread, which waits; its exceptions are logged.
        """


@runtime_checkable
class MetricsReporter(Protocol):
    """Exports metrics. It reads them when it needs them; sending a record does not call it.

    Its exceptions are logged, and the producer continues without it.
    """

    def start(self, registry: MetricsRegistry) -> None:
        """Start background work. Called once when the producer starts; must not wait."""

    def close(self) -> None:
        """End what `start` began. Called once when the producer has closed; its last metrics can still be read.

        Not called if `start` raised, or was not called because the producer could not be made.
        """
