"""`Producer.metrics()`: Java's names, and figures that agree with what happened on a simulated cluster."""

from __future__ import annotations

import math
import re
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from machine import Queues, wait_until
from ottla import DeliveryError, ErrorCode, MetricName, TopicUnavailableError, TransactionAbortedError
from ottla.concurrency.environment import Environment
from ottla.interfaces import Buffer, MetricDescription
from ottla.metrics import producer_counters
from ottla.metrics.catalogue import (
    CONNECTIONS,
    HISTOGRAMS,
    LABELS,
    METRICS,
    MISSING,
    NODE,
    PRODUCER,
    RECORD_SIZES,
    TOPIC,
    Metric,
    ValueKind,
)
from ottla.metrics.counter import CounterTotals
from ottla.metrics.producer_counters import Counters, NodeCounters, ProducerCounters, TopicCounters
from ottla.network.cluster import Broker, Cluster, Topic
from ottla.protocol import MetadataResponse
from ottla.sender.sender_metrics import count_request
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import HANG_GUARD, Calling, Simulated, simulated

JAVA = {
    tuple(line.split(":")) for line in (Path(__file__).parent / "vectors" / "java_metrics.txt").read_text().splitlines()
}
"""Metrics of Java's producer of Kafka 4.3, by group and name."""


OURS = {(PRODUCER, "oldest-request-age"), (PRODUCER, "oldest-record-age")}
"""Metrics that Java's producer does not have: while a broker hangs, all others stay as they were."""


def of_producer(simulation: Simulated, name: str) -> float:
    return read(simulation, MetricName(PRODUCER, name, (("client-id", "me"),)))


def of_topic(simulation: Simulated, name: str, topic: str = "t") -> float:
    return read(simulation, MetricName(TOPIC, name, (("client-id", "me"), ("topic", topic))))


def of_node(simulation: Simulated, name: str, node: int = 1) -> float:
    return read(simulation, MetricName(NODE, name, (("client-id", "me"), ("node-id", f"node-{node}"))))


def produced(simulation: Simulated) -> int:
    return sum(name == "Produce" for name, _version in simulation.cluster.brokers[1].requests)


def read(simulation: Simulated, name: MetricName) -> float:
    return simulation.producer.metrics()[name]


# Names


@pytest.mark.rule("producer.metrics")
def test_every_java_metric_exists_or_has_a_documented_reason() -> None:
    ours = {(metric.group, metric.name) for metric in METRICS}

    assert not JAVA - ours - MISSING.keys(), "add each to METRICS, or to MISSING with the reason (metrics/catalogue.py)"
    assert not ours & MISSING.keys(), "these exist now: take them from MISSING (metrics/catalogue.py)"


def test_no_metric_name_is_unknown_to_java_or_duplicate() -> None:
    names = [(metric.group, metric.name) for metric in METRICS]

    unknown = set(names) - OURS - JAVA
    assert not unknown, (
        "Java's producer has no such metric: take Java's name, or add a metric of our own to OURS in this test, with "
        '"Not in Java\'s producer." in its meaning'
    )
    assert not OURS & JAVA
    assert set(names) >= OURS
    assert len(names) == len(set(names))
    assert set(MISSING) <= JAVA


def test_every_metric_is_computed_from_a_counter() -> None:
    scopes = {PRODUCER: ProducerCounters, NODE: NodeCounters, TOPIC: TopicCounters}
    sources = {group: {field.name for field in attrs.fields(scope)} for group, scope in scopes.items()}
    read = {
        (metric.group, metric.source)
        for metric in METRICS
        if metric.kind is not ValueKind.GAUGE and metric.source != RECORD_SIZES
    }
    read |= {(metric.group, metric.source) for metric in HISTOGRAMS}
    counted = {(group, source) for group, found in sources.items() for source in found}
    summed = {(PRODUCER, source) for source in sources[NODE] | sources[TOPIC]}

    unread, uncounted = counted - read - {(PRODUCER, "plain")}, read - counted - summed
    assert not unread, "no metric reads these: add one to METRICS in metrics/catalogue.py"
    assert not uncounted, "no such counters: add them to the class of their group in producer_counters.py"


def test_a_metric_without_a_unit_says_where_to_add_it() -> None:
    nowhere = Metric(PRODUCER, "tests-total", ValueKind.TIMES, "tests", "Tests.")

    with pytest.raises(
        LookupError, match=r"^a metric of 'tests' has no unit: add one to EVENTS in ottla/metrics/units.py$"
    ):
        assert nowhere.unit


