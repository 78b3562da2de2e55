"""Ottla at a distance with two builds of Python, with the GIL and without it: `distance_pythons.py --help`.

The loads and the broker are those of `distance.py`. Both clients are Ottla with `ottla-accel`, in processes of these
two Pythons, which take turns. Each Python needs `ottla`, `ottla-accel` and `ottla-transport-plaintext`; the broker runs
with the Python of this program. Times are milliseconds, medians of the rounds.

A burst with a callback for each record is mostly the program's own work: `callback_objects.py` measures what it takes
without a producer. What is Ottla's shows with `--collector off`, and with `send.py`, whose records share a callback.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click
from client_process import ClientProcess
from distance import HERE, SHAPES, Row, measure
from distance_client import COLLECTORS
from published_tables import distance_pythons
from rounds import Broker

from ottla_testkit.kafka_cluster import KafkaCluster

WITH: Final = "with"
WITHOUT: Final = "without"
ROUND_TRIPS: Final = "0,1,10,50,100"
SHAPE_NAMES: Final = (
    "steady, 2 partitions",
    "steady, 8 partitions, spread",
    "burst, 1 kB, 4 partitions",
    "burst, 1 kB, 4 partitions, keys",
    "burst, 100 kB, 4 partitions",
)

ABOUT: Final = """
import json, platform, sys
import ottla_accel.sending
gil = getattr(sys, "_is_gil_enabled", lambda: True)()
print(json.dumps({"version": f"{platform.python_implementation()} {platform.python_version()}", "gil": gil}))
"""


def about(python: str, *, gil: bool) -> str:
    """Return the version of a Python that has what is measured, with the GIL or without it, as expected."""
    try:
        asked = subprocess.run([python, "-c", ABOUT], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or str(error)
        raise click.ClickException(f"{python} cannot run Ottla with ottla-accel: {reason.strip()}") from None
    found: Mapping[str, Any] = json.loads(asked.stdout)
    if found["gil"] != gil:
        raise click.ClickException(f"{python} runs {'with' if found['gil'] else 'without'} the GIL")
    return str(found["version"])


def measured(
    shapes: Sequence[str], pythons: Mapping[str, str], collector: str, round_trips: Sequence[float], rounds: int
) -> list[Row]:
    """Measure these loads with both Pythons in turns."""

    def start(name: str, servers: str, collector: str) -> ClientProcess:
        command = [pythons[name], str(HERE / "distance_client.py"), "ottla", servers, collector]
        return ClientProcess(f"Ottla {name} the GIL", command, quiet=True)

    rows: list[Row] = []
    with KafkaCluster(sustained=True, round_trip=0.0) as kafka:
        broker = Broker(kafka.near_servers, {})
        for shape in (shape for shape in SHAPES if shape.name in shapes):
            rows += measure(
                shape,
                kafka,
                broker,
                list(pythons),
                collector=collector,
                round_trips=round_trips,
                rounds=rounds,
                start=start,
            )
    return rows


@click.command(context_settings={"show_default": True})
@click.option("--with-gil", default="python3.13", help="A Python with the GIL.")
@click.option("--without-gil", default="python3.13t", help="One without it.")
@click.option("--only", multiple=True, help="Loads whose name contains this; more than once for more.")
@click.option("--round-trips", default=ROUND_TRIPS, help="Milliseconds, by commas.")
@click.option("--rounds", default=5, help="Rounds at each distance.")
@click.option("--collector", type=click.Choice(list(COLLECTORS)), default="usual", help="As that of `distance.py`.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there, too.")
def main(
    with_gil: str,
    without_gil: str,
    only: Sequence[str],
    round_trips: str,
    rounds: int,
    collector: str,
    file: Path | None,
) -> None:
    """Send the same records from each of these distances with both Pythons in turns, and compare."""
    pythons = {WITH: with_gil, WITHOUT: without_gil}
    versions = {name: about(python, gil=name == WITH) for name, python in pythons.items()}
    shapes = [name for name in SHAPE_NAMES if not only or any(word in name for word in only)]
    if not shapes:
        raise click.BadParameter(f"no load has {' or '.join(only)} in its name", param_hint="--only")
    rows = measured(shapes, pythons, collector, [float(each) for each in round_trips.split(",")], rounds)
    found = {"pythons": versions, "rows": [attrs.asdict(row) for row in rows]}
    click.echo("\n".join(distance_pythons(found)))
    click.echo(f"load {os.getloadavg()[0]:.1f} after")
    if file is not None:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
