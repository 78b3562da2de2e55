"""Summaries of runs: a row for each peer, and Ottla's rate compared with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import attrs
from rich.table import Table
from rounds import Run

OURS: Final = "ottla"


@attrs.frozen(kw_only=True)
class Figures:
    """One peer over all rounds. `ratio` is the median of Ottla's rate to this peer's, round by round."""

    peer: str
    runs: int
    rate: float
    slowest: float
    fastest: float
    cpu_per_million: float
    peak_memory: int
    memory_taken: int
    ratio: float | None
    ratios: tuple[float, ...]


def figures(runs: Sequence[Run], peer: str, *, ours: str = OURS) -> Figures | None:
    """Return a peer's figures, compared with those of *ours*, or None if it has no valid run."""
    valid = [run for run in runs if run.peer == peer and run.problem is None and run.measurement is not None]
    if not valid:
        return None
    rates = {run.round: run.rate for run in runs if run.peer == ours and run.problem is None}
    ratios = tuple(rates[run.round] / run.rate for run in valid if run.round in rates)
    return Figures(
        peer=peer,
        runs=len(valid),
        rate=median(run.rate for run in valid),
        slowest=min(run.rate for run in valid),
        fastest=max(run.rate for run in valid),
        cpu_per_million=median(run.cpu_per_million for run in valid),
        peak_memory=max(run.measurement.peak_memory for run in valid if run.measurement),
        memory_taken=max(run.measurement.memory_taken for run in valid if run.measurement),
        ratio=median(ratios) if ratios else None,
        ratios=ratios,
    )


def table(rows: Sequence[Figures], *, title: str) -> Table:
    """Return the table of figures."""
    shown = Table(title=title, title_justify="left")
    shown.add_column("peer", no_wrap=True)
    for heading in ("runs", "records/s", "min - max", "CPU s/million", "MiB, taken", "Ottla / peer", "min - max"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        rival = row.ratio is not None and row.peer != OURS
        shown.add_row(
            row.peer,
            str(row.runs),
            f"{row.rate:,.0f}",
            f"{row.slowest:,.0f} - {row.fastest:,.0f}",
            f"{row.cpu_per_million:.2f}",
            f"{row.peak_memory / 2**20:.0f}, {row.memory_taken / 2**20:.0f}",
            f"{row.ratio:.2f}" if rival else "",
            f"{min(row.ratios):.2f} - {max(row.ratios):.2f}" if rival else "",
        )
    return shown