def test_a_snapshot_has_exactly_the_metrics_that_are_described() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        snapshot = simulation.producer.metrics()
        described = simulation.producer._engine.metric_values.describe()

    found = {(name.group, name.name) for name in snapshot}
    assert found | {(PRODUCER, CONNECTIONS)} == {(each.group, each.name) for each in described}
    assert {tuple(label for label, _of in name.tags) for name in snapshot} == set(LABELS.values())
    assert snapshot[MetricName("kafka-metrics-count", "count", (("client-id", "me"),))] == len(snapshot)
    assert all(type(value) is float for value in snapshot.values())


def test_descriptions_say_which_metrics_only_grow() -> None:
    with simulated(1) as simulation:
        described = {(each.group, each.name): each for each in simulation.producer._engine.metric_values.describe()}

    assert described[TOPIC, "byte-total"] == MetricDescription(
        group=TOPIC,
        name="byte-total",
        labels=("client-id", "topic"),
        cumulative=True,
        unit="bytes",
        meaning="Bytes of batches on the wire.",
    )
    assert {name for (_group, name), each in described.items() if each.cumulative} == {
        name for (_group, name) in described if name.endswith("-total")
    }


def test_str_of_a_metric_name_shows_group_name_and_tags() -> None:
    name = MetricName(TOPIC, "byte-rate", (("client-id", "me"), ("topic", "orders")))

    assert str(name) == "producer-topic-metrics:byte-rate{client-id=me,topic=orders}"
    assert str(MetricName("group", "name")) == "group:name"


# Figures


@pytest.mark.rule("producer.metrics")
def test_sent_records_batches_and_bytes_are_counted() -> None:
    with simulated(1, 1, client_id="me") as simulation:
        for number in range(40):
            simulation.producer.send("t", b"x" * 500, partition=number % 2)
        simulation.run_until_idle()

        assert of_producer(simulation, "record-send-total") == of_topic(simulation, "record-send-total") == 40
        assert of_producer(simulation, "records-per-request-avg") == pytest.approx(40 / produced(simulation))
        assert of_producer(simulation, "record-size-avg") == pytest.approx(507, abs=8)
        assert of_topic(simulation, "byte-total") == pytest.approx(40 * 507, rel=0.05)
        assert of_producer(simulation, "batch-size-max") >= of_producer(simulation, "batch-size-avg") > 61
        assert of_producer(simulation, "record-error-total") == of_producer(simulation, "record-retry-total") == 0


def test_the_compression_rate_is_the_remaining_fraction_of_a_batch() -> None:
    with MockProducer(client_id="me", compression_type="gzip") as producer:
        producer.send("t", b"x" * 5_000)
        metrics = producer.metrics()

    rate = metrics[MetricName(TOPIC, "compression-rate", (("client-id", "me"), ("topic", "t")))]
    assert rate == metrics[MetricName(PRODUCER, "compression-rate-avg", (("client-id", "me"),))]
    assert 0 < rate < 0.1


def test_requests_and_responses_of_nodes_add_up() -> None:
    with simulated(1, 2, 3, client_id="me") as simulation:
        for partition in (0, 1, 2, 0):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        nodes = (-1, 1, 2, 3)

        for name in ("request-total", "response-total", "outgoing-byte-total", "incoming-byte-total"):
            assert of_producer(simulation, name) == sum(of_node(simulation, name, node) for node in nodes) > 0
        assert of_producer(simulation, "request-size-max") == max(
            of_node(simulation, "request-size-max", n) for n in nodes
        )
        assert of_producer(simulation, "requests-in-flight") == 0


class Renaming(SimulatedCluster):
    """One broker, which has another id in each response about metadata."""

    asked = 0

    def metadata(self) -> MetadataResponse:
        found = super().metadata()
        self.asked += 1
        for broker in found.brokers:
            broker.node_id = self.asked
        for topic in found.topics:
            for partition in topic.partitions:
                partition.leader_id = self.asked
        return found


@pytest.mark.rule("producer.metrics.gone")
def test_a_broker_that_always_has_another_id_has_few_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_counters, "MAX_GONE", 3)
    cluster = Renaming.of(1)
    assert isinstance(cluster, Renaming)
    cluster.create("t", 1)
    with simulated(cluster=cluster, client_id="me", metadata_max_age_ms=1000) as simulation:
        totals = []
        for _ in range(20):
            simulation.producer.send("t", b"value")
            simulation.run_until_idle()
            totals.append(of_producer(simulation, "request-total"))
            simulation.clock.advance(2.0)
        nodes = {name.tags for name in simulation.producer.metrics() if name.group == NODE}

        assert cluster.asked >= 20
        assert len(nodes) <= 3 + 2
        assert totals == sorted(totals)
        assert totals[-1] >= 40


