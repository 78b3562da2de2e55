"""Sequence numbers for the batches of each partition, and which batch may leave so that brokers keep the order.

A broker takes a partition's batches only in the order of their numbers, and appends each only once. So a batch keeps
its stamp over all attempts, unless a broker itself answers that it lacks the batches before it.
Plain state for the I/O thread; it handles neither requests nor the state of a transaction.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import OttlaError
from ottla.recordbatch.stamp import SEQUENCES, BatchSequence, ProducerId, comes_after

logger = logging.getLogger(__name__)

LAST_EPOCH = 32_767
REMEMBERED = 5
"""The number of a producer's last batches that a broker recognizes as duplicates, for each partition."""
_NONE = -1


class OrderRefused(enum.Enum):
    """The ways in which a batch goes on that a broker refused for its sequence number."""

    EARLY = "another one goes first; it is sent again as it is"
    RENUMBER = "nothing of it is written; it is sent again with new numbers"
    LOST = "it cannot be sent again and be written only once"


@attrs.define(eq=False, kw_only=True)
class _Numbers:
    """The numbers of one partition. `in_flight` has the stamped batches without an outcome, in order.

    `passed` are later batches that were acknowledged before the first of these, whose response is late or lost. When
    that first batch is sent again, it must be among the few that its broker remembers.

    `known`: brokers hold state of this producer id, so that they refuse a batch out of order. Before that they take
    any first number, and two batches in flight at once could be written in the wrong order.
    `missing`: a batch was given up that may have been written; so the broker's next number is not certain.
    `astray`: a broker refused the first batch in flight, because it lacks the batches before it.
    `parted`: a batch that may have been written was split, and no broker recognizes it in its parts.
    """

    owner: ProducerId
    next: int = 0
    last_acknowledged: int = _NONE
    known: bool = False
    missing: bool = False
    astray: bool = False
    parted: bool = False
    on_the_wire: int = 0
    in_flight: list[ProducerBatch] = attrs.field(factory=list)
    passed: list[BatchSequence] = attrs.field(factory=list)

    @property
    def quiet(self) -> bool:
        """Return whether no batch is in flight, and none is on the wire."""
        return not self.in_flight and not self.on_the_wire

    @property
    def room(self) -> bool:
        """Return whether the broker would still recognize the first batch in flight after one more batch."""
        unanswered = bool(self.in_flight) and self.in_flight[0].unanswered
        return not unanswered and len(self.in_flight) + len(self.passed) < REMEMBERED

    def begin(self, owner: ProducerId) -> None:
        """Count from 0 again, for another id or epoch."""
        self.known &= owner.id == self.owner.id
        self.owner = owner
        self.next = 0
        self.last_acknowledged = _NONE
        self.missing = self.astray = self.parted = False
        self.passed.clear()

    def remove(self, batch: ProducerBatch, *, written: bool) -> bool:
        """Take a batch out of flight; False: it was not there."""
        for place, other in enumerate(self.in_flight):
            if other is batch:
                del self.in_flight[place]
                if place and written and batch.stamp is not None:
                    self.passed.append(batch.stamp)
                elif not place and self.passed:
                    first = self.in_flight[0].stamp if self.in_flight else None
                    self.passed = [stamp for stamp in self.passed if first is not None and stamp.follows(first)]
                return True
        return False


