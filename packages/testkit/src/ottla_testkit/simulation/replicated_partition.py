"""A simulated partition with replicas: leader, followers, high watermark, elections and truncation, as in Kafka.

Each broker has its own log and its own opinion who leads; it may serve as the leader for a while after an election. A
leader waits for the replicas in sync before it acknowledges `acks=all`, and followers fetch after a moment. A new
leader's log is the one that counts: followers truncate theirs to what they share with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import attrs

from ottla.errors import ErrorCode
from ottla.recordbatch.parse import Record, RecordBatch
from ottla_testkit.simulation.controller import MAX_LAG, Controller
from ottla_testkit.simulation.partition_log import Entry, LoggedBatch, Marker, PartitionLog

ALL_REPLICAS: Final = -1
"""The number for `acks=all`."""

NO_LEADER: Final = -1

_RETRY_SECONDS: Final = 0.05


@attrs.define(eq=False)
class ReplicationWait:
    """A request that waits until followers have this many entries."""

    length: int
    done: Callable[[ErrorCode], object]


@attrs.define(eq=False)
class Replica:
    """One broker's log, and the leader that it knows."""

    broker: int
    leader: int
    epoch: int = 0
    log: PartitionLog = attrs.field(factory=PartitionLog)
    waits: list[ReplicationWait] = attrs.field(factory=list)
    fetches: bool = False  # a fetch is under way

    @property
    def leads(self) -> bool:
        """Whether the broker believes that it is the leader."""
        return self.leader == self.broker


