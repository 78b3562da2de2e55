"""The installed plugins as a table, for people, and as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.cli.table import console
from ottla.errors import printable
from ottla.errors.similar_names import most_similar
from ottla.plugins.registry import KINDS, PluginCondition, default_encoder

_FINE: Final = "loaded"
_TITLES: Final = ("kind", "name", "distribution", "version")


def show(standings: Sequence[PluginCondition], misplaced: Sequence[EntryPoint]) -> None:
    """Print the plugins to the standard output, in colour on a terminal."""
    out: Console = console()
    out.print(_table(standings))
    for entry in misplaced:
        out.print(Text(f"\n{_note(entry)}", style="yellow"), soft_wrap=True)


def document(standings: Sequence[PluginCondition], misplaced: Sequence[EntryPoint]) -> str:
    """One object: `plugins` and `notes`, which are sentences.

    A plugin's `chosen_by` is what a configuration writes to choose it; its `problem` is null if there is none.
    `default` says of an encoder whether producers without `record.encoder` use it; it is null for other kinds.
    """
    default = default_encoder(standings)
    plugins = [
        {
            "kind": standing.info.kind.name,
            "name": standing.info.name,
            "distribution": standing.info.distribution,
            "version": standing.info.version,
            "value": standing.info.value,
            "chosen_by": standing.chosen_by,
            "problem": standing.problem,
            "default": standing is default if standing.info.kind.name == "encoder" else None,
        }
        for standing in standings
    ]
    return json.dumps({"plugins": plugins, "notes": [_note(entry) for entry in misplaced]}, indent=2)


def _table(standings: Sequence[PluginCondition]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, no_wrap=title in ("kind", "version"), overflow="fold")
    table.add_column("state", overflow="fold")
    default = default_encoder(standings)
    for standing in standings:
        info = standing.info
        table.add_row(
            # Text, not str: names in brackets must not be parsed as markup.
            Text(info.kind.name),
            Text(_harmless(standing.chosen_by or info.name)),
            Text(_harmless(info.distribution)),
            Text(_harmless(info.version)),
            Text(_fine(standing, default), style="green")
            if standing.problem is None
            else Text(_harmless(standing.problem), style="bold red"),
        )
    return table


def _fine(standing: PluginCondition, default: PluginCondition | None) -> str:
    """The state of a plugin that can be used."""
    if standing.info.kind.name != "encoder":
        return _FINE
    return f"{_FINE}, used by default" if standing is default else f"{_FINE}, used if record.encoder names it"


def _harmless(text: str) -> str:
    """The text with all characters escaped that would move the cursor or colour the terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _note(entry: EntryPoint) -> str:
    groups = [kind.group for kind in KINDS.values()]
    owner = entry.dist.name if entry.dist is not None else "a package"
    close = most_similar(entry.group, groups)
    remedy = f"did you mean {close!r}?" if close else f"the groups are {', '.join(groups)}"
    return f"{owner}: nothing reads the entry point {entry.name!r} of the group {entry.group!r}; {remedy}"
