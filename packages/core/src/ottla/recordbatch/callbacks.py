"""Callbacks of a batch's records: a column, without a pair of index and callback for each.

Half a million such pairs in waiting batches would cost the garbage collector more time than the records do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from ottla.errors import InvalidRecordError, OttlaError
from ottla.results import RecordMetadata

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, OttlaError | None], object]


def no_callback(given: object) -> InvalidRecordError:
    """The error for a callback that cannot be called."""
    return InvalidRecordError(
        f"on_delivery must be a function that takes a RecordMetadata or None and an error or None, not "
        f"{type(given).__name__}"
    )


class CallbackColumn(Collection[tuple[int, OnDelivery]]):
    """Pairs of index and callback in order, made during iteration; None in `column` means no callback."""

    def __init__(self, column: list[OnDelivery | None]) -> None:
        self.column = column

    def __contains__(self, pair: object) -> bool:
        """Return whether it is one of the pairs."""
        return any(pair == each for each in self)

    def __iter__(self) -> Iterator[tuple[int, OnDelivery]]:
        """The pairs."""
        return ((index, callback) for index, callback in enumerate(self.column) if callback is not None)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.column) - self.column.count(None)
