"""A soak: an idempotent producer, three brokers and faults for many minutes; `python benchmarks/soak.py --minutes 60`.

Four threads send records of 1 kB at half of the full speed, which the first seconds measure. Meanwhile brokers are
killed and frozen, and links are cut, slow, or work in one direction only. Another client's consumer reads all records
and checks that none is lost, doubled or out of order. The result is a text and a page in `benchmark-results/soak`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import click
from soak_client import Second, Soak, Total
from soak_pages import page, text
from soak_reader import Checked
from soak_result import Fault, Result, problems

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.proxy import Direction

HERE: Final = Path(__file__).parent
TOPIC: Final = "soak"
NODES: Final = 3
END_WITHIN: Final = 900.0
BROKERS: Final[Mapping[str, str | int]] = {
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": "false",
    "offsets.topic.replication.factor": 1,
    "broker.session.timeout.ms": 4_000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 5_000,
    "log.retention.check.interval.ms": 5_000,
    "log.segment.delete.delay.ms": 1_000,
}
KEPT: Final = {"segment.bytes": 32 << 20, "retention.bytes": 384 << 20}
"""Of each partition: the reader may be a minute behind, and an hour does not fill the disk."""


class Faults:
    """Faults of brokers and links, each with its end."""

    def __init__(self, kafka: KafkaCluster, *, seed: int) -> None:
        self._kafka = kafka
        self._chance = random.Random(seed)
        self._kinds: list[tuple[str, Callable[[int, float], None]]] = []

    def next(self) -> tuple[str, int, float, Callable[[int, float], None]]:
        """The next fault: each kind once in a random order, then again; with a node and seconds."""
        if not self._kinds:
            self._kinds = [
                ("kill -9", self.kill),
                ("frozen", self.freeze),
                ("links cut", self.cut),
                ("responses lost", self.one_way_back),
                ("requests lost", self.one_way_out),
                ("slow link", self.slow),
            ]
            self._chance.shuffle(self._kinds)
        name, fault = self._kinds.pop()
        return name, self._chance.choice(self._kafka.nodes), round(self._chance.uniform(3.0, 12.0), 1), fault

    def kill(self, node: int, seconds: float) -> None:
        """End a broker with SIGKILL, and start it again."""
        self._kafka.kill(node)
        time.sleep(seconds)
        self._kafka.start(node)

    def freeze(self, node: int, seconds: float) -> None:
        """Stop a broker with SIGSTOP."""
        self._kafka.pause(node)
        time.sleep(seconds)
        self._kafka.resume(node)

    def cut(self, _node: int, seconds: float) -> None:
        """Reset all connections to all brokers, again and again."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for node in self._kafka.nodes:
                self._kafka.links[node].cut()
            time.sleep(1.0)

    def one_way_back(self, node: int, seconds: float) -> None:
        """Lose the responses of a broker for a while; then they arrive late."""
        self._held(node, seconds, Direction.BACK)

    def one_way_out(self, node: int, seconds: float) -> None:
        """Deliver no request to a broker for a while."""
        self._held(node, seconds, Direction.OUT)

    def slow(self, node: int, seconds: float) -> None:
        """Forward 50 kB in a second."""
        link = self._kafka.links[node]
        link.bytes_per_second = 50_000.0
        time.sleep(seconds)
        link.bytes_per_second = None

    def _held(self, node: int, seconds: float, way: Direction) -> None:
        link = self._kafka.links[node]
        link.hold(way)
        time.sleep(seconds)
        link.release()


class Running:
    """The client and the reader, each in a process of its own."""

    def __init__(self, kafka: KafkaCluster, soak: Soak) -> None:
        self.seconds: list[Second] = []
        self.total: Total | None = None
        self.began = time.monotonic()
        self._reader = self._start("soak_reader.py", kafka.near_servers, soak.topic, str(soak.partitions))
        self._client = self._start("soak_client.py", json.dumps(attrs.asdict(soak)))
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    @property
    def sending(self) -> bool:
        """Whether the client still sends."""
        return self._thread.is_alive()

    def checked(self) -> Checked:
        """Wait for the client, and have the reader finish."""
        self._thread.join(END_WITHIN)
        if self.total is None:
            raise RuntimeError(f"the client ended without a result, exit code {self._client.poll()}")
        output, _ = self._reader.communicate(json.dumps(self.total.sent) + "\n", END_WITHIN)
        return Checked(**json.loads(output.splitlines()[-1]))

    def end(self) -> None:
        """End both processes, if they still run."""
        for process in (self._client, self._reader):
            if process.poll() is None:
                process.kill()
            process.wait()

    def _follow(self) -> None:
        assert self._client.stdout is not None
        for line in self._client.stdout:
            given = json.loads(line)
            if "at" in given:
                self.seconds.append(Second(**given))
            else:
                self.total = Total(**given)
        self._client.wait()

    def _start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(HERE / command[0]), *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


