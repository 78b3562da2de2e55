"""Topics of a simulated cluster: their partitions, leaders and logs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ottla.errors import ErrorCode
from ottla.recordbatch.parse import Record, RecordBatch
from ottla_testkit.simulation.partition_log import PartitionLog
from ottla_testkit.simulation.producers import PartitionProducers
from ottla_testkit.simulation.replicated_partition import ReplicatedPartition


@attrs.define(kw_only=True)
class SimulatedTopic:
    """A topic: its id, and the leader and contents of each partition.

    A batch of more than `max_message_bytes` is refused. If a partition is not in `replicated`, all brokers share one
    log, so a new leader has everything that the one before had.
    """

    name: str
    id: bytes
    leaders: list[int]
    epochs: dict[int, int] = attrs.field(factory=dict)
    """The leader epochs of partitions that are not replicated, where they are not 0."""
    max_message_bytes: int | None = None
    compacted: bool = False
    """Whether records without a key are refused."""
    append_time: bool = False
    """Whether each record gets the time of its append: `message.timestamp.type=LogAppendTime`."""
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None
    """Records that are older or newer than this are refused: `message.timestamp.before.max.ms`, `.after.max.ms`."""
    min_insync: int | None = None
    """`min.insync.replicas` of a topic whose partitions are replicated."""
    logs: dict[int, PartitionLog] = attrs.field(factory=dict)
    """The logs of partitions; of replicated ones, the leader's."""
    replicated: dict[int, ReplicatedPartition] = attrs.field(factory=dict)

    @property
    def log(self) -> Mapping[int, list[Record]]:
        """The records of each partition that has some, also those that were deleted meanwhile."""
        return {partition: log.records for partition, log in self.logs.items()}

    @property
    def log_starts(self) -> Mapping[int, int]:
        """The offset of the first record that is not deleted, of each partition that has some."""
        return {partition: log.start for partition, log in self.logs.items()}

    @property
    def producers(self) -> Mapping[int, PartitionProducers]:
        """The state of the producers of each partition."""
        return {partition: log.producers for partition, log in self.logs.items()}

    @property
    def open_transactions(self) -> Mapping[int, Mapping[int, list[int]]]:
        """The offsets of open transactions, by partition and producer id."""
        return {partition: log.open_transactions for partition, log in self.logs.items()}

    @property
    def aborted(self) -> Mapping[int, set[int]]:
        """The offsets of aborted transactions of each partition."""
        return {partition: log.aborted for partition, log in self.logs.items()}

    def refuses(self, size: int) -> bool:
        """Return whether a batch of this many bytes is too large."""
        return self.max_message_bytes is not None and size > self.max_message_bytes

    def log_of(self, partition: int) -> PartitionLog:
        """Return the log of a partition; of a replicated one, the leader's."""
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = PartitionLog()
        return log

    def leader_epoch(self, partition: int) -> int:
        """Return the epoch of a partition's leader."""
        return self.replicated[partition].epoch if partition in self.replicated else self.epochs.get(partition, 0)

    def follow(self, partition: int, leader: int, log: PartitionLog) -> None:
        """Note the elected leader of a replicated partition."""
        self.leaders[partition] = leader
        self.logs[partition] = log

    def move_leader(self, partition: int, leader: int) -> None:
        """Make another broker the leader of a partition, in a new epoch.

        A replica that is not in sync does not become the leader of a replicated partition.
        """
        if partition in self.replicated:
            self.replicated[partition].prefer(leader)
            return
        self.leaders[partition] = leader
        self.epochs[partition] = self.leader_epoch(partition) + 1

    def committed(self, partition: int, *, deleted: bool = False) -> list[bytes | None]:
        """Return the values that a read_committed consumer gets, including those behind open transactions.

        *deleted*: also those that were deleted meanwhile.
        """
        log = self.log_of(partition)
        hidden = set(log.aborted).union(*log.open_transactions.values())
        start = 0 if deleted else log.start
        return [record.value for place, record in enumerate(log.records) if place >= start and place not in hidden]

    def watermark(self, partition: int) -> int:
        """Return how many entries of a partition's log all replicas in sync have: those that can be read."""
        log = self.log_of(partition)
        replicated = self.replicated.get(partition)
        if replicated is None:
            return len(log.entries)
        return min(log.common_length(replicated.replicas[broker].log) for broker in replicated.in_sync)

    def delete_records(self, partition: int, until: int, *, forgets: bool = False) -> None:
        """Delete a partition's records before an offset; `log` still has them, behind them is `log_starts`.

        *forgets*: a producer is forgotten with its records, as before Kafka 2.4.
        """
        if partition in self.replicated:
            self.replicated[partition].delete_records(until, forgets=forgets)
        else:
            self.log_of(partition).delete_records(until, forgets=forgets)

    def append(self, partition: int, batch: RecordBatch) -> tuple[ErrorCode, int]:
        """Append a batch unless its sequence number is refused; return the error code and the batch's base offset."""
        return self.log_of(partition).append(batch)

    def mark(self, partition: int, producer_id: int, epoch: int, committed: bool) -> None:
        """Write the marker that ends a transaction."""
        if partition in self.replicated:
            self.replicated[partition].mark(producer_id, epoch, committed)
        else:
            self.log_of(partition).mark(producer_id, epoch, committed)

    def forget_producers(self) -> None:
        """Lose the state of all producers, at every broker."""
        for log in self.logs.values():
            log.forget_producers()
        for replicated in self.replicated.values():
            replicated.forget_producers()