def test_a_request_without_a_response_is_in_flight() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].codes.append(None)
        simulation.producer.send("t", b"value")
        simulation.run_until(lambda: of_producer(simulation, "record-send-total") == 1, time_passes=False)

        assert of_producer(simulation, "requests-in-flight") == 1
        assert math.isnan(of_producer(simulation, "request-latency-avg"))


def test_a_broker_that_hangs_is_seen_while_it_hangs() -> None:
    with simulated(1, 2, client_id="me", linger_ms=0) as simulation:
        assert of_producer(simulation, "oldest-request-age") == of_producer(simulation, "oldest-record-age") == 0
        simulation.network.freeze(1)
        simulation.producer.send("t", b"value", partition=0)
        simulation.pass_time(3.0)
        simulation.producer.send("t", b"value", partition=1)
        simulation.pass_time(2.0)

        assert of_producer(simulation, "oldest-request-age") == pytest.approx(5.0, abs=0.1)
        assert of_producer(simulation, "oldest-record-age") == pytest.approx(5.0, abs=0.1)
        assert simulation.producer.metrics("oldest-record-age") == pytest.approx(5.0, abs=0.1)
        assert "waiting now: the oldest record for 5" in str(simulation.producer.metrics())
        simulation.network.thaw(1)
        simulation.run_until_idle()
        assert of_producer(simulation, "oldest-request-age") == of_producer(simulation, "oldest-record-age") == 0
        assert "waiting now" not in str(simulation.producer.metrics())


def test_a_record_that_lingers_has_an_age_and_no_request_has() -> None:
    with simulated(1, client_id="me", linger_ms=60_000) as simulation:
        simulation.producer.send("t", b"value")
        simulation.pass_time(20.0)

        assert of_producer(simulation, "oldest-record-age") == pytest.approx(20.0, abs=0.1)
        assert of_producer(simulation, "oldest-request-age") == 0


def test_a_retry_counts_its_records_and_sends_them_again() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for _ in range(3):
            simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert of_producer(simulation, "record-retry-total") == of_topic(simulation, "record-retry-total") == 3
        assert of_producer(simulation, "record-send-total") == of_topic(simulation, "record-send-total") == 6


def test_an_expired_record_is_an_error_and_one_that_send_refuses_is_not() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()
        assert isinstance(delivery.exception(), DeliveryError)
        with pytest.raises(TypeError):
            simulation.producer.send()  # type: ignore[call-arg]

        assert of_producer(simulation, "record-error-total") == of_topic(simulation, "record-error-total") == 1
        assert of_producer(simulation, "record-error-rate") > 0


def test_records_that_an_aborted_transaction_drops_are_no_errors() -> None:
    with simulated(1, client_id="me", transactional_id="shop", linger_ms=60_000) as simulation:
        simulation.producer.init_transactions()
        simulation.producer.begin_transaction()
        dropped = simulation.producer.send("t", b"value")
        simulation.producer.abort_transaction()
        assert isinstance(dropped.exception(), TransactionAbortedError)

        assert of_producer(simulation, "record-error-total") == of_producer(simulation, "record-send-total") == 0


def test_a_batch_that_is_too_large_is_a_split() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        for _ in range(10):
            simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert of_producer(simulation, "batch-split-total") == 1
        assert of_producer(simulation, "record-error-total") == 0


def test_queue_time_and_request_latency_are_in_milliseconds() -> None:
    with simulated(1, client_id="me", linger_ms=250) as simulation:
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert of_producer(simulation, "record-queue-time-avg") == pytest.approx(250, abs=1)
        assert of_producer(simulation, "record-queue-time-max") == pytest.approx(250, abs=1)
        assert of_producer(simulation, "request-latency-max") == of_node(simulation, "request-latency-max") >= 0


def test_the_latency_of_a_request_is_the_time_between_it_and_its_response() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.pass_time(100.0)
        simulation.network.freeze(1)
        simulation.producer.send("t", b"value")
        simulation.pass_time(2.0)
        simulation.network.thaw(1)
        simulation.run_until_idle()

        assert of_producer(simulation, "request-latency-max") == pytest.approx(2_000, rel=0.1)