@contextmanager
def cluster(*, sustained: bool) -> Iterator[KafkaCluster]:
    """Three brokers behind proxies without a delay, and the topic."""
    with KafkaCluster(
        nodes=NODES, config=dict(BROKERS), round_trip=0.0, sustained=sustained, heap="768m" if sustained else None
    ) as kafka:
        yield kafka


def run(soak: Soak, *, every: float, seed: int, sustained: bool) -> Result:
    """Send, disturb, and check."""
    with cluster(sustained=sustained) as kafka:
        kafka.create_topic(TOPIC, partitions=soak.partitions, replication=NODES, config=KEPT)
        running = Running(kafka, attrs.evolve(soak, servers=kafka.bootstrap_servers))
        try:
            faults = list(_disturb(kafka, running, soak, every=every, seed=seed))
            checked = running.checked()
        finally:
            running.end()
    assert running.total is not None
    return Result(soak=soak, seconds=running.seconds, faults=faults, total=running.total, checked=checked)


def _disturb(kafka: KafkaCluster, running: Running, soak: Soak, *, every: float, seed: int) -> Iterator[Fault]:
    """Cause a fault every so many seconds, and yield it when it is over; none in the last of these periods."""
    faults, due = Faults(kafka, seed=seed), soak.full_seconds + every / 2
    while running.sending and due < soak.full_seconds + soak.seconds - every:
        time.sleep(max(running.began + due - time.monotonic(), 0.0))
        name, node, seconds, cause = faults.next()
        started = time.monotonic() - running.began
        cause(node, seconds)
        ended = time.monotonic() - running.began
        click.echo(f"{started:7.1f} s  {name}, node {node}, {ended - started:.1f} s", err=True)
        yield Fault(name=name, node=node, start=round(started, 1), end=round(ended, 1))
        due = max(due + every, ended + every / 4)


@click.command(help=__doc__)
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--threads", default=4, show_default=True)
@click.option("--partitions", default=6, show_default=True)
@click.option("--size", default=1_000, show_default=True, help="Bytes of a record.")
@click.option("--share", default=0.5, show_default=True, help="Of the full speed.")
@click.option("--full-seconds", default=20.0, show_default=True, help="Seconds at full speed, without faults.")
@click.option("--every", default=30.0, show_default=True, help="Seconds from one fault to the next.")
@click.option("--encoder", type=click.Choice(["native", "python"]), default="native", show_default=True)
@click.option("--seed", default=29, show_default=True)
@click.option("--sustained/--quick-start", default=True, help="Compile the brokers as in production, or start faster.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("benchmark-results/soak"), show_default=True)
def main(
    minutes: float,
    threads: int,
    partitions: int,
    size: int,
    share: float,
    full_seconds: float,
    every: float,
    encoder: str,
    seed: int,
    sustained: bool,
    folder: Path,
) -> None:
    """Run a soak, write its pages, and exit with 1 if one of `problems` was found."""
    soak = Soak(
        servers="",
        topic=TOPIC,
        partitions=partitions,
        threads=threads,
        size=size,
        encoder=encoder,
        full_seconds=full_seconds,
        seconds=60 * minutes,
        share=share,
    )
    result = run(soak, every=every, seed=seed, sustained=sustained)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.json").write_text(json.dumps(attrs.asdict(result)))
    (folder / "soak.md").write_text(text(result))
    (folder / "soak.html").write_text(page(result))
    click.echo(text(result))
    sys.exit(1 if problems(result) else 0)


if __name__ == "__main__":
    main()
