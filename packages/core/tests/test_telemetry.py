"""Telemetry with simulated brokers: what a producer pushes to brokers that collect metrics, and when."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from ottla.aio import AsyncProducer
from ottla.errors import ErrorCode, IllegalStateError
from ottla.plugins.compressors import gzip, lz4, snappy, zstd
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.simulation import SimulatedCluster, SimulatedNetwork, SimulatedTelemetry
from simulated_producer import Simulated, simulated

INTERVAL = 60.0
CODECS = {each.codec_id: each for each in (module.ottla_compressor() for module in (gzip, snappy, lz4, zstd))}
RECORDS_SENT = "org.apache.kafka.producer.record.send.total"
TOPIC_RECORDS_SENT = "org.apache.kafka.producer.topic.record.send.total"


@contextmanager
def collecting(
    *leaders: int, telemetry: SimulatedTelemetry | None = None, **options: Any
) -> Iterator[tuple[Simulated, SimulatedTelemetry]]:
    """A producer of a cluster that collects metrics."""
    cluster = SimulatedCluster.of(*sorted(set(leaders or (1,))))
    cluster.create("t", *(leaders or (1,)))
    wants = cluster.telemetry = telemetry or SimulatedTelemetry()
    settings = {"client_id": "me", "metadata_max_idle_ms": 36_000_000, **options}  # no topic is forgotten
    with simulated(cluster=cluster, **settings) as simulation:
        yield simulation, wants


def send(simulation: Simulated, records: int = 1) -> None:
    """Send records, and wait for their results."""
    for _ in range(records):
        simulation.producer.send("t", b"value")
    simulation.run_until_idle()


def until_pushed(simulation: Simulated, wants: SimulatedTelemetry, number: int) -> None:
    """Let time pass until brokers have got so many pushes."""
    simulation.run_until(lambda: len(wants.pushes) >= number)


def content(push: PushTelemetryRequest) -> MetricsData:
    """The metrics of a push."""
    plain = push.metrics
    if push.compression_type:
        plain = CODECS[push.compression_type].decompress(push.metrics, limit=1 << 24)
    return MetricsData.FromString(bytes(plain))


def metrics(push: PushTelemetryRequest) -> Mapping[str, Metric]:
    """The metrics of a push by name."""
    [of_resource] = content(push).resource_metrics
    [of_scope] = of_resource.scope_metrics
    return {metric.name: metric for metric in of_scope.metrics}


def value(push: PushTelemetryRequest, name: str) -> float:
    """The value of a metric that has one point."""
    metric = metrics(push)[name]
    [point] = (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    return float(point.as_double)


def asked(simulation: Simulated) -> list[str]:
    """The telemetry requests of all brokers, in order for each of them."""
    named = (name for broker in simulation.cluster.brokers.values() for name, _version in broker.requests)
    return [name for name in named if "Telemetry" in name]


# The subscription


@pytest.mark.rule("producer.telemetry.subscription")
def test_metrics_are_pushed_in_the_interval_that_brokers_name() -> None:
    with collecting() as (simulation, wants):
        send(simulation, 3)
        simulation.pass_time(1.5 * INTERVAL)
        assert len(wants.pushes) == 1
        simulation.pass_time(10 * INTERVAL)

    assert len(wants.pushes) in (11, 12)  # the last one is the close's
    assert asked(simulation).count("GetTelemetrySubscriptions") == 1
    push = wants.pushes[0]
    assert push.client_instance_id == (1).to_bytes(16, "big")
    assert push.subscription_id == wants.subscription_id
    assert not push.terminating
    assert value(push, RECORDS_SENT) == 3


def test_the_first_push_comes_after_a_half_to_one_and_a_half_intervals() -> None:
    times = []
    for seed in range(12):
        with collecting(network=lambda cluster, clock, seed=seed: SimulatedNetwork(cluster, clock, seed=seed)) as (
            simulation,
            wants,
        ):
            began = simulation.clock()
            until_pushed(simulation, wants, 1)
            times.append((simulation.clock() - began) / INTERVAL)

    assert all(0.4 < each < 1.6 for each in times)
    assert max(times) - min(times) > 0.4


@pytest.mark.rule("producer.telemetry.unsupported")
def test_a_cluster_without_telemetry_costs_no_request_and_no_round() -> None:
    waits = []
    never = 36_000_000
    for push in (True, False):
        with simulated(
            1, enable_metrics_push=push, metadata_max_age_ms=never, connections_max_idle_ms=never
        ) as simulation:
            send(simulation)
            simulation.pass_time(1.0)
            simulation.network.waits.clear()
            simulation.pass_time(3_000.0)
            waits.append((simulation.network.polls, list(simulation.network.waits)))
            assert asked(simulation) == []

    assert waits[0] == waits[1]


def test_a_cluster_without_telemetry_costs_no_connection() -> None:
    for push in (True, False):
        with simulated(1, 2, know=False, enable_idempotence=False, enable_metrics_push=push) as simulation:
            simulation.pass_time(1_000.0)

            assert not any(broker.requests for broker in list(simulation.cluster.brokers.values())[1:])


def test_brokers_that_begin_to_collect_metrics_get_them_without_a_restart() -> None:
    with simulated(1, metadata_max_idle_ms=36_000_000) as simulation:
        send(simulation)
        simulation.pass_time(100.0)
        wants = simulation.cluster.telemetry = SimulatedTelemetry()
        simulation.network.cut(1)
        for _ in range(20):  # the program sends from time to time, on a connection whose broker offers telemetry
            send(simulation)
            simulation.pass_time(INTERVAL)

    assert wants.pushes


def test_only_brokers_that_support_telemetry_get_requests() -> None:
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 1, 2)
    cluster.telemetry = SimulatedTelemetry()
    cluster.brokers[1].telemetry = False
    cluster.seed = 2
    with simulated(cluster=cluster, metadata_max_idle_ms=36_000_000) as simulation:
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        simulation.pass_time(10 * INTERVAL)

        assert not any("Telemetry" in name for name, _version in cluster.brokers[1].requests)
        assert cluster.telemetry.pushes


@pytest.mark.parametrize("idempotence", [True, False])
def test_a_producer_that_sends_nothing_pushes_metrics_all_the_same(idempotence: bool) -> None:
    with collecting(1, 2, know=False, enable_idempotence=idempotence) as (simulation, wants):
        simulation.pass_time(5 * INTERVAL)

    assert len(wants.pushes) >= 4


def test_an_empty_subscription_pushes_nothing_and_is_asked_for_again() -> None:
    with collecting(telemetry=SimulatedTelemetry(metrics=[])) as (simulation, wants):
        simulation.pass_time(2.5 * INTERVAL)
        assert asked(simulation) == ["GetTelemetrySubscriptions"] * 3
        wants.metrics = ["org.apache.kafka.producer.record."]
        simulation.pass_time(3 * INTERVAL)

    assert wants.pushes
    assert wants.subscribed[1:] == [wants.subscribed[1]] * (len(wants.subscribed) - 1)
    assert wants.subscribed[1] != wants.subscribed[0]


@pytest.mark.rule("producer.telemetry.subscription")
@pytest.mark.parametrize(
    ("wanted", "found", "missing"),
    [
        (["*"], RECORDS_SENT, None),
        ([""], RECORDS_SENT, None),
        (["org.apache.kafka.producer.topic."], TOPIC_RECORDS_SENT, RECORDS_SENT),
        (["org.apache.kafka.producer.record.send", "nothing"], RECORDS_SENT, TOPIC_RECORDS_SENT),
    ],
)
def test_only_metrics_with_a_wanted_prefix_are_pushed(wanted: list[str], found: str, missing: str | None) -> None:
    with collecting(telemetry=SimulatedTelemetry(metrics=wanted)) as (simulation, wants):
        send(simulation)
        simulation.run_until(lambda: wants.pushes)

    pushed = metrics(wants.pushes[0])
    assert found in pushed
    assert missing not in pushed
    assert wanted in (["*"], [""]) or all(name.startswith(tuple(wanted)) for name in pushed)


# What is pushed


def test_sums_and_gauges_have_the_attributes_and_types_of_kip_714() -> None:
    with collecting(1, 2, metrics_sample_window_ms=10_000_000) as (simulation, wants):
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        simulation.run_until(lambda: wants.pushes)

    pushed = metrics(wants.pushes[0])
    sent = pushed[TOPIC_RECORDS_SENT].sum
    assert sent.is_monotonic
    assert sent.aggregation_temporality == 2
    [point] = sent.data_points
    assert [(each.key, each.value.string_value) for each in point.attributes] == [("topic", "t")]
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano
    latencies = pushed["org.apache.kafka.producer.node.request.latency.avg"].gauge
    labels = [(each.key, each.value.string_value) for point in latencies.data_points for each in point.attributes]
    assert sorted(labels) == [("node_id", "node-1"), ("node_id", "node-2")]


def test_averages_of_nothing_are_left_out() -> None:
    with collecting() as (simulation, wants):
        simulation.run_until(lambda: wants.pushes)

    assert RECORDS_SENT in metrics(wants.pushes[0])
    assert "org.apache.kafka.producer.batch.size.avg" not in metrics(wants.pushes[0])


def test_sums_count_from_the_start_and_deltas_from_the_last_push() -> None:
    seen = {}
    for delta in (False, True):
        with collecting(telemetry=SimulatedTelemetry(delta=delta)) as (simulation, wants):
            for number in (1, 2, 3):
                send(simulation, number)
                until_pushed(simulation, wants, number)
        pushes = wants.pushes[:3]
        seen[delta] = [value(push, RECORDS_SENT) for push in pushes]
        points = [metrics(push)[RECORDS_SENT].sum.data_points[0] for push in pushes]
        since = [point.start_time_unix_nano for point in points]
        assert metrics(pushes[0])[RECORDS_SENT].sum.aggregation_temporality == (1 if delta else 2)
        assert since[1:] == ([point.time_unix_nano for point in points[:-1]] if delta else since[:1] * 2)

    assert seen == {False: [1, 3, 6], True: [1, 2, 3]}


def test_a_change_to_deltas_starts_their_counts_again() -> None:
    with collecting(telemetry=SimulatedTelemetry(delta=True)) as (simulation, wants):
        for number, delta in ((1, True), (2, False), (3, True)):
            wants.delta = delta
            send(simulation)
            until_pushed(simulation, wants, number)

    assert [value(push, RECORDS_SENT) for push in wants.pushes[:3]] == [1, 2, 3]


def test_the_resource_has_the_transactional_id_and_the_rack() -> None:
    with collecting(transactional_id="txn", client_rack="rack-7") as (simulation, wants):
        simulation.run_until(lambda: wants.pushes)
    with collecting() as (simulation, plain):
        simulation.run_until(lambda: plain.pushes)

    resource = content(wants.pushes[0]).resource_metrics[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes} == {
        "transactional_id": "txn",
        "client_rack": "rack-7",
    }
    assert not content(plain.pushes[0]).resource_metrics[0].resource.attributes


def test_metrics_of_the_application_are_pushed_until_they_are_removed() -> None:
    with collecting(telemetry=SimulatedTelemetry(metrics=["org.apache.kafka.application."])) as (simulation, wants):
        own = simulation.producer.application_metrics
        own.add_gauge("open-orders", lambda: 7.0, unit="orders", meaning="Orders that are open.")
        hits = own.add_counter("cache-hits-total", unit="hits", meaning="Hits.", tags={"cache-name": "a"})
        hits.add(3)
        assert simulation.producer.metrics()
        simulation.run_until(lambda: wants.pushes)
        own.remove("open-orders")
        simulation.run_until(lambda: len(wants.pushes) == 2)

    first, second = metrics(wants.pushes[0]), metrics(wants.pushes[1])
    assert value(wants.pushes[0], "org.apache.kafka.application.open.orders") == 7
    [point] = first["org.apache.kafka.application.cache.hits.total"].sum.data_points
    assert (point.as_double, point.attributes[0].key, point.attributes[0].value.string_value) == (3, "cache_name", "a")
    assert second.keys() == {"org.apache.kafka.application.cache.hits.total"}


def test_metrics_of_the_application_are_in_a_snapshot_with_the_client_id() -> None:
    with simulated(1, client_id="me") as simulation:
        own = simulation.producer.application_metrics
        own.add_counter("hits-total", unit="hits", meaning="Hits.", tags={"cache": "a"}).add(2)
        found = {name: of for name, of in simulation.producer.metrics().items() if name.group == "application"}
        with pytest.raises(ValueError, match="the application has a metric 'hits-total' with these tags already"):
            own.add_counter("hits-total", unit="hits", meaning="Hits.", tags={"cache": "a"})
        with pytest.raises(ValueError, match="tag 'client-id', which all metrics have"):
            own.add_counter("more-total", unit="hits", meaning="Hits.", tags={"client-id": "a"})

    [(name, of)] = found.items()
    assert (name.tags, of) == ((("client-id", "me"), ("cache", "a")), 2.0)


def test_a_gauge_of_the_application_that_fails_costs_only_its_own_value(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> float:
        raise LookupError("no")

    with collecting() as (simulation, wants):
        simulation.producer.application_metrics.add_gauge("broken", fail, unit="1", meaning="Broken.")
        send(simulation)
        simulation.run_until(lambda: wants.pushes)

    assert value(wants.pushes[0], RECORDS_SENT) == 1
    assert "org.apache.kafka.application.broken" not in metrics(wants.pushes[0])
    assert "the metric broken of the application cannot be read: LookupError" in caplog.text


@pytest.mark.rule("producer.telemetry.subscription")
def test_deltas_lose_nothing_in_a_push_that_brokers_refuse() -> None:
    with collecting(telemetry=SimulatedTelemetry(delta=True)) as (simulation, wants):
        for number in (1, 2, 3):
            send(simulation, number)
            until_pushed(simulation, wants, number)
            wants.interval_ms += 1  # the next push is for a subscription that brokers do not know any more
        send(simulation, 4)

    assert [value(push, RECORDS_SENT) for push in wants.pushes] == [1, 2, 3]
    # The last push was refused, too, and the producer was closed by force.


def test_deltas_of_topics_go_on_after_a_push_without_topics() -> None:
    with collecting(telemetry=SimulatedTelemetry(compression_types=[], delta=True)) as (simulation, wants):
        largest = wants.max_bytes
        for number in (1, 2, 3):
            send(simulation)
            until_pushed(simulation, wants, number)
            wants.max_bytes = len(wants.pushes[0].metrics) - 1 if number == 1 else largest
            wants.interval_ms += 1  # a new subscription, of which the producer learns by its next push
        simulation.pass_time(INTERVAL)

    topics = [value(push, TOPIC_RECORDS_SENT) for push in wants.pushes if TOPIC_RECORDS_SENT in metrics(push)]
    assert topics[:2] == [1, 2]


# The thread that reads metrics


class HeldThread:
    """A thread that runs when the test calls `run`."""

    def __init__(self, run: Callable[[], object], _name: str) -> None:
        self.run = run
        self.started = False

    def start(self) -> None:
        self.started = True


def test_metrics_that_take_long_to_read_delay_neither_records_nor_close() -> None:
    with collecting() as (simulation, wants):
        made: list[HeldThread] = []

        def thread(run: Callable[[], object], name: str) -> HeldThread:
            made.append(HeldThread(run, name))
            return made[-1]

        simulation.producer._engine.telemetry._payloads()._make_thread = thread  # type: ignore[union-attr]
        simulation.run_until(lambda: made)
        before = simulation.clock()
        send(simulation, 3)
        assert simulation.clock() - before < 1.0
        assert len(simulation.log()) == 3
        simulation.pass_time(5 * INTERVAL)
        wakeups = simulation.network.wakeups
        made[0].run()
        assert simulation.network.wakeups == wakeups + 1
        until_pushed(simulation, wants, 1)
        simulation.run_until(lambda: len(made) == 2)
        closed_at = simulation.clock()
        simulation.producer.close()

        assert len(simulation.log()) == 3
        assert simulation.clock() - closed_at < 1.1
        assert [each.started for each in made] == [True, True]


def test_metrics_are_pushed_if_the_system_has_no_thread_left() -> None:
    def none_left(_run: Callable[[], object], _name: str) -> HeldThread:
        raise RuntimeError("can't start new thread")

    with collecting() as (simulation, wants):
        simulation.producer._engine.telemetry._payloads()._make_thread = none_left  # type: ignore[union-attr]
        send(simulation)
        until_pushed(simulation, wants, 1)

    assert value(wants.pushes[0], RECORDS_SENT) == 1


# Brokers


def test_pushes_go_to_the_same_broker_until_it_is_lost() -> None:
    with collecting(1, 2, 3) as (simulation, wants):
        for partition in (0, 1, 2):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        until_pushed(simulation, wants, 4)
        [chosen] = [broker for broker in simulation.cluster.brokers.values() if ("PushTelemetry", 0) in broker.requests]
        chosen.up = False
        simulation.pass_time(10 * INTERVAL)
        pushed_to = {
            broker.id for broker in simulation.cluster.brokers.values() if ("PushTelemetry", 0) in broker.requests
        }

    assert len(pushed_to) == 2
    assert len(wants.pushes) >= 10


def test_a_push_waits_no_longer_than_its_broker_is_down() -> None:
    never = 36_000_000
    with collecting(metadata_max_age_ms=never, connections_max_idle_ms=5_000) as (simulation, wants):
        send(simulation)
        until_pushed(simulation, wants, 1)
        simulation.pass_time(INTERVAL / 2)
        simulation.cluster.brokers[1].up = False
        simulation.pass_time(INTERVAL)
        simulation.cluster.brokers[1].up = True
        up_at = simulation.clock()
        until_pushed(simulation, wants, 2)

        assert simulation.clock() - up_at < 5.0


def test_a_push_goes_to_the_same_broker_although_it_is_busier() -> None:
    with collecting(1, 2) as (simulation, wants):
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        until_pushed(simulation, wants, 1)
        simulation.pass_time(INTERVAL - 1)
        [chosen] = [broker for broker in simulation.cluster.brokers.values() if ("PushTelemetry", 0) in broker.requests]
        simulation.network.holding = True
        simulation.producer.send("t", b"value", partition=chosen.id - 1)
        simulation.run_until(lambda: asked(simulation).count("PushTelemetry") == 2)
        simulation.network.holding = False
        simulation.run_until_idle()

        assert chosen.requests.count(("PushTelemetry", 0)) == 2


def test_the_least_busy_broker_is_the_first_that_is_offered() -> None:
    with collecting(1, 2) as (simulation, _wants):
        client = simulation.sender._client
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        first, second = client.offering(72, simulation.clock()) or ()
        simulation.network.holding = True
        simulation.producer.send("t", b"value", partition=first - 1)
        simulation.run_until(client.in_flight)

        assert client.offering(72, simulation.clock()) == [second, first]
        assert client.offering(999, simulation.clock()) == []


def test_a_broker_that_leaves_the_cluster_gets_no_telemetry_requests() -> None:
    with collecting(1, 2) as (simulation, _wants):
        client = simulation.sender._client
        for partition in (0, 1):
            simulation.producer.send("t", b"value", partition=partition)
        simulation.run_until_idle()
        simulation.network.held.add(1)
        simulation.producer.send("t", b"value", partition=0)  # its response is awaited, so the connection is kept
        simulation.run_until(client.in_flight)
        simulation.cluster.unlisted.add(1)
        known = simulation.metadata.cluster
        simulation.metadata.request_update()
        simulation.run_until(lambda: simulation.metadata.cluster is not known)

        assert client.in_flight()
        assert client.offering(72, simulation.clock()) == [2]


# Compression


@pytest.mark.parametrize("accepted", [[4, 3], [3, 1], [1], [2, 4], [], [0, 4], [9, 1], [17]])
def test_a_push_is_compressed_with_the_codec_that_brokers_prefer(accepted: list[int]) -> None:
    with collecting(telemetry=SimulatedTelemetry(compression_types=accepted)) as (simulation, wants):
        send(simulation)
        simulation.run_until(lambda: wants.pushes)

    known = [codec for codec in accepted if codec in (0, *CODECS)]
    assert wants.pushes[0].compression_type == (known[0] if known else 0)
    assert value(wants.pushes[0], RECORDS_SENT) == 1


def test_a_codec_whose_library_is_missing_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with collecting() as (simulation, wants):
        simulation.run_until(lambda: wants.pushes)

    assert wants.pushes[0].compression_type == gzip.ottla_compressor().codec_id


def test_a_compressor_that_fails_is_not_used_again(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        codec_id = 4

        def compress(self, chunks: object, *, level: object) -> bytes:
            raise RuntimeError("no")

        def decompress(self, data: object, *, limit: int) -> bytes:
            raise AssertionError("nothing was compressed")

    with collecting(plugins={"compressor": Broken()}) as (simulation, wants):
        simulation.run_until(lambda: len(wants.pushes) == 2)

    assert [push.compression_type for push in wants.pushes[:2]] == [3, 3]
    assert caplog.text.count("telemetry does without the codec 4") == 1


def test_metrics_that_are_too_large_are_left_out_by_topic_and_node(caplog: pytest.LogCaptureFixture) -> None:
    with collecting(telemetry=SimulatedTelemetry(compression_types=[], delta=True)) as (simulation, wants):
        send(simulation)
        simulation.run_until(lambda: wants.pushes)
        wants.max_bytes = len(wants.pushes[0].metrics) - 1
        wants.interval_ms += 1  # a new subscription, of which the producer learns by its next push
        simulation.run_until(lambda: len(wants.pushes) == 2)
        wants.max_bytes = 1
        wants.interval_ms += 1
        simulation.pass_time(5 * INTERVAL)

    assert len(wants.pushes) == 2
    assert RECORDS_SENT in metrics(wants.pushes[1])
    assert TOPIC_RECORDS_SENT not in metrics(wants.pushes[1])
    lines = [record.message for record in caplog.records if record.levelname == "WARNING"]
    ends = ["only those of the whole producer are pushed"] * 2 + ["nothing is pushed"]  # once for each limit
    assert [line.partition("; ")[2] for line in lines] == ends


# Errors


def fails_with(wants: SimulatedTelemetry, request: str, *codes: ErrorCode) -> None:
    """Have brokers answer the next requests of this name with these codes."""
    wants.codes[request] = deque(codes)


@pytest.mark.rule("producer.telemetry.errors")
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_a_push_for_an_old_subscription_gets_a_new_one_at_once(code: ErrorCode) -> None:
    with collecting() as (simulation, wants):
        fails_with(wants, "PushTelemetry", code)
        simulation.run_until(lambda: "PushTelemetry" in asked(simulation))
        refused_at = simulation.clock()
        simulation.run_until(lambda: asked(simulation).count("GetTelemetrySubscriptions") == 2)
        assert simulation.clock() - refused_at < 1.0
        assert wants.subscribed[1] == (1).to_bytes(16, "big")
        simulation.run_until(lambda: wants.pushes)


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_push_that_is_too_large_or_too_early_is_followed_by_a_pause(code: ErrorCode) -> None:
    with collecting() as (simulation, wants):
        fails_with(wants, "PushTelemetry", code)
        simulation.run_until(lambda: "PushTelemetry" in asked(simulation))
        refused_at = simulation.clock()
        simulation.run_until(lambda: asked(simulation).count("GetTelemetrySubscriptions") == 2)
        assert INTERVAL <= simulation.clock() - refused_at < INTERVAL + 1
        simulation.run_until(lambda: wants.pushes)


@pytest.mark.rule("producer.telemetry.errors")
@pytest.mark.parametrize(
    "code",
    [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NOT_CONTROLLER],
)
@pytest.mark.parametrize("request_name", ["GetTelemetrySubscriptions", "PushTelemetry"])
def test_an_error_that_a_retry_cannot_fix_ends_telemetry(
    code: ErrorCode, request_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with collecting(telemetry=SimulatedTelemetry(codes={request_name: deque([code])})) as (simulation, _wants):
        simulation.pass_time(20 * INTERVAL)
        send(simulation)

    assert asked(simulation)[-1] == request_name
    assert asked(simulation).count(request_name) == 1
    assert f"no more metrics are pushed: a broker refused {request_name}: {code.name}" in caplog.text


def test_a_subscription_that_is_refused_is_requested_after_a_pause() -> None:
    codes = {"GetTelemetrySubscriptions": deque([ErrorCode.UNKNOWN_SUBSCRIPTION_ID] * 1_000)}
    with collecting(telemetry=SimulatedTelemetry(codes=codes)) as (simulation, _wants):
        simulation.pass_time(1_000.0)

    assert asked(simulation) == ["GetTelemetrySubscriptions"] * 4


def test_a_broker_that_assigns_no_id_ends_telemetry_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    with collecting(telemetry=SimulatedTelemetry(assigns_ids=False)) as (simulation, _wants):
        send(simulation, 2)
        simulation.pass_time(1_000.0)
        send(simulation)

    assert asked(simulation) == ["GetTelemetrySubscriptions"]
    assert "no more metrics are pushed to brokers" in caplog.text
    assert len(simulation.log()) == 3


def test_a_lost_connection_delays_telemetry_and_does_not_end_it() -> None:
    with collecting() as (simulation, wants):
        send(simulation)
        simulation.run_until(lambda: wants.pushes)
        simulation.network.holding = True
        simulation.run_until(lambda: asked(simulation).count("PushTelemetry") == 2)
        simulation.network.cut(1)
        simulation.network.holding = False
        simulation.run_until(lambda: len(wants.pushes) >= 4)
        send(simulation)

    assert asked(simulation).count("GetTelemetrySubscriptions") == 2


def test_pushes_connect_to_another_broker_when_there_is_no_connection() -> None:
    with collecting(1, 2, connections_max_idle_ms=5_000, metadata_max_age_ms=3_600_000) as (simulation, wants):
        send(simulation)
        simulation.pass_time(10 * INTERVAL)

    assert len(wants.pushes) >= 8


def test_telemetry_goes_on_after_a_round_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt  # in the round, on the thread of a caller

    with collecting() as (simulation, wants):
        monkeypatch.setattr(simulation.sender._client, "send", fail)
        with pytest.raises(KeyboardInterrupt):
            simulation.run_until(lambda: wants.pushes)
        monkeypatch.undo()
        simulation.sender.recover(KeyboardInterrupt(), simulation.clock())
        simulation.run_until(lambda: wants.pushes)
        send(simulation)

    assert asked(simulation).count("GetTelemetrySubscriptions") == 2


def test_a_fault_in_the_payload_is_logged_and_records_are_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with collecting() as (simulation, wants):
        values = simulation.producer._engine.metric_values

        def fail() -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(values, "snapshot", fail)
        simulation.pass_time(3 * INTERVAL)
        assert not wants.pushes
        monkeypatch.undo()
        send(simulation)
        simulation.pass_time(2 * INTERVAL)

    assert wants.pushes
    assert "me: no metrics are pushed: RuntimeError" in caplog.text


# The end


@pytest.mark.rule("producer.telemetry.last")
def test_a_last_push_has_what_was_sent_until_the_end() -> None:
    with collecting() as (simulation, wants):
        simulation.run_until(lambda: wants.pushes)
        send(simulation, 5)
        simulation.producer.send("t", b"in the queue")
        simulation.producer.close()

        last = wants.pushes[-1]
        assert last.terminating
        assert value(last, RECORDS_SENT) == 6
        assert asked(simulation)[-1] == "PushTelemetry"


@pytest.mark.rule("producer.telemetry.last")
@pytest.mark.parametrize("delta", [False, True])
def test_a_last_push_is_not_one_that_was_begun_before(delta: bool) -> None:
    with collecting(telemetry=SimulatedTelemetry(delta=delta)) as (simulation, wants):
        made: list[HeldThread] = []

        def thread(run: Callable[[], object], name: str) -> HeldThread:
            made.append(HeldThread(run, name))
            return made[-1]

        telemetry = simulation.producer._engine.telemetry
        assert telemetry is not None
        telemetry._payloads()._make_thread = thread  # type: ignore[assignment]
        send(simulation, 2)
        simulation.run_until(lambda: made)
        made[0].run()
        begun = telemetry._payload
        assert begun is not None
        begun.finished = False  # what comes after the values takes longer
        send(simulation, 3)
        begun.finished = True
        poll = telemetry._client.poll

        def run_and_poll(timeout: float, now: float) -> float:
            made[-1].run()
            return poll(timeout, now)

        telemetry._client.poll = run_and_poll  # type: ignore[method-assign]
        telemetry.push_last(simulation.clock(), simulation.clock() + 1.0)

        assert [push.terminating for push in wants.pushes] == [True]
        assert value(wants.pushes[-1], RECORDS_SENT) == 5


def test_a_producer_that_got_no_subscription_ends_without_a_push() -> None:
    with collecting(telemetry=SimulatedTelemetry(metrics=[])) as (simulation, wants):
        send(simulation)
        simulation.producer.close()

        assert not wants.pushes


def test_a_close_without_time_pushes_nothing() -> None:
    with collecting() as (simulation, wants):
        send(simulation)
        simulation.producer.close(0)

        assert not wants.pushes


@pytest.mark.rule("producer.telemetry.last")
def test_a_close_waits_no_longer_than_a_second_for_the_last_push() -> None:
    with collecting() as (simulation, _wants):
        send(simulation)
        simulation.network.holding = True
        closed_at = simulation.clock()
        simulation.producer.close()

        assert 1.0 <= simulation.clock() - closed_at < 1.1
        assert asked(simulation)[-1] == "PushTelemetry"


def test_a_last_push_follows_one_whose_response_is_late(caplog: pytest.LogCaptureFixture) -> None:
    with collecting() as (simulation, wants):
        simulation.network.holding = True
        simulation.run_until(lambda: asked(simulation).count("PushTelemetry") == 1)
        simulation.network.holding = False
        simulation.producer.close()

        assert [push.terminating for push in wants.pushes] == [False, True]
        assert "ERROR" not in caplog.text


@pytest.mark.rule("producer.telemetry.last")
def test_a_close_does_not_wait_when_there_is_nothing_to_push(caplog: pytest.LogCaptureFixture) -> None:
    for telemetry in (SimulatedTelemetry(metrics=[]), SimulatedTelemetry(max_bytes=1)):
        with collecting(telemetry=telemetry) as (simulation, wants):
            send(simulation)
            closed_at = simulation.clock()
            simulation.producer.close()

            assert not wants.pushes
            assert simulation.clock() - closed_at < 0.1
            assert "ERROR" not in caplog.text


@pytest.mark.rule("producer.telemetry.last")
def test_a_close_does_not_wait_for_brokers_that_collect_no_more(caplog: pytest.LogCaptureFixture) -> None:
    with collecting() as (simulation, wants):
        send(simulation)
        simulation.cluster.telemetry = None
        simulation.network.cut(1)
        send(simulation)
        closed_at = simulation.clock()
        simulation.producer.close()

        assert not wants.pushes
        assert simulation.clock() - closed_at < 0.1
        assert "ERROR" not in caplog.text


# What a program sees


@pytest.mark.rule("producer.client-instance-id")
def test_the_client_instance_id_is_the_one_that_a_broker_has_assigned() -> None:
    with collecting() as (simulation, _wants):
        assert simulation.producer.client_instance_id() == "AAAAAAAAAAAAAAAAAAAAAQ"
    with simulated(1) as simulation:
        send(simulation)
        assert simulation.producer.client_instance_id() is None
    with simulated(1, know=False) as simulation:
        assert simulation.producer.client_instance_id(timeout=0) is None
    off = collecting(enable_metrics_push=False)
    with off as (simulation, _wants), pytest.raises(IllegalStateError, match=r"enable\.metrics\.push=true"):
        simulation.producer.client_instance_id()
    with simulated(1, know=False) as simulation:
        simulation.sender.end(IllegalStateError("the I/O thread has failed"))
        assert simulation.producer.client_instance_id() is None
    with MockProducer() as mock:
        assert mock.client_instance_id() is None


def test_an_async_producer_has_the_same_id_and_the_same_metrics() -> None:
    async def read(producer: AsyncProducer) -> str | None:
        return await producer.client_instance_id(timeout=0)

    with collecting() as (simulation, _wants):
        producer = object.__new__(AsyncProducer)
        producer._begin(simulation.producer)

        assert asyncio.run(read(producer)) == simulation.producer.client_instance_id()
        assert producer.application_metrics is simulation.producer.application_metrics


def test_one_key_switches_telemetry_off() -> None:
    with collecting(enable_metrics_push=False) as (simulation, _wants):
        send(simulation)
        simulation.pass_time(1_000.0)
        simulation.producer.close()

    assert asked(simulation) == []


def test_a_line_at_info_says_once_that_brokers_collect_metrics(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with collecting(telemetry=SimulatedTelemetry(metrics=[])) as (simulation, wants):
        simulation.pass_time(INTERVAL / 2)
        wants.metrics = ["*"]
        for _ in range(3):
            simulation.pass_time(3 * INTERVAL)
            wants.interval_ms += 1

    lines = [record.getMessage() for record in caplog.records if "brokers collect metrics" in record.getMessage()]
    assert lines == [
        "me: brokers collect metrics of this producer every 60 s, as client instance AAAAAAAAAAAAAAAAAAAAAQ; "
        "enable.metrics.push=false switches that off"
    ]
