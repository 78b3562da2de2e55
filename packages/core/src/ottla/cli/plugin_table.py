"""The installed plugins as a table, for people, and as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.cli.standard_output import console
from ottla.errors import printable
from ottla.errors.similar_names import most_similar
from ottla.plugins.registry import KINDS, PluginCondition, default_encoder

_FINE: Final = "loaded"
_TITLES: Final = ("kind", "name", "distribution", "version")


def show(conditions: Sequence[PluginCondition], misplaced: Sequence[EntryPoint]) -> None:
    """Print the plugins to the standard output, in colour on a terminal."""
    out: Console = console()
    out.print(_table(conditions))
    for entry in misplaced:
        out.print(Text(f"\n{_note(entry)}", style="yellow"), soft_wrap=True)


def document(conditions: Sequence[PluginCondition], misplaced: Sequence[EntryPoint]) -> str:
    """One object: `plugins` and `notes`, which are sentences.

    A plugin's `chosen_by` is what a configuration writes to choose it; its `problem` is null if there is none.
    `default` says of an encoder whether producers without `record.encoder` use it; it is null for other kinds.
    """
    default = default_encoder(conditions)
    plugins = [
        {
            "kind": condition.info.kind.name,
            "name": condition.info.name,
            "distribution": condition.info.distribution,
            "version": condition.info.version,
            "value": condition.info.value,
            "chosen_by": condition.chosen_by,
            "problem": condition.problem,
            "default": condition is default if condition.info.kind.name == "encoder" else None,
        }
        for condition in conditions
    ]
    return json.dumps({"plugins": plugins, "notes": [_note(entry) for entry in misplaced]}, indent=2)


def _table(conditions: Sequence[PluginCondition]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _TITLES:
        table.add_column(title, no_wrap=title in ("kind", "version"), overflow="fold")
    table.add_column("state", overflow="fold")
    default = default_encoder(conditions)
    for condition in conditions:
        info = condition.info
        table.add_row(
            # Text, not str: names in brackets must not be parsed as markup.
            Text(info.kind.name),
            Text(_escaped(condition.chosen_by or info.name)),
            Text(_escaped(info.distribution)),
            Text(_escaped(info.version)),
            Text(_fine(condition, default), style="green")
            if condition.problem is None
            else Text(_escaped(condition.problem), style="bold red"),
        )
    return table


def _fine(condition: PluginCondition, default: PluginCondition | None) -> str:
    """The state of a plugin that can be used."""
    if condition.info.kind.name != "encoder":
        return _FINE
    return f"{_FINE}, used by default" if condition is default else f"{_FINE}, used if record.encoder names it"


def _escaped(text: str) -> str:
    """The text with all characters escaped that would move the cursor or colour the terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _note(entry: EntryPoint) -> str:
    groups = [kind.group for kind in KINDS.values()]
    owner = entry.dist.name if entry.dist is not None else "a package"
    close = most_similar(entry.group, groups)
    remedy = f"did you mean {close!r}?" if close else f"the groups are {', '.join(groups)}"
    return f"{owner}: nothing reads the entry point {entry.name!r} of the group {entry.group!r}; {remedy}"
