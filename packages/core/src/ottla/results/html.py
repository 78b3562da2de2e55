"""Tables in HTML, for the reprs that notebooks show. All texts are escaped, and their lengths are limited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

MAX_ROWS: Final = 50
_LONGEST: Final = 500
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    more: str = "rows",
    max_rows: int = MAX_ROWS,
) -> str:
    """A table under a bold title, in a `div`. Numbers are on the right; None is an empty cell.

    After *max_rows* rows the others, *more*, are counted.
    """
    remaining = iter(rows)
    lines = [_row(cells) for cells in islice(remaining, max_rows)]
    if others := sum(1 for _ in remaining):
        lines.append(f'<tr><td colspan="{len(columns)}"{_LEFT}>{others} more {text(more)}</td></tr>')
    head = "".join(f"<th{_LEFT}>{text(column)}</th>" for column in columns)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>" if lines else ""
    return f"<div><b>{text(title)}</b>{body}</div>"


def pairs(title: str, cells: Iterable[tuple[str, object]]) -> str:
    """A title, and a table with a name and a value on each line; values that are None are left out."""
    lines = (f"<tr><th{_LEFT}>{text(name)}</th>{_cell(value)}</tr>" for name, value in cells if value is not None)
    return f"<div><b>{text(title)}</b><table><tbody>{''.join(lines)}</tbody></table></div>"


def text(shown: object) -> str:
    """The text of an object, escaped; a long one is cut."""
    from html import escape  # imported late: only notebooks need it

    found = str(shown)
    return escape(found if len(found) <= _LONGEST else f"{found[:_LONGEST]}...")


def _row(cells: Sequence[object]) -> str:
    return f"<tr>{''.join(map(_cell, cells))}</tr>"


def _cell(value: object) -> str:
    side = _RIGHT if isinstance(value, int | float) else _LEFT
    return f"<td{side}>{'' if value is None else text(value)}</td>"
