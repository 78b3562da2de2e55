"""Metrics of producers that Prometheus reads, over HTTP and from the program's registry."""

from __future__ import annotations

import logging
import socket
import urllib.request
from typing import Any

import pytest
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ottla_reporter_prometheus_example import PrometheusReporter
from ottla_reporter_prometheus_example.plugin import LISTEN, ottla_config_keys, ottla_reporter
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


def started(reporter: Any, producer: MockProducer) -> Any:
    """The reporter of a producer that was made without one."""
    reporter.start(producer._engine.metric_values)
    return reporter


def test_prometheus_reads_the_metrics_of_every_producer_over_http() -> None:
    [port] = free_ports(1)
    with MockProducer(client_id="one") as one, MockProducer(client_id="other") as other:
        address = ("127.0.0.1", port)
        reporters = [
            started(PrometheusReporter(listen=address, context=plugin_context()), each) for each in (one, other)
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
    assert "# TYPE kafka_producer_request_latency_avg gauge" in text


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


def test_an_address_in_use_is_an_error_and_nothing_is_exported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        reporter = PrometheusReporter(listen=taken.getsockname(), context=plugin_context())
        with pytest.raises(OSError, match="in use"):
            reporter.start(CountingRegistry("never"))

    assert "never" not in generate_latest(REGISTRY).decode()


def test_names_and_labels_are_changed_to_those_that_prometheus_takes() -> None:
    figures = CountingRegistry('a "b"\\\n')
    figures.odd = True
    reporter = PrometheusReporter(context=plugin_context())
    reporter.start(figures)
    try:
        samples = read(generate_latest(REGISTRY).decode())
    finally:
        reporter.close()

    assert samples["kafka_a_group_of_tomorrow_never_heard_of", frozenset({("new_label", "1")})] == -1.5
    assert ("kafka_producer_record_send_total", frozenset({("client_id", 'a "b"\\\n')})) in samples


def test_the_listen_key_is_parsed_to_an_address() -> None:
    [key] = ottla_config_keys()

    assert key.name == LISTEN
    assert key.type("127.0.0.1:9404") == ("127.0.0.1", 9404)
    assert key.type(" [::1]:80 ") == ("::1", 80)
    assert isinstance(ottla_reporter(config={LISTEN: None}, context=plugin_context()), PrometheusReporter)


@pytest.mark.parametrize("wrong", ["9404", ":9404", "localhost:", "localhost:http", "localhost:0", "localhost:65536"])
def test_addresses_outside_this_machine_are_refused(wrong: str) -> None:
    [key] = ottla_config_keys()

    with pytest.raises(ValueError, match="write host:port, such as"):
        key.type(wrong)
