"""Metrics of producers that Prometheus reads, over HTTP and from the program's registry."""

from __future__ import annotations

import inspect
import logging
import os
import re
import socket
import threading
import time
import urllib.request
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ottla.errors import ConfigError
from ottla.metrics.catalogue import HISTOGRAMS, METRICS, Metric
from ottla_reporter_prometheus import PrometheusReporter, names
from ottla_reporter_prometheus.collector import OTHER_TOPICS
from ottla_reporter_prometheus.keys import LISTEN, MAX_TOPICS, REGISTRY_KEY
from ottla_reporter_prometheus.plugin import OWN_REGISTRY, ottla_config_keys, ottla_reporter
from ottla_testkit.conformance import CountingRegistry, plugin_context
from ottla_testkit.mock_producer import MockProducer
from ottla_testkit.processes.free_ports import free_ports

SENT = "kafka_producer_topic_record_send_total"


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def of(client: str, topic: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return SENT, frozenset({("client_id", client), ("topic", topic)})


def unregister_all(registry: CollectorRegistry) -> None:
    """What tests of a program do between each other."""
    for collector in list(registry._collector_to_names):
        registry.unregister(collector)


def started(reporter: Any, producer: MockProducer) -> Any:
    """The reporter of a producer that was made without one."""
    reporter.start(producer._engine.metric_values)
    return reporter


def test_prometheus_reads_the_metrics_of_every_producer_over_http() -> None:
    [port] = free_ports(1)
    with MockProducer(client_id="one") as one, MockProducer(client_id="other") as other:
        address = ("127.0.0.1", port)
        reporters = [
            started(PrometheusReporter(listen=address, context=plugin_context(client_id=name)), each)
            for name, each in (("one", one), ("other", other))
        ]
        for _ in range(3):
            one.send("orders", b"value")
        other.send("orders", b"value")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                text = answer.read().decode()
        finally:
            for reporter in reporters:
                reporter.close()

    samples = read(text)
    assert samples[of("one", "orders")] == 3
    assert samples[of("other", "orders")] == 1
    assert f"# TYPE {SENT} counter" in text
    assert f"# HELP {SENT} Records sent in requests" in text
    assert "# TYPE kafka_producer_buffer_available_bytes gauge" in text
    assert "# TYPE kafka_producer_topic_record_delivery_time_seconds histogram" in text


def test_a_closed_producer_is_no_longer_exported(caplog: pytest.LogCaptureFixture) -> None:
    [port] = free_ports(1)
    with caplog.at_level(logging.INFO), MockProducer(client_id="gone") as producer:
        context = plugin_context(client_id="gone")
        reporter = started(PrometheusReporter(listen=("127.0.0.1", port), context=context), producer)
        producer.send("orders", b"value")
        assert of("gone", "orders") in read(generate_latest(REGISTRY).decode())
        reporter.close()

    assert f"gone: Prometheus can read the metrics at 127.0.0.1:{port}" in caplog.messages
    assert of("gone", "orders") not in read(generate_latest(REGISTRY).decode())
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) != 0


def test_a_reporter_that_the_program_has_unregistered_closes_its_server() -> None:
    [port] = free_ports(1)
    registry = CollectorRegistry()
    with MockProducer() as producer:
        reporter = started(
            PrometheusReporter(listen=("127.0.0.1", port), registry=registry, context=plugin_context()), producer
        )
        unregister_all(registry)
        reporter.close()

    with socket.create_server(("127.0.0.1", port)):
        """The address is free."""


def test_a_registry_that_fails_at_the_close_leaves_no_server() -> None:
    class Failing(CollectorRegistry):
        def unregister(self, collector: Any) -> None:
            raise ValueError("not now")

    [port] = free_ports(1)
    with MockProducer() as producer:
        reporter = started(
            PrometheusReporter(listen=("127.0.0.1", port), registry=Failing(), context=plugin_context()), producer
        )
        with pytest.raises(ValueError, match="not now"):
            reporter.close()

    with socket.create_server(("127.0.0.1", port)):
        """The address is free."""


