"""Sequence numbers for the batches of each partition, and which batch may leave so that brokers keep the order.

A broker takes a partition's batches only in the order of their numbers, and appends each only once. So a batch keeps
its numbers over all attempts, unless a broker itself responds that it lacks the batches before it.
Plain state for the I/O thread; it handles neither requests nor the state of a transaction.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.idempotent_epoch_bump import bump_epoch
from ottla.accumulator.partition_sequences import NO_SEQUENCE, PartitionSequences
from ottla.accumulator.transaction_partitions import TransactionPartitions
from ottla.errors import BrokerError, ErrorCode, OttlaError
from ottla.recordbatch.batch_sequence import SEQUENCES, BatchSequence, ProducerIdAndEpoch, comes_after


class SequenceErrorAction(enum.Enum):
    """The sender's next step for a batch that a broker refused for its sequence number."""

    RETRY = "an earlier batch comes first; this one is sent again unchanged, or dropped with its transaction"
    RENUMBER = "it is not written; it is sent again with new numbers"
    FAIL = "it fails: another attempt might write it twice"


class Sequences:
    """The sequence numbers of one producer. Without a producer id and epoch, no batch may leave.

    A producer without idempotence has them *off*: every batch may leave, and none gets a number.
    """

    def __init__(
        self, *, transactional: bool = False, required: bool = False, off: bool = False, client_id: str = ""
    ) -> None:
        self.producer_id_and_epoch: ProducerIdAndEpoch | None = None
        self.transactional = transactional
        self.required = required
        """Whether every batch needs a number: idempotence was configured, and is not only the default."""
        self.off = off
        """Every batch leaves without a number: idempotence is off, or the brokers know no producer ids."""
        self.transaction_partitions = TransactionPartitions()
        """The partitions to which batches of the open transaction may be written."""
        self.failure: OttlaError | None = None
        """The error of the first record of the open transaction that failed."""
        self.obstacle: OttlaError | None = None
        """The error of the last request for a producer id, or to add partitions: the cause of records that expire."""
        self.uncertain = False
        """A batch that failed may still be written: this epoch cannot be used for another transaction."""
        self._transaction = 0  # the number of the open transaction, or of the last one
        self._other_topics = False  # those of the open transaction were created again
        self._client_id = client_id
        self._partitions: dict[tuple[str, int], PartitionSequences] = {}
        self._in_doubt: dict[tuple[str, int], PartitionSequences] = {}

    @property
    def unused(self) -> bool:
        """Return whether no batch has been numbered, or none that matters any more."""
        return not self._partitions

    # Leaving

    def may_leave(self, batch: ProducerBatch) -> bool:
        """Return whether the first batch of a queue may leave now."""
        if self.off:
            return True
        if self.producer_id_and_epoch is None:
            return False
        partition = (batch.topic, batch.partition)
        if self.transactional and not self.transaction_partitions.admits(partition):
            return False
        numbers = self._partitions.get(partition)
        if numbers is None:
            return True
        if batch.sequence is not None:
            return not numbers.out_of_order and numbers.in_flight[0] is batch
        current = self.producer_id_and_epoch
        # Comparing identities first saves the comparison of values, 1 µs.
        own = numbers.producer_id_and_epoch is current or numbers.producer_id_and_epoch == current
        if numbers.idle and not own:
            return True
        certain = not numbers.next_uncertain and not numbers.out_of_order
        return certain and (numbers.idle or (numbers.known_to_broker and own and numbers.has_room))

    def assign(self, batch: ProducerBatch) -> None:
        """Number a batch that leaves for the first time; one that has a number keeps it."""
        current = self.producer_id_and_epoch
        if self.off or batch.sequence is not None:
            return
        assert current is not None, "only a batch that may leave is numbered"
        partition = (batch.topic, batch.partition)
        numbers = self._partitions.get(partition)
        if numbers is None:
            numbers = self._partitions[partition] = PartitionSequences(producer_id_and_epoch=current)
        elif numbers.producer_id_and_epoch is not current and numbers.producer_id_and_epoch != current:
            numbers.begin(current)
        elif numbers.idle:
            numbers.next = (numbers.last_acknowledged + 1) % SEQUENCES  # the numbers of refused batches are free
        sequence, following = self._next(batch, numbers)
        numbers.in_flight.append(batch)
        batch.sequence, numbers.next = sequence, following

    def mark_sent(self, batch: ProducerBatch) -> None:
        """Note that a batch left in a request."""
        if batch.sequence is not None:
            self._numbers(batch).on_the_wire += 1

    def mark_returned(self, batch: ProducerBatch) -> None:
        """Note that the response to a batch's request has arrived, or will not arrive."""
        if batch.sequence is not None:
            self._numbers(batch).on_the_wire -= 1

    # Outcomes

    def acknowledge(self, batch: ProducerBatch) -> None:
        """Note that a broker holds the batch; the response may also come after the batch failed."""
        if batch.sequence is None:
            return
        numbers = self._numbers(batch)
        own, current = batch.sequence.producer_id_and_epoch, numbers.producer_id_and_epoch
        if own is current or own == current:  # identities first, as in `may_leave`
            last = (batch.sequence.base_sequence + batch.count - 1) % SEQUENCES
            if numbers.last_acknowledged == NO_SEQUENCE or comes_after(last, numbers.last_acknowledged):
                numbers.last_acknowledged = last
            numbers.known_to_broker = True
        numbers.acknowledged_in = self._transaction
        numbers.remove(batch, written=True)

    def fail(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Note that a batch will not be sent again."""
        if self.transactional and self.failure is None:
            self.failure = error
        if batch.sequence is None:
            return
        # A leader with a later epoch of this producer id takes no number of this one.
        numbers, outdated = self._numbers(batch), _is_outdated(error)
        uncertain = batch.possibly_persisted or outdated
        if numbers.remove(batch, written=False) and uncertain:
            numbers.outdated |= outdated
            numbers.next_uncertain = self.uncertain = True
            self._in_doubt[batch.topic, batch.partition] = numbers

    def split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Put *parts* in the place of a batch that was too large, and divide its sequence numbers among them."""
        sequence = batch.sequence
        if sequence is None:
            return
        numbers = self._numbers(batch)
        if batch not in numbers.in_flight:
            return  # a round that failed had done this already
        for part in parts:
            part.sequence = sequence
            sequence = sequence.advanced_by(part.count)
        numbers.split_in_doubt |= batch.maybe_written
        place = numbers.in_flight.index(batch)
        numbers.in_flight[place : place + 1] = parts

    def is_first(self, batch: ProducerBatch) -> bool:
        """Return whether a numbered batch is the first in flight of its partition."""
        return self._numbers(batch).in_flight[0] is batch

    def on_sequence_error(
        self, batch: ProducerBatch, *, forgotten: bool = False, certain: bool = True
    ) -> SequenceErrorAction:
        """Return what to do with a batch whose broker answered that it lacks the batches before it.

        *forgotten*: it has no state of the producer, as after the deletion of its records before Kafka 2.4. If it is
        not *certain*, another broker may lead the partition, and have the batch.
        """
        if not self.is_first(batch):
            return SequenceErrorAction.RETRY
        numbers = self._numbers(batch)
        assert batch.sequence is not None, "only a number can be refused"
        if self.transactional:
            if forgotten and batch.sequence.base_sequence and self._may_begin_again(numbers):
                numbers.out_of_order = numbers.forgotten = True
                self._in_doubt[batch.topic, batch.partition] = numbers
                return SequenceErrorAction.RENUMBER
            # If the batch before this one was acknowledged, the leader has lost records.
            lost = batch.sequence.base_sequence == (numbers.last_acknowledged + 1) % SEQUENCES
            if self.failure is not None and not lost:
                return SequenceErrorAction.RETRY  # it follows one that failed: with the transaction, it is dropped
            self.uncertain |= lost
            return SequenceErrorAction.FAIL
        if not certain:
            return SequenceErrorAction.RETRY
        if batch.maybe_written and (numbers.next_uncertain or numbers.acknowledged_later or numbers.split_in_doubt):
            # An earlier attempt may still arrive, of this batch or of the missing one, over a lost connection. If later
            # batches were acknowledged, this one is very probably written; a part is, if the whole batch is.
            return SequenceErrorAction.FAIL
        numbers.out_of_order = True
        self._in_doubt[batch.topic, batch.partition] = numbers
        return SequenceErrorAction.RENUMBER

    def resolve(self) -> None:
        """Resolve partitions in doubt with nothing on the wire: keep the numbers, or number from 0 in a new epoch.

        Numbering from 0 is safe: brokers refuse batches of an older epoch as soon as the new one has written.
        """
        for partition, numbers in list(self._in_doubt.items()):
            if self.transactional:
                self._begin_again(partition, numbers)
                continue
            if numbers.on_the_wire or (numbers.in_flight and not numbers.out_of_order):
                continue
            if not numbers.out_of_order and numbers.next == (numbers.last_acknowledged + 1) % SEQUENCES:
                numbers.next_uncertain = False  # it was written after all, or a batch after it was
            elif not self._number_in_next_epoch(partition, numbers):
                continue
            del self._in_doubt[partition]

    def recover(self) -> None:
        """Repair the numbers after a failed round: no batch is on the wire, half-done renumbering is completed."""
        for numbers in self._partitions.values():
            numbers.on_the_wire = 0
            if any(not numbers.has_numbered(batch) for batch in numbers.in_flight):
                numbers.next = 0  # it was being renumbered, and no batch with a new number has left
                for batch in numbers.in_flight:
                    self._number(batch, numbers)

    def begin_transaction(self) -> None:
        """Clear the state of the previous transaction."""
        self.transaction_partitions.clear()
        self.failure = None
        self._transaction += 1

    def take_producer_id(self, producer_id_and_epoch: ProducerIdAndEpoch) -> None:
        """Take a new id or epoch; a partition starts from 0 once none of its older batches is in flight."""
        self.producer_id_and_epoch = producer_id_and_epoch
        self.uncertain = False
        if self._other_topics:
            self._other_topics = False
            self._forget_idle()

    def end_with_other_topics(self) -> None:
        """Number from 0 after the open transaction, even if a cluster that was set up again assigns its id again.

        Before the next transaction begins, `take_producer_id` has to be called.
        """
        self.uncertain = self._other_topics = True

    def leave_earlier_ids(self) -> bool:
        """Number the batches from 0 that have kept their producer id in `renew`; return whether there are any.

        It is an id of another cluster. In this one it may be that of another producer, and brokers would take batches
        for duplicates of its batches. Batches without an outcome are sent to this cluster, which has none of them. Only
        without transactions.
        """
        renewed = {partition: numbers for partition, numbers in self._partitions.items() if numbers.renewed}
        for numbers in renewed.values():
            numbers.known_to_broker = False
            numbers.out_of_order = True
        self._in_doubt.update(renewed)
        return bool(renewed)

    def renew(self) -> None:
        """Number what is not in flight from 0 with a new producer id; batches in flight keep theirs, which may be true.

        Only without transactions.
        """
        self.producer_id_and_epoch = None
        self._forget_idle()
        for numbers in self._partitions.values():
            numbers.renewed = True

    def _may_begin_again(self, numbers: PartitionSequences) -> bool:
        """Return whether numbers may begin with 0 in the same epoch, at a broker that has forgotten the producer.

        Nothing of the open transaction may be written: not here, where it would be lost, and not by a late copy.
        """
        certain = not numbers.next_uncertain and not any(batch.maybe_written for batch in numbers.in_flight)
        return certain and numbers.acknowledged_in != self._transaction

    def _begin_again(self, partition: tuple[str, int], numbers: PartitionSequences) -> None:
        """Number a partition from 0 in the same epoch once nothing is on the wire, if its broker has forgotten it."""
        if numbers.forgotten and not numbers.on_the_wire:
            numbers.begin(numbers.producer_id_and_epoch)
            numbers.known_to_broker = False
            for batch in numbers.in_flight:
                self._number(batch, numbers)
            del self._in_doubt[partition]

    def _forget_idle(self) -> None:
        for partition, numbers in list(self._partitions.items()):
            if numbers.idle:
                del self._partitions[partition]
                self._in_doubt.pop(partition, None)

    def _number_in_next_epoch(self, partition: tuple[str, int], numbers: PartitionSequences) -> bool:
        """Number a partition from 0 in another epoch, batches in flight included.

        Return False if a new id is needed.
        """
        if self.producer_id_and_epoch == numbers.producer_id_and_epoch:
            self.producer_id_and_epoch = bump_epoch(
                numbers.producer_id_and_epoch,
                partition,
                batch_lost=numbers.out_of_order,
                outdated=numbers.outdated,
                client_id=self._client_id,
            )
        if self.producer_id_and_epoch is None:
            return False
        numbers.begin(self.producer_id_and_epoch)
        for batch in numbers.in_flight:
            self._number(batch, numbers)
        return True

    def _number(self, batch: ProducerBatch, numbers: PartitionSequences) -> None:
        batch.sequence, numbers.next = self._next(batch, numbers)

    def _next(self, batch: ProducerBatch, numbers: PartitionSequences) -> tuple[BatchSequence, int]:
        """The batch's numbers and the number after them; made before either is stored, since memory may end here.

        A batch that had its numbers before they were counted, or listed, would block its partition, or the next batch
        would get the same numbers, and the broker would take it for a duplicate.
        """
        sequence = BatchSequence(
            producer_id_and_epoch=numbers.producer_id_and_epoch,
            base_sequence=numbers.next,
            transactional=self.transactional,
        )
        return sequence, (numbers.next + batch.count) % SEQUENCES

    def _numbers(self, batch: ProducerBatch) -> PartitionSequences:
        return self._partitions[batch.topic, batch.partition]


def _is_outdated(error: OttlaError) -> bool:
    """Return whether a broker refused the producer's epoch."""
    cause = error.__cause__
    return isinstance(cause, BrokerError) and cause.code is ErrorCode.INVALID_PRODUCER_EPOCH
