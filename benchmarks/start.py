"""The start of a program: what `import ottla`, making a producer and its first record take, and which imports.

`python benchmarks/start.py --help`. Each process is fresh, with compiled modules kept from an earlier one, and the
kinds of processes alternate, with one that does nothing among them. The table has milliseconds more than that one:
medians, and the smallest. `--python` measures another interpreter too, such as that of another checkout.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click

from ottla_testkit.kafka_cluster import KafkaCluster

TOPIC: Final = "start"
WITHIN: Final = 60.0  # seconds

MADE: Final = "import os, sys; from ottla import Producer; made = Producer(bootstrap_servers=sys.argv[1])"
STEPS: Final[Mapping[str, str]] = {
    "nothing": "pass",
    "import ottla": "import ottla",
    "from ottla import Producer": "from ottla import Producer",
    # Without the end of the process, which frees all objects.
    "a producer": f"{MADE}; os._exit(0)",
    "its first record": f"{MADE}; made.send({TOPIC!r}, b'first').result(30); os._exit(0)",
    "its close": f"{MADE}; made.send({TOPIC!r}, b'first').result(30); made.close()",
}
_IMPORT: Final = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=15, help="Processes of each kind.")
@click.option("--slowest", default=20, help="Modules to list by their own time, without those that they import.")
@click.option("--python", "others", multiple=True, metavar="NAME=PATH", help="Another interpreter; may be repeated.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the steps there, too.")
def main(rounds: int, slowest: int, others: Sequence[str], file: Path | None) -> None:
    """Measure the start of a program that sends a record."""
    pythons = {"this": sys.executable, **dict(each.split("=", 1) for each in others)}
    with KafkaCluster() as cluster, tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        cluster.create_topic(TOPIC, partitions=2)
        steps = list(_steps(pythons, cluster.bootstrap_servers, environment, rounds))
        click.echo("\n".join(_table(steps)))
        if file is not None:
            file.write_text(json.dumps([attrs.asdict(step) for step in steps], indent=2) + "\n")
        click.echo("\n".join(_modules(cluster.bootstrap_servers, environment, rounds, slowest)))


@attrs.frozen(kw_only=True)
class Step:
    """Milliseconds until a step is done, more than those of a process that does nothing: medians, and the smallest."""

    python: str
    until: str
    wall: float
    smallest_wall: float
    cpu: float
    smallest_cpu: float


def _steps(pythons: Mapping[str, str], servers: str, environment: Mapping[str, str], rounds: int) -> Iterator[Step]:
    spent: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for number in range(rounds + 1):
        for name, python in pythons.items():
            for step, program in STEPS.items():
                found = _seconds([python, "-c", program, servers], environment)
                if number:  # the first ones compile the modules
                    spent[name, step].append(found)
    for name in pythons:
        nothing = list(zip(*spent[name, "nothing"], strict=True))
        for step in STEPS:
            each = list(zip(*spent[name, step], strict=True))
            wall, smallest_wall, cpu, smallest_cpu = (
                1000 * (best(mine) - best(bare))
                for mine, bare in zip(each, nothing, strict=True)
                for best in (median, min)
            )
            yield Step(
                python=name, until=step, wall=wall, smallest_wall=smallest_wall, cpu=cpu, smallest_cpu=smallest_cpu
            )


def _table(steps: Sequence[Step]) -> Iterator[str]:
    yield "| python | until | wall, ms | smallest | CPU, ms | smallest |"
    yield "|---|---|---|---|---|---|"
    for step in steps:
        figures = (step.wall, step.smallest_wall, step.cpu, step.smallest_cpu)
        yield f"| {step.python} | {step.until} | {' | '.join(f'{figure:.0f}' for figure in figures)} |"


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a process; its wall time, and its processor time."""
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], list(command), environment)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise click.ClickException(f"{command[2]!r} failed")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def _modules(servers: str, environment: Mapping[str, str], rounds: int, slowest: int) -> Iterator[str]:
    """Yield what `-X importtime` says about the imports until the first record, the smallest time of each module."""
    own: dict[str, int] = {}
    for _ in range(rounds):
        command = [sys.executable, "-X", "importtime", "-c", STEPS["its first record"], servers]
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=WITHIN, check=True
        )
        for microseconds, module in _IMPORT.findall(done.stderr):
            own[module] = min(own.get(module, sys.maxsize), int(microseconds))
    ours = sum(module.startswith("ottla") for module in own)
    yield f"\n{len(own)} modules, of which {ours} are ours, in {sum(own.values()) / 1000:.0f} ms by importtime\n"
    yield "| module | own time, ms |"
    yield "|---|---|"
    for module in sorted(own, key=own.__getitem__, reverse=True)[:slowest]:
        yield f"| {module} | {own[module] / 1000:.1f} |"


if __name__ == "__main__":
    main()
