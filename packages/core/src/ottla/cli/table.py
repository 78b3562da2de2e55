"""An examination as a table, for people, followed by the problems."""

from __future__ import annotations

from typing import Final

from rich.table import Table
from rich.text import Text

from ottla.cli.standard_output import console
from ottla.doctor import Examination, Finding, Status

_STYLES: Final = {
    Status.OK: "green",
    Status.WARNING: "yellow",
    Status.FAILED: "bold red",
    Status.SKIPPED: "dim",
}


def show(examination: Examination) -> None:
    """Print the examination to the standard output, in colour on a terminal."""
    out = console()
    out.print(_table(examination))
    for line in _conclusion(examination):
        out.print(line, soft_wrap=True)


def _table(examination: Examination) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("step", "subject", "status"):
        table.add_column(title, overflow="fold")
    table.add_column("ms", justify="right", no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    for finding in examination.findings:
        table.add_row(*_cells(finding))
    return table


def _cells(finding: Finding) -> list[Text]:
    # Text, not str: names and addresses in brackets must not be parsed as markup.
    skipped = finding.status is Status.SKIPPED
    plain = _STYLES[Status.SKIPPED] if skipped else ""
    return [
        Text(finding.step, style=plain),
        Text(finding.subject, style=plain),
        Text(finding.status, style=_STYLES[finding.status]),
        Text("" if skipped else f"{finding.seconds * 1000:.1f}", style=plain),
        Text(finding.message, style=plain),
    ]


def _conclusion(examination: Examination) -> list[Text]:
    cause = examination.cause
    if cause is None:
        return [Text("\nNothing is wrong.", style=_STYLES[Status.OK])]
    others = [finding for finding in examination.failures if finding is not cause]
    return [
        Text(f"\n{cause.sentence}", style=_STYLES[Status.FAILED]),
        *(Text(f"Also: {finding.sentence}") for finding in others),
    ]