def test_the_bytes_of_requests_are_those_that_the_network_got() -> None:
    with simulated(1, client_id="me", know=False) as simulation:
        sent: list[int] = []
        send = simulation.network.send

        def noted(node: int, chunks: Sequence[bytes]) -> bool:
            sent.append(sum(map(len, chunks)) if node == 1 else 0)
            return send(node, chunks)

        simulation.network.send = noted  # type: ignore[method-assign,assignment]
        simulation.know("t")
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert of_node(simulation, "outgoing-byte-total") == sum(sent) > 0


def test_connections_are_counted_when_they_open_and_close() -> None:
    with simulated(1, 2, client_id="me") as simulation:
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        made = of_producer(simulation, "connection-creation-total")
        assert (
            of_producer(simulation, "connection-count") == made - of_producer(simulation, "connection-close-total") == 2
        )
        simulation.producer.close()

        assert of_producer(simulation, "connection-count") == 0
        assert of_producer(simulation, "connection-close-total") == made


@pytest.mark.rule("pool.metrics")
def test_memory_and_its_waiters_are_reported_while_they_last() -> None:
    with simulated(1, client_id="me", buffer_memory=10_000, max_block_ms=5_000, linger_ms=60_000) as simulation:
        assert (
            of_producer(simulation, "buffer-total-bytes") == of_producer(simulation, "buffer-available-bytes") == 10_000
        )
        simulation.producer.send("t", bytes(9_000))
        assert of_producer(simulation, "buffer-available-bytes") < 1_000
        calling = Calling(simulation, lambda: simulation.producer.send("t", bytes(9_000)))
        wait_until(lambda: of_producer(simulation, "waiting-threads") == 1, timeout=HANG_GUARD)
        calling.rounds()

        assert calling.error is None
        assert of_producer(simulation, "waiting-threads") == 0
        assert of_producer(simulation, "buffer-exhausted-total") == 0
        simulation.producer.close()
        assert of_producer(simulation, "buffer-available-bytes") == 10_000


@pytest.mark.rule("pool.metrics")
def test_bytes_are_those_of_the_connections_with_the_size_of_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = received = 0
    with simulated(1, client_id="me") as simulation:
        before = of_producer(simulation, "outgoing-byte-total"), of_producer(simulation, "incoming-byte-total")
        send, poll = simulation.network.send, simulation.network.poll

        def counted_send(node: int, chunks: Sequence[Buffer]) -> bool:
            nonlocal sent
            sent += sum(map(len, chunks))
            return send(node, chunks)

        def counted_poll(timeout: float) -> None:
            nonlocal received
            poll(timeout)
            received += sum(4 + len(frame) for _node, frame in simulation.network.received)

        monkeypatch.setattr(simulation.network, "send", counted_send)
        monkeypatch.setattr(simulation.network, "poll", counted_poll)
        for _ in range(3):
            simulation.producer.send("t", b"value")
            simulation.run_until_idle()

        assert of_producer(simulation, "outgoing-byte-total") - before[0] == sent > 0
        assert of_producer(simulation, "incoming-byte-total") - before[1] == received > 0


def test_a_wait_for_memory_counts_its_time_and_its_exhausted_records() -> None:
    from ottla.accumulator.buffer_pool import BufferPool
    from ottla.errors import BufferExhaustedError
    from ottla_testkit.manual_clock import ManualClock

    clock, counters = ManualClock(), Counters()
    pool = BufferPool(100, environment=Environment(clock=clock), counters=counters)
    pool.reserve(100, timeout=0.0)
    with pytest.raises(BufferExhaustedError):
        pool.reserve(1, timeout=0.0, on_wait=lambda: None)
    pool.reserve(1, timeout=HANG_GUARD, on_wait=lambda: pool.release(50))

    assert counters.producer.memory_refusals.count == 1
    assert counters.producer.memory_waits.count == 2


def test_the_age_of_metadata_is_reported_from_the_start() -> None:
    with simulated(1, client_id="me", know=False) as simulation:
        simulation.clock.advance(1_000.0)
        assert of_producer(simulation, "metadata-age") >= 1_000.0  # an alert shows that no broker was ever reached
        simulation.know("t")
        before = of_producer(simulation, "metadata-age")
        assert before < 10.0
        simulation.pass_time(10.0)

        assert of_producer(simulation, "metadata-age") == before + 10.0


