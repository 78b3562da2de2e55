"""Cost of a round trip to the broker: Ottla, confluent-kafka and Java's producer in turns, `distance.py --help`.

Brokers are behind a proxy that delays all bytes and limits nothing else. Steady small traffic is measured in
milliseconds from `send` to the callback, bursts in milliseconds to the end of the flush. A ratio is Ottla's figure
divided by the better of the two others in the same round, the median over the rounds.

A full run takes an hour; `--short` takes some minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import attrs
import click
from client_process import ClientProcess
from distance_client import CLIENTS, COLLECTORS, Took, Work
from rich.console import Console
from rich.table import Table
from rounds import Broker

from ottla_testkit.java.jars import kafka_jars
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import KafkaCluster

HERE: Final = Path(__file__).parent
JAVA: Final = "java"
RIVALS: Final = ("confluent-kafka", JAVA)
OURS: Final = ("ottla", "ottla-python")
STEADY: Final = ("p50", "p95", "p99")
BURST: Final = ("all",)
ROUND_TRIPS: Final = "0,1,5,20,100"
TABLE_WIDTH: Final = 126

INTERVAL: Final = 0.025
STEADY_SECONDS: Final = 2.5
BURST_BYTES: Final = 20_000_000

WARM_UP: Final = Work(
    topic="", partitions=1, records=20_000, size=100, way="turns", interval=0.0, bunch=1, idempotent=True
)


@attrs.frozen(kw_only=True)
class Shape:
    """A kind of load; `part` selects the figures."""

    name: str
    work: Work
    part: Sequence[str]


def steady(
    name: str, partitions: int, *, at_once: int = 0, way: str = "turns", spread: bool = False, idempotent: bool = True
) -> Shape:
    """Return a load of records every 25 ms, mostly one for each partition; *spread*: evenly over that time."""
    bunch = at_once or partitions
    work = Work(
        topic="",
        partitions=partitions,
        records=int(STEADY_SECONDS / INTERVAL) * bunch,
        size=100,
        way=way,
        interval=INTERVAL / bunch if spread else INTERVAL,
        bunch=1 if spread else bunch,
        idempotent=idempotent,
    )
    return Shape(name=name, work=work, part=STEADY)


def burst(name: str, partitions: int, *, size: int, way: str = "turns", idempotent: bool = True) -> Shape:
    """Return a load of twenty megabytes at once."""
    records = BURST_BYTES // size
    work = Work(
        topic="",
        partitions=partitions,
        records=records,
        size=size,
        way=way,
        interval=0.0,
        bunch=1,
        idempotent=idempotent,
    )
    return Shape(name=name, work=work, part=BURST)


SHAPES: Final = (
    steady("steady, 1 partition", 1),
    steady("steady, 2 partitions", 2),
    steady("steady, 8 partitions", 8),
    steady("steady, 8 partitions, spread", 8, spread=True),
    steady("steady, 8 partitions, keys", 8, way="keys"),
    steady("steady, 8 partitions, no key", 8, way="free"),
    steady("steady, 8 partitions, not idempotent", 8, idempotent=False),
    steady("steady, 500 partitions", 500, at_once=25),
    steady("steady, 500 partitions, not idempotent", 500, at_once=25, idempotent=False),
    burst("burst, 1 kB, 4 partitions", 4, size=1_000),
    burst("burst, 1 kB, 4 partitions, keys", 4, size=1_000, way="keys"),
    burst("burst, 1 kB, 4 partitions, not idempotent", 4, size=1_000, idempotent=False),
    burst("burst, 100 kB, 4 partitions", 4, size=100_000),
    burst("burst, 1 kB, 1 partition", 1, size=1_000),
)
IN_SHORT: Final = ("steady, 2 partitions", "steady, 8 partitions, spread", "burst, 1 kB, 4 partitions")


Start: TypeAlias = Callable[[str, str, str], ClientProcess]
"""Starts a client: gets its name, the servers and the collector."""


def client_process(name: str, servers: str, collector: str) -> ClientProcess:
    """Start a client."""
    command = [sys.executable, str(HERE / "distance_client.py"), name, servers, collector]
    if name == JAVA:
        command = [java_command(), "-cp", str(kafka_jars() / "*"), str(HERE / "JavaDistance.java"), servers]
    return ClientProcess(name, command, quiet=True)


@attrs.frozen(kw_only=True)
class Row:
    """One shape at one round trip, in milliseconds: `took[client]` has a figure for each round."""

    shape: str
    round_trip: float
    part: Sequence[str]
    took: Mapping[str, Sequence[Took]]

    def middle(self, client: str, part: str) -> float:
        """The median over the rounds."""
        return float(median(getattr(each, part) for each in self.took[client]))

    def rival(self, part: str) -> str:
        """Return the other client with the better median."""
        return min((name for name in RIVALS if name in self.took), key=lambda name: self.middle(name, part))

    def ratio(self, client: str, part: str) -> float:
        """Return the median ratio of the client's figure to the better one of the others', round by round."""
        rivals = [name for name in RIVALS if name in self.took]
        rounds = zip(self.took[client], *(self.took[name] for name in rivals), strict=True)
        ratios = (getattr(own, part) / min(getattr(other, part) for other in others) for own, *others in rounds)
        return float(median(ratios))


@contextlib.contextmanager
def running(
    names: Sequence[str], kafka: KafkaCluster, broker: Broker, collector: str, start: Start
) -> Iterator[Mapping[str, ClientProcess]]:
    """Run the clients' processes and warm them up."""
    topic = broker.create_topic(WARM_UP.partitions)
    clients: dict[str, ClientProcess] = {}
    try:
        for name in names:
            clients[name] = start(name, kafka.bootstrap_servers, collector)
            clients[name].run(attrs.evolve(WARM_UP, topic=topic).line)
        yield clients
    finally:
        for client in clients.values():
            client.end()
        broker.delete_topic(topic)


