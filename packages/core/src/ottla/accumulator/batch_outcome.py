"""The outcomes of a batch, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

import attrs

from ottla.errors import DeliveryError
from ottla.errors.notes import unshared
from ottla.results.value_methods import ValueMethods


class Counted(Protocol):
    """The part of a batch's interface that outcomes use."""

    @property
    def count(self) -> int:
        """The number of records in the batch."""


B = TypeVar("B", bound=Counted)


@attrs.define(kw_only=True, eq=False, repr=False)  # frozen takes more than twice as long to make, for each batch
class Acknowledged(ValueMethods):
    """The broker holds the batch from `base_offset` on, -1: unknown. `log_append_time_ms` -1: CreateTime."""

    base_offset: int
    log_append_time_ms: int = -1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Failed(ValueMethods):
    """The batch failed; `record_errors` maps the indexes of the records that the broker names to their errors."""

    error: DeliveryError
    record_errors: Mapping[int, DeliveryError] = attrs.field(factory=dict)

    def error_of(self, index: int) -> DeliveryError:
        """The error of this record. The other records fail with others, and each call returns another one."""
        return unshared(self.record_errors.get(index, self.error))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ForwardedRecords(ValueMethods, Generic[B]):
    """Records that are in another batch now: those with `indexes` here are there from index `start` on."""

    batch: B
    start: int
    indexes: Sequence[int]


@attrs.define(kw_only=True, eq=False, repr=False)
class Forwarded(Generic[B]):
    """The records are in other batches now, each of which has its own outcome.

    Either the batch was too large for its topic and was split, or its records had no partition yet.
    """

    pieces: Sequence[ForwardedRecords[B]]
    _places: Mapping[int, tuple[B, int]] | None = None

    @classmethod
    def in_order(cls, parts: Sequence[B]) -> Self:
        """Create the outcome of a batch whose records are all in *parts*, in the same order."""
        pieces: list[ForwardedRecords[B]] = []
        index = 0
        for part in parts:
            pieces.append(ForwardedRecords(batch=part, start=0, indexes=range(index, index + part.count)))
            index += part.count
        return cls(pieces=pieces)

    @property
    def parts(self) -> Sequence[B]:
        """The batches that have the records now."""
        return [piece.batch for piece in self.pieces]

    def place(self, index: int) -> tuple[B, int]:
        """The batch that a record is in now, and its index there."""
        if self._places is None:  # built on first use: most are never used
            self._places = {
                index: (piece.batch, place)
                for piece in self.pieces
                for place, index in enumerate(piece.indexes, piece.start)
            }
        return self._places[index]


Outcome: TypeAlias = Acknowledged | Failed | Forwarded[B]
