"""336,776 real flights through PySpark into a real Kafka, read back by another client and compared.

python demo/flights.py                                      a Kafka of its own, for the duration
python demo/flights.py --bootstrap-servers host:9092        yours
python demo/flights.py --stream                             as a stream, a micro-batch for each month
python demo/flights.py --avro                               as Avro, with a schema registry of its own
python demo/flights.py --avro --schema-registry https://host:8081

Ends with exit code 1, and a sentence for each difference, if there is any.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import attrs
import click
from flights_avro import avro_options, decoder
from flights_input import InputMissingError, by_month, records, unpack
from flights_job import nothing_of, prepare, prepare_stream, session, write, write_stream
from flights_tally import ReadBack, Tally, tally_of
from flights_topic import Offsets, Topic, TopicError
from own_registry import RegistryNotBuiltError, own_registry
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster

LOOK_EVERY: Final = 0.2  # seconds
SHOWN: Final = 5

UNAVAILABLE: Final = (
    InputMissingError,
    KafkaUnavailableError,
    PySparkException,
    RegistryNotBuiltError,
    TopicError,
)

Decode: TypeAlias = Callable[[bytes], bytes]
"""Makes JSON, in the form of the expected records, of what a topic holds."""


@click.command(help="Send 336,776 flights through PySpark to Kafka with Ottla, read them back and compare.")
@click.option("--bootstrap-servers", help="Your cluster (PLAINTEXT). Without it, one is started for the demo.")
@click.option("--topic", help="Made if it does not exist. Without it, one with a name of its own is made.")
@click.option("--partitions", type=click.IntRange(min=1), default=6, show_default=True, help="Of a new topic.")
@click.option("--compression", default="lz4", show_default=True, help="The producer's compression.type.")
@click.option("--stream", is_flag=True, help="Write a stream: a micro-batch for each month.")
@click.option("--avro", is_flag=True, help="Write Avro with a schema registry; Confluent's deserializer reads it back.")
@click.option("--limit", type=click.IntRange(min=1), help="Send only so many of them.")
@click.option("--schema-registry", help="Your registry, for --avro. Without it, one is built and started.")
def main(
    bootstrap_servers: str | None,
    topic: str | None,
    partitions: int,
    compression: str,
    limit: int | None,
    schema_registry: str | None,
    *,
    stream: bool,
    avro: bool,
) -> None:
    name = topic or ("flights" if bootstrap_servers is None else f"flights-{uuid.uuid4().hex[:8]}")
    console = Console()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="ottla-demo-")))
            servers = bootstrap_servers or stack.enter_context(_own_kafka(console)).bootstrap_servers
            place = Topic(servers, name)
            place.make(partitions)
            starts = place.ends()
            options = {"kafka.bootstrap.servers": servers, "kafka.compression.type": compression, "topic": name}
            decode: Decode = bytes
            if avro:
                registry = schema_registry or stack.enter_context(own_registry())
                options |= avro_options(registry)
                decode = stack.enter_context(decoder(registry, name))
            spark, flights, expected = _flights(console, stack, folder, limit)
            if stream:
                frame = prepare_stream(spark, by_month(flights, folder), avro=avro)
                job = partial(write_stream, frame, options, folder=folder)
            else:
                frame = prepare(spark, flights, avro=avro)
                job = partial(write, frame, options)
                with console.status("Warming up, without a record"):
                    write(nothing_of(frame), options)
            sent = _send(console, expected, place, job)
            found, read = _read(console, place, starts, decode)
    except UNAVAILABLE as error:
        raise click.ClickException(str(error)) from error
    console.print(
        _comparison(expected, found),
        _rates(sent, read),
        f"Topic {name!r} on {servers}, {found.partitions} partitions",
        sep="\n",
    )
    problems = list(_problems(expected, found))
    for problem in problems:
        click.echo(f"Error: {problem}.", err=True)
    if not problems:
        console.print("[green]Every flight arrived, once, unchanged, and where Java would have put it.")
    sys.exit(1 if problems else 0)


@attrs.frozen(kw_only=True)
class Pace:
    """Records and bytes, and the seconds that they took."""

    records: int
    size: int
    seconds: float


@contextmanager
def _own_kafka(console: Console) -> Iterator[KafkaCluster]:
    with ExitStack() as stack:
        with console.status("Starting Kafka (the first time, its jars are fetched)"):
            cluster = stack.enter_context(KafkaCluster())
        yield cluster


def _flights(console: Console, stack: ExitStack, folder: Path, limit: int | None) -> tuple[SparkSession, Path, Tally]:
    with console.status("Starting Spark"):
        spark = stack.enter_context(session(folder))
    with console.status("Reading the flights without Spark, to know what must arrive"):
        flights = unpack(folder, limit=limit)
        return spark, flights, tally_of(records(flights))


def _send(console: Console, expected: Tally, place: Topic, job: Callable[[], None]) -> Pace:
    """Run the job, and show how many records the topic holds meanwhile."""
    before = sum(place.ends().values())
    over = threading.Event()
    with _progress(console) as progress, ThreadPoolExecutor(1) as pool:
        bar = progress.add_task("Writing", total=expected.records)

        def watch() -> None:
            while not over.wait(LOOK_EVERY):
                progress.update(bar, completed=sum(place.ends().values()) - before)

        watching = pool.submit(watch)
        began = time.perf_counter()
        try:
            job()
        finally:
            seconds = time.perf_counter() - began
            over.set()
        watching.result()
        progress.update(bar, completed=sum(place.ends().values()) - before)
    return Pace(records=expected.records, size=expected.size, seconds=seconds)


def _read(console: Console, place: Topic, starts: Offsets, decode: Decode) -> tuple[ReadBack, Pace]:
    ends = place.ends()
    found = ReadBack(partitions=len(ends))
    with _progress(console) as progress:
        bar = progress.add_task("Reading back", total=sum(ends.values()) - sum(starts.values()))
        began = time.perf_counter()
        for record in place.read(starts, ends, progress=partial(progress.advance, bar)):
            found.add(attrs.evolve(record, value=decode(record.value)))
        seconds = time.perf_counter() - began
    return found, Pace(records=found.tally.records, size=found.tally.size, seconds=seconds)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _comparison(expected: Tally, found: ReadBack) -> Table:
    table = Table("", "in the CSV file", "in the topic")
    arrived = found.tally
    placed = len(found.places) - sum(1 for _ in found.misplaced())
    for what, wanted, got in (
        ("records", f"{expected.records:,}", f"{arrived.records:,}"),
        ("without a key", f"{expected.without_key:,}", f"{arrived.without_key:,}"),
        ("different keys", f"{len(expected.keys):,}", f"{len(arrived.keys):,}"),
        ("keys placed as in Java", f"{len(expected.keys):,}", f"{placed:,}"),
        ("checksum", expected.checksum_text, arrived.checksum_text),
    ):
        table.add_row(what, wanted, got if got == wanted else f"[red]{got}")
    return table


def _rates(sent: Pace, read: Pace) -> Table:
    table = Table("", "seconds", "records/s", "MB/s")
    for what, pace in (("written by Spark with Ottla", sent), ("read back by confluent-kafka", read)):
        each_second = f"{pace.records / pace.seconds:,.0f}"
        table.add_row(what, f"{pace.seconds:.2f}", each_second, f"{pace.size / pace.seconds / 1e6:.1f}")
    return table


def _problems(expected: Tally, found: ReadBack) -> Iterator[str]:
    arrived = found.tally
    if arrived.records != expected.records:
        more = "; a batch was sent again, or another program writes there"
        yield (
            f"{expected.records:,} records were written, but {arrived.records:,} were read back"
            f"{more if arrived.records > expected.records else ''}"
        )
    if arrived.without_key != expected.without_key:
        yield f"{arrived.without_key:,} records have no key; it should be {expected.without_key:,}"
    if arrived.keys != expected.keys:
        yield f"{len(arrived.keys ^ expected.keys):,} keys are in the file or the topic, but not in both"
    if arrived.checksum != expected.checksum:
        yield f"the checksum is {arrived.checksum_text}; it should be {expected.checksum_text}"
    misplaced = list(found.misplaced())
    yield from misplaced[:SHOWN]
    if len(misplaced) > SHOWN:
        yield f"and {len(misplaced) - SHOWN:,} more keys are not where Java would have put them"


if __name__ == "__main__":
    main()
