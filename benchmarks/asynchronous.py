"""Asynchronous producers in turns: Ottla, aiokafka and confluent-kafka's `AIOProducer`, `asynchronous.py --help`.

One load sends records without waiting for them; others have 1, 100 and 10,000 tasks that await each record before the
next. Each client has a process for each event loop, asyncio's and uvloop. All are idempotent. A ratio is between two
clients on the same loop in the same round, the median over the rounds; above 1, the client is better than aiokafka.

`bare` is the minimum of any client for tasks that await records: prepared requests, and responses that are not decoded.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
from asynchronous_client import CLIENTS, Took, Work
from client_process import ClientProcess
from rich.console import Console
from rich.table import Table
from rounds import Broker

from ottla_testkit.kafka_cluster import KafkaCluster

CLIENT_SCRIPT: Final = Path(__file__).with_name("asynchronous_client.py")
RIVAL: Final = "aiokafka"
OURS: Final = ("ottla", "ottla-python")
BARE: Final = "bare"
LOOPS: Final = ("asyncio", "uvloop")
PARTITIONS: Final = 4
TABLE_WIDTH: Final = 126


@attrs.frozen(kw_only=True)
class Load:
    """A load by its number of tasks, 0 for records that are not awaited; *near* and *far* are numbers of records."""

    name: str
    tasks: int
    near: int
    far: int

    def records(self, client: str, round_trip: float) -> int:
        """Return how many records a client sends at this distance."""
        if client == "confluent-aio" and 0 < self.tasks < 1_000:
            return 2 * self.tasks  # it waits until 1,000 records are there, or for a second and more
        return self.far if round_trip else self.near


LOADS: Final = (
    Load(name="send, not awaited", tasks=0, near=100_000, far=100_000),
    Load(name="1 task awaits each", tasks=1, near=500, far=40),
    Load(name="100 tasks await each", tasks=100, near=10_000, far=4_000),
    Load(name="10,000 tasks await each", tasks=10_000, near=30_000, far=30_000),
)


@attrs.frozen(kw_only=True)
class Row:
    """One load on one loop at one distance, in milliseconds of a round trip: `took[client]` has one of each round."""

    load: str
    loop: str
    round_trip: float
    took: Mapping[str, Sequence[Took]]

    def middle(self, client: str, part: str) -> float:
        """The median over the rounds, in microseconds for a record."""
        return float(median(getattr(each, part) for each in self.took[client]))

    def ratio(self, client: str, part: str) -> float:
        """Return how many times as much aiokafka takes, round by round."""
        rounds = zip(self.took[RIVAL], self.took[client], strict=True)
        return float(median(getattr(rival, part) / getattr(own, part) for rival, own in rounds))


@contextlib.contextmanager
def running(names: Sequence[tuple[str, str]], servers: str) -> Iterator[Mapping[tuple[str, str], ClientProcess]]:
    """Run the clients' processes."""
    clients: dict[tuple[str, str], ClientProcess] = {}
    try:
        for name, loop in names:
            command = [sys.executable, str(CLIENT_SCRIPT), name, loop, servers]
            clients[name, loop] = ClientProcess(f"{name} on {loop}", command)
        yield clients
    finally:
        for client in clients.values():
            client.end()


def measure(
    kafka: KafkaCluster, names: Sequence[tuple[str, str]], loads: Sequence[Load], *, round_trip: float, rounds: int
) -> Iterator[Row]:
    """Measure all loads at a distance, with the clients in rotating order; the first round only warms up."""
    kafka.round_trip = round_trip / 1_000
    broker = Broker(kafka.near_servers, {})
    with running(names, kafka.bootstrap_servers if round_trip else kafka.near_servers) as clients:
        for load in loads:
            topic = broker.create_topic(PARTITIONS)
            took: dict[tuple[str, str], list[Took]] = {name: [] for name in names}
            sent = 0
            for number in range(rounds + 1):
                first = number % len(names)
                for name in (*names[first:], *names[:first]):
                    work = Work(topic=topic, records=load.records(name[0], round_trip), tasks=load.tasks)
                    took[name].append(Took(**clients[name].run(work.line)))
                    sent += work.records
            if (held := broker.held(topic, PARTITIONS)) != sent:
                raise click.ClickException(f"{load.name}: {sent} records sent, {held} held")
            broker.delete_topic(topic)
            for loop in dict.fromkeys(loop for _, loop in names):
                of_loop = {name: took[name, loop][1:] for name, other in names if other == loop}
                yield Row(load=load.name, loop=loop, round_trip=round_trip, took=of_loop)


def table(rows: Sequence[Row]) -> Table:
    """Return the figures of all clients, and aiokafka's divided by ours."""
    made = Table(title="microseconds for a record, wall / processor; in brackets: times as much for aiokafka")
    for name in ("load", "loop", "round trip"):
        made.add_column(name)
    for name in rows[0].took:
        made.add_column(name, justify="right")
    for row in rows:
        made.add_row(row.load, row.loop, f"{row.round_trip:g} ms", *(_cell(row, name) for name in row.took))
    return made


def _cell(row: Row, name: str) -> str:
    figures = f"{row.middle(name, 'wall'):.3g} / {row.middle(name, 'cpu'):.3g}"
    if name not in (*OURS, BARE) or RIVAL not in row.took:
        return figures
    return f"{figures} ({row.ratio(name, 'wall'):.2f} / {row.ratio(name, 'cpu'):.2f})"


@click.command(context_settings={"show_default": True})
@click.option("--only", multiple=True, help="Loads whose name contains this; more than once for more.")
@click.option("--round-trips", default="0,20", help="Milliseconds, by commas; 0 is without the proxy.")
@click.option("--rounds", default=5, help="Rounds at each distance.")
@click.option(
    "--clients", "names", default=",".join(each for each in CLIENTS if each != BARE), help="Who runs, by commas."
)
@click.option("--loops", default=",".join(LOOPS), help="Event loops, by commas.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(only: Sequence[str], round_trips: str, rounds: int, names: str, loops: str, file: Path | None) -> None:
    """Send the same records with every client on every loop in turns, and compare."""
    clients = [name.strip() for name in names.split(",")]
    chosen = [
        load
        for load in LOADS
        if (load.tasks or BARE not in clients) and (not only or any(word in load.name for word in only))
    ]
    if unknown := set(clients) - set(CLIENTS):
        raise click.BadParameter(f"no such client: {', '.join(sorted(unknown))}", param_hint="--clients")
    if not chosen:
        raise click.BadParameter(f"no load has {' or '.join(only)} in its name", param_hint="--only")
    every = list(product(clients, (loop.strip() for loop in loops.split(","))))
    rows: list[Row] = []
    with KafkaCluster(sustained=True, round_trip=0.0) as kafka:
        for round_trip in map(float, round_trips.split(",")):
            for row in measure(kafka, every, chosen, round_trip=round_trip, rounds=rounds):
                rows.append(row)
                cells = "; ".join(f"{name} {_cell(row, name)}" for name in row.took)
                click.echo(f"{row.load}, {row.loop}, {round_trip:g} ms: {cells}", err=True)
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    console.print(table(rows))
    if file is not None:
        file.write_text(json.dumps([attrs.asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
