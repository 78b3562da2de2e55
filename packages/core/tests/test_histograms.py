"""Histograms for reporters: distributions of latencies and sizes, counted for each batch."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from ottla import DeliveryError, ErrorCode, MetricName
from ottla.interfaces import Histogram
from ottla.metrics.buckets import BATCH_SIZES, RECORD_SIZES, TIMES, Buckets
from ottla.metrics.catalogue import HISTOGRAMS, LABELS, METRICS, NODE, PRODUCER, TOPIC
from simulated_producer import Simulated, simulated


def read(simulation: Simulated, group: str, name: str, *label: tuple[str, str]) -> Histogram:
    return simulation.producer._engine.metric_values.histograms()[
        MetricName(group, name, (("client-id", "me"), *label))
    ]


def of_topic(simulation: Simulated, name: str, topic: str = "t") -> Histogram:
    return read(simulation, TOPIC, name, ("topic", topic))


def bucket(histogram: Histogram) -> float:
    """The bound of the only bucket with values."""
    [index] = [index for index, count in enumerate(histogram.counts) if count]
    return (*histogram.bounds, float("inf"))[index]


@pytest.mark.parametrize("bounds", [TIMES, BATCH_SIZES, RECORD_SIZES])
def test_bounds_grow_and_a_value_equal_to_a_bound_is_below_it(bounds: tuple[float, ...]) -> None:
    buckets = Buckets(bounds)
    for bound in bounds:
        buckets.add(bound)
    buckets.add(bounds[-1] * 2)

    assert list(bounds) == sorted(set(bounds))
    assert buckets.counts == [1] * (len(bounds) + 1)


def test_counts_and_total_are_those_of_the_values() -> None:
    chance, buckets = random.Random(7), Buckets(TIMES)
    values = [(chance.uniform(0, 2e5), chance.randrange(1, 50)) for _ in range(200)]
    for value, times in values:
        buckets.add(value, times)

    expected = [0] * (len(TIMES) + 1)
    for value, times in values:
        expected[bisect_left(TIMES, value)] += times
    assert buckets.counts == expected
    assert buckets.total == pytest.approx(sum(value * times for value, times in values))


def test_values_that_are_counted_together_count_as_one_by_one() -> None:
    chance = random.Random(11)
    seen: list[tuple[float, int]] = []
    for number in (1, 2, 300):
        values = [chance.uniform(0, 2e5) for _ in range(number)]
        times = [chance.randrange(1, 50) for _ in range(number)]
        together, alone = Buckets(TIMES), Buckets(TIMES)
        together.observe = lambda value, times: seen.append((value, times))
        together.add_all(values, times)
        for value, each in zip(values, times, strict=True):
            alone.add(value, each)

        assert together.counts == alone.counts
        assert together.total == pytest.approx(alone.total)
        assert seen[-number:] == list(zip(values, times, strict=True))


def test_every_record_counts_with_the_queue_time_of_its_batch() -> None:
    with simulated(1, client_id="me", linger_ms=200) as simulation:
        for _ in range(5):
            simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        waited = of_topic(simulation, "record-queue-time")
        assert (sum(waited.counts), bucket(waited)) == (5, 250.0)
        assert waited.total == pytest.approx(5 * 200, abs=10)
        assert waited.unit == "ms"


def test_a_delivery_time_lasts_from_the_queue_to_the_acknowledgement() -> None:
    with simulated(1, client_id="me", retry_backoff_ms=2_000, retry_backoff_max_ms=2_000) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.REQUEST_TIMED_OUT)
        for _ in range(3):
            simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        whole = of_topic(simulation, "record-delivery-time")
        assert (sum(whole.counts), bucket(whole)) == (3, 2500.0)
        assert whole.total > of_topic(simulation, "record-queue-time").total / 2 > 0


def test_a_failed_record_has_no_delivery_time() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        assert isinstance(delivery.exception(), DeliveryError)

        assert sum(of_topic(simulation, "record-delivery-time").counts) == 0
        assert sum(of_topic(simulation, "record-queue-time").counts) == 1


def test_records_without_acknowledgements_have_a_delivery_time() -> None:
    with simulated(1, client_id="me", acks=0, enable_idempotence=False) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert sum(of_topic(simulation, "record-delivery-time").counts) == 1


@pytest.mark.parametrize(("size", "record", "batch"), [(500, 1024.0, 4096.0), (3_000, 4096.0, 16384.0)])
def test_sizes_of_records_and_batches_are_counted(size: int, record: float, batch: float) -> None:
    with simulated(1, client_id="me") as simulation:
        for _ in range(4):
            simulation.producer.send("t", b"x" * size)
        simulation.run_until_idle()

        records, batches = of_topic(simulation, "record-size"), of_topic(simulation, "batch-size")
        assert (sum(records.counts), bucket(records), bucket(batches)) == (4, record, batch)
        assert records.total == pytest.approx(batches.total, rel=0.05)


def test_latencies_are_counted_by_node_and_throttle_times_once() -> None:
    with simulated(1, 2, client_id="me") as simulation:
        simulation.cluster.brokers[1].throttle_ms = 70
        for partition in (0, 1, 1):
            simulation.producer.send("t", b"value", partition=partition)
            simulation.run_until_idle()

        requests = {
            node: sum(read(simulation, NODE, "request-latency", ("node-id", f"node-{node}")).counts) for node in (1, 2)
        }
        assert requests == {1: 1, 2: 2}
        assert read(simulation, PRODUCER, "produce-throttle-time").total == 70


def test_names_of_histograms_are_no_names_of_other_metrics() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        found = simulation.producer._engine.metric_values.histograms()

    assert {(each.group, each.name) for each in HISTOGRAMS} == {(name.group, name.name) for name in found}
    assert {(name.group, name.name) for name in found} & {(each.group, each.name) for each in METRICS} == set()
    assert all(tuple(label for label, _of in name.tags) == LABELS[name.group] for name in found)


def test_a_histogram_that_was_read_does_not_change() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        before = of_topic(simulation, "batch-size")
        counts = list(before.counts)
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

    assert list(before.counts) == counts


def test_an_observer_gets_each_value_once_for_a_batch() -> None:
    seen: list[tuple[MetricName, float, int]] = []
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        end = simulation.producer._engine.metric_values.subscribe(lambda *value: seen.append(value))
        for _ in range(3):
            simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        end()
        simulation.producer.send("t", b"after")
        simulation.run_until_idle()

    queued = [(value, records) for name, value, records in seen if name.name == "record-queue-time"]
    assert [records for _value, records in queued] == [3]
    assert {name.name for name, _value, _records in seen} == {each.name for each in HISTOGRAMS}
    assert {dict(name.tags).get("topic") for name, *_ in seen if name.group == TOPIC} == {"t"}


def test_an_observer_sees_topics_and_nodes_that_come_later() -> None:
    seen: list[MetricName] = []
    with simulated(1, client_id="me") as simulation:
        simulation.producer._engine.metric_values.subscribe(lambda name, _value, _records: seen.append(name))
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

    assert {name.group for name in seen} >= {NODE, TOPIC}


def test_an_observer_that_fails_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_value: object) -> None:
        raise RuntimeError("no more room")

    seen: list[float] = []
    with simulated(1, client_id="me") as simulation:
        values = simulation.producer._engine.metric_values
        values.subscribe(fail)
        values.subscribe(lambda _name, value, _records: seen.append(value))
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert delivery.exception() is None
    assert seen
    assert "an observer of the histogram record-queue-time failed" in caplog.text
