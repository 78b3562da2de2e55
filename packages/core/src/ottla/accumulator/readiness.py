"""The time from which a queued batch may leave.

`linger` is `linger.ms` less the time that sealing takes (`accumulator.build`); `keyed_appender` applies it to
unassigned batches.
"""

from __future__ import annotations

import attrs

from ottla.accumulator.append_permission import AppendPermission
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.partition_queue import PartitionQueue
from ottla.accumulator.sequences import Sequences
from ottla.network.cluster import Cluster
from ottla.results.stories.tries import CloseReason


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Readiness:
    """The rules by which batches leave: linger, backoff, mutes, memory and sequence numbers. Under the lock."""

    linger: float
    sequences: Sequences
    pool: BufferPool
    permission: AppendPermission

    @property
    def urgent(self) -> bool:
        """Return whether batches leave without linger: the producer closes, or a thread waits for memory."""
        return self.permission.refusal is not None or self.pool.waiting > 0

    @property
    def urgent_reason(self) -> CloseReason:
        """Why batches leave without linger."""
        return CloseReason.MEMORY if self.permission.refusal is None else CloseReason.CLOSE

    def due(self, queue: PartitionQueue, head: ProducerBatch, cluster: Cluster, *, urgent: bool) -> float:
        """The time from which the head of a queue may leave. A retried batch is closed, so it does not linger."""
        if head.attempts and has_new_leader(cluster, head):
            # KIP-951: the backoff is for the leader that refused the batch; the new leader has not got it yet. The
            # next drain notes the new epoch, so that the backoff is skipped only once for each leader.
            return queue.muted_until
        due = head.retry_at if urgent or head.full or head.closed else head.created_at + self.linger
        return due if due > queue.muted_until else queue.muted_until

    def may_leave(self, batch: ProducerBatch) -> bool:
        """Return whether the sequence numbers of its partition, and its transaction, let the batch leave."""
        return self.sequences.may_leave(batch)


def has_new_leader(cluster: Cluster, batch: ProducerBatch) -> bool:
    """Return whether a batch that was sent before would go to another leader now, or to the same in a later epoch."""
    return cluster.has_new_leader(
        batch.topic, batch.partition, since_epoch=batch.leader_epoch, since_node=batch.last_node
    )


def only_lingers(queue: PartitionQueue, head: ProducerBatch, now: float) -> bool:
    """Return whether a batch waits only for its linger."""
    return not (head.closed or head.full) and queue.muted_until <= now
