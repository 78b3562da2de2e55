"""Callbacks of a batch's records: a column, without a pair of index and callback for each.

Half a million such pairs in waiting batches would cost the garbage collector more time than the records do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

RecordCallback: TypeAlias = Callable[[Any], object]
"""A callback of `send`. Columns only keep it; its batch calls it with the record's delivery."""


class CallbackColumn(Collection[tuple[int, RecordCallback]]):
    """Pairs of index and callback in order, made during iteration; None in `column` means no callback."""

    def __init__(self, column: list[RecordCallback | None]) -> None:
        self.column = column

    def __contains__(self, pair: object) -> bool:
        """Return whether it is one of the pairs."""
        return any(pair == each for each in self)

    def __iter__(self) -> Iterator[tuple[int, RecordCallback]]:
        """The pairs."""
        return ((index, callback) for index, callback in enumerate(self.column) if callback is not None)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.column) - self.column.count(None)