@attrs.define(eq=False, kw_only=True)
class ReplicatedPartition:
    """A partition's replicas. *on_leader* gets each new leader, or NO_LEADER, with the log that counts from then on."""

    controller: Controller
    replicas: dict[int, Replica]
    leader: int
    min_insync: int
    on_leader: Callable[[int, PartitionLog], object]
    epoch: int = 0
    in_sync: list[int] = attrs.field(factory=list)
    unclean_elections: int = 0
    truncations: int = 0
    """Batches that were removed from logs."""
    _acknowledged: set[Entry] = attrs.field(factory=set)
    _markers: list[Marker] = attrs.field(factory=list)
    _log: PartitionLog = attrs.field(factory=PartitionLog)
    _checks_lag: bool = False

    def begin(self) -> None:
        """Take part in the cluster."""
        self.in_sync = sorted(self.replicas)
        self._log = self.replicas[self.leader].log
        self.on_leader(self.leader, self._log)
        self.controller.partitions.append(self)

    # Produce requests

    def append(self, broker: int, batch: RecordBatch, acks: int) -> tuple[ErrorCode, int]:
        """Append a batch at a broker; return the error code, and the base offset or -1."""
        replica = self.replicas.get(broker)
        if replica is None or not replica.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if acks == ALL_REPLICAS and self._is_current(replica) and not self.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        code, offset = replica.log.append(batch)
        if code is ErrorCode.NONE:
            if acks != ALL_REPLICAS:
                self._acknowledged.add(replica.log.entries[replica.log.length_until(offset) - 1])
            self._fetch_soon(self.replicas)
            self._check_lag_later()
        return code, offset

    def wait(self, broker: int, offset: int, timeout: float, done: Callable[[ErrorCode], object]) -> None:
        """Call *done* when the batch at *offset* is at all replicas in sync, or with the code of a failure."""
        replica = self.replicas[broker]
        wait = ReplicationWait(replica.log.length_until(offset), done)
        replica.waits.append(wait)
        self._advance()
        if wait in replica.waits:
            self.controller.later(timeout, lambda: self._end_wait(replica, wait, ErrorCode.REQUEST_TIMED_OUT))

    def known_leader(self, broker: int) -> tuple[int, int]:
        """Return the leader and its epoch, as a broker knows them."""
        replica = self.replicas.get(broker)
        return (self.leader, self.epoch) if replica is None else (replica.leader, replica.epoch)

    def mark(self, producer_id: int, epoch: int, committed: bool) -> None:
        """Write the marker that ends a transaction, to all replicas in sync."""
        marker = Marker(producer_id, epoch, committed)
        self._markers.append(marker)
        self._log.replicate([marker])
        for broker in self.in_sync:
            if self.controller.reaches(broker):
                self._copy(self.replicas[broker])

    def delete(self) -> None:
        """Take no part in the cluster any more; requests that wait get an error."""
        self.controller.partitions.remove(self)
        for replica in self.replicas.values():
            for wait in list(replica.waits):
                self._end_wait(replica, wait, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def delete_records(self, until: int, *, forgets: bool) -> None:
        """Delete the records before an offset, but none that a replica in sync has not; followers do it later."""
        if self.leader == NO_LEADER:
            return
        watermark = min(len(self.replicas[broker].log.records) for broker in self.in_sync)
        self._log.delete_records(min(until, watermark), forgets=forgets)
        self._fetch_soon(self.replicas)

    def forget_producers(self) -> None:
        """Lose the state of all producers at all replicas."""
        for replica in self.replicas.values():
            replica.log.forget_producers()

    def lost_records(self) -> Iterable[Record]:
        """Return the records that were acknowledged, and that the log does not have."""
        kept = set(self._log.entries)
        for entry in self._acknowledged - kept:
            if isinstance(entry, LoggedBatch):
                yield from entry.batch.records

    # Elections

    def prefer(self, leader: int) -> None:
        """Elect this leader if it is in sync."""
        if leader in self.in_sync and leader != self.leader and self.controller.reaches(leader):
            self._elect(leader)

    def elect_uncleanly(self, leader: int) -> None:
        """Elect a leader although it may lack acknowledged records."""
        if leader in self.replicas and leader != self.leader and self.controller.reaches(leader):
            self.in_sync = [leader]
            self.unclean_elections += 1
            self._elect(leader)

    def fence(self, broker: int) -> None:
        if broker in self.in_sync and len(self.in_sync) > 1:
            self.in_sync.remove(broker)
        if broker == self.leader:
            able = [other for other in self.in_sync if self.controller.reaches(other)]
            self._elect(able[0] if able else NO_LEADER)
        self._advance()

    def unfence(self, broker: int) -> None:
        if broker in self.replicas:
            if self.leader == NO_LEADER and broker in self.in_sync:
                self._elect(broker)
            self._learn(self.replicas[broker], self.leader, self.epoch)
            self._fetch_soon([broker])

    def _elect(self, leader: int) -> None:
        self.leader, self.epoch = leader, self.epoch + 1
        if leader != NO_LEADER:
            self._log = self.replicas[leader].log
            written = set(self._log.entries)
            self._log.replicate([marker for marker in self._markers if marker not in written])
        self.on_leader(leader, self._log)
        for replica in self.replicas.values():
            self._notify(replica, leader, self.epoch)

    def _notify(self, replica: Replica, leader: int, epoch: int) -> None:
        seconds = self.controller.notice_seconds()
        self.controller.later(seconds, lambda: self._learn(replica, leader, epoch))

    def _learn(self, replica: Replica, leader: int, epoch: int) -> None:
        if epoch <= replica.epoch or not self.controller.reaches(replica.broker):
            return
        led = replica.leads
        replica.leader, replica.epoch = leader, epoch
        if led and not replica.leads:
            for wait in list(replica.waits):
                self._end_wait(replica, wait, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._fetch_soon(self.replicas)
        self._advance()

    # Replication

    def _is_current(self, replica: Replica) -> bool:
        """Return whether a broker is the leader, knows it, and can report its followers to the controller."""
        return replica.leads and replica.epoch == self.epoch and self.controller.reaches(replica.broker)

    def _fetch_soon(self, followers: Iterable[int]) -> None:
        for broker in followers:
            replica = self.replicas[broker]
            if broker != self.leader and not replica.fetches:
                replica.fetches = True
                self.controller.later(self.controller.fetch_seconds(broker), partial(self._fetch, replica))

    def _fetch(self, replica: Replica) -> None:
        replica.fetches = False
        if self.leader in (NO_LEADER, replica.broker) or not self.controller.reaches(replica.broker):
            return
        leader = self.replicas[self.leader]
        if replica.epoch < self.epoch or not self._is_current(leader):
            replica.fetches = True
            self.controller.later(_RETRY_SECONDS, lambda: self._fetch(replica))
            return
        self._copy(replica)
        if replica.broker not in self.in_sync:
            self.in_sync.append(replica.broker)
        self._advance()

    def _copy(self, replica: Replica) -> None:
        """Give a replica the log of the leader."""
        if replica.log is not self._log:
            common = replica.log.common_length(self._log)
            for wait in [each for each in replica.waits if each.length > common]:
                # Its batch is removed: a broker that becomes the leader again before it has noticed that it was none.
                self._end_wait(replica, wait, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.truncations += len(replica.log.truncate(common))
            deleted = max(common, self._log.length_before(self._log.start))
            # A follower that lacks deleted records never gets them, nor the numbers in them.
            for part in (self._log.entries[common:deleted], self._log.entries[deleted:]):
                replica.log.replicate(part)
                if self._log.start > replica.log.start:
                    replica.log.delete_records(self._log.start, forgets=self._log.forgets_deleted)

    def _advance(self) -> None:
        """Answer the requests whose batches are below the high watermark."""
        if self.leader == NO_LEADER or not self.replicas[self.leader].waits:
            return
        leader = self.replicas[self.leader]
        if not self._is_current(leader):
            return
        watermark = min(leader.log.common_length(self.replicas[broker].log) for broker in self.in_sync)
        enough = self.enough_in_sync
        for wait in list(leader.waits):
            if wait.length <= watermark:
                self._end_wait(leader, wait, ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    @property
    def enough_in_sync(self) -> bool:
        """Whether as many replicas are in sync as `min.insync.replicas` asks for, but never more than there are."""
        return len(self.in_sync) >= min(self.min_insync, len(self.replicas))

    def _end_wait(self, replica: Replica, wait: ReplicationWait, code: ErrorCode) -> None:
        if wait in replica.waits:
            replica.waits.remove(wait)
            if code is ErrorCode.NONE:
                self._acknowledged.add(replica.log.entries[wait.length - 1])
            wait.done(code)

    def _check_lag_later(self) -> None:
        if not self._checks_lag:
            self._checks_lag = True
            epoch, length = self.epoch, len(self._log.entries)
            self.controller.later(MAX_LAG, lambda: self._check_lag(epoch, length))

    def _check_lag(self, epoch: int, length: int) -> None:
        """Take the followers out of sync that do not have the entries of `MAX_LAG` seconds ago."""
        self._checks_lag = False
        if self.leader == NO_LEADER or epoch != self.epoch or not self._is_current(self.replicas[self.leader]):
            return  # the new leader counts from its own beginning
        self.in_sync = [
            broker
            for broker in self.in_sync
            if broker == self.leader or self._log.common_length(self.replicas[broker].log) >= length
        ]
        self._advance()
        behind: Sequence[int] = [
            broker for broker in self.in_sync if len(self.replicas[broker].log.entries) < len(self._log.entries)
        ]
        if behind:
            self._check_lag_later()


def replicate(
    *,
    controller: Controller,
    leader: int,
    brokers: Sequence[int],
    min_insync: int,
    on_leader: Callable[[int, PartitionLog], object],
) -> ReplicatedPartition:
    """Make a partition with replicas at these brokers, all in sync."""
    partition = ReplicatedPartition(
        controller=controller,
        replicas={broker: Replica(broker, leader) for broker in brokers},
        leader=leader,
        min_insync=min_insync,
        on_leader=on_leader,
    )
    partition.begin()
    return partition
