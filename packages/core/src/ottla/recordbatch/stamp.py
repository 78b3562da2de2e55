"""Who wrote a batch and as what: producer id, epoch, and the number of its first record among those of a partition.

Sequence numbers go round: 0 follows the highest one.
"""

from __future__ import annotations

from typing import Final

import attrs

SEQUENCES: Final = 1 << 31
"""How many sequence numbers there are."""


@attrs.frozen(kw_only=True)
class ProducerId:
    """A producer id and its epoch, as the cluster gave them out."""

    id: int
    epoch: int

    def __str__(self) -> str:
        return f"producer id {self.id}, epoch {self.epoch}"


@attrs.frozen(kw_only=True)
class BatchSequence:
    """What a batch's header says of its writer."""

    owner: ProducerId
    sequence: int
    transactional: bool = False

    def further(self, records: int) -> BatchSequence:
        """The stamp of what comes so many records later."""
        return BatchSequence(
            owner=self.owner, sequence=(self.sequence + records) % SEQUENCES, transactional=self.transactional
        )

    def follows(self, other: BatchSequence) -> bool:
        """Whether this one comes after another of the same partition."""
        return comes_after(self.sequence, other.sequence)


def comes_after(sequence: int, other: int) -> bool:
    """Whether one sequence number comes after another, no more than half the way round."""
    return 0 < (sequence - other) % SEQUENCES < SEQUENCES // 2
