"""The same job through Spark's own Kafka sink and through Ottla, and what arrived compared record by record.

python demo/migration.py                                      a Kafka of its own, for the duration
python demo/migration.py --bootstrap-servers host:9092        yours
python demo/migration.py --table planes                       not all three tables

The job itself is `write` in migration_job.py. Ends with exit code 1, and a sentence for each table that differs.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import click
from flights_input import InputMissingError
from flights_job import nothing_of
from flights_topic import Offsets, Record, Topic, TopicError
from migration_job import KEYS, SINKS, prepare, session_with_both, topic_of, write
from pyspark.errors import PySparkException
from rich.console import Console
from rich.table import Table

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster

PARTITIONS: Final = 6


@click.command(help="Write flights, planes and weather with Spark's own Kafka sink and with Ottla, and compare.")
@click.option("--bootstrap-servers", help="Your cluster (PLAINTEXT). Without it, one is started for the demo.")
@click.option("--table", "names", type=click.Choice([*KEYS]), multiple=True, default=[*KEYS], show_default=True)
@click.option("--compression", default="lz4", show_default=True, help="The producer's compression.type.")
def main(bootstrap_servers: str | None, names: Sequence[str], compression: str) -> None:
    console = Console()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="ottla-demo-")))
            with console.status("Starting Kafka and Spark (the first time, jars are fetched)"):
                servers = bootstrap_servers or stack.enter_context(KafkaCluster()).bootstrap_servers
                spark = stack.enter_context(session_with_both(folder))
                frame = prepare(spark, names, folder)
            places = {(name, sink): Topic(servers, topic_of(name, sink)) for name in names for sink in SINKS}
            for place in places.values():
                place.make(PARTITIONS)
            starts = {at: place.ends() for at, place in places.items()}
            seconds: dict[str, float] = {}
            for sink in SINKS:
                with console.status("Warming up, without a record"):
                    write(nothing_of(frame), sink, servers, compression)
                with console.status(f'Writing with format("{sink}")'):
                    began = time.perf_counter()
                    write(frame, sink, servers, compression)
                    seconds[sink] = time.perf_counter() - began
            compared = {name: Compared() for name in names}
            for (name, sink), place in places.items():
                with console.status(f"Reading {place.name} back"):
                    compared[name].add_all(sink, place, starts[name, sink])
    except (InputMissingError, KafkaUnavailableError, PySparkException, TopicError) as error:
        raise click.ClickException(str(error)) from error
    console.print(_table(compared), *(f'format("{sink}") took {seconds[sink]:.1f} s' for sink in SINKS), sep="\n")
    different = [name for name, each in compared.items() if not each.alike]
    for name in different:
        click.echo(f"Error: table {name!r} arrived otherwise: {compared[name]}.", err=True)
    if not different:
        console.print("[green]Every record is there from both, with the same key, value, headers and partition.")
    sys.exit(1 if different else 0)


@attrs.define
class Compared:
    """Comparison of one table's records from both sinks, without keeping any of them.

    Both sinks put a record without a key into a random partition: it is compared without.
    """

    counts: Counter[str] = attrs.Factory(Counter)
    _more: Counter[bytes] = attrs.Factory(Counter)  # how often Spark's sink has it, less how often Ottla has

    def add_all(self, sink: str, place: Topic, starts: Offsets) -> None:
        """Count the records of a topic from these offsets on."""
        step = 1 if sink == SINKS[0] else -1
        for record in place.read(starts, place.ends(), progress=lambda _: None):
            self.counts[sink] += 1
            digest = _digest(record)
            self._more[digest] += step
            if not self._more[digest]:
                del self._more[digest]

    @property
    def alike(self) -> bool:
        """Whether both wrote each record equally often, and at least one record."""
        return not self._more and bool(self.counts)

    def __str__(self) -> str:
        only = [sum(max(sign * times, 0) for times in self._more.values()) for sign in (1, -1)]
        return ", ".join(f"{count:,} records only by {sink}" for sink, count in zip(SINKS, only, strict=True))


def _digest(record: Record) -> bytes:
    partition = None if record.key is None else record.partition
    return hashlib.blake2b(repr((partition, record.key, record.value, record.headers)).encode()).digest()[:16]


def _table(compared: dict[str, Compared]) -> Table:
    shown = Table("table", "by Spark's sink", "by Ottla", "")
    for name, each in compared.items():
        counts = [f"{each.counts[sink]:,}" for sink in SINKS]
        shown.add_row(name, *counts, "the same" if each.alike else "[red]not the same")
    return shown


if __name__ == "__main__":
    main()
