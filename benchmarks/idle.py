"""Cost of an idle producer: `python benchmarks/idle.py --help`.

Each state is measured in this process, with no other load in it: the CPU time of all its threads, and how often they
went to sleep, which is how often they woke. A broker that is started for it runs under the parent process.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import click
from rich.console import Console
from rich.table import Table

from ottla import Producer, TopicUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports

SETTLING: Final = 2.0
"""Seconds before the measurement: bootstrap connections are closed, metadata is fresh."""

LONG_LINGER_MS: Final = 3_600_000


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of an interval."""

    seconds: float
    cpu_seconds: float
    wakeups: int

    @property
    def share(self) -> float:
        """The share of one core, in percent."""
        return 100 * self.cpu_seconds / self.seconds

    @property
    def wakeups_per_second(self) -> float:
        """The number of wake-ups of this process's threads in a second."""
        return self.wakeups / self.seconds


def cost_of(seconds: float) -> Cost:
    """Sleep, and measure the other threads meanwhile; subtracts this thread's own wakeups."""
    before, started, cpu = resource.getrusage(resource.RUSAGE_SELF), time.monotonic(), time.process_time()
    time.sleep(seconds)
    cpu, ended = time.process_time() - cpu, time.monotonic()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return Cost(seconds=ended - started, cpu_seconds=cpu, wakeups=max(0, after.ru_nvcsw - before.ru_nvcsw - 1))


def connected(servers: str, topic: str, seconds: float) -> Cost:
    """All records are acknowledged."""
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(1_000):
            producer.send(topic, b"%d" % number)
        producer.flush()
        time.sleep(SETTLING)
        return cost_of(seconds)


def lingering(servers: str, topic: str, seconds: float) -> Cost:
    """A record is queued and lingers."""
    with Producer(bootstrap_servers=servers, linger_ms=LONG_LINGER_MS, delivery_timeout_ms=2 * LONG_LINGER_MS) as it:
        it.send(topic, b"lingers")
        time.sleep(SETTLING)
        return cost_of(seconds)


def missing(servers: str, topic: str, seconds: float) -> Cost:
    """A producer requested a missing topic, and refreshes its metadata until the topic counts as idle."""
    with Producer(bootstrap_servers=servers, max_block_ms=1_000) as producer:
        with contextlib.suppress(TopicUnavailableError):
            producer.send(f"{topic}-that-does-not-exist", b"")
        time.sleep(SETTLING)
        return cost_of(seconds)


def unreachable(_servers: str, _topic: str, seconds: float) -> Cost:
    """No broker is reachable; the producer tries to connect once a second."""
    [port] = free_ports(1)
    with Producer(bootstrap_servers=f"127.0.0.1:{port}", reconnect_backoff_max_ms=1_000) as _producer:
        time.sleep(SETTLING)
        return cost_of(seconds)


STATES: Final[Mapping[str, Callable[[str, str, float], Cost]]] = {
    "connected, nothing to do": connected,
    "a record lingers": lingering,
    "its topic does not exist": missing,
    "no broker is there": unreachable,
}


@click.command(context_settings={"show_default": True})
@click.option("--bootstrap-servers", help="A cluster that runs already; default: one is started for the benchmark.")
@click.option("--topic", default="idle", help="One that exists, where --bootstrap-servers is given.")
@click.option("--seconds", default=10.0, help="How long each state is watched.")
@click.option("--limit", default=0.5, help="Percent of a core that a connected producer may take.")
def main(bootstrap_servers: str | None, topic: str, seconds: float, limit: float) -> None:
    """Print the CPU share and the wakeups of producers that have nothing to do."""
    if bootstrap_servers is None:
        with KafkaCluster(sustained=True) as cluster:
            cluster.create_topic(topic, partitions=4)
            again = [sys.executable, __file__, "--bootstrap-servers", cluster.bootstrap_servers]
            settings = ["--topic", topic, "--seconds", str(seconds), "--limit", str(limit)]
            sys.exit(subprocess.run([*again, *settings], check=False).returncode)
    costs = {state: measure(bootstrap_servers, topic, seconds) for state, measure in STATES.items()}
    table = Table(title=f"{seconds:g} seconds of each state")
    for name in ("state", "CPU, % of a core", "wakeups/s"):
        table.add_column(name, justify="left" if name == "state" else "right")
    for state, cost in costs.items():
        table.add_row(state, f"{cost.share:.3f}", f"{cost.wakeups_per_second:.1f}")
    Console().print(table)
    if costs["connected, nothing to do"].share > limit:
        sys.exit(f"a connected producer took more than {limit:g} % of a core")


if __name__ == "__main__":
    main()
