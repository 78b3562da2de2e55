"""A real broker collects metrics: its reporter, a few lines of Java, gets those that Java's producer would push."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
from long_forms import share
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from ottla import Producer
from ottla.metrics.catalogue import MISSING
from ottla.sender.telemetry.metric_names import telemetry_name
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.jars import KAFKA_VERSION, kafka_jars
from ottla_testkit.java.jvm import jvm_command
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic, go_without
from telemetry_kit import REQUIRED

pytestmark = pytest.mark.kafka

REPORTER: Final = Path(__file__).parent / "client_telemetry" / "MetricsWriter.java"
WITHIN: Final = 60.0  # seconds
INTERVAL_MS: Final = 300
RECORDS_SENT: Final = "org.apache.kafka.producer.record.send.total"


@attrs.frozen(kw_only=True)
class Push:
    """What the broker's reporter got."""

    client_id: str
    client_instance_id: str
    terminating: bool
    content_type: str
    metrics: dict[str, Metric]
    resource: dict[str, str]


class Collecting:
    """A broker with a reporter that writes pushes into a file, and the commands to change its subscriptions."""

    def __init__(self, folder: Path) -> None:
        self._file, self._folder = folder / "pushes", folder
        self._classes = folder / "classes"
        self._jars = kafka_jars()
        self._java = jvm_command(java_command(), version=KAFKA_VERSION, jars=self._jars, heap="128m", folder=folder)
        jars = os.pathsep.join(map(str, self._jars.glob("*.jar")))
        compiler = [java_command(), "--module", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars]
        self._run([*compiler, "-d", str(self._classes), str(REPORTER)])
        self.kafka = KafkaCluster(
            config={
                "metric.reporters": "MetricsWriter",
                "metrics.writer.file": str(self._file),
                "auto.create.topics.enable": "true",
            },
            class_path=[self._classes],
        )

    def subscribe(self, name: str, metrics: str, *, client_id: str) -> None:
        """Create or change a subscription for clients whose id matches."""
        self.tool(
            "org.apache.kafka.tools.ClientMetricsCommand",
            *("--bootstrap-server", self.kafka.bootstrap_servers, "--alter", "--name", name),
            *("--interval", str(INTERVAL_MS), "--metrics", metrics, "--match", f"client_id={client_id}"),
        )

    def tool(self, main: str, *arguments: str, text: str | None = None) -> None:
        """Run a command-line tool of Kafka."""
        self._run([*self._java, main, *arguments], text=text)

    def pushes(self, client_id: str) -> list[Push]:
        """The pushes of a client so far."""
        if not self._file.exists():
            return []
        lines = self._file.read_text().splitlines(keepends=True)
        pushes = [_push(*line.rstrip("\n").split("\t")) for line in lines if line.endswith("\n")]
        return [push for push in pushes if push.client_id == client_id]

    def _run(self, command: Sequence[str], *, text: str | None = None) -> None:
        ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=WITHIN, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def _push(client_id: str, client_instance_id: str, terminating: str, content_type: str, data: str) -> Push:
    of_resources = MetricsData.FromString(b64decode(data)).resource_metrics
    return Push(
        client_id=client_id,
        client_instance_id=client_instance_id,
        terminating=terminating == "true",
        content_type=content_type,
        metrics={metric.name: metric for each in of_resources for of in each.scope_metrics for metric in of.metrics},
        resource={each.key: each.value.string_value for of in of_resources for each in of.resource.attributes},
    )


def total(pushes: Sequence[Push], name: str) -> float:
    """The sum of a counter's deltas."""
    points = [point for push in pushes if name in push.metrics for point in push.metrics[name].sum.data_points]
    return sum(point.as_double for point in points)


def until(happened: Callable[[], object]) -> None:
    """Wait until something has happened."""
    end = time.monotonic() + WITHIN
    while not happened():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def collecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    try:
        made = Collecting(tmp_path_factory.mktemp("telemetry"))
        with made.kafka:
            yield made
    except KafkaUnavailableError as error:
        go_without(error)


