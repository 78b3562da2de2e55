"""What can become of a batch: its ends, each a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ottla.errors import DeliveryFailed

if TYPE_CHECKING:
    from ottla.accumulator.batch import ProducerBatch


@attrs.frozen(kw_only=True)
class Acknowledged:
    """The broker holds the batch from *base_offset* on; -1: it did not say. `log_append_time_ms` -1: CreateTime."""

    base_offset: int
    log_append_time_ms: int = -1


@attrs.frozen(kw_only=True)
class Failed:
    """The batch was given up; `record_errors` are the records that the broker itself names."""

    error: DeliveryFailed
    record_errors: Mapping[int, DeliveryFailed] = attrs.field(factory=dict)

    def error_of(self, index: int) -> DeliveryFailed:
        """Why this record failed."""
        return self.record_errors.get(index, self.error)


@attrs.frozen(kw_only=True)
class Split:
    """The batch was too large for its topic: its records travel on in *parts*, in order, each with its own outcome."""

    parts: Sequence[ProducerBatch]

    def place(self, index: int) -> tuple[ProducerBatch, int]:
        """The part that a record is in now, and its index there."""
        for part in self.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise AssertionError("every record of a split batch is in one of its parts")


@attrs.frozen(kw_only=True)
class Piece:
    """Records of a run that went to one batch: the run's *indexes* are there from index *start* on."""

    batch: ProducerBatch
    start: int
    indexes: Sequence[int]


@attrs.define(kw_only=True, eq=False)
class Dealt:
    """The records had no partition yet; now each of them is in a batch of its own partition."""

    pieces: Sequence[Piece]
    _places: Mapping[int, tuple[ProducerBatch, int]] | None = None

    @property
    def parts(self) -> Sequence[ProducerBatch]:
        """The batches that have the records now."""
        return [piece.batch for piece in self.pieces]

    def place(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that a record is in now, and its index there."""
        if self._places is None:  # most are never asked for
            self._places = {
                index: (piece.batch, place)
                for piece in self.pieces
                for place, index in enumerate(piece.indexes, piece.start)
            }
        return self._places[index]


Outcome: TypeAlias = Acknowledged | Failed | Split | Dealt
