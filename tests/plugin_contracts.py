"""The tables of contracts on the pages about plugins: each kind's methods, with the threads that call them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from documents import ROOT


@attrs.frozen
class Row:
    """A method of a kind, and the threads that its table names."""

    method: str
    threads: Sequence[str]


def contract(kind: str) -> Sequence[Row]:
    """The table of the contract on the page of a kind."""
    page = (ROOT / "docs" / f"plugins-{kind.replace('_', '-')}.md").read_text(encoding="utf-8")
    section = page.partition("\n## Contract\n")[2].partition("\n## ")[0]
    table = section.partition("|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [
        Row(method, threads.split(", "))
        for names, _meaning, threads, _time, _fault in cells
        for method in re.findall(r"`(\w+)`", names)
    ]
