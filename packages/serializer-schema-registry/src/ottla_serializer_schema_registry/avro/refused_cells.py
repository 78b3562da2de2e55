"""Rows of a column that their schema cannot encode, found in any column below it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import printable

MOST_SHOWN: Final = 100
"""Characters of a refused cell that its reason shows."""


class RefusedCells:
    """Notes for each row its first problem: `rows`. Below lists and structs, it finds the rows of the cells.

    What is below a null is not written, and refuses nothing.
    """

    def __init__(self, *, above: RefusedCells | None = None, parents: Any = None) -> None:
        self.rows: dict[int, str] = {} if above is None else above.rows
        self._above = above
        self._parents = parents

    def add(self, wrong: Any, cells: Any, problem: str) -> None:
        """Refuse the rows of cells for which *wrong* is true. `{}` in the *problem* stands for the cell."""
        places = pc.indices_nonzero(pc.fill_null(wrong, False))
        if not len(places):
            return
        rows, places = self._rows_of(places, places)
        for row, place in zip(rows.to_pylist(), places.to_pylist(), strict=True):
            if row not in self.rows:
                self.rows[row] = problem.replace("{}", _shown(cells[place]))

    def of_children(self, parents: Any) -> RefusedCells:
        """Return the notes for the fields of a struct, or for the items of lists whose offsets begin at 0."""
        return RefusedCells(above=self, parents=parents)

    def _rows_of(self, at: Any, places: Any) -> tuple[Any, Any]:
        """The rows of the cells *at* these places of this level; without those below a null."""
        if self._above is None:
            return at, places
        if pa.types.is_struct(self._parents.type):
            there = self._parents.is_valid().take(at)
            return self._above._rows_of(at.filter(there), places.filter(there))
        return self._above._rows_of(pc.list_parent_indices(self._parents).take(at), places)


def _shown(cell: Any) -> str:
    """A cell as text: a time that Python lacks as its number."""
    try:
        return printable(repr(cell.as_py()), limit=MOST_SHOWN)
    except (OverflowError, ValueError):
        return f"{cell.value} in {cell.type}"