@pytest.mark.skipif(
    "support_collectors_without_names" not in inspect.signature(CollectorRegistry).parameters,
    reason="this prometheus-client has no registry without names",
)
def test_a_producer_after_the_program_has_unregistered_all_is_exported() -> None:
    registry = CollectorRegistry(support_collectors_without_names=True)
    with MockProducer() as one, MockProducer() as other:
        first = started(PrometheusReporter(registry=registry, context=plugin_context(client_id="one")), one)
        unregister_all(registry)
        second = started(PrometheusReporter(registry=registry, context=plugin_context(client_id="other")), other)
        third = started(PrometheusReporter(registry=registry, context=plugin_context(client_id="third")), other)
        for each in (one, other):
            each.send("orders", b"value")
        found = read(generate_latest(registry).decode())
        for reporter in (first, second, third):
            reporter.close()

    assert {found[of(name, "orders")] for name in ("one", "other", "third")} == {1.0}
    assert generate_latest(registry) == b""


def test_a_producer_may_close_while_a_registry_collects_under_its_lock() -> None:
    class OneLock(CollectorRegistry):
        """It collects under the lock that a collector needs to leave, and always when one leaves."""

        def __init__(self) -> None:
            super().__init__()
            self.mine = threading.Lock()
            self.stuck = False

        def unregister(self, collector: Any) -> None:
            collecting = threading.Event()
            threading.Thread(target=self.collected, args=[collecting], daemon=True).start()
            assert collecting.wait(10.0)
            self.stuck = not self.mine.acquire(timeout=10.0)
            super().unregister(collector)

        def collected(self, collecting: threading.Event) -> None:
            with self.mine:
                collecting.set()
                list(self.collect())

    registry = OneLock()
    with MockProducer() as producer:
        started(PrometheusReporter(registry=registry, context=plugin_context(client_id="one")), producer).close()

    assert not registry.stuck


def test_an_address_in_use_is_an_error_and_nothing_is_exported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        reporter = PrometheusReporter(listen=taken.getsockname(), context=plugin_context())
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{taken.getsockname()[1]}: .*in use"):
            reporter.start(CountingRegistry("never"))

    assert "never" not in generate_latest(REGISTRY).decode()


def test_a_registry_that_refuses_the_metrics_leaves_no_server() -> None:
    class Refusing(CollectorRegistry):
        def register(self, collector: Any) -> None:
            raise ValueError("duplicated timeseries")

    [port] = free_ports(1)
    reporter = PrometheusReporter(
        listen=("127.0.0.1", port), registry=Refusing(), context=plugin_context(client_id="one")
    )
    with MockProducer() as producer, pytest.raises(ValueError, match="duplicated timeseries"):
        started(reporter, producer)

    with socket.create_server(("127.0.0.1", port)):
        """The address is free."""


def test_the_end_of_a_server_takes_no_half_second() -> None:
    [port] = free_ports(1)
    with MockProducer() as producer:
        began = time.monotonic()
        for _ in range(10):
            started(PrometheusReporter(listen=("127.0.0.1", port), context=plugin_context()), producer).close()
        took = time.monotonic() - began

    assert took < 2.5


def test_names_and_labels_are_changed_to_those_that_prometheus_takes() -> None:
    figures = CountingRegistry('a "b"\\\n')
    figures.unusual = True
    reporter = PrometheusReporter(context=plugin_context(client_id='a "b"\\\n'))
    reporter.start(figures)
    try:
        samples = read(generate_latest(REGISTRY).decode())
    finally:
        reporter.close()

    assert samples["kafka_producer_a_group_of_tomorrow_never_heard_of", frozenset({("new_label", "1")})] == -1.5
    assert ("kafka_producer_record_send_total", frozenset({("client_id", 'a "b"\\\n')})) in samples


