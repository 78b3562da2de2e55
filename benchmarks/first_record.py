"""Milliseconds until the first record of a producer is acknowledged, from several distances: `first_record.py --help`.

*Cold* is from the producer's constructor on, *warm* from a `send` some seconds after it, as in a web application. Each
producer is new, and all run in turns in one process, with idempotence, which both clients need a producer id for.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "first"
PAUSE: Final = 3.0
"""Seconds from the constructor to the first record of a warm producer."""
WITHIN: Final = 60.0


def with_ottla(servers: str, pause: float) -> float:
    """Return the milliseconds of Ottla's first record."""
    from ottla import Producer

    began = time.perf_counter()
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        if pause:
            time.sleep(pause)
            began = time.perf_counter()
        producer.send(TOPIC, b"first").result(WITHIN)
        return 1_000 * (time.perf_counter() - began)


def with_confluent_kafka(servers: str, pause: float) -> float:
    """Return the milliseconds of confluent-kafka's first record."""
    from confluent_kafka import Producer

    began = time.perf_counter()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True})
    if pause:
        producer.poll(pause)
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


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=3, help="Brokers of the cluster; the topic has a partition on each.")
@click.option("--round-trips", default="0,20,100", help="Milliseconds, by commas.")
@click.option("--rounds", default=7, help="Producers of each client, at each distance.")
def main(nodes: int, round_trips: str, rounds: int) -> None:
    """Compare the first records of new producers."""
    table = Table("round trip", "", *CLIENTS, title=f"milliseconds, median of {rounds}, {nodes} brokers")
    with KafkaCluster(nodes=nodes, round_trip=0.0) as cluster:
        cluster.create_topic(TOPIC, partitions=nodes)
        for client in CLIENTS.values():
            client(cluster.bootstrap_servers, 0.0)  # imports, and the coordinators' first ids
        for round_trip, (kind, pause) in itertools.product(
            map(float, round_trips.split(",")), {"cold": 0.0, "warm": PAUSE}.items()
        ):
            cluster.round_trip = round_trip / 1_000
            took: dict[str, list[float]] = {name: [] for name in CLIENTS}
            for number in range(rounds):
                names = list(CLIENTS)[:: 1 if number % 2 else -1]
                for name in names:
                    took[name].append(CLIENTS[name](cluster.bootstrap_servers, pause))
            table.add_row(f"{round_trip:g} ms", kind, *(f"{median(took[name]):.0f}" for name in CLIENTS))
    Console().print(table)


if __name__ == "__main__":
    main()
