"""Milliseconds until the first record of a producer is acknowledged, from several distances: `first_record.py --help`.

*Cold* is from the producer's constructor on, *warm* from a `send` some seconds after it, as in a web application. Each
producer is new, and all run in turns in one process, with idempotence, which both clients need a producer id for.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
from rich.console import Console
from rich.table import Table

from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "first"
WARM: Final = 3.0
"""Seconds from the constructor to the first record of a warm producer."""
WITHIN: Final = 60.0


def with_ottla(servers: str, age: float) -> float:
    """Return the milliseconds of Ottla's first record."""
    from ottla import Producer

    began = time.perf_counter()
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        if age:
            time.sleep(age)
            began = time.perf_counter()
        producer.send(TOPIC, b"first").result(WITHIN)
        return 1_000 * (time.perf_counter() - began)


def with_confluent_kafka(servers: str, age: float) -> float:
    """Return the milliseconds of confluent-kafka's first record."""
    from confluent_kafka import Producer

    began = time.perf_counter()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True})
    if age:
        producer.poll(age)
        began = time.perf_counter()
    done: list[float] = []
    producer.produce(TOPIC, b"first", on_delivery=lambda error, _message: done.append(time.perf_counter()))
    while not done:
        producer.poll(1.0)
    return 1_000 * (done[0] - began)


CLIENTS: Final[Mapping[str, Callable[[str, float], float]]] = {
    "ottla": with_ottla,
    "confluent-kafka": with_confluent_kafka,
}


@attrs.frozen(kw_only=True)
class FirstRecords:
    """Milliseconds of the first record of each new producer, by client."""

    round_trip: float
    age: float
    """Seconds from the constructor to the record's `send`; 0: the constructor counts as a part of it."""
    took: Mapping[str, Sequence[float]]


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=3, help="Brokers of the cluster; the topic has a partition on each.")
@click.option("--round-trips", default="0,20,100", help="Milliseconds, by commas.")
@click.option("--rounds", default=7, help="Producers of each client, at each distance.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(nodes: int, round_trips: str, rounds: int, file: Path | None) -> None:
    """Compare the first records of new producers."""
    rows = []
    with KafkaCluster(nodes=nodes, round_trip=0.0) as cluster:
        cluster.create_topic(TOPIC, partitions=nodes)
        for client in CLIENTS.values():
            client(cluster.bootstrap_servers, 0.0)  # imports, and the first producer ids of the brokers
        for round_trip, age in itertools.product(map(float, round_trips.split(",")), (0.0, WARM)):
            cluster.round_trip = round_trip / 1_000
            took: dict[str, list[float]] = {name: [] for name in CLIENTS}
            for number in range(rounds):
                for name in list(CLIENTS)[:: 1 if number % 2 else -1]:
                    took[name].append(CLIENTS[name](cluster.bootstrap_servers, age))
            rows.append(FirstRecords(round_trip=round_trip, age=age, took=took))
    table = Table("round trip", "producer's age", *CLIENTS, title=f"milliseconds, median of {rounds}, {nodes} brokers")
    for row in rows:
        table.add_row(
            f"{row.round_trip:g} ms", f"{row.age:g} s", *(f"{median(each):.0f}" for each in row.took.values())
        )
    Console().print(table)
    if file is not None:
        file.write_text(json.dumps([attrs.asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
