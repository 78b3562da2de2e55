"""Windows: what counts for rates, averages and maxima at which time, as in Java's SampledStat and Rate."""

from __future__ import annotations

import copy
import math
import random

import pytest

from ottla.interfaces import MetricName
from ottla.metrics import Counters, MetricValues
from ottla.metrics.catalogue import NODE
from ottla.metrics.counter import Counter, Span
from ottla.metrics.producer_counters import MAX_GONE
from ottla_testkit.manual_clock import ManualClock

WINDOW = 30.0
"""Of two samples, which are the defaults."""


class Counted:
    """Batches of one size each, counted at times of the test's choice."""

    def __init__(self, *, samples: int = 2, window: float = WINDOW) -> None:
        self.clock = ManualClock(1000.0)
        self.counters = Counters(samples=samples, window=window)
        self.figures = MetricValues(counters=self.counters, client_id="me", gauges={}, clock=self.clock)
        self.counters.end_window_if_due(self.clock())

    def batch(self, size: float, *, after: float = 0.0) -> None:
        self.clock.advance(after)
        self.counters.end_window_if_due(self.clock())
        self.counters.topic("t").batches.add(size)

    def of_topic(self, name: str) -> float:
        tags = (("client-id", "me"), ("topic", "t"))
        return self.figures.snapshot()[MetricName("producer-topic-metrics", name, tags)]

    def of_producer(self, name: str) -> float:
        return self.figures.snapshot()[MetricName("producer-metrics", name, (("client-id", "me"),))]


@pytest.mark.rule("producer.metrics.windows")
def test_a_rate_in_the_first_seconds_is_over_a_window_and_these() -> None:
    counted = Counted()
    counted.batch(600)
    counted.clock.advance(10.0)

    assert counted.of_topic("byte-rate") == 600 / (WINDOW + 10.0)


@pytest.mark.rule("producer.metrics.windows")
def test_a_rate_covers_the_open_window_and_the_one_before() -> None:
    counted = Counted()
    counted.batch(100)
    counted.batch(200, after=WINDOW)
    counted.clock.advance(15.0)
    assert counted.of_topic("byte-rate") == 300 / 45.0

    counted.batch(400, after=16.0)
    counted.clock.advance(9.0)

    assert counted.of_topic("byte-rate") == 600 / 40.0
    assert counted.of_topic("byte-total") == 700


@pytest.mark.rule("producer.metrics.windows")
def test_a_total_never_shrinks_and_an_old_rate_is_zero() -> None:
    counted = Counted()
    counted.batch(100)
    counted.clock.advance(2 * WINDOW)

    assert counted.of_topic("byte-rate") == 0
    assert counted.of_topic("byte-total") == 100


@pytest.mark.rule("producer.metrics.windows")
def test_the_maximum_is_forgotten_with_its_window() -> None:
    counted = Counted()
    counted.batch(900)
    counted.batch(100, after=WINDOW)
    assert counted.of_producer("batch-size-max") == 900
    assert counted.of_producer("batch-size-avg") == 500

    counted.batch(200, after=WINDOW)

    assert counted.of_producer("batch-size-max") == 200
    assert counted.of_producer("batch-size-avg") == 150


def test_an_average_and_a_maximum_without_events_are_nan() -> None:
    counted = Counted()

    assert math.isnan(counted.of_producer("batch-size-avg"))
    assert math.isnan(counted.of_producer("batch-size-max"))
    assert math.isnan(counted.of_producer("record-size-avg"))


def test_old_events_are_not_in_the_average() -> None:
    counted = Counted()
    counted.batch(900)
    counted.clock.advance(2 * WINDOW)

    assert math.isnan(counted.of_producer("batch-size-avg"))
    assert math.isnan(counted.of_producer("batch-size-max"))


def test_after_a_long_silence_only_new_events_count() -> None:
    counted = Counted()
    counted.batch(900)
    counted.batch(100, after=1_000_000.0)
    counted.clock.advance(10.0)

    assert counted.of_topic("byte-rate") == 100 / 40.0
    assert counted.of_producer("batch-size-max") == 100


def test_a_late_topic_has_no_earlier_events() -> None:
    counted = Counted()
    counted.clock.advance(WINDOW)
    counted.batch(60)
    counted.clock.advance(WINDOW - 1)

    assert counted.of_topic("byte-rate") == 60 / (2 * WINDOW - 1)