@pytest.mark.rule("producer.client-instance-id")
def test_a_broker_gets_the_metrics_that_it_wants_until_the_close(collecting: Collecting) -> None:
    collecting.subscribe("all", "*", client_id="shop")
    with Producer(
        bootstrap_servers=collecting.kafka.bootstrap_servers, client_id="shop", client_rack="rack-1"
    ) as producer:
        for _ in range(10):
            producer.send("orders", b"value")
        producer.flush()
        own = producer.application_metrics.add_counter("carts-total", unit="carts", meaning="Carts.")
        own.add(3)
        assigned = producer.client_instance_id(timeout=WITHIN)
        until(lambda: len(collecting.pushes("shop")) >= 3)
        producer.send("orders", b"last")
    pushes = collecting.pushes("shop")

    assert {push.client_instance_id for push in pushes} == {assigned}
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert pushes[0].content_type == "OTLP"
    assert pushes[0].resource == {"client_rack": "rack-1"}
    assert total(pushes, RECORDS_SENT) == 11
    assert total(pushes, "org.apache.kafka.application.carts.total") == 3
    assert pushes[-1].metrics.keys() >= REQUIRED


@pytest.mark.parametrize(
    "missing", share([(), ("zstandard",), ("zstandard", "lz4", "lz4.frame")], gate=1, why="the gate lacks one codec")
)
def test_a_broker_reads_the_metrics_whatever_codecs_are_installed(
    collecting: Collecting, missing: Sequence[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    caplog.set_level(logging.DEBUG, "ottla.sender.telemetry")
    client_id = f"without-{len(missing)}"
    collecting.subscribe("codecs", "org.apache.kafka.producer.", client_id="without-.*")
    with Producer(bootstrap_servers=collecting.kafka.bootstrap_servers, client_id=client_id) as producer:
        producer.send("orders", b"value").result()
        until(lambda: total(collecting.pushes(client_id), RECORDS_SENT) == 1)

    assert ("telemetry does without zstd" in caplog.text) == bool(missing)


@pytest.mark.thorough("simulated brokers change subscriptions, too")
def test_a_subscription_that_changes_is_followed_at_the_next_push(collecting: Collecting) -> None:
    records, topics = "org.apache.kafka.producer.record.", "org.apache.kafka.producer.topic."
    collecting.subscribe("changing", records, client_id="changing")
    with Producer(bootstrap_servers=collecting.kafka.bootstrap_servers, client_id="changing") as producer:
        producer.send("orders", b"value").result()
        until(lambda: collecting.pushes("changing"))
        collecting.subscribe("changing", topics, client_id="changing")
        until(lambda: any(name.startswith(topics) for name in collecting.pushes("changing")[-1].metrics))
    pushes = collecting.pushes("changing")

    assert all(name.startswith(records) for name in pushes[0].metrics)
    assert all(name.startswith(topics) for name in pushes[-1].metrics)
    assert len({push.client_instance_id for push in pushes}) == 1


@pytest.mark.thorough("starts a producer in Java; test_telemetry_names.py has its list of metrics")
def test_javas_producer_pushes_no_metric_that_ours_does_not(collecting: Collecting) -> None:
    collecting.subscribe("both", "org.apache.kafka.producer.", client_id="both-.*")
    servers = collecting.kafka.bootstrap_servers
    # Long enough for its subscription and a push.
    collecting.tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "orders", "--num-records", "200", "--record-size", "10", "--throughput", "40"),
        *("--producer-props", f"bootstrap.servers={servers}", "client.id=both-java"),
    )
    with Producer(bootstrap_servers=servers, client_id="both-ours") as producer:
        producer.send("orders", b"value").result()
        until(lambda: collecting.pushes("both-ours"))
        producer.send("orders", b"value").result()
    java, ours = collecting.pushes("both-java"), collecting.pushes("both-ours")
    of_java = {name: metric for push in java for name, metric in push.metrics.items()}
    of_ours = {name: metric for push in ours for name, metric in push.metrics.items()}
    without_values = {
        name
        for name, metric in of_java.items()
        if all(math.isnan(point.as_double) for point in metric.gauge.data_points)
    }

    assert java
    missing = {telemetry_name(group, name) for group, name in MISSING}
    assert of_java.keys() - of_ours.keys() - without_values - missing == set()
    for name in of_java.keys() & of_ours.keys():
        kinds = [metric.HasField("sum") for metric in (of_java[name], of_ours[name])]
        labels = [
            {each.key for point in (*metric.sum.data_points, *metric.gauge.data_points) for each in point.attributes}
            for metric in (of_java[name], of_ours[name])
        ]
        assert (name, kinds[0], labels[0]) == (name, kinds[1], labels[1])


@pytest.mark.rule("producer.client-instance-id")
def test_a_broker_that_collects_nothing_gets_no_requests(
    kafka: KafkaCluster, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ottla.sender.telemetry")
    topic = make_topic(partitions=1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"value").result()
        began = time.monotonic()
        assert producer.client_instance_id(timeout=WITHIN) is None
        waited = time.monotonic() - began

    assert waited < WITHIN / 2
    assert "Telemetry" not in caplog.text
