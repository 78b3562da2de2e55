"""A simulated transaction coordinator: owners of transactional ids, contents of open transactions, and their outcomes.

It simulates both protocols of KIP-890. Up to `transaction.version` 1, requests add partitions, and the epoch stays.
From 2 on, Produce adds partitions, and each end starts a new epoch. Markers are written after `marker_seconds`, or
each at its own time by a `channel`; until then a transactional id is refused with CONCURRENT_TRANSACTIONS. A test
scripts all other `ErrorCode`s.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ottla.errors import ErrorCode
from ottla_testkit.simulation.marker_channel import OFFSETS_TOPIC, MarkerChannel, TransactionOutcome

TXN_V2 = 2

MAX_TIMEOUT_MS = 900_000
"""The longest time-out of a transaction: the default of brokers' `transaction.max.timeout.ms`."""

FIRST_ID = 1000
"""The number before the first producer id of a cluster."""

LAST_EPOCH = 32_766
"""The last epoch that a transactional producer gets: one more is left to fence it."""


@attrs.define
class ProducerOwner:
    """One transactional id. `last` is the outcome of its last transaction, `before` that one's producer id and epoch.

    `previous_id` is the producer id before the newest change of this state; mostly it is the same one.
    """

    producer_id: int
    epoch: int
    ongoing: bool = False
    partitions: set[tuple[str, int]] = attrs.field(factory=set)
    groups: set[str] = attrs.field(factory=set)
    offsets: dict[tuple[str, str, int], int] = attrs.field(factory=dict)
    last: bool | None = None
    before: tuple[int, int] | None = None
    previous_id: int = -1
    rotated_from: tuple[int, int] | None = None  # the id and epoch of the owner that asked for this id
    replaced: int | None = None  # the epoch that the current one has replaced, at the owner's request
    completing: bool = False  # its markers are not written yet
    timeout: float | None = None
    """Seconds after which the coordinator aborts a transaction; None: never."""
    begun: int = 0
    """How many transactions were begun."""
    forgotten: bool = False
    """Whether the coordinator has lost it."""

    @property
    def busy(self) -> bool:
        """Whether it has an open transaction, or one that is being ended."""
        return self.ongoing or self.completing


