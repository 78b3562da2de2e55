"""One thread and two that send, with two builds of Python, with the GIL and without it: `threads_pythons.py --help`.

The broker, `discarding_broker.py`, discards the records, because one that stores them would need both processors of a
small machine. It counts them: a round fails if one is missing. The two Pythons take turns, each run in a process of its
own; each needs `ottla`, `ottla-accel` and `ottla-transport-plaintext`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import click
from distance_pythons import WITH, WITHOUT, about
from published_tables import threads_pythons
from threads_client import WARM_UP

HERE: Final = Path(__file__).parent
TIMEOUT: Final = 300.0
RECORDS: Final = {"native": 4_000_000, "python": 700_000}
"""Some seconds for each encoder."""
DEFAULT_BATCH: Final = 16_384
LARGE_BATCH: Final = 1_000_000


@attrs.frozen(kw_only=True)
class Load:
    """What sends."""

    name: str
    threads: int
    producers: int


LOADS: Final = (
    Load(name="one thread", threads=1, producers=1),
    Load(name="two threads, one producer", threads=2, producers=1),
    Load(name="two threads, a producer each", threads=2, producers=2),
)
CASES: Final = (("python", DEFAULT_BATCH), ("native", DEFAULT_BATCH), ("native", LARGE_BATCH))
"""Encoders and values of `batch.size`."""


@attrs.frozen(kw_only=True)
class Row:
    """The rounds of a load with one Python: records per second, processor µs and records of a request."""

    encoder: str
    batch_size: int
    load: str
    python: str
    rates: list[float] = attrs.Factory(list)
    cpu: list[float] = attrs.Factory(list)
    per_request: list[float] = attrs.Factory(list)


class DiscardingBroker:
    """The process of the broker."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._line()

    def counts(self) -> tuple[int, int]:
        """The records and Produce requests since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        records, requests = self._line().split()
        return int(records), int(requests)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def discarding_broker() -> Iterator[DiscardingBroker]:
    """A broker that discards records."""
    command = [sys.executable, str(HERE / "discarding_broker.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield DiscardingBroker(process)
        finally:
            process.kill()


def run(broker: DiscardingBroker, python: str, row: Row, load: Load, records: int) -> None:
    """Measure one round, and add it to the row."""
    arguments = (broker.address, load.threads, load.producers, row.encoder, records, row.batch_size)
    command = [python, str(HERE / "threads_client.py"), *map(str, arguments)]
    free = {"PYTHON_GIL": "0"} if row.python == WITHOUT else {}  # a module that needs the GIL would turn it on
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **free})
    if ended.returncode:
        raise click.ClickException(f"{python} failed: {ended.stderr.strip()}")
    took = json.loads(ended.stdout)
    arrived, requests = broker.counts()
    sent = records // load.threads * load.threads
    if arrived != sent + WARM_UP * load.producers:
        raise click.ClickException(f"{arrived} records arrived, of {sent} and those to warm up")
    row.rates.append(sent / took["wall"])
    row.cpu.append(took["cpu"] / sent * 1e6)
    row.per_request.append(arrived / requests)


def measured(pythons: Mapping[str, str], rounds: int) -> Sequence[Row]:
    """Measure everything with both Pythons in turns, after one short round that is not counted."""
    rows = {
        (encoder, size, load.name, name): Row(encoder=encoder, batch_size=size, load=load.name, python=name)
        for encoder, size in CASES
        for load in LOADS
        for name in pythons
    }
    with discarding_broker() as broker:
        for number in range(rounds + 1):
            for encoder, size in CASES:
                for load in LOADS:
                    for name in list(pythons)[:: 1 if number % 2 else -1]:
                        row = rows[encoder, size, load.name, name]
                        counted = row if number else attrs.evolve(row, rates=[], cpu=[], per_request=[])
                        records = RECORDS[encoder] if number else RECORDS[encoder] // 10
                        run(broker, pythons[name], counted, load, records)
    return list(rows.values())


@click.command(context_settings={"show_default": True})
@click.option("--with-gil", default="python3.13", help="A Python with the GIL.")
@click.option("--without-gil", default="python3.13t", help="One without it.")
@click.option("--rounds", default=7)
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(with_gil: str, without_gil: str, rounds: int, file: Path | None) -> None:
    """Send records from one thread and from two, with both Pythons in turns, and compare."""
    pythons = {WITH: with_gil, WITHOUT: without_gil}
    versions = {name: about(python, gil=name == WITH) for name, python in pythons.items()}
    rows = measured(pythons, rounds)
    found = {"pythons": versions, "rows": [attrs.asdict(row) for row in rows]}
    click.echo("\n".join(threads_pythons(found)))
    click.echo(f"load {os.getloadavg()[0]:.1f} after")
    if file is not None:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
