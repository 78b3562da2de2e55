"""Metrics of all producers of a program, created when Prometheus collects them.

One collector serves all producers of a registry, because a name may be registered only once.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, count
from typing import Final

import attrs
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ottla.interfaces import Histogram, MetricsRegistry
from ottla_reporter_prometheus import names

OTHER_TOPICS: Final = "(other topics)"
"""The label of all topics beyond the limit; no topic of Kafka can have this name."""

Labels = tuple[tuple[str, str], ...]


@attrs.frozen(kw_only=True, eq=False)
class Source:
    """A producer: its metrics, the value of its label `client_id`, and how many topics get their own labels."""

    registry: MetricsRegistry
    client_id: str
    max_topics: int

    def labels(self, tags: Labels, topics: dict[str, str]) -> Labels:
        """Return the labels for tags; *topics* collects the topics that have had labels so far.

        Where two tags would have one label, such as `client-id` and `client_id`, the later one's ends in `_`.
        """
        found: dict[str, str] = {}
        for tag, of in tags:
            label = names.label(tag)
            while label in found:
                label += "_"
            found[label] = names.text(self._value(tag, of, topics))
        return tuple(found.items())

    def _value(self, tag: str, of: str, topics: dict[str, str]) -> str:
        match tag:
            case "client-id":
                return self.client_id
            case "topic":
                return topics.setdefault(of, of if len(topics) < self.max_topics else OTHER_TOPICS)
            case _:
                return of


class ProducersCollector(Collector):
    """Read the current producers' metrics at each collection. For any thread.

    A registry may hold a lock of its own while it collects, and while a collector joins or leaves it. So what a
    collection takes (`_lock`) is never held while the registry is called.
    """

    def __init__(self) -> None:
        self._joining = threading.Lock()
        self._lock = threading.Lock()
        self._sources: list[Source] = []

    def add(self, registry: MetricsRegistry, *, client_id: str, max_topics: int, to: CollectorRegistry) -> Source:
        """Add a producer; with the first one, and after the program has removed the collector, it joins *to*.

        Where another producer has the same client id, its label becomes `id#2`, `id#3` and so on: Prometheus refuses
        two samples with the same labels.
        """
        with self._joining:
            if not self._sources or not _has(to, self):
                to.register(self)
            taken = {each.client_id for each in self._sources}
            candidates = chain((client_id,), (f"{client_id}#{number}" for number in count(2)))
            label = next(each for each in candidates if each not in taken)
            source = Source(registry=registry, client_id=label, max_topics=max_topics)
            with self._lock:
                self._sources.append(source)
            return source

    def remove(self, source: Source, *, of: CollectorRegistry) -> None:
        """Remove a producer; with the last one, the collector leaves the registry."""
        with self._joining:
            with self._lock:
                self._sources = [each for each in self._sources if each is not source]
            if not self._sources:
                with contextlib.suppress(KeyError):  # the program has removed all collectors, as tests do
                    of.unregister(self)

    def forget_in_child(self) -> None:
        """Remove the parent's producers in a forked child: their values would never change again."""
        self._joining, self._lock = threading.Lock(), threading.Lock()
        self._sources = []

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registration must not read metrics yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return every metric of every producer, by name."""
        with self._lock:
            sources = list(self._sources)
        families: dict[str, Metric] = {}
        for source in sources:
            topics: dict[str, str] = {}
            _add_numbers(families, source, topics)
            _add_histograms(families, source, topics)
        return families.values()


def _has(registry: CollectorRegistry, collector: Collector) -> bool:
    """Whether a registry has a collector; true if it does not say, because none may join twice."""
    return collector in getattr(registry, "_collector_to_names", (collector,))


def _add_numbers(families: dict[str, Metric], source: Source, topics: dict[str, str]) -> None:
    """Add counters and gauges. A metric without a description may decrease, so it is a gauge."""
    values = source.registry.snapshot()
    described = {(each.group, each.name): each for each in source.registry.describe()}
    sums: dict[tuple[str, Labels], float] = defaultdict(float)
    for name, value in values.items():
        if names.omitted(name.group, name.name) or math.isnan(value):
            continue  # an average or a maximum of nothing has no sample
        about = described.get((name.group, name.name))
        grows = about is not None and about.cumulative
        family = names.family(
            name.group, name.name, unit="" if about is None else about.unit, kind="counter" if grows else "gauge"
        )
        _family(families, family, "" if about is None else about.meaning)
        sums[family.name, source.labels(name.tags, topics)] += value / family.divisor
    for (full, labels), total in sums.items():
        families[full].add_sample(full, dict(labels), total)


def _add_histograms(families: dict[str, Metric], source: Source, topics: dict[str, str]) -> None:
    grouped: dict[tuple[str, Labels], list[Histogram]] = defaultdict(list)
    divisors: dict[str, float] = {}
    for name, histogram in source.registry.histograms().items():
        family = names.family(name.group, name.name, unit=histogram.unit, kind="histogram")
        _family(families, family, histogram.meaning)
        divisors[family.name] = family.divisor
        grouped[family.name, source.labels(name.tags, topics)].append(histogram)
    for (full, labels), parts in grouped.items():
        for suffix, extra, value in _samples(parts, divisors[full]):
            families[full].add_sample(f"{full}{suffix}", {**dict(labels), **extra}, value)


def _samples(parts: Sequence[Histogram], divisor: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield the samples of one histogram, or of the sum of several with the same bounds."""
    counts = list(accumulate(sum(column) for column in zip(*(each.counts for each in parts), strict=True)))
    bounds = [*(bound / divisor for bound in parts[0].bounds), math.inf]
    for bound, so_far in zip(bounds, counts, strict=True):
        yield "_bucket", {"le": "+Inf" if math.isinf(bound) else str(bound)}, so_far
    yield "_count", {}, counts[-1]
    yield "_sum", {}, sum(each.total for each in parts) / divisor


def _family(families: dict[str, Metric], family: names.Family, meaning: str) -> None:
    """Make the metric, unless there is one; it is found by its full name, which counters lose `_total` of."""
    if family.name not in families:
        families[family.name] = Metric(family.name.removesuffix("_total"), names.text(meaning), family.kind)