@attrs.define
class TransactionCoordinator:
    """All transactional ids of a cluster. *mark* writes a marker: partition, producer id, epoch, committed.

    *later* does something after a number of seconds.
    """

    mark: Callable[[tuple[str, int], int, int, bool], None]
    later: Callable[[float, Callable[[], object]], object] = lambda _seconds, action: action()
    marker_seconds: float = 0.0
    channel: MarkerChannel | None = None
    """What writes markers one by one; without it, all those of a transaction are written at once."""
    serves: Callable[[], bool] = lambda: True
    """Whether the coordinator is up, and aborts what has timed out."""
    time_out_check_seconds: float | None = None
    """Seconds between its checks, `transaction.abort.timed.out.transaction.cleanup.interval.ms`; None: it has none.

    A transaction is aborted so many seconds after it has timed out, which is the longest time in Kafka.
    """
    on_time_out: Callable[[], object] = lambda: None
    """Called after it has aborted a transaction that timed out."""
    bumps: Callable[[], bool] = lambda: True
    """Whether each end of a transaction ends its epoch: `transaction.version` 2."""
    ids: dict[str, ProducerOwner] = attrs.field(factory=dict)
    committed_offsets: dict[tuple[str, str, int], int] = attrs.field(factory=dict)
    ends: list[tuple[str, int, bool]] = attrs.field(factory=list)
    next_id: int = FIRST_ID
    lost: set[int] = attrs.field(factory=set)
    """The producer ids whose transactions were lost: partitions may have them open for ever."""
    last_epoch: int = LAST_EPOCH
    """The epoch after which a transactional id gets another producer id. A test may set it to a low number."""
    internal_errors: int = 0
    """How often it had Kafka's own: when it was asked again for the last epoch, because the response was lost."""
    fenced_after_rotation: int = 0
    """How often it has fenced an owner that asked a third time for the id after its last epoch.

    Kafka's answers the second time, and takes the new id for the one before from then on
    (`TransactionMetadata.prepareTransitionTo`).
    """

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def initialize(
        self, transactional_id: str, current: tuple[int, int] | None, timeout_ms: int | None = None
    ) -> tuple[ErrorCode, int, int]:
        """Assign an id and epoch. A caller without *current*, or with the valid one, fences all others.

        An open transaction is aborted, in a new epoch; the caller has to ask again. Its transactions may last
        *timeout_ms*, None: without a limit.
        """
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST, -1, -1
        if timeout_ms is not None and not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1
        owned = self.ids.get(transactional_id)
        if owned is None:
            owned = self.ids[transactional_id] = ProducerOwner(self.new_id(), 0, timeout=_seconds(timeout_ms))
            return ErrorCode.NONE, owned.producer_id, owned.epoch
        if owned.completing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1
        if current is not None and current[0] != owned.producer_id and not self._was_replaced(owned, current):
            self.fenced_after_rotation += current == owned.rotated_from
            return ErrorCode.PRODUCER_FENCED, -1, -1
        if owned.ongoing:
            owned.replaced = owned.epoch if self.bumps() else None
            owned.epoch += 1
            owned.before = None
            self._end(transactional_id, owned, commit=False)
            return ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1
        owned.timeout = _seconds(timeout_ms)
        epoch = owned.epoch if current is None else current[1]
        if owned.epoch >= self.last_epoch:
            if epoch != owned.epoch:  # Kafka has an internal error then
                self.internal_errors += 1
                return ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1
            self._rotate(owned)
            owned.rotated_from = current
            owned.replaced = None if current is None else epoch
            owned.last = owned.before = None
            return ErrorCode.NONE, owned.producer_id, owned.epoch
        if epoch == owned.epoch:
            owned.replaced = None if current is None else owned.epoch
            owned.epoch += 1
            owned.last = owned.before = None
        elif epoch != owned.replaced:  # otherwise the response to the first attempt was lost
            return ErrorCode.PRODUCER_FENCED, -1, -1
        owned.previous_id = owned.producer_id
        return ErrorCode.NONE, owned.producer_id, owned.epoch

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: tuple[str, int] | None = None,
        *,
        group: str | None = None,
    ) -> ErrorCode:
        """Add a partition or a group to the open transaction, which begins with the first one."""
        code = self._check(transactional_id, producer_id, epoch)
        if code is ErrorCode.NONE:
            owned = self.ids[transactional_id]
            if not owned.ongoing:
                self._begin(transactional_id, owned)
            owned.ongoing = True
            owned.replaced = None
            if partition is not None:
                owned.partitions.add(partition)
            if group is not None:
                owned.groups.add(group)
        return code

    def is_member(self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]) -> ErrorCode:
        """Return NONE if a producer has added this partition to its transaction, otherwise the error code."""
        code = self._check(transactional_id, producer_id, epoch, busy_first=False)
        if code is ErrorCode.NONE and partition not in self.ids[transactional_id].partitions:
            return ErrorCode.TRANSACTION_ABORTABLE
        return code

    def add_offset(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        key: tuple[str, str, int],
        offset: int,
        *,
        membership: ErrorCode,
    ) -> ErrorCode:
        """Store a group's offset until the end of the transaction, to which the group was added.

        *membership*: the code with which the group refuses the consumer, NONE if it does not.
        """
        code = self._check(transactional_id, producer_id, epoch)
        if code is not ErrorCode.NONE:
            return code
        owned = self.ids[transactional_id]
        if key[0] not in owned.groups:
            return ErrorCode.TRANSACTION_ABORTABLE
        if membership is ErrorCode.NONE:
            owned.offsets[key] = offset
        return membership

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, newest: bool
    ) -> tuple[ErrorCode, int, int]:
        """End the open transaction; a repeated request gets the same response. *newest*: the epoch ends with it.

        Then a transaction without partitions can be aborted, too, for another epoch.
        """
        owned = self.ids.get(transactional_id)
        code = ErrorCode.INVALID_REQUEST if not transactional_id else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if owned is None:
            return code, -1, -1
        caller = producer_id, epoch
        repeated = not owned.ongoing and owned.last is not None and caller == owned.before
        if newest and owned.completing:  # the first check: with the last marker, the caller may get another id
            return ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1
        if owned.producer_id != producer_id and not repeated:
            return code, -1, -1
        if epoch != owned.epoch and not repeated:
            return ErrorCode.PRODUCER_FENCED, -1, -1
        if owned.completing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1
        if repeated:
            if owned.last is not commit:
                return ErrorCode.INVALID_TXN_STATE, -1, -1
        elif not owned.ongoing and (commit or not newest):
            return ErrorCode.INVALID_TXN_STATE, -1, -1
        else:
            exhausted = newest and owned.epoch >= self.last_epoch
            owned.before = caller
            owned.epoch += newest
            self._end(transactional_id, owned, commit=commit, new_epoch=newest)
            if exhausted:
                self._rotate(owned)
        return ErrorCode.NONE, owned.producer_id if newest else -1, owned.epoch if newest else -1

    def time_out(self, transactional_id: str) -> None:
        """Abort the open transaction as if it had timed out; its producer's epoch is then outdated."""
        owned = self.ids.get(transactional_id)
        if owned is None or not owned.ongoing:
            return
        owned.before = (owned.producer_id, owned.epoch) if self.bumps() else None
        owned.epoch += 1
        self._end(transactional_id, owned, commit=False)

    def forget(self, transactional_id: str) -> ProducerOwner | None:
        """Lose an owner with its transaction, and return it.

        Without a transaction, that is the end of `transactional.id.expiration.ms`. Otherwise an unclean election of the
        log of transactions has lost it: no marker is written any more, so no reader gets behind it.
        """
        owned = self.ids.pop(transactional_id, None)
        if owned is not None:
            owned.forgotten = True
            self.lost |= {owned.producer_id, owned.previous_id} if owned.busy else set()
        return owned

    def _begin(self, transactional_id: str, owned: ProducerOwner) -> None:
        owned.begun += 1
        interval, number = self.time_out_check_seconds, owned.begun
        if owned.timeout is None or interval is None:
            return

        def check() -> None:
            if self.ids.get(transactional_id) is not owned or not owned.ongoing or owned.begun != number:
                return
            if not self.serves():
                self.later(interval, check)
                return
            self.time_out(transactional_id)
            self.on_time_out()

        self.later(owned.timeout + interval, check)

    def _check(self, transactional_id: str, producer_id: int, epoch: int, *, busy_first: bool = True) -> ErrorCode:
        """Return the code for a producer; *busy_first*: a busy coordinator checks nothing else."""
        owned = self.ids.get(transactional_id)
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        busy = owned is not None and owned.completing
        if busy and busy_first:  # as in `end`
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if owned is None or owned.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if owned.epoch != epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if busy else ErrorCode.NONE

    def _was_replaced(self, owned: ProducerOwner, current: tuple[int, int]) -> bool:
        """Return whether a caller has the producer id before this one, all of whose epochs were used."""
        return current[0] == owned.previous_id and current[1] >= self.last_epoch

    def _rotate(self, owned: ProducerOwner) -> None:
        """Give an owner another producer id, because the epochs of this one are used up."""
        owned.previous_id, owned.producer_id, owned.epoch = owned.producer_id, self.new_id(), 0

    def _end(self, transactional_id: str, owned: ProducerOwner, *, commit: bool, new_epoch: bool = True) -> None:
        partitions, offsets = sorted(owned.partitions), dict(owned.offsets)
        producer_id, epoch = owned.producer_id, owned.epoch
        owned.previous_id = producer_id
        self.ends.append((transactional_id, len(partitions), commit))
        owned.ongoing = False
        owned.last = commit
        owned.partitions.clear()
        owned.groups.clear()
        owned.offsets.clear()

        def complete() -> None:
            owned.completing = False
            if commit:
                self.committed_offsets.update(offsets)

        def write_markers() -> None:
            if owned.forgotten:
                return
            for partition in partitions:
                self.mark(partition, producer_id, epoch, commit)
            complete()

        owned.completing = True
        if self.channel is not None:
            outcome = TransactionOutcome(producer_id=producer_id, epoch=epoch, committed=commit, strict=new_epoch)
            self.channel.send(
                outcome, [*partitions, *[(OFFSETS_TOPIC, 0)] * bool(offsets)], complete, lambda: not owned.forgotten
            )
        elif self.marker_seconds:
            self.later(self.marker_seconds, write_markers)
        else:
            write_markers()


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
