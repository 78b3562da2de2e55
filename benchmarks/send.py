"""Ottla compared with the other Python producers, with one real broker: `python benchmarks/send.py --help`."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import attrs
import click
from figures import Figures, figures, table
from peers import PEERS
from rich.console import Console
from rounds import Broker, Run, run_rounds
from workload import DISTINCT_KEYS, Workload

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import Security

DISTRIBUTIONS: Final = ("ottla", "ottla-accel", "confluent-kafka", "aiokafka", "kafka-python")
SHARES: Final = {"aiokafka": 0.5, "kafka-python": 0.2}
"""Slow peers send fewer records: only rates are compared."""

TABLE_WIDTH: Final = 126
CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]


def environment() -> Mapping[str, Any]:
    """Return the environment that the figures depend on, apart from the settings."""
    return {
        "python": platform.python_version(),
        "machine": platform.platform(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
        "versions": {name: version(name) for name in DISTRIBUTIONS},
    }


def scaled(workload: Workload, peers: Sequence[str]) -> dict[str, Workload]:
    """Return each peer's share of the workload."""
    return {
        peer: attrs.evolve(workload, records=max(1, int(workload.records * SHARES.get(peer, 1.0)))) for peer in peers
    }


def report(run: Run) -> None:
    """Print one line for a finished run."""
    name = f"round {run.round}" if run.round else "warm-up"
    said = f"INVALID: {run.problem}" if run.problem else f"{run.rate:>9,.0f} records/s"
    click.echo(f"{name}  {run.peer:<16} {said}", err=True)


def save(
    file: Path, workload: Workload, before: Mapping[str, Any], runs: Sequence[Run], rows: Sequence[Figures]
) -> None:
    """Save all measurements as JSON."""
    content = {
        "workload": attrs.asdict(workload),
        "environment": before,
        "load_average_after": os.getloadavg(),
        "figures": [attrs.asdict(row) for row in rows],
        "runs": [attrs.asdict(run) for run in runs],
    }
    file.write_text(json.dumps(content, indent=2) + "\n")


@click.command(context_settings={"show_default": True})
@click.option("--bootstrap-servers", help="A cluster that runs already; default: one is started for the benchmark.")
@click.option("--records", default=300_000, help="Records in a run; aiokafka sends half, kafka-python a fifth.")
@click.option("--value-size", default=100, help="Bytes of a value.")
@click.option("--partitions", default=4)
@click.option("--keyed", is_flag=True, help="Give records keys.")
@click.option("--distinct-keys", default=DISTINCT_KEYS, help="How many different keys there are; they take turns.")
@click.option("--headers", is_flag=True, help="Give records two headers.")
@click.option("--callback", is_flag=True, help="Have every record's delivery called back.")
@click.option("--compression", type=click.Choice(CODECS), default="none")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all")
@click.option("--linger-ms", default=5)
@click.option("--batch-size", default=16_384)
@click.option("--max-in-flight", default=5)
@click.option(
    "--buffer-mib", type=click.IntRange(min=1), help="What Ottla and confluent-kafka may keep of the records."
)
@click.option("--idempotent", is_flag=True, help="enable.idempotence for everyone; else it is off for everyone.")
@click.option("--security", type=click.Choice(["PLAINTEXT", "SSL"]), default="PLAINTEXT")
@click.option(
    "--authorities",
    type=click.Path(exists=True, dir_okay=False),
    help="With SSL and a cluster that runs already: PEM file with the authorities that its certificates come from.",
)
@click.option("--rounds", default=5, help="Rounds that count; one more goes before them.")
@click.option("--peers", "names", default=",".join(PEERS), help="Who runs, by commas.")
@click.option("--timeout", default=120.0, help="Seconds that one run may take.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(
    bootstrap_servers: str | None, rounds: int, names: str, timeout: float, file: Path | None, **settings: Any
) -> None:
    """Send the same records with every peer, one after the other, in rounds, and compare the rates."""
    workload = Workload(**settings)
    peers = [name.strip() for name in names.split(",")]
    if unknown := set(peers) - set(PEERS):
        raise click.BadParameter(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    before = environment()
    with contextlib.ExitStack() as stack:
        servers = bootstrap_servers
        if servers is None:
            servers, workload = stack.enter_context(_broker_for(workload))
        runs = run_rounds(
            Broker(servers, workload.librdkafka_security),
            scaled(workload, peers),
            rounds=rounds,
            timeout=timeout,
            report=report,
        )
    rows = [row for peer in peers if (row := figures(runs, peer))]
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    console.print(table(rows, title=_title(workload, before)))
    if file is not None:
        save(file, workload, before, runs, rows)
    if any(run.problem for run in runs):
        sys.exit("some runs are invalid; they count for nothing")


@contextlib.contextmanager
def _broker_for(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Yield a broker's address, and the workload with the trust settings for that broker."""
    if workload.security == "PLAINTEXT":
        with KafkaCluster(sustained=True) as kafka:
            yield kafka.bootstrap_servers, workload
        return
    with tempfile.TemporaryDirectory() as folder:
        security = Security(folder=Path(folder), users={})
        with KafkaCluster(security=security, sustained=True) as kafka:
            trusting = attrs.evolve(workload, authorities=str(security.certificates.authority))
            yield kafka.listener(workload.security), trusting


def _title(workload: Workload, before: Mapping[str, Any]) -> str:
    parts = [
        f"{workload.value_size}-byte values",
        f"{workload.distinct_keys:,} keys" if workload.keyed else "no keys",
        *(["headers"] if workload.headers else []),
        *(["callbacks"] if workload.callback else []),
        f"{workload.partitions} partitions",
        f"acks={workload.acks}",
        *(["idempotent"] if workload.idempotent else []),
        f"compression {workload.compression}",
        *([workload.security] if workload.security != "PLAINTEXT" else []),
    ]
    load = f"load {before['load_average'][0]:.1f} before, {os.getloadavg()[0]:.1f} after"
    return f"{', '.join(parts)}\nPython {before['python']}, {before['processors']} processors, {load}"


if __name__ == "__main__":
    main()