def test_time_in_flush_is_reported() -> None:
    with simulated(1, client_id="me", retry_backoff_ms=2_000, retry_backoff_max_ms=2_000) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.REQUEST_TIMED_OUT)
        simulation.producer.send("t", b"value")
        Calling(simulation, simulation.producer.flush).rounds()

        assert 1.5e9 < of_producer(simulation, "flush-time-ns-total") < 3e9


def test_time_in_the_wait_for_metadata_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, client_id="me", max_block_ms=3_000) as simulation:
        monkeypatch.setattr(
            simulation.metadata._changed, "wait", simulation.clock.advance
        )  # time passes, and nothing comes
        with pytest.raises(TopicUnavailableError):
            simulation.producer.send("unknown", b"value")

        assert of_producer(simulation, "metadata-wait-time-ns-total") == 3e9


def test_time_in_transactions_is_reported() -> None:
    with simulated(1, client_id="me", transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        with simulation.producer.transaction():
            simulation.producer.send("t", b"value")
            simulation.cluster.brokers[1].errors_by_request["EndTxn"] = deque([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])

        assert 0 < of_producer(simulation, "txn-commit-time-ns-total") < 1e9
        assert of_producer(simulation, "txn-abort-time-ns-total") == 0


def test_throttle_time_is_reported_in_milliseconds() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.cluster.brokers[1].throttle_ms = 70
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert of_producer(simulation, "produce-throttle-time-max") == 70


# Snapshots


@pytest.mark.rule("producer.metrics")
def test_metrics_can_be_read_after_close() -> None:
    with simulated(1, client_id="me") as simulation:
        simulation.producer.send("t", b"value")
        simulation.producer.close()

        assert of_producer(simulation, "record-send-total") == 1


def test_a_snapshot_does_not_change() -> None:
    with simulated(1, client_id="me") as simulation:
        before = simulation.producer.metrics()
        kept = dict(before)
        simulation.producer.send("t", b"value")
        simulation.run_until_idle()

    assert {str(name): str(value) for name, value in before.items()} == {str(n): str(v) for n, v in kept.items()}


@pytest.mark.rule("producer.metrics")
def test_many_threads_read_while_topics_and_windows_come_and_go() -> None:
    counters = Counters(window=0.001)
    with simulated(1, client_id="me") as simulation:
        figures = simulation.producer._engine.metric_values
        figures._counters = counters
        over, errors = threading.Event(), list[BaseException]()

        def look() -> None:
            try:
                while not over.is_set():
                    figures.snapshot()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(3_000):
            counters.end_window_if_due(number / 100_000)
            counters.topic(f"t{number % 300}").batches.add(1)
            counters.node(number % 50).requests.add(1)
        over.set()
        for thread in threads:
            thread.join(HANG_GUARD)

        assert not errors
        total = sum(v for n, v in figures.snapshot().items() if (n.group, n.name) == (TOPIC, "byte-total"))
        assert total == 3_000


def test_names_on_the_page_are_those_of_the_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()

    known = {name for _group, name in JAVA | OURS}
    assert known >= set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) > set()


def test_a_request_counts_as_its_batches_one_by_one() -> None:
    queues = Queues()
    for number in range(100):
        queues.append(bytes(number), topic=f"t{number % 2}", partition=number % 37 // 2 * (number % 2))
        queues.clock.advance(0.25)
    topics = {name: Topic(name=name, leaders=(1,) * 19) for name in ("t0", "t1")}
    cluster = Cluster(brokers={1: Broker(id=1, host="b1", port=9092)}, topics=topics)
    batches = queues.accumulator.drain(cluster, [1], max_size=10**6, now=queues.clock())[1]
    together, alone = Counters(), Counters()
    count_request(together, batches, queues.clock())
    for batch in batches:
        count_request(alone, [batch], queues.clock())

    assert [sum(batch.topic == topic for batch in batches) for topic in topics] == [1, 19]
    for topic in ("t0", "t1"):
        for name in ("records", "batches", "ratios"):
            assert getattr(together.topic(topic), name).since(1) == getattr(alone.topic(topic), name).since(1)
        for name in ("queue_times", "batch_sizes", "record_sizes"):
            assert getattr(together.topic(topic), name).counts == getattr(alone.topic(topic), name).counts
    assert together.producer.waits.since(1) == alone.producer.waits.since(1)
    assert together.producer.records.since(1) == CounterTotals(times=1, total=100, peak=100)
    assert together.producer.plain.total == alone.producer.plain.total