@pytest.mark.parametrize("samples", [1, 2, 3, 7])
def test_any_number_of_windows_agrees_with_a_list_of_all_events(samples: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    counted = Counted(samples=samples, window=10.0)
    began, events = [1000.0], list[tuple[float, int]]()
    for _ in range(300):
        after = chance.choice((0.0, 1.5, 4.0, 10.0, 25.0))
        size = chance.randrange(1, 1000)
        counted.batch(size, after=after)
        now = counted.clock()
        if now - began[-1] >= 10.0:
            began.append(now)
        events.append((now, size))
        since = min(each for each in began[-samples:] if now - each < samples * 10.0)
        late = [size for at, size in events if at >= since]
        lacking = max(samples - 1 - int((now - since) / 10.0), 0)
        seconds = now - since + lacking * 10.0

        assert counted.of_producer("batch-size-max") == max(late)
        assert counted.of_producer("batch-size-avg") == pytest.approx(sum(late) / len(late))
        assert counted.of_topic("byte-rate") == pytest.approx(sum(late) / seconds if seconds else 0.0)
        assert counted.of_topic("byte-total") == sum(size for _at, size in events)


def test_a_window_of_no_time_is_harmless() -> None:
    counted = Counted(window=0.0)
    counted.batch(100)

    assert counted.of_topic("byte-total") == 100
    assert counted.of_topic("byte-rate") >= 0


def test_time_in_a_block_counts_also_when_it_raises() -> None:
    clock, span = ManualClock(), Span()
    with pytest.raises(ValueError, match="cannot go back"), span.timed(clock):
        clock.advance(2.0) or clock.advance(-1.0)  # type: ignore[func-returns-value]
    with span.timed(clock):
        clock.advance(1.0)

    assert span.total == 3.0


def test_a_counter_keeps_no_more_windows_than_requested() -> None:
    counter = Counter()
    for number in range(100):
        counter.add(number)
        counter.roll_window(3)

    assert counter.since(2).times == 2
    assert counter.since(1000).times == 100
    assert len(counter._marks) == 3


def test_events_that_are_counted_together_count_as_one_by_one() -> None:
    together, alone = Counter(), Counter()
    for amounts in ([3], [1, 2, 5], [4, 4], [0]):
        together.add_all(amounts)
        for amount in amounts:
            alone.add(amount)

        assert together.since(1) == alone.since(1)


def test_nanoseconds_are_computed_from_counted_seconds() -> None:
    counted = Counted()
    for seconds in (2.0, 4.0):
        counted.counters.producer.io_waits.add(seconds)
    counted.clock.advance(10.0)

    assert counted.of_producer("io-wait-time-ns-avg") == 3e9
    assert counted.of_producer("io-wait-time-ns-total") == 6e9
    assert counted.of_producer("io-wait-ratio") == 6.0 / (WINDOW + 10.0)


# Brokers that left


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_counters_that_absorb_others_have_the_counts_of_both(samples: int) -> None:
    chance = random.Random(samples)
    both, old, young = Counter(), Counter(), Counter()
    for window in range(12):
        for counter in [old, young][: 1 + (window > 8)]:  # the younger one has had fewer windows
            for _ in range(chance.randrange(3)):
                amount = chance.randrange(100)
                counter.add(amount)
                both.add(amount)
        for counter in [old, both, young][: 2 + (window > 8)]:
            counter.roll_window(samples)
    seen = [both.since(windows) for windows in range(-1, samples)]
    for mine, its in ((old, young), (young, old)):
        absorbing = copy.copy(mine)
        absorbing.absorb(its)
        assert (absorbing.count, absorbing.total) == (both.count, both.total)
        assert [absorbing.since(windows) for windows in range(-1, samples)] == seen


@pytest.mark.rule("producer.metrics.gone")
def test_brokers_that_left_are_few_and_the_sums_over_brokers_stay() -> None:
    counted = Counted()
    for node in range(1, 101):
        counted.counters.node_connected(node)
        counted.counters.node(node).requests.add(node)
        counted.figures.snapshot()
        counted.counters.node_left(node)

    left = list(range(101 - MAX_GONE, 101))
    assert list(counted.counters.nodes) == left
    assert len({name.tags for name in counted.figures.snapshot() if name.group == NODE}) == MAX_GONE
    assert len(counted.figures._names) == MAX_GONE + 1
    assert counted.of_producer("request-total") == 100
    assert counted.of_producer("outgoing-byte-total") == 5050
    assert counted.of_producer("request-size-max") == 100
    assert counted.of_producer("outgoing-byte-rate") == 5050 / WINDOW


@pytest.mark.rule("producer.metrics.gone")
def test_a_broker_that_comes_back_goes_on_with_its_counters() -> None:
    counted = Counted()
    counted.counters.node(1).requests.add(10)
    counted.counters.node_left(1)
    counted.counters.node_connected(1)
    for node in range(2, 100):
        counted.counters.node_left(node)

    assert counted.figures.value("outgoing-byte-total", node=1) == 10


def test_readers_read_again_when_counters_moved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    counted.counters.node(0).requests.add(7)
    seen: list[int] = []
    ordinary = Counters.source

    def source(counters: Counters, name: str) -> object:
        found = ordinary(counters, name)
        if not seen:
            seen.append(1)
            for node in range(MAX_GONE + 1):
                counters.node_left(node)
        return found

    monkeypatch.setattr(Counters, "source", source)

    assert counted.of_producer("outgoing-byte-total") == 7
    assert list(counted.counters.nodes) == []
