"""The driver's conversation with the brokers: the owner of a query's transactions, and where its marker is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ottla.transactions import Ended, SharedTransaction, committed_offset, partition_counts, sharing
from ottla_spark.atomic.marker import Marker


@attrs.frozen(kw_only=True)
class TransactionOwner:
    """Asks with connections of its own each time: between two batches nothing stays open that could go stale.

    `settings` are a producer's, without a transactional id. The marker is the offset of group *transactional_id* for
    partition 0 of *marker_topic*.
    """

    settings: Mapping[str, Any]
    transactional_id: str
    transaction_timeout_ms: int
    marker_topic: str
    timeout: float

    @property
    def where(self) -> str:
        """The marker's place, for people."""
        return f"group {self.transactional_id!r} (topic {self.marker_topic!r}, partition 0)"

    def partitions(self, topics: Sequence[str]) -> Mapping[str, int]:
        """How many partitions the topics have, the marker's among them: it has to exist before anything is written."""
        counts = partition_counts(self.settings, {*topics, self.marker_topic}, timeout=self.timeout)
        return {topic: counts[topic] for topic in topics}

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        """A transaction with a new epoch; without *after* the id is taken over."""
        with sharing(self.settings, timeout=self.timeout) as owner:
            return owner.open(self.transactional_id, after=after, transaction_timeout_ms=self.transaction_timeout_ms)

    def marker(self) -> Marker | None:
        """The last one that was committed."""
        found = committed_offset(self.settings, self.transactional_id, self.marker_topic, 0, timeout=self.timeout)
        return None if found is None else Marker.from_offset(found)

    def mark(self, shared: SharedTransaction, marker: Marker) -> None:
        """Make a marker part of the transaction."""
        with sharing(self.settings, timeout=self.timeout) as owner:
            owner.commit_offsets(shared, {(self.marker_topic, 0): marker.to_offset()}, self.transactional_id)

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort it."""
        with sharing(self.settings, timeout=self.timeout) as owner:
            return owner.end(shared, commit=commit)
