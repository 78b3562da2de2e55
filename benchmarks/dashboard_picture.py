"""A picture of the dashboard: a real Prometheus scrapes two producers of three real brokers during three incidents.

`python benchmarks/dashboard_picture.py docs/dashboard.svg` takes three minutes and needs the command `prometheus`, as
Debian's package of this name has it. Each query of `tools/dashboard.py` is asked for the whole time, and drawn.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import click
import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, Formatter, PercentFormatter

from ottla import OttlaError, Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from dashboard import PANELS, SELECTED, WINDOW, Panel

TOPICS: Final = {"shop": "orders", "mailer": "mails"}
RATE: Final = {"shop": 2_000, "mailer": 300}
"""Records per second."""
VALUE: Final = json.dumps({"customer": 4711, "items": ["apples", "pears"], "note": "as usual " * 20}).encode()
STEP: Final = 1.0
"""Seconds from one scrape to the next."""
CONFIG: Final = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: producers
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
COLUMNS: Final = 3
FORMATS: Final[Mapping[str, Formatter]] = {
    "s": EngFormatter("s"),
    "bytes": EngFormatter("B"),
    "Bps": EngFormatter("B/s"),
    "percentunit": PercentFormatter(1.0),
    "ops": EngFormatter("/s"),
    "short": EngFormatter(),
}


@attrs.frozen
class Incident:
    """What happened, and from when to when, in seconds since the start."""

    name: str
    start: float
    end: float


class Load:
    """A producer that sends records at a steady rate, on a thread of its own; `factor` changes the rate."""

    def __init__(self, kafka: KafkaCluster, client_id: str, *, listen: Mapping[str, str]) -> None:
        self.factor = 1.0
        self._rate = RATE[client_id]
        self._topic = TOPICS[client_id]
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "client.id": client_id,
                "linger.ms": 20,
                "compression.type": "lz4",
                "buffer.memory": 4 << 20,
                "request.timeout.ms": 5_000,
                "metric.reporters": "prometheus",
                **listen,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Send no more; the metrics are there until `close`."""
        self._ended.set()
        self._thread.join()

    def close(self) -> None:
        """Close the producer."""
        self.end()
        self._producer.close()

    def _run(self) -> None:
        due = time.monotonic()
        number = 0
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due = max(due, time.monotonic() - 1.0) + 0.01
            for _ in range(math.ceil(self._rate * self.factor * 0.01)):
                number += 1
                try:
                    self._producer.send(self._topic, VALUE, key=b"%d" % (number % 5_000))
                except OttlaError as error:
                    click.echo(f"not sent: {error}", err=True)


@contextmanager
def prometheus(folder: Path, scraped: int) -> Iterator[str]:
    """Run Prometheus; yields the address of its API."""
    [port] = free_ports(1)
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(port=scraped))
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}/api/v1"
        finally:
            process.terminate()


def story(kafka: KafkaCluster, loads: Mapping[str, Load], begin: float) -> Iterator[Incident]:
    """Let the incidents happen."""

    def during(name: str, seconds: float, begins: Callable[[], object], ends: Callable[[], object]) -> Incident:
        start = time.time()
        begins()
        time.sleep(seconds)
        ends()
        return Incident(name, start - begin, time.time() - begin)

    def rate(factor: float) -> None:
        loads["shop"].factor = factor

    time.sleep(40)
    yield during("one broker is frozen", 12, lambda: kafka.pause(2), lambda: kafka.resume(2))
    time.sleep(30)
    yield during("a broker restarts", 8, lambda: kafka.kill(3), lambda: kafka.start(3))
    time.sleep(25)
    yield during("ten times as many records", 15, lambda: rate(10.0), lambda: rate(1.0))
    time.sleep(20)


def lines(api: str, query: str, legend: str, *, start: float, end: float) -> Iterator[tuple[str, Any]]:
    """Yield each series of a query with its legend: pairs of a time since the start and a value."""
    asked = query.replace("%s", SELECTED).replace("$client_id", ".+").replace(WINDOW, "5s")
    arguments = urllib.parse.urlencode({"query": asked, "start": start, "end": end, "step": STEP})
    with urllib.request.urlopen(f"{api}/query_range?{arguments}", timeout=20) as answer:
        found = json.load(answer)["data"]["result"]
    for series in found:
        name = legend
        for label, value in series["metric"].items():
            name = name.replace(f"{{{{{label}}}}}", value)
        yield name, [(at - start, float(value)) for at, value in series["values"]]


def draw(api: str, incidents: Sequence[Incident], *, start: float, end: float, to: Path) -> None:
    """Draw all panels into one picture."""
    mpl.rcParams |= {"svg.hashsalt": "dashboard", "svg.fonttype": "none"}  # the same text gives the same file
    rows = math.ceil(len(PANELS) / COLUMNS)
    figure = Figure(figsize=(13, 2.3 * rows), layout="constrained")
    for panel, axes in zip(PANELS, figure.subplots(rows, COLUMNS, squeeze=False).flat, strict=False):
        _panel(axes, panel, api, incidents, start=start, end=end)
    figure.suptitle("  ".join(f"{number}: {each.name}." for number, each in enumerate(incidents, 1)), fontsize=10)
    figure.savefig(to, metadata={"Date": None})


def _panel(axes: Any, panel: Panel, api: str, incidents: Sequence[Incident], *, start: float, end: float) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left")
    for query, legend in panel.queries:
        for name, points in lines(api, query, legend, start=start, end=end):
            shown = [round(value, 6) if math.isfinite(value) else math.nan for _, value in points]
            axes.plot([at for at, _ in points], shown, label=name, linewidth=1)
    for number, each in enumerate(incidents, 1):
        axes.axvspan(each.start, each.end, color="0.88", zorder=0)
        axes.text(
            (each.start + each.end) / 2, 0.99, str(number), fontsize=6, va="top", transform=axes.get_xaxis_transform()
        )
    axes.set_ylim(0, None if any(value > 0 for line in axes.lines for value in line.get_ydata()) else 1)
    axes.set_xlim(0, end - start)
    axes.yaxis.set_major_formatter(FORMATS[panel.unit])
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.tick_params(labelsize=7)
    if axes.lines:
        axes.legend(fontsize=6, loc="best")


@click.command(help=__doc__)
@click.argument("picture", type=click.Path(path_type=Path, dir_okay=False))
def main(picture: Path) -> None:
    """Run the story and draw it."""
    [scraped] = free_ports(1)  # of one producer; the page has all producers of a process
    listen = {"shop": {"prometheus.listen": f"127.0.0.1:{scraped}"}}
    settings: dict[str, str | int] = {"broker.session.timeout.ms": 4_000, "broker.heartbeat.interval.ms": 500}
    with TemporaryDirectory() as folder, KafkaCluster(nodes=3, config=settings) as kafka:
        for topic in TOPICS.values():
            kafka.create_topic(topic, partitions=6, replication=3)
        loads = {name: Load(kafka, name, listen=listen.get(name, {})) for name in TOPICS}
        try:
            with prometheus(Path(folder), scraped) as api:
                time.sleep(10)
                begin = time.time()
                incidents = list(story(kafka, loads, begin))
                draw(api, incidents, start=begin, end=time.time(), to=picture)
        finally:
            for load in loads.values():
                load.close()
    click.echo(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
