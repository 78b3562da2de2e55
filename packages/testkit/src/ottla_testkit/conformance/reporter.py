"""All requirements for a `MetricsReporter`.

```python
class TestMine(MetricsReporterConformance):
    @pytest.fixture
    def reporter(self):
        return MyReporter()

    @pytest.fixture
    def another(self):
        return MyReporter()
```

A reporter that others read, over HTTP for instance, also needs `collect`, which reads it. With `exported`, which
returns what has left the reporter, the suite sees whether anything has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pytest

from ottla.interfaces import Histogram, MetricDescription, MetricName, MetricsReporter
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import within
from ottla_testkit.conformance.harness.thread_leaks import OURS, StartedThreads, no_thread_errors

_LATE: Final = "the program waits for it"
_UNUSUAL: Final[Sequence[tuple[MetricName, float]]] = (
    (MetricName("producer-metrics", "batch-size-avg", (("client-id", "a"),)), float("nan")),
    (MetricName("producer-metrics", "batch-size-max", (("client-id", "a"),)), float("inf")),
    (MetricName("producer-topic-metrics", "byte-total", (("client-id", "é \"'\\\n{}"), ("topic", "a.b-c_d"))), 0.0),
    (MetricName("producer-topic-metrics", "byte-rate", (("client-id", ""), ("topic", "t" * 249))), 1e300),
    (MetricName("a-group-of-tomorrow", "never heard of", (("new label", "1"),)), -1.5),
    (MetricName("producer-metrics", "without-tags"), 7),
)
_TAGS_OF_TOPICS: Final = 2
_MOMENT: Final = 0.2
_MOMENTS: Final = 5
_GRACE: Final = 1.0
"""Seconds in which a thread that close() has joined leaves the list of threads, on a busy machine too."""
_HELD: Final = 0.5
"""Seconds for which the last read of a reporter's own thread lasts, unless close() returns before it has ended."""
_MAX_READS: Final = 50
"""In a moment; more are of a thread that reads without a pause."""


class CountingRegistry:
    """A registry whose values grow with every read, and that counts the reads."""

    def __init__(self, client_id: str = "a", *, topics: Sequence[str] = ()) -> None:
        self.client_id = client_id
        self._topics = topics
        """Topics that it has besides those that are added."""
        self.given: list[tuple[dict[MetricName, float], dict[MetricName, float]]] = []
        self.unusual = False
        self._lock = threading.Lock()

    def snapshot(self) -> Mapping[MetricName, float]:
        """Return the values; each call adds one topic."""
        with self._lock:
            looks = len(self.given) + 1
            client = ("client-id", self.client_id)
            figures: dict[MetricName, float] = {
                MetricName("producer-metrics", "record-send-total", (client,)): 10.0 * looks,
                MetricName("producer-metrics", "record-queue-time-avg", (client,)): 0.5,
            }
            for topic in (*(f"t{number}" for number in range(looks)), *self._topics):
                name = MetricName("producer-topic-metrics", "record-send-total", (client, ("topic", topic)))
                figures[name] = float(looks)
            if self.unusual:
                figures.update(_UNUSUAL)
                if looks % 2 == 0:  # metrics of topics end with the topics
                    figures = {name: value for name, value in figures.items() if len(name.tags) != _TAGS_OF_TOPICS}
            self.given.append((figures, dict(figures)))
            return figures

    def describe(self) -> Sequence[MetricDescription]:
        """Return descriptions of the metrics named `record-send-total`; the others have none."""
        return [
            MetricDescription(
                group=group,
                name="record-send-total",
                labels=labels,
                cumulative=True,
                unit="records",
                meaning="Records that left.",
            )
            for group, labels in (
                ("producer-metrics", ("client-id",)),
                ("producer-topic-metrics", ("client-id", "topic")),
            )
        ]

    def histograms(self) -> Mapping[MetricName, Histogram]:
        """Return one distribution for each topic of the last snapshot; the values grow with every read."""
        with self._lock:
            return {
                MetricName(
                    "producer-topic-metrics",
                    "record-queue-time",
                    (("client-id", self.client_id), ("topic", f"t{number}")),
                ): Histogram(
                    bounds=(1.0, 10.0),
                    counts=(len(self.given), 1, 0),
                    total=5.0 + len(self.given),
                    unit="ms",
                    meaning="Milliseconds that records waited.",
                )
                for number in range(len(self.given))
            }

    def subscribe(self, observe: Callable[[MetricName, float, int], object]) -> Callable[[], None]:
        """Call *observe* once, with a value of a batch of three records."""
        client = ("client-id", self.client_id)
        observe(MetricName("producer-topic-metrics", "record-queue-time", (client, ("topic", "t0"))), 2.5, 3)
        return lambda: None


