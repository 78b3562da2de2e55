"""Measures what the documentation shows, and writes its tables: `python benchmarks/publish.py --help`.

Without names it measures everything, for two hours. Give it a machine that does nothing else. No figure of these tables
is typed by hand: a test compares the pages with the kept results.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from published import PAGES, Published, rendered
from published_summaries import SUMMARIES
from published_tables import TABLES

HERE: Final = Path(__file__).parent
PICTURES: Final = HERE.parent / "tools" / "pictures.py"
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "clients": ("suite.py", "--no-latency"),
    "latency": ("suite.py", "--no-rates"),
    "memory": ("memory.py",),
    "asynchronous": ("asynchronous.py",),
    "asynchronous-floor": (
        "asynchronous.py", "--only", "task", "--round-trips", "0", "--clients", "ottla,aiokafka,bare",
    ),
    "asynchronous-stalls": ("asynchronous_stalls.py", "--records", "4000000"),
    "asynchronous-memory": ("asynchronous_memory.py",),
    "start": ("start.py",),
    "first-record": ("first_record.py",),
    "distance-pythons": ("distance_pythons.py",),
    "threads-pythons": ("threads_pythons.py",),
}  # fmt: skip
"""The benchmark of each table, with its options."""

ON_REQUEST: Final = ("distance-pythons", "threads-pythons")
"""Those that are measured only if they are named: they need other Pythons than this one."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(COMMANDS)))
@click.option("--pages", "only_pages", is_flag=True, help="Measure nothing; write the pages from the kept results.")
@click.option("--check", is_flag=True, help="Write nothing; fail if a page does not have the kept results.")
def main(names: Sequence[str], only_pages: bool, check: bool) -> None:
    """Measure, keep the results, and write the tables of the documentation and its pictures."""
    if not (only_pages or check):
        for name in names or (name for name in COMMANDS if name not in ON_REQUEST):
            measured(COMMANDS[name]).write(name)
    outdated = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := rendered(text, TABLES, SUMMARIES)) == text:
            continue
        outdated.append(page.name)
        if not check:
            page.write_text(new, encoding="utf-8")
    if not check:
        draw_pictures()
    if check and outdated:
        sys.exit(f"not as measured: {', '.join(outdated)}; run `python benchmarks/publish.py --pages`")


def draw_pictures() -> None:
    """Draw the pictures of the documentation, which have figures of its tables."""
    subprocess.run([sys.executable, str(PICTURES)], check=True)


def measured(command: Sequence[str]) -> Published:
    """Run a benchmark."""
    click.echo(f"== {' '.join(command)}", err=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        script, *options = command
        subprocess.run([sys.executable, str(HERE / script), *options, "--json", str(file)], check=True)
        return Published.now(command, json.loads(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
