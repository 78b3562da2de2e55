"""The progress of `ottla send` on the standard error, while it is a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task
from rich.text import Text

from ottla.cli.rates import MEGABYTE, per_second
from ottla.cli.send.counts import Counts


def progress_of(counts: Counts) -> Progress:
    """A line that shows the counts four times a second; nothing where there is no terminal."""
    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(), _CountsColumn(counts), console=console, refresh_per_second=4, disable=not console.is_terminal
    )
    bar.add_task("send", total=None)
    return bar


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
