"""Which sequence numbers the batches of each partition get, and which batch may leave so that brokers keep the order.

A broker takes a partition's batches only in the order of their numbers, and one that it has already only once. So a
batch keeps its stamp over all its tries, unless a broker itself says that it does not hold what came before it.
Plain state for the I/O thread; it knows neither requests nor states of a transaction.
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
"""So many batches of a producer a broker knows again, for each partition."""
_NONE = -1


class OrderRefused(enum.Enum):
    """What can become of a batch that a broker did not take for its number."""

    EARLY = "another one goes first; it is sent again as it is"
    ANEW = "nothing of it is written; it is numbered anew, and sent again"
    LOST = "it cannot be sent again and be written only once"


@attrs.define(eq=False, kw_only=True)
class _Numbers:
    """The numbers of one partition. `in_flight` are the stamped batches that have no outcome yet, in order.

    `passed` are those that were acknowledged although they come behind the first of these, whose answer hangs or is
    lost. When that one is tried again it has to be among the few that its broker remembers.

    `known`: brokers hold state of this producer id, so that they refuse a batch out of order. Before that they take
    any first number, and two batches under way at once could be written the wrong way round.
    `missing`: a batch was given up that may have been written or may not; so what comes next is not certain.
    `astray`: a broker refused the first batch in flight, for what should come before it is not there.
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
        """Whether nothing of it is under way."""
        return not self.in_flight and not self.on_the_wire

    @property
    def room(self) -> bool:
        """Whether a new batch may leave, and the first in flight be known again all the same."""
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
    """The sequence numbers of one producer. `owner` is who stamps; None: there is no valid id, and nothing leaves."""

    def __init__(self, *, transactional: bool = False, required: bool = False) -> None:
        self.owner: ProducerId | None = None
        self.transactional = transactional
        self.required = required
        """Whether a batch without a stamp is no good: idempotence was asked for, not only wished."""
        self.off = False
        """The brokers know no producer ids: everything leaves without a stamp."""
        self.members: set[tuple[str, int]] = set()
        """The partitions that belong to the open transaction."""
        self.wanted: dict[tuple[str, int], None] = {}
        """The partitions that are to belong to it: batches wait for that."""
        self.joining = False
        """Writing to a partition makes it a member, from now to the transaction's end."""
        self.failure: OttlaError | None = None
        """Why a record of the open transaction was given up, the first of them."""
        self.obstacle: OttlaError | None = None
        """Why there is no id yet, or why partitions are no members: what an expired record was waiting for."""
        self.uncertain = False
        """Something that was given up may be written yet: this epoch is no good for another transaction."""
        self._partitions: dict[tuple[str, int], _Numbers] = {}
        self._in_doubt: dict[tuple[str, int], _Numbers] = {}

    # Leaving

    def may_leave(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a queue may leave now."""
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
        own = numbers.owner is self.owner or numbers.owner == self.owner  # to compare values takes 1 us
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
            numbers.next = (numbers.last_acknowledged + 1) % SEQUENCES  # the numbers of what was refused are free
        self._number(batch, numbers)
        numbers.in_flight.append(batch)

    def left(self, batch: ProducerBatch) -> None:
        """A batch went out in a request."""
        if batch.stamp is not None:
            self._numbers(batch).on_the_wire += 1

    def came_back(self, batch: ProducerBatch) -> None:
        """The request of a batch is answered, or lost."""
        if batch.stamp is not None:
            self._numbers(batch).on_the_wire -= 1

    # Outcomes

    def acknowledge(self, batch: ProducerBatch) -> None:
        """A broker holds the batch; that may also be told after it was given up."""
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
        """A batch will not be tried again."""
        if self.transactional and self.failure is None:
            self.failure = error
        if batch.stamp is None:
            return
        numbers, uncertain = self._numbers(batch), batch.possibly_persisted
        if numbers.remove(batch, written=False) and uncertain:
            numbers.missing = self.uncertain = True
            self._in_doubt[batch.topic, batch.partition] = numbers

    def split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Parts take the place and the numbers of a batch that was too large."""
        stamp = batch.stamp
        if stamp is None:
            return
        numbers = self._numbers(batch)
        if batch not in numbers.in_flight:
            return  # a round that failed had come so far
        for part in parts:
            part.stamp = stamp
            stamp = stamp.further(part.count)
        numbers.parted |= batch.maybe_written
        place = numbers.in_flight.index(batch)
        numbers.in_flight[place : place + 1] = parts

    def refuse_order(self, batch: ProducerBatch) -> OrderRefused:
        """A broker says that what comes before a batch is not there: what that means."""
        numbers = self._numbers(batch)
        if numbers.in_flight[0] is not batch:
            return OrderRefused.EARLY
        assert batch.stamp is not None, "only a number can be refused"
        if self.transactional:
            # Behind one that was given up that is to be expected; else its leader has lost what it had.
            self.uncertain |= batch.stamp.sequence == (numbers.last_acknowledged + 1) % SEQUENCES
            return OrderRefused.LOST
        if batch.maybe_written and (numbers.missing or numbers.passed or numbers.parted):
            # What it misses may be on its way yet, on a connection that we lost, and so may an earlier try of its own.
            # Where newer ones were taken it is written, in all likelihood; a part, where the whole batch is.
            return OrderRefused.LOST
        numbers.astray = True
        self._in_doubt[batch.topic, batch.partition] = numbers
        return OrderRefused.ANEW

    def resolve(self) -> None:
        """Settle what is uncertain, where nothing is on the wire any more: go on, or count anew in a new epoch.

        Counting anew is safe: what an older epoch has under way is refused as soon as the new one has written.
        """
        if self.transactional:
            return
        for partition, numbers in list(self._in_doubt.items()):
            if numbers.on_the_wire or (numbers.in_flight and not numbers.astray):
                continue
            if not numbers.astray and numbers.next == (numbers.last_acknowledged + 1) % SEQUENCES:
                numbers.missing = False  # it was written after all, or what came behind it was
            elif not self._begin_anew(partition, numbers):
                continue
            del self._in_doubt[partition]

    def recover(self) -> None:
        """After a round that failed: nothing is on the wire any more, and what was numbered half is numbered whole."""
        for numbers in self._partitions.values():
            numbers.on_the_wire = 0
            if any(batch.stamp is None or batch.stamp.owner != numbers.owner for batch in numbers.in_flight):
                numbers.next = 0  # it was counted anew, and none of this count has left
                for batch in numbers.in_flight:
                    self._number(batch, numbers)

    def begin_transaction(self) -> None:
        """Nothing of the transaction before counts any more."""
        self.members.clear()
        self.wanted.clear()
        self.joining = False
        self.failure = None

    def begin_epoch(self, owner: ProducerId) -> None:
        """Take a new id or epoch; every partition counts anew as soon as nothing older of it is under way."""
        self.owner = owner
        self.uncertain = False

    def _begin_anew(self, partition: tuple[str, int], numbers: _Numbers) -> bool:
        """Count a partition from 0 in another epoch, what is in flight included; False: an id has to be asked for."""
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
