"""Doubts about leaders: the answers of a broker that lacks batches which another leader may have."""

from __future__ import annotations

from typing import Final

from ottla.accumulator.batch import ProducerBatch

DOUBT_SECONDS: Final = 30.0
"""Seconds in which another leader that may have a batch is to be found. A broker that was cut off from the others is
replaced after `broker.session.timeout.ms`, 9 to 18 seconds, and metadata names it as the leader until it is asked of
another one."""


class LeaderDoubts:
    """The partitions whose broker lacks batches without being known to lead, and since when. For the I/O thread."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, int], tuple[int | None, float]] = {}

    def is_settled(self, batch: ProducerBatch, now: float) -> bool:
        """Note that the batch's broker lacks batches; return whether nothing else was heard for `DOUBT_SECONDS`.

        What is settled for a batch is settled for the ones behind it, until `end`: any other attempt ends the doubt.
        """
        partition = (batch.topic, batch.partition)
        node, since = self._since.get(partition, (batch.last_node, now))
        if node != batch.last_node:
            since = now
        self._since[partition] = batch.last_node, since
        return now - since >= DOUBT_SECONDS

    def end(self, batch: ProducerBatch) -> None:
        """End the doubt about the leader of the batch's partition: an attempt ended in another way."""
        self._since.pop((batch.topic, batch.partition), None)
