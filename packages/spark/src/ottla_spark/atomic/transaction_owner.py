"""Requests of the driver to the brokers: the owner of a query's transactions, and the place of its marker."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import PluginValues
from ottla.errors import InvalidRecordError, OttlaError
from ottla.transactions import (
    Ended,
    OffsetAndMetadata,
    SharedTransaction,
    committed_offset,
    partition_counts,
    sharing,
)
from ottla.transactions.admin.blocking_client import blocking_client
from ottla.transactions.admin.group_offsets import committed_by_group
from ottla.transactions.admin.transaction_owner import Sharing
from ottla_spark.atomic.marker import Marker
from ottla_spark.options.shipped_files import with_shipped_files

_BRIEFLY: Final = 5.0
"""Seconds for what only makes an error message better."""


@attrs.frozen(kw_only=True)
class TransactionOwner:
    """Owner that opens new connections for each call, so that no idle connection goes stale between batches.

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
        """The marker's place, for error messages."""
        return f"group {self.transactional_id!r} (topic {self.marker_topic!r}, partition 0)"

    @property
    def _connection(self) -> PluginValues:
        """The settings, with the files that Spark distributed."""
        return with_shipped_files(self.settings)

    def cluster_id(self) -> str | None:
        """Return the id that all brokers of the cluster share, or None if they have none."""
        with blocking_client(self._connection, timeout=self.timeout) as client:
            return client.cluster_id()

    def partitions(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Return the partition counts of the topics and the marker's topic, all of which have to exist."""
        counts = partition_counts(self._connection, {*topics, self.marker_topic}, timeout=self.timeout)
        return {topic: counts[topic] for topic in topics}

    def open(self, after: SharedTransaction | None) -> SharedTransaction:
        """Begin a transaction with a new epoch. If *after* is None, fence the id's previous owner first."""
        with sharing(self._connection, timeout=self.timeout) as owner:
            return owner.open(self.transactional_id, after=after, transaction_timeout_ms=self.transaction_timeout_ms)

    def marker(self) -> Marker | None:
        """Return the last committed marker."""
        found = committed_offset(self._connection, self.transactional_id, self.marker_topic, 0, timeout=self.timeout)
        return None if found is None else Marker.from_offset(found)

    def markers_for_other_topics(self) -> Mapping[str, Marker]:
        """Return the markers that the group has for other topics than that of the marker; none without a response."""
        markers: dict[str, Marker] = {}
        with (
            contextlib.suppress(OttlaError),
            blocking_client(self._connection, timeout=min(self.timeout, _BRIEFLY)) as client,
        ):
            for found in committed_by_group(client, self.transactional_id):
                if found.topic != self.marker_topic and found.partition == 0:
                    with contextlib.suppress(InvalidRecordError):
                        markers[found.topic] = Marker.from_offset(OffsetAndMetadata(found.offset, found.metadata))
        return markers

    def mark(self, shared: SharedTransaction, marker: Marker, *, read: bool = False) -> Marker | None:
        """Add a marker to the transaction. With *read*, return the committed one, as the same coordinator has it."""
        with blocking_client(self._connection, timeout=self.timeout) as client:
            offsets = {(self.marker_topic, 0): marker.to_offset()}
            Sharing(client).commit_offsets(shared, offsets, self.transactional_id)
            for found in committed_by_group(client, self.transactional_id) if read else ():
                if (found.topic, found.partition) == (self.marker_topic, 0):
                    return Marker.from_offset(OffsetAndMetadata(found.offset, found.metadata))
        return None

    def end(self, shared: SharedTransaction, *, commit: bool) -> Ended:
        """Commit or abort the transaction."""
        with sharing(self._connection, timeout=self.timeout) as owner:
            return owner.end(shared, commit=commit)
