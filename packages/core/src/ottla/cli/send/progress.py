"""The progress of `ottla send` on the standard error: a line that changes on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import click
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task
from rich.text import Text

from ottla.cli.rates import MEGABYTE, per_second
from ottla.cli.results import discard
from ottla.cli.send.counts import Counts


def progress_of(counts: Counts, *, seconds: float) -> AbstractContextManager[object]:
    """Show the counts until the block ends: four times a second on a terminal, else every *seconds*; 0 means never."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return _lines(counts, seconds)
    return _bar(counts, console)


@contextmanager
def _bar(counts: Counts, console: Console) -> Iterator[None]:
    bar = Progress(SpinnerColumn(), _CountsColumn(counts), console=console, refresh_per_second=4)
    bar.add_task("send", total=None)
    bar.start()
    try:
        yield
    finally:
        try:
            bar.stop()
        except OSError:  # the terminal was closed; what became of the records is more important
            discard(sys.stderr)


@contextmanager
def _lines(counts: Counts, seconds: float) -> Iterator[None]:
    ended = threading.Event()

    def print_lines() -> None:
        while not ended.wait(seconds):
            click.echo(counts_line(counts), err=True)

    if not seconds:
        yield
        return
    thread = threading.Thread(target=print_lines, name="ottla-send-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)  # the reader of a full pipe may have stopped


class _CountsColumn(ProgressColumn):
    """Records, megabytes and rates, records in flight, and failed ones: 76 characters up to a billion records."""

    max_refresh = 0.2

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self._counts = counts

    def render(self, task: Task) -> Text:
        return Text(counts_line(self._counts))


def counts_line(counts: Counts) -> str:
    """The counts in one line."""
    seconds, megabytes = counts.seconds, counts.size / MEGABYTE
    return (
        f"records: {counts.read:,}, {megabytes:,.0f} MB, {per_second(megabytes, seconds):,.1f} MB/s, "
        f"{counts.in_flight:,} in flight, {counts.failed:,} failed"
    )
