"""A real Prometheus scrapes a real producer: each query of the dashboard has a result, each alert rule is evaluated."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard import ALERTS, ALERTS_FILE, DOCS, queries
from long_forms import LONG

from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports
from ottla_testkit.pytest_plugin import MakeTopic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not LONG, reason="takes half a minute: OTTLA_SOAK=1"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
]

HANG_GUARD = 60.0
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: shop
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int, scraped: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self.scraped = scraped

    def read(self, path: str, **arguments: str) -> Any:
        url = f"{self._url}/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.read("query", query=expression)["result"]
        return found


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    port, scraped = free_ports(2)
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(rules=DOCS / ALERTS_FILE, port=scraped))
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Prometheus(port, scraped)
        finally:
            process.terminate()


def until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while True:
        try:
            if happens():
                return
        except OSError:  # it has not started yet
            pass
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.5)


def test_every_panel_and_every_alert_works_in_prometheus(
    prometheus: Prometheus, kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "client.id": "shop",
        "metric.reporters": "prometheus",
        "prometheus.listen": f"127.0.0.1:{prometheus.scraped}",
    }
    expressions = [
        (title, query.replace("$client_id", "shop").replace("$__rate_interval", "10s")) for title, query in queries()
    ]
    with Producer(settings) as producer:

        def sends_and_finds(expression: str) -> Callable[[], object]:
            def found() -> object:
                for _ in range(100):
                    producer.send(topic, b"x" * 200)
                return prometheus.query(expression)

            return found

        for _title, expression in expressions:
            until(sends_and_finds(expression))
        values = {title: float(prometheus.query(query)[0]["value"][1]) for title, query in expressions}
        rules = [rule for group in prometheus.read("rules")["groups"] for rule in group["rules"]]

    assert values["Records sent"] > 0
    assert 0 < values["Compression"] < 1.5
    assert [rule["name"] for rule in rules] == [alert.name for alert in ALERTS]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
