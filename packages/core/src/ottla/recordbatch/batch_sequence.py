"""The producer's fields in a batch's header: producer id, epoch, and the sequence number of its first record.

Sequence numbers wrap around: 0 follows the highest one.
"""

from __future__ import annotations

from typing import Final

import attrs

from ottla.results.value_methods import ValueMethods

SEQUENCES: Final = 1 << 31
"""The number of sequence numbers."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProducerIdAndEpoch(ValueMethods):
    """A producer id and its epoch, as assigned by the cluster."""

    id: int
    epoch: int

    def __str__(self) -> str:
        return f"producer id {self.id}, epoch {self.epoch}"


@attrs.define(kw_only=True, unsafe_hash=True)  # frozen takes more than twice as long to make, for each batch
class BatchSequence:
    """The producer's fields in a batch's header."""

    producer_id_and_epoch: ProducerIdAndEpoch
    base_sequence: int
    transactional: bool = False

    def advanced_by(self, records: int) -> BatchSequence:
        """The batch sequence for *records* records later."""
        return BatchSequence(
            producer_id_and_epoch=self.producer_id_and_epoch,
            base_sequence=(self.base_sequence + records) % SEQUENCES,
            transactional=self.transactional,
        )

    def follows(self, other: BatchSequence) -> bool:
        """Return whether this base sequence comes after *other*'s, of the same partition; numbers may wrap around."""
        return comes_after(self.base_sequence, other.base_sequence)


def comes_after(sequence: int, other: int) -> bool:
    """Return whether a sequence number comes after another one, at most half the range later; numbers wrap around."""
    return 0 < (sequence - other) % SEQUENCES < SEQUENCES // 2
