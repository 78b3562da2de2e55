"""Latency of records that are awaited one by one, with the I/O hand-off and without; `python benchmarks/io_handoff.py`.

Both producers live in one process and take turns, so a busy machine slows both.
"""

from __future__ import annotations

from statistics import median
from typing import Final

import click
from latency import WARM_UP, OttlaClient, one_by_one
from rounds import Broker

from ottla_testkit.kafka_cluster import KafkaCluster

TURN: Final = 250


@click.command(help=__doc__)
@click.option("--turns", default=40, help="How many turns of 250 records each producer takes.")
@click.option("--encoder", default="native", help="The record encoder: native or python.")
def main(turns: int, encoder: str) -> None:
    """Measure, and print the median of the turns' medians in microseconds."""
    with KafkaCluster(sustained=True) as kafka:
        topic = Broker(kafka.bootstrap_servers, {}).create_topic(1)
        clients = {
            name: OttlaClient(kafka.bootstrap_servers, topic, encoder, io_handoff_enable=enabled)
            for name, enabled in (("io.handoff.enable=true", True), ("io.handoff.enable=false", False))
        }
        for client in clients.values():
            one_by_one(client, WARM_UP)
        medians: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(turns):
            for name, client in clients.items():
                medians[name].append(median(one_by_one(client, TURN)))
    for name, found in medians.items():
        click.echo(f"{name:24} {median(found) * 1e6:6.0f} us")


if __name__ == "__main__":
    main()
