"""The only incomplete batch, which a round can send without a search: as a rule that of a record that is awaited.

A shortcut for a program that sends one record after the other. What it does is what `RecordAccumulator.ready` and
`drain` do; if anything needs more than that, it leaves the batch to them.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.incomplete_batches import IncompleteBatches
from ottla.accumulator.readiness import Readiness
from ottla.accumulator.sequences import Sequences
from ottla.accumulator.time_settings import TimeSettings
from ottla.network.cluster import Cluster


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoneBatch:
    """Takes the only incomplete batch out of its queue if it may leave. For the I/O thread."""

    batches: IncompleteBatches
    readiness: Readiness
    sequences: Sequences
    times: TimeSettings

    def take(self, cluster: Cluster, *, takes: Callable[[int], bool], now: float) -> tuple[int, ProducerBatch] | None:
        """The broker and the batch, if it was queued, may leave now, and its broker *takes* a request; else None."""
        batches = self.batches
        if len(batches.all) != 1 or self.sequences.transactional:
            return None
        with batches.lock:
            # In neither case is it the only one: it is in flight, or is still to be partitioned; or others came.
            if len(batches.waiting) != 1 or len(batches.all) != 1:
                return None
            [queue] = batches.waiting
            batch = queue.batches[0]
            created_at = batch.created_at
            leader = cluster.leader(queue.topic.name, queue.partition)
            if leader is None or created_at + self.times.delivery_timeout <= now:
                return None
            readiness = self.readiness
            if readiness.due(queue, batch, cluster, urgent=readiness.urgent) > now or not readiness.may_leave(batch):
                return None
            if not takes(leader):
                return None
            batches.oldest = created_at
            batches.next_check_at = created_at + self.times.delivery_timeout
            return leader, batches.take(queue, now)
