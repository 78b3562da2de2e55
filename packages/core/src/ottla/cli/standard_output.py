"""The standard output for tables, on a terminal or in a file."""

from __future__ import annotations

from rich.console import Console


def console(*, width_of_a_file: int = 200) -> Console:
    """The standard output, as wide as its terminal. In a file, long lines are not wrapped early, for searches."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=width_of_a_file)
