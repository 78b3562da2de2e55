"""`ottla send` of a large NDJSON file compared with `send_table` from Parquet with the same records.

`python benchmarks/command_line.py --help`. Each run is a process of its own, which starts, reads, sends and ends; its
time is what `ottla send --json` reports, and for `send_table` the time from the producer's creation to its close.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
import pyarrow as pa
from pyarrow import parquet
from rich.console import Console
from rich.table import Table
from rounds import Broker
from send import CODECS, environment

from ottla_testkit.kafka_cluster import KafkaCluster

MEBIBYTE: Final = 1 << 20
FLOOR: Final = "send_table from Parquet"
ROW_GROUP: Final = 100_000
SENDS: Final = {
    "ottla send, NDJSON": ("lines.ndjson",),
    "ottla send, NDJSON, --key": ("lines.ndjson", "--key", "customer"),
    "ottla send, NDJSON, --resume": ("lines.ndjson", "--resume", "STATE"),
    "ottla send, Parquet": ("lines.parquet",),
}

# Prints the peak memory behind the run's own output.
COMMAND: Final = """
import sys
from stopwatch import peak_memory
sys.argv = ["ottla", *sys.argv[1:]]
from ottla.cli import main
try:
    main()
finally:
    print(peak_memory(), file=sys.stderr)
"""
SEND_TABLE: Final = """
import json, sys, time
from stopwatch import peak_memory
from ottla import Producer
topic, servers, codec, file = sys.argv[1:]
started = time.monotonic()
with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
    result = producer.send_table(topic, file).result()
print(json.dumps({"acknowledged": result.acknowledged, "seconds": time.monotonic() - started}))
print(peak_memory(), file=sys.stderr)
"""


@attrs.frozen(kw_only=True)
class Outcome:
    """One run."""

    way: str
    records: int
    seconds: float
    peak_memory: int


def lines(seed: int = 7) -> Iterator[bytes]:
    """Lines of JSON of about 200 bytes, as an order might have them."""
    chance = random.Random(seed)
    for number in count():
        yield json.dumps(
            {
                "id": number,
                "customer": f"customer-{chance.randrange(100_000):06}",
                "created": f"2026-01-{chance.randrange(1, 29):02}T12:00:00Z",
                "items": [{"sku": f"{chance.getrandbits(48):012x}", "count": chance.randrange(1, 9)} for _ in "ab"],
                "total": chance.randrange(100, 100_000) / 100,
            }
        ).encode()


def write(folder: Path, megabytes: float) -> int:
    """Write the same records as NDJSON and as Parquet (a column "value"); returns their number."""
    schema, records, source = pa.schema([("value", pa.binary())]), 0, lines()
    with (
        open(folder / "lines.ndjson", "wb") as text,
        parquet.ParquetWriter(folder / "lines.parquet", schema) as writer,
    ):
        while text.tell() < megabytes * 1_000_000:
            some = list(islice(source, ROW_GROUP))
            text.writelines(line + b"\n" for line in some)
            writer.write_table(pa.table({"value": some}, schema=schema))
            records += len(some)
    return records


def run(way: str, arguments: list[str], folder: Path) -> Outcome:
    """Run one process in the folder. Raises CalledProcessError if it fails."""
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=folder, env=path, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise click.ClickException(f"{way}: {ended.stdout}{ended.stderr}")
    found = json.loads(ended.stdout)
    return Outcome(
        way=way,
        records=found["acknowledged"],
        seconds=found["seconds"],
        peak_memory=int(ended.stderr.split()[-1]),
    )


@click.command(context_settings={"show_default": True})
@click.option("--megabytes", default=1000.0, help="The size of the NDJSON file.")
@click.option("--partitions", default=4)
@click.option("--compression", type=click.Choice(CODECS), default="none")
@click.option("--rounds", default=3)
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(megabytes: float, partitions: int, compression: str, rounds: int, file: Path | None) -> None:
    """Send the same records each way, in rounds, and compare rates and peak memory."""
    outcomes: list[Outcome] = []
    before = environment()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-send-")))
        records = write(folder, megabytes)
        servers = stack.enter_context(KafkaCluster(sustained=True)).bootstrap_servers
        broker = Broker(servers, {})
        for _round in range(rounds):
            for way in (FLOOR, *SENDS):
                topic = broker.create_topic(partitions)
                settings = ["--bootstrap-servers", servers, "-c", f"compression.type={compression}", "--json"]
                arguments = (
                    [SEND_TABLE, topic, servers, compression, "lines.parquet"]
                    if way == FLOOR
                    else [COMMAND, "send", topic, *settings, *SENDS[way]]
                )
                outcome = run(way, arguments, folder)
                (folder / "STATE").unlink(missing_ok=True)
                broker.delete_topic(topic)
                if outcome.records != records:
                    raise click.ClickException(f"{way}: {outcome.records} of {records} records were acknowledged")
                outcomes.append(outcome)
    show(outcomes, title=f"{records:,} records, {megabytes:,.0f} MB of NDJSON, compression {compression}")
    if file is not None:
        file.write_text(json.dumps({"environment": before, "runs": [attrs.asdict(each) for each in outcomes]}))


def show(outcomes: list[Outcome], *, title: str) -> None:
    """Print a row for each way: medians, and the ratio to the floor of the same round."""
    table = Table("", "records/s", "ratio", "peak MiB", title=title)
    floors = [each.seconds for each in outcomes if each.way == FLOOR]
    for way in (FLOOR, *SENDS):
        runs = [each for each in outcomes if each.way == way]
        ratios = [floor / each.seconds for floor, each in zip(floors, runs, strict=True)]
        table.add_row(
            way,
            f"{median(each.records / each.seconds for each in runs):,.0f}",
            f"{median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})",
            f"{max(each.peak_memory for each in runs) / MEBIBYTE:,.0f}",
        )
    Console(width=90).print(table)


if __name__ == "__main__":
    main()