class Sequences:
    """The sequence numbers of one producer. `owner` is its id and epoch; None: there is no valid id, nothing leaves.

    Also of a producer without idempotence (*off*): every batch may leave, and none gets a number.
    """

    def __init__(self, *, transactional: bool = False, required: bool = False, off: bool = False) -> None:
        self.owner: ProducerId | None = None
        self.transactional = transactional
        self.required = required
        """Whether every batch needs a stamp: idempotence was configured, and is not only the default."""
        self.off = off
        """Every batch leaves without a stamp: idempotence is off, or the brokers know no producer ids."""
        self.members: set[tuple[str, int]] = set()
        """The partitions that belong to the open transaction."""
        self.wanted: dict[tuple[str, int], None] = {}
        """The partitions to add to it, for which batches wait."""
        self.joining = False
        """Writing to a partition makes it a member, from now to the transaction's end."""
        self.failure: OttlaError | None = None
        """The error of the first record of the open transaction that was given up."""
        self.obstacle: OttlaError | None = None
        """The error that delays a producer id, or the adding of partitions: the cause of records that expire."""
        self.uncertain = False
        """A batch that was given up may still be written: this epoch cannot be used for another transaction."""
        self._partitions: dict[tuple[str, int], _Numbers] = {}
        self._in_doubt: dict[tuple[str, int], _Numbers] = {}

    # Leaving

    def may_leave(self, batch: ProducerBatch) -> bool:
        """Return whether the first batch of a queue may leave now."""
        if self.off:
            return True
        if self.owner is None:
            return False
        partition = (batch.topic, batch.partition)
        if self.transactional and partition not in self.members:
            if not self.joining:
                self.wanted[partition] = None
                return False
            self.members.add(partition)
        numbers = self._partitions.get(partition)
        if numbers is None:
            return True
        if batch.stamp is not None:
            return not numbers.astray and numbers.in_flight[0] is batch
        own = numbers.owner is self.owner or numbers.owner == self.owner  # a comparison of values takes 1 us
        if numbers.quiet and not own:
            return True
        certain = not numbers.missing and not numbers.astray
        return certain and (numbers.quiet or (numbers.known and own and numbers.room))

    def stamp(self, batch: ProducerBatch) -> None:
        """Number a batch that leaves for the first time; one that has a stamp keeps it."""
        owner = self.owner
        if self.off or batch.stamp is not None:
            return
        assert owner is not None, "only what may leave is stamped"
        partition = (batch.topic, batch.partition)
        numbers = self._partitions.get(partition)
        if numbers is None:
            numbers = self._partitions[partition] = _Numbers(owner=owner)
        elif numbers.owner is not owner and numbers.owner != owner:
            numbers.begin(owner)
        elif numbers.quiet:
            numbers.next = (numbers.last_acknowledged + 1) % SEQUENCES  # the numbers of refused batches are free
        self._number(batch, numbers)
        numbers.in_flight.append(batch)

    def left(self, batch: ProducerBatch) -> None:
        """Note that a batch left in a request."""
        if batch.stamp is not None:
            self._numbers(batch).on_the_wire += 1

    def came_back(self, batch: ProducerBatch) -> None:
        """Note that the request of a batch is answered, or lost."""
        if batch.stamp is not None:
            self._numbers(batch).on_the_wire -= 1

    # Outcomes

    def acknowledge(self, batch: ProducerBatch) -> None:
        """Note that a broker holds the batch; the answer may also come after the batch was given up."""
        if batch.stamp is None:
            return
        numbers = self._numbers(batch)
        if numbers.owner == batch.stamp.owner:
            last = batch.stamp.further(batch.count - 1).sequence
            if numbers.last_acknowledged == _NONE or comes_after(last, numbers.last_acknowledged):
                numbers.last_acknowledged = last
            numbers.known = True
        numbers.remove(batch, written=True)

    def give_up(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Note that a batch will not be sent again."""
        if self.transactional and self.failure is None:
            self.failure = error
        if batch.stamp is None:
            return
        numbers, uncertain = self._numbers(batch), batch.possibly_persisted
        if numbers.remove(batch, written=False) and uncertain:
            numbers.missing = self.uncertain = True
            self._in_doubt[batch.topic, batch.partition] = numbers

    def split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Give *parts* the place and the numbers of a batch that was too large."""
        stamp = batch.stamp
        if stamp is None:
            return
        numbers = self._numbers(batch)
        if batch not in numbers.in_flight:
            return  # a round that failed had done this already
        for part in parts:
            part.stamp = stamp
            stamp = stamp.further(part.count)
        numbers.parted |= batch.maybe_written
        place = numbers.in_flight.index(batch)
        numbers.in_flight[place : place + 1] = parts

    def refuse_order(self, batch: ProducerBatch) -> OrderRefused:
        """Return how a batch goes on after a broker answered that it lacks the batches before it."""
        numbers = self._numbers(batch)
        if numbers.in_flight[0] is not batch:
            return OrderRefused.EARLY
        assert batch.stamp is not None, "only a number can be refused"
        if self.transactional:
            # After a batch that was given up, this answer is expected. If the batch before this one was acknowledged,
            # the leader has lost records.
            self.uncertain |= batch.stamp.sequence == (numbers.last_acknowledged + 1) % SEQUENCES
            return OrderRefused.LOST
        if batch.maybe_written and (numbers.missing or numbers.passed or numbers.parted):
            # An earlier attempt may still arrive, of this batch or of the missing one, over a lost connection. If later
            # batches were acknowledged, this one is very probably written; a part is, if the whole batch is.
            return OrderRefused.LOST
        numbers.astray = True
        self._in_doubt[batch.topic, batch.partition] = numbers
        return OrderRefused.RENUMBER

    def resolve(self) -> None:
        """Resolve partitions in doubt with nothing on the wire: go on, or number from 0 in a new epoch.

        Numbering from 0 is safe: brokers refuse batches of an older epoch as soon as the new one has written.
        """
        if self.transactional:
            return
        for partition, numbers in list(self._in_doubt.items()):
            if numbers.on_the_wire or (numbers.in_flight and not numbers.astray):
                continue
            if not numbers.astray and numbers.next == (numbers.last_acknowledged + 1) % SEQUENCES:
                numbers.missing = False  # it was written after all, or a batch after it was
            elif not self._bump_epoch(partition, numbers):
                continue
            del self._in_doubt[partition]

    def recover(self) -> None:
        """Repair the numbers after a failed round: nothing is on the wire, and half-done renumbering is completed."""
        for numbers in self._partitions.values():
            numbers.on_the_wire = 0
            if any(batch.stamp is None or batch.stamp.owner != numbers.owner for batch in numbers.in_flight):
                numbers.next = 0  # it was being renumbered, and no batch with a new number has left
                for batch in numbers.in_flight:
                    self._number(batch, numbers)

    def begin_transaction(self) -> None:
        """Clear the state of the previous transaction."""
        self.members.clear()
        self.wanted.clear()
        self.joining = False
        self.failure = None

    def take_producer_id(self, owner: ProducerId) -> None:
        """Take a new id or epoch; a partition starts from 0 once none of its older batches is in flight."""
        self.owner = owner
        self.uncertain = False

    def _bump_epoch(self, partition: tuple[str, int], numbers: _Numbers) -> bool:
        """Number a partition from 0 in another epoch, batches in flight included; False: a new id is needed first."""
        if self.owner == numbers.owner:
            if numbers.astray:
                logger.info(
                    "%s-%d: the leader lacks a batch; numbering the partition from 0 in the next producer epoch",
                    *partition,
                )
            else:
                logger.info(
                    "%s-%d: a failed batch may have been written; numbering the partition from 0 in the next producer "
                    "epoch",
                    *partition,
                )
            exhausted = numbers.owner.epoch >= LAST_EPOCH
            self.owner = None if exhausted else ProducerId(id=numbers.owner.id, epoch=numbers.owner.epoch + 1)
        if self.owner is None:
            return False
        numbers.begin(self.owner)
        for batch in numbers.in_flight:
            self._number(batch, numbers)
        return True

    def _number(self, batch: ProducerBatch, numbers: _Numbers) -> None:
        count = batch.count
        batch.stamp = BatchSequence(owner=numbers.owner, sequence=numbers.next, transactional=self.transactional)
        numbers.next = (numbers.next + count) % SEQUENCES

    def _numbers(self, batch: ProducerBatch) -> _Numbers:
        return self._partitions[batch.topic, batch.partition]