def test_the_listen_key_is_parsed_to_an_address() -> None:
    key = ottla_config_keys()[0]

    assert key.name == LISTEN
    assert key.type("127.0.0.1:9404") == ("127.0.0.1", 9404)
    assert key.type(" [::1]:80 ") == ("::1", 80)


@pytest.mark.parametrize("wrong", ["9404", ":9404", "localhost:", "localhost:http", "localhost:0", "localhost:65536"])
def test_addresses_outside_this_machine_are_refused(wrong: str) -> None:
    key = ottla_config_keys()[0]

    with pytest.raises(ValueError, match="write host:port, such as"):
        key.type(wrong)


# Names


@pytest.mark.parametrize(
    ("group", "name", "unit", "kind", "exported"),
    [
        ("producer-metrics", "record-send-total", "records", "counter", "kafka_producer_record_send_total"),
        ("producer-metrics", "outgoing-byte-total", "bytes", "counter", "kafka_producer_outgoing_bytes_total"),
        ("producer-topic-metrics", "byte-total", "bytes", "counter", "kafka_producer_topic_bytes_total"),
        ("producer-metrics", "flush-time-ns-total", "ns", "counter", "kafka_producer_flush_time_seconds_total"),
        ("producer-metrics", "buffer-total-bytes", "bytes", "gauge", "kafka_producer_buffer_total_bytes"),
        ("producer-metrics", "metadata-age", "s", "gauge", "kafka_producer_metadata_age_seconds"),
        ("producer-metrics", "request-latency-max", "ms", "gauge", "kafka_producer_request_latency_max_seconds"),
        ("producer-node-metrics", "request-latency", "ms", "histogram", "kafka_producer_node_request_latency_seconds"),
        ("plugins", "token.age", "s", "gauge", "kafka_producer_plugin_token_age_seconds"),
    ],
)
def test_names_have_base_units_at_their_end(group: str, name: str, unit: str, kind: Any, exported: str) -> None:
    assert names.family(group, name, unit=unit, kind=kind).name == exported


def test_every_metric_of_the_core_has_a_valid_name_of_its_own() -> None:
    full = [
        (names.family(m.group, m.name, unit=m.unit, kind="counter" if m.kind.cumulative else "gauge")) for m in kept()
    ]
    full += [names.family(each.group, each.name, unit=each.unit, kind="histogram") for each in HISTOGRAMS]
    exported = [each.name for each in full]

    assert len(set(exported)) == len(exported)
    assert [name for name in exported if not re.fullmatch(r"kafka_producer_[a-z]+(_[a-z]+)*", name)] == []
    assert [name for name in exported if name.endswith(("_count", "_sum", "_bucket"))] == []
    assert {each.name for each in full if each.kind == "counter"} == {n for n in exported if n.endswith("_total")}


def test_a_rate_or_an_average_of_a_window_is_left_out() -> None:
    assert {each.name.rpartition("-")[2] for each in METRICS if each not in kept()} == {"rate", "avg", "ratio", "count"}
    assert not names.omitted("plugins", "cache-hit-rate")


def kept() -> list[Metric]:
    return [each for each in METRICS if not names.omitted(each.group, each.name)]


# Values