class HeldRegistry(CountingRegistry):
    """A registry whose reads on the reporter's own threads last until close() has returned, or for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.left_behind: list[str] = []
        """The threads that were reading when close() had returned."""
        self.closed = threading.Event()
        self._held = False

    def hold(self) -> None:
        """Let reads that begin from now on last."""
        self._held = True

    def snapshot(self) -> Mapping[MetricName, float]:
        """Return the values; reads of close() itself do not wait for its end."""
        reader = threading.current_thread().name
        if self._held and not reader.startswith(OURS) and self.closed.wait(_HELD):
            self.left_behind.append(reader)
        return super().snapshot()


class MetricsReporterConformance(BoundedSuite):
    """Tests of a reporter: derive a class `Test...` from it, and override the fixtures `reporter` and `another`."""

    subject: ClassVar[str] = "reporter"
    contract: ClassVar[type] = MetricsReporter

    exports_topics: ClassVar[bool] = True
    """Whether what `exported` returns has each topic of the metrics; False for one that leaves topics out."""

    @pytest.fixture
    def reporter(self) -> MetricsReporter:
        """The reporter under test; a new one for each test."""
        raise NotImplementedError("give a fixture `reporter` that returns your MetricsReporter")

    @pytest.fixture
    def another(self) -> MetricsReporter:
        """Another reporter, as for a second producer in the same program."""
        pytest.skip("give a fixture `another`, one more reporter, to see whether two can live side by side")

    def collect(self, reporter: MetricsReporter) -> None:
        """Make a reporter report that does not do so by itself."""

    def exported(self, reporter: MetricsReporter) -> str | bytes:
        """Return all that a closed reporter has exported, such as the file that it wrote or what `collect` has read."""
        pytest.skip("give a method `exported`, which returns what the reporter has exported, to see whether it has")

    def test_it_has_every_method_of_the_contract(self, reporter: MetricsReporter) -> None:
        check_contract(reporter, MetricsReporter)

    def test_it_starts_and_closes_at_once_without_an_error(self, reporter: MetricsReporter) -> None:
        with self._started(reporter, CountingRegistry()):
            pass

    def test_nothing_runs_before_its_start(self, started_threads: StartedThreads, reporter: MetricsReporter) -> None:
        started_threads.check_none("making the reporter", "start() begins its work")

    def test_the_metrics_are_read(self, reporter: MetricsReporter) -> None:
        figures = CountingRegistry()
        with self._started(reporter, figures):
            at_the_start = len(figures.given)
            self.collect(reporter)
            collected = len(figures.given) > at_the_start
            time.sleep(_MOMENT)  # the first read of its thread is none after close()
            before_close = len(figures.given)
        check(
            collected or len(figures.given) > before_close,
            "nothing was read between the call of close() and its end: the last figures would be lost; one that is "
            "asked for figures from outside needs `collect` in its suite, which asks",
        )

    def test_a_figure_that_it_reads_is_exported(self, reporter: MetricsReporter) -> None:
        figures = CountingRegistry()
        text = self._exported(reporter, figures)
        read = sorted({name.name for given, _before in figures.given for name in given})
        check(
            any(_plain(name) in _plain(text) for name in read),
            f"it read the metrics {', '.join(read)}, and `exported` returned {len(text)} characters with none of these "
            "names, whatever stands between their words: nothing has left the reporter",
        )

    def test_every_topic_that_it_reads_is_exported(self, reporter: MetricsReporter) -> None:
        if not self.exports_topics:
            pytest.skip("`exports_topics` is False: it leaves topics out")
        topics = [f"topic-{number}" for number in range(100, 120)]
        text = _plain(self._exported(reporter, CountingRegistry(topics=topics)))
        missing = [topic for topic in topics if _plain(topic) not in text]
        check(
            not missing,
            f"of the metrics of {len(topics)} topics, those of {', '.join(missing)} are not in what `exported` "
            "returned; exports_topics = False allows it",
        )

    def test_close_waits_for_the_last_read_of_its_thread(self, reporter: MetricsReporter) -> None:
        figures, begun = HeldRegistry(), StartedThreads()
        with no_thread_errors():
            self._call("start()", lambda: reporter.start(figures))
            figures.hold()
            try:
                self._call("close()", reporter.close)
            finally:
                figures.closed.set()
        begun.check_gone("close()", min(self.timeout, _GRACE))
        check(
            not figures.left_behind,
            f"close() returned while its thread {', '.join(figures.left_behind)} read the metrics: the program may end "
            "now, and the last figures would be lost; join the thread in close()",
        )

    def test_the_metrics_are_not_read_without_a_pause(self, reporter: MetricsReporter) -> None:
        figures = CountingRegistry()
        with self._started(reporter, figures):
            for moments in range(1, _MOMENTS + 1):  # on a busy machine its thread may not run in the first one
                time.sleep(_MOMENT)
                reads = len(figures.given)
                check(
                    reads <= moments * _MAX_READS,
                    f"the metrics were read {reads} times in {moments * _MOMENT:g} s: its thread takes a processor's "
                    "time from the producer",
                )

    def test_the_metrics_it_reads_are_not_changed(self, reporter: MetricsReporter) -> None:
        figures = CountingRegistry()
        with self._started(reporter, figures):
            self.collect(reporter)
        for read, before in figures.given:
            check(read == before, "it changed the snapshot that it was given, which others may read")

    def test_unexpected_metrics_are_harmless(self, reporter: MetricsReporter) -> None:
        figures = CountingRegistry()
        figures.unusual = True
        with self._started(reporter, figures):
            for _ in range(3):
                try:
                    self.collect(reporter)
                except Exception as error:
                    fail(
                        f"it failed with {error!r} for figures such as NaN, metrics that it does not know, or labels "
                        "with quotes and line ends",
                        error,
                    )

    def test_nothing_that_it_started_remains(self, reporter: MetricsReporter) -> None:
        begun = StartedThreads()
        with self._started(reporter, CountingRegistry()):
            begun.check_daemons("start()")
            self.collect(reporter)
        begun.check_gone("close()", self.timeout)

    def test_two_reporters_coexist_and_one_outlives_the_other(
        self, reporter: MetricsReporter, another: MetricsReporter
    ) -> None:
        first, second = CountingRegistry("a"), CountingRegistry("b")
        with self._started(another, second):
            with self._started(reporter, first):
                self.collect(reporter)
                self.collect(another)
            self.collect(another)
        check(
            bool(first.given) and bool(second.given),
            "of two reporters only one has read its figures; does the other one read those, too?",
        )

    # Shared by the tests

    def _exported(self, reporter: MetricsReporter, figures: CountingRegistry) -> str:
        """Return what a reporter of these figures has exported, as text."""
        with self._started(reporter, figures):
            self.collect(reporter)
        exported = self.exported(reporter)
        return exported if isinstance(exported, str) else bytes(exported).decode("utf-8", "replace")

    @contextmanager
    def _started(self, reporter: MetricsReporter, figures: CountingRegistry) -> Iterator[None]:
        """Start and stop a reporter around the block; neither call may fail, nor may a thread of it fail or remain."""
        begun = StartedThreads()
        with no_thread_errors():
            self._call("start()", lambda: reporter.start(figures))
            try:
                yield
            finally:
                self._call("close()", reporter.close)
        begun.check_gone("close()", min(self.timeout, _GRACE))

    def _call(self, call: str, work: Any) -> None:
        try:
            within(self.timeout, call, work, remedy=_LATE)
        except Exception as error:
            fail(f"{call} raised {error!r}: the producer continues without it, and nothing is reported", error)


def _plain(text: str) -> str:
    """Return the letters and digits of a name, which each format of metrics joins in its own way."""
    return "".join(letter for letter in text.lower() if letter.isalnum())