def measure(
    shape: Shape,
    kafka: KafkaCluster,
    broker: Broker,
    names: Sequence[str],
    *,
    collector: str,
    round_trips: Sequence[float],
    rounds: int,
    start: Start = client_process,
) -> list[Row]:
    """Measure a load at each distance, with the clients in rotating order."""
    work = attrs.evolve(shape.work, topic=broker.create_topic(shape.work.partitions))
    rows = []
    kafka.round_trip = 0.0
    with running(names, kafka, broker, collector, start) as clients:
        runs = 0
        for round_trip in (0.0, *round_trips):  # the first one warms up
            kafka.round_trip = round_trip / 1_000
            took: dict[str, list[Took]] = {name: [] for name in names}
            for number in range(rounds if runs else 1):
                first = number % len(names)
                for name in (*names[first:], *names[:first]):
                    took[name].append(Took(**clients[name].run(work.line)))
                runs += 1
            if runs > 1:
                rows.append(Row(shape=shape.name, round_trip=round_trip, part=shape.part, took=took))
                click.echo(_line(rows[-1]), err=True)
        if (held := broker.held(work.topic, work.partitions)) != runs * len(names) * work.records:
            raise click.ClickException(f"{shape.name}: {runs * len(names) * work.records} records sent, {held} held")
    broker.delete_topic(work.topic)
    return rows


def _line(row: Row) -> str:
    figures = (f"{name} {' '.join(f'{row.middle(name, part):.1f}' for part in row.part)}" for name in row.took)
    return f"{row.shape}, {row.round_trip:g} ms: {'; '.join(figures)}"


def table(rows: Sequence[Row], part_names: Sequence[str], title: str) -> Table:
    """Return the better client's figures, and the ratios to them."""
    made = Table(title=title)
    made.add_column("what is sent")
    for name in ("round trip", "the better one", *(name for name in OURS if name in rows[0].took)):
        made.add_column(name, justify="right")
    for row in rows:
        best = "/".join(f"{row.middle(row.rival(part), part):.4g}" for part in part_names)
        ratios = ("/".join(f"{row.ratio(name, part):.2f}" for part in part_names) for name in OURS if name in row.took)
        made.add_row(row.shape, f"{row.round_trip:g} ms", f"{best} {row.rival(part_names[0])[:4]}", *ratios)
    return made


@click.command(context_settings={"show_default": True})
@click.option("--only", multiple=True, help="Shapes whose name contains this; more than once for more.")
@click.option("--round-trips", default=ROUND_TRIPS, help="Milliseconds, by commas.")
@click.option("--rounds", default=5, help="Rounds at each distance.")
@click.option("--clients", "names", default=",".join((*CLIENTS, JAVA)), help="Who runs, by commas.")
@click.option(
    "--collector",
    type=click.Choice(list(COLLECTORS)),
    default="usual",
    help="Python's garbage collector after the warm-up: as usual, without the objects that exist then, seldom, or off.",
)
@click.option("--short", is_flag=True, help="Three shapes at 1 and 20 ms, three rounds.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(
    only: Sequence[str], round_trips: str, rounds: int, names: str, collector: str, short: bool, file: Path | None
) -> None:
    """Send the same records from each of these distances, with every client in turns, and compare."""
    clients = [name.strip() for name in names.split(",")]
    if unknown := set(clients) - {*CLIENTS, JAVA}:
        raise click.BadParameter(f"no such client: {', '.join(sorted(unknown))}", param_hint="--clients")
    if not set(clients) & set(RIVALS):
        raise click.BadParameter(f"needs one of {', '.join(RIVALS)} to compare with", param_hint="--clients")
    distances = [1.0, 20.0] if short else [float(each) for each in round_trips.split(",")]
    chosen = [
        shape
        for shape in SHAPES
        if (any(word in shape.name for word in only) if only else not short or shape.name in IN_SHORT)
    ]
    if not chosen:
        raise click.BadParameter(f"no shape has {' or '.join(only)} in its name", param_hint="--only")
    rows: list[Row] = []
    with KafkaCluster(sustained=True, round_trip=0.0) as kafka:
        broker = Broker(kafka.near_servers, {})
        for shape in chosen:
            rows += measure(
                shape,
                kafka,
                broker,
                clients,
                collector=collector,
                round_trips=distances,
                rounds=3 if short else rounds,
            )
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    load = f"load {os.getloadavg()[0]:.1f} after"
    for parts, title in ((STEADY, "steady: p50/p95/p99 in ms"), (BURST, "bursts: ms until all are acknowledged")):
        if some := [row for row in rows if row.part == parts]:
            console.print(table(some, parts, f"{title}; the others are ratios to the better one; {load}"))
    if file is not None:
        file.write_text(json.dumps([attrs.asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