def samples(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return read(generate_latest(registry).decode())


def test_times_are_exported_in_seconds_and_buckets_add_up() -> None:
    mine = CollectorRegistry()
    with MockProducer(client_id="shop", linger_ms=20) as producer:
        started(PrometheusReporter(registry=mine, context=plugin_context(client_id="shop")), producer)
        for _ in range(7):
            producer.send("orders", b"value")
        producer.flush()
        found = samples(mine)

    labels = frozenset({("client_id", "shop"), ("topic", "orders")})
    histogram = "kafka_producer_topic_record_delivery_time_seconds"
    assert found[f"{histogram}_count", labels] == 7
    assert found[f"{histogram}_bucket", labels | {("le", "+Inf")}] == 7
    assert 0 <= found[f"{histogram}_sum", labels] < 7
    buckets = [(dict(lab)["le"], value) for (name, lab), value in found.items() if name == f"{histogram}_bucket"]
    assert [value for _le, value in sorted(buckets, key=lambda each: float(each[0]))] == sorted(v for _le, v in buckets)
    assert {le for le, _value in buckets} >= {"0.0025", "0.005", "1.0", "120.0"}


def test_an_average_or_maximum_of_nothing_has_no_sample() -> None:
    mine = CollectorRegistry()
    with MockProducer() as producer:
        started(PrometheusReporter(registry=mine, context=plugin_context(client_id="idle")), producer)

        assert [name for (name, _labels), value in samples(mine).items() if value != value] == []
        assert ("kafka_producer_batch_size_max_bytes", frozenset({("client_id", "idle")})) not in samples(mine)


def test_two_producers_with_one_client_id_have_their_own_samples() -> None:
    mine = CollectorRegistry()
    with MockProducer() as one, MockProducer() as other:
        for each in (one, other):
            started(PrometheusReporter(registry=mine, context=plugin_context(client_id="shop")), each)
        one.send("orders", b"value")
        found = samples(mine)

    assert (found[of("shop", "orders")], of("shop#2", "orders") in found) == (1, False)
    assert found["kafka_producer_record_send_total", frozenset({("client_id", "shop#2")})] == 0


def test_topics_beyond_the_limit_are_added_up() -> None:
    mine = CollectorRegistry()
    with MockProducer() as producer:
        context = plugin_context(client_id="shop")
        started(PrometheusReporter(registry=mine, max_topics=2, context=context), producer)
        for topic in ("a", "b", "c", "d", "d"):
            producer.send(topic, b"value")
        producer.flush()
        found = samples(mine)

    assert [found[of("shop", topic)] for topic in ("a", "b", OTHER_TOPICS)] == [1, 1, 3]
    assert of("shop", "c") not in found
    labels = frozenset({("client_id", "shop"), ("topic", OTHER_TOPICS)})
    assert found["kafka_producer_topic_record_size_bytes_count", labels] == 3
    alone = found["kafka_producer_topic_record_size_bytes_sum", of("shop", "a")[1]]
    assert found["kafka_producer_topic_record_size_bytes_sum", labels] == 3 * alone > 0


@pytest.mark.parametrize(
    ("tag", "label"),
    [("new-label", "new_label"), ("", "_"), ("0", "_0"), ("__name__", "name__"), ("__", "_"), ("a", "a"), ("é", "_")],
)
def test_labels_are_names_that_a_program_may_use(tag: str, label: str) -> None:
    assert names.label(tag) == label


def test_odd_tags_of_the_program_cost_no_other_metric() -> None:
    mine = CollectorRegistry()
    with MockProducer(client_id="shop") as producer:
        own = producer.application_metrics
        own.add_gauge("odd", lambda: 1, unit="\ud800", meaning="\ud800", tags={"": "\ud800", "client_id": "mine"})
        started(PrometheusReporter(registry=mine, context=plugin_context(client_id="\udcff")), producer)
        producer.send("orders", b"value")
        found = samples(mine)

    labels = frozenset({("client_id", "?"), ("_", "?"), ("client_id_", "mine")})
    assert found["kafka_producer_application_odd", labels] == 1
    assert found[of("?", "orders")] == 1


# Forked children


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # since Python 3.12
def test_a_forked_child_exports_its_own_producers_alone() -> None:
    [port] = free_ports(1)
    address, mine = ("127.0.0.1", port), CollectorRegistry()
    context = plugin_context(client_id="shop")
    with MockProducer() as producer:
        parents = started(PrometheusReporter(listen=address, registry=mine, context=context), producer)
        producer.send("orders", b"value")
        (ended, end), (runs, running) = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            os.write(running, b"1")  # the child has done what it does after a fork
            own = started(PrometheusReporter(registry=mine, context=context), producer)
            alone = [dict(labels)["client_id"] for name, labels in samples(mine) if name == "kafka_producer_app_info"]
            own.close()
            empty = generate_latest(mine) == b""
            os.close(end)
            os.read(ended, 1)  # the child goes on until the parent has closed its reporter
            os._exit(0 if (alone, empty) == (["shop"], True) else 1)
        os.close(ended)
        os.close(running)
        assert os.read(runs, 1) == b"1"
        os.close(runs)
        assert samples(mine)[of("shop", "orders")] == 1
        parents.close()

    with socket.socket() as sock:
        refused = sock.connect_ex(address) != 0
    os.close(end)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert refused, "the child has kept the parent's socket"


def test_an_address_in_use_costs_one_line_and_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {"metric.reporters": "prometheus", "prometheus.listen": address, "prometheus.registry": "own"}
        with MockProducer(settings) as producer:
            assert producer.send("orders", b"1").result().offset == 0
    [line] = [record for record in caplog.records if record.levelname == "ERROR"]

    assert line.exc_info is None
    assert "cannot be started; the producer continues without it: " in line.getMessage()
    assert f"{address}: Address already in use; another process serves there" in line.getMessage()


# Registries


def test_an_own_registry_has_producers_alone() -> None:
    [port] = free_ports(1)
    config = {LISTEN: ("127.0.0.1", port), REGISTRY_KEY: "own", MAX_TOPICS: 10}
    with MockProducer() as producer:
        reporter = started(ottla_reporter(config=config, context=plugin_context(client_id="shop")), producer)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                text = answer.read().decode()
        finally:
            reporter.close()

    assert "kafka_producer_" in text
    assert "python_info" not in text
    assert generate_latest(OWN_REGISTRY) == b""


def test_an_own_registry_without_an_address_is_refused() -> None:
    config = {LISTEN: None, REGISTRY_KEY: "own", MAX_TOPICS: 10}

    with pytest.raises(ConfigError, match=r"prometheus\.registry=own needs prometheus\.listen"):
        ottla_reporter(config=config, context=plugin_context())


def test_two_registries_at_one_address_are_refused_and_the_first_stays() -> None:
    [port] = free_ports(1)
    mine, other = CollectorRegistry(), CollectorRegistry()
    with MockProducer() as producer:
        first = started(
            PrometheusReporter(listen=("127.0.0.1", port), registry=mine, context=plugin_context()), producer
        )
        try:
            second = PrometheusReporter(listen=("127.0.0.1", port), registry=other, context=plugin_context())
            with pytest.raises(ValueError, match="give both the same"):
                started(second, producer)

            assert samples(mine)
            assert generate_latest(other) == b""
        finally:
            first.close()


@pytest.mark.parametrize(("key", "wrong"), [(REGISTRY_KEY, "mine"), (MAX_TOPICS, "-1"), (MAX_TOPICS, "many")])
def test_wrong_values_of_the_other_keys_are_refused(key: str, wrong: str) -> None:
    [declared] = [each for each in ottla_config_keys() if each.name == key]

    with pytest.raises(ValueError, match="write "):
        declared.type(wrong)


def test_the_settings_of_a_producer_choose_the_reporter() -> None:
    [port] = free_ports(1)
    settings = {"metric.reporters": "prometheus", "prometheus.listen": f"127.0.0.1:{port}", "client.id": "shop"}
    with MockProducer(settings) as producer:
        producer.send("orders", b"value")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            found = read(answer.read().decode())

    assert found[of("shop", "orders")] == 1


def test_the_sum_of_a_histogram_is_in_seconds_as_its_bounds() -> None:
    figures, mine = CountingRegistry("shop"), CollectorRegistry()
    PrometheusReporter(registry=mine, context=plugin_context(client_id="shop")).start(figures)
    found = samples(mine)
    [histogram] = figures.histograms().values()

    labels = frozenset({("client_id", "shop"), ("topic", "t0")})
    name = "kafka_producer_topic_record_queue_time_seconds"
    assert found[f"{name}_sum", labels] == histogram.total / 1000
    assert found[f"{name}_bucket", labels | {("le", "0.01")}] == sum(histogram.counts[:2])
