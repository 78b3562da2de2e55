"""Partitioners, and what they may read of a topic and a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs

from ottla.interfaces.records import Header
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TopicView(ValueMethods):
    """The state of a topic that a partitioner may read. A topic has a new view whenever the cluster changes.

    `available` lists the partitions with a leader, and `slow` those whose leader has taken no batch for
    `partitioner.availability.timeout.ms`. `queued_bytes` contains a number for each partition; other threads change it
    while the partitioner reads it, so a number may be out of date. `leaders` holds the node id of each partition's
    leader, -1 for none, and `racks` the rack of each node that has one. Both are empty where no brokers are known:
    where batches are made without a producer.
    """

    partitions: int
    available: Sequence[int]
    queued_bytes: Sequence[int]
    slow: frozenset[int] = frozenset()
    leaders: Sequence[int] = ()
    racks: Mapping[int, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecordView(ValueMethods):
    """A record that a partitioner may read, as the serializers made it. *timestamp_ms* None: `send` was given none."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp_ms: int | None


@runtime_checkable
class Partitioner(Protocol):
    """Chooses a partition when the caller did not. Called by many threads at the same time.

    Optional abilities, read once when the producer is built: `SupportsPartitionRecord`, `SupportsOnNewBatch`,
    `SupportsSticky` with `SupportsAppended` and `SupportsFinished`, `SupportsIgnoresKeys`, `SupportsPartitionColumn`,
    `SupportsHashes`, `SupportsClose`.
    """

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        """Return a partition in `range(view.partitions)`."""


class SupportsPartitionRecord(Protocol):
    """An optional ability of partitioners: choose by more than the key, such as a header or the value.

    Each record then takes a call, as do rows of tables: `sticky`, `ignores_keys`, `partition_column` and `hashes`, with
    which records share a call or take none, are not used.
    """

    def partition_record(self, record: RecordView, view: TopicView) -> int:
        """Return a partition in `range(view.partitions)`. Called in place of `partition`."""


class SupportsOnNewBatch(Protocol):
    """An optional ability of partitioners: choose again when a record would begin a new batch."""

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> object:
        """Called when a record would begin a new batch in this partition. Then the core calls `partition` again."""


class SupportsSticky(Protocol):
    """An optional ability of partitioners: records without a key stay with a partition, without a call for each."""

    sticky: bool
    """Whether records without a key go to the partition of the last one, without a call of `partition`, while the batch
    there has room. Then `appended` is called, and `partition` once more.
    """


class SupportsIgnoresKeys(Protocol):
    """An optional ability of partitioners that are sticky: records with keys are treated like those without."""

    ignores_keys: bool
    """Whether all records go where records without a key go."""


class SupportsAppended(Protocol):
    """An optional ability of partitioners that are sticky: count what was added to the chosen partition."""

    def appended(self, topic: str, partition: int, size: int) -> object:
        """Note that *size* bytes of records without a key were added to the partition."""


class SupportsFinished(Protocol):
    """An optional ability of partitioners that are sticky: count rows of tables apart from records of `send`."""

    def finished(self, topic: str, partition: int, size: int) -> object:
        """Called instead of `appended` for rows of tables, whose batches take no more records."""


class SupportsPartitionColumn(Protocol):
    """An optional ability of partitioners for which many keys in one call are faster than one by one.

    Records with keys then wait together until there are many of them.
    """

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        """Return the partitions of these keys, each in `range(view.partitions)`."""


class SupportsHashes(Protocol):
    """An optional ability of partitioners: to name their hash.

    An encoder may then compute the partitions of keys itself, without calling the partitioner.
    """

    hashes: str
    """The name of the hash that the partitioner applies to keys: "murmur2", which is Java's, is the only known one."""
