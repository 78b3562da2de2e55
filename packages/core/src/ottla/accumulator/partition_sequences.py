"""The sequence numbers of one partition, and its numbered batches without an outcome."""

from __future__ import annotations

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.recordbatch.batch_sequence import BatchSequence, ProducerIdAndEpoch

BATCHES_REMEMBERED = 5
"""The number of batches, the last ones of a producer in a partition, that a broker recognizes as duplicates."""
NO_SEQUENCE = -1
NO_TRANSACTION = -1


@attrs.define(eq=False, kw_only=True, repr=False)
class PartitionSequences:
    """The numbers of one partition. `in_flight` lists the numbered batches without an outcome, in order.

    `acknowledged_later` lists the numbers of batches that come after the first one in `in_flight` and were acknowledged
    already, while the response for that first one is late or lost. When that first batch is sent again,
    it must be among the few that its broker remembers.

    `known_to_broker`: brokers hold state of this producer id, so that they refuse a batch out of order. Before that
    they take any first number, and two batches in flight at once could be written in the wrong order.
    `next_uncertain`: a batch failed that may have been written; so the broker's next number is not certain.
    `outdated`: a broker knows a later epoch of the producer id; another producer may use it.
    `out_of_order`: a broker refused the first batch in flight, because it lacks the batches before it.
    `forgotten`: so did it because it has no state of the producer, whose records were deleted.
    `renewed`: the producer has asked for another id since, and batches in flight have kept this one.
    `acknowledged_in`: the number of the last transaction with an acknowledged batch.
    `split_in_doubt`: a batch that may have been written was split, and brokers do not recognize its parts as
    duplicates.
    """

    producer_id_and_epoch: ProducerIdAndEpoch
    next: int = 0
    last_acknowledged: int = NO_SEQUENCE
    known_to_broker: bool = False
    next_uncertain: bool = False
    outdated: bool = False
    out_of_order: bool = False
    forgotten: bool = False
    renewed: bool = False
    acknowledged_in: int = NO_TRANSACTION
    split_in_doubt: bool = False
    on_the_wire: int = 0
    in_flight: list[ProducerBatch] = attrs.field(factory=list)
    acknowledged_later: list[BatchSequence] = attrs.field(factory=list)

    @property
    def idle(self) -> bool:
        """Return whether every numbered batch has its outcome, and no request with one waits for a response."""
        return not self.in_flight and not self.on_the_wire

    @property
    def has_room(self) -> bool:
        """Return whether, after one more batch, the broker would still recognize a retry of the first one in flight."""
        first_lost = bool(self.in_flight) and self.in_flight[0].response_lost
        return not first_lost and len(self.in_flight) + len(self.acknowledged_later) < BATCHES_REMEMBERED

    def has_numbered(self, batch: ProducerBatch) -> bool:
        """Return whether a batch has a number of the current producer id and epoch."""
        return batch.sequence is not None and batch.sequence.producer_id_and_epoch == self.producer_id_and_epoch

    def begin(self, producer_id_and_epoch: ProducerIdAndEpoch) -> None:
        """Count from 0 again, for another id or epoch."""
        self.known_to_broker &= producer_id_and_epoch.id == self.producer_id_and_epoch.id
        self.producer_id_and_epoch = producer_id_and_epoch
        self.next = 0
        self.last_acknowledged = NO_SEQUENCE
        self.next_uncertain = self.outdated = self.out_of_order = self.forgotten = self.split_in_doubt = False
        self.renewed = False
        self.acknowledged_later.clear()

    def remove(self, batch: ProducerBatch, *, written: bool) -> bool:
        """Remove a batch from `in_flight`, and return whether it was there."""
        for place, other in enumerate(self.in_flight):
            if other is batch:
                del self.in_flight[place]
                if place and written and batch.sequence is not None:
                    self.acknowledged_later.append(batch.sequence)
                elif not place and self.acknowledged_later:
                    first = self.in_flight[0].sequence if self.in_flight else None
                    self.acknowledged_later = [
                        sequence
                        for sequence in self.acknowledged_later
                        if first is not None and sequence.follows(first)
                    ]
                return True
        return False
