"""Calls of a partitioner as the core makes them, each checked, and the views of topics that they get."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from ottla.errors import OttlaError, with_article
from ottla.interfaces import (
    Partitioner,
    RecordView,
    SupportsAppended,
    SupportsHashes,
    SupportsIgnoresKeys,
    SupportsOnNewBatch,
    SupportsPartitionColumn,
    SupportsPartitionRecord,
    TopicView,
    supports,
)
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability, needed
from ottla_testkit.conformance.partitioner_probes import keys_for_branches

COUNTS: Final = (1, 2, 3, 7, 12, 100, 5000)
TOPIC: Final = "conformance"

KEYS: Final[Sequence[bytes]] = (b"", b"\0", b"a", b"\xff\xfe not UTF-8", b"key-1", bytes(255), bytes(range(256)) * 40)
LARGE: Final = 1 << 20
_RACKS: Final[Mapping[int, str]] = {1: "rack-1", 2: "rack-2"}
"""The racks of two brokers; the third one has none."""


class PartitionerCalls(BoundedSuite):
    """Attributes and checked calls for the tests of a partitioner."""

    keys_decide: ClassVar[bool | None] = None
    """Whether the key alone decides a record's partition, as long as the topic's number of partitions is the same.

    None means yes for a partitioner that has `partition_column` or `hashes`, and does not ignore keys.
    """
    avoids_lost_leaders: ClassVar[bool] = False
    """Whether records without a key go to partitions that have a leader, if there is one."""
    avoids_slow_leaders: ClassVar[bool | None] = None
    """Whether records without a key avoid partitions with a slow leader, if others have one that is not slow.

    None means the same as `avoids_lost_leaders`.
    """
    spreads_keyless: ClassVar[bool | None] = None
    """Whether records without a key reach all partitions that have a leader. By default, as `avoids_lost_leaders`."""
    spreads_keys: ClassVar[bool] = True
    """Whether many different keys reach at least half of a topic's partitions, and the last one."""
    sample_keys: ClassVar[Sequence[bytes]] = ()
    """Keys that the partitioner treats in its own ways, such as one with each of its prefixes; all tests use them, too.

    The suite finds constants with which the partitioner compares a key, `key.startswith(b"eu-")`, without this.
    """
    places: ClassVar[Mapping[tuple[bytes, int], int]] = {}
    """Required partitions by key and number of partitions, for compatibility with others, such as Java's producer."""

    def _keys(self, partitioner: Partitioner) -> Sequence[bytes]:
        """Return keys of many forms, and those that reach the branches of this partitioner."""

        def ask(key: bytes) -> object:
            if supports(partitioner, SupportsPartitionRecord):
                return partitioner.partition_record(record_of(TOPIC, key), view_of(12))
            return partitioner.partition(TOPIC, key, view_of(12))

        def is_refused(key: bytes) -> bool:
            try:
                ask(key)
            except OttlaError:
                return True  # as the interface allows
            except Exception:
                return False
            return False

        found = [key for key in keys_for_branches(ask) if not is_refused(key)]
        return [*KEYS, *self.sample_keys, *found]

    def _ask(self, partitioner: Partitioner, key: bytes | None, view: TopicView, *, topic: str = TOPIC) -> int:
        what = "no key" if key is None else f"the key {key[:24]!r}"
        method, ask = "partition()", lambda: partitioner.partition(topic, key, view)
        if supports(partitioner, SupportsPartitionRecord):
            by_record = partitioner.partition_record
            method, ask = "partition_record()", lambda: by_record(record_of(topic, key), view)
        chosen: Any = call_of(
            f"{method} for {what} and a topic of {view.partitions} partitions, {len(view.available)} of them with a "
            "leader,",
            lambda: self.timed(method, ask),
        )
        check_partition(method, chosen, view)
        return int(chosen)

    def _column(self, partitioner: Partitioner, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        partition_column = needed(partitioner, SupportsPartitionColumn).partition_column
        given = list(keys)
        column: Any = call_of(
            f"partition_column() for {len(keys)} keys",
            lambda: partition_column(TOPIC, given, view),
        )
        check(given == list(keys), "partition_column() changed the list of keys, which is the core's")
        check(
            hasattr(column, "__len__") and hasattr(column, "__getitem__"),
            f"partition_column() returned {column!r}, {with_article(type(column).__name__)}; a sequence of "
            "partitions is needed",
        )
        check(len(column) == len(keys), f"partition_column() gave {len(column)} partitions for {len(keys)} keys")
        # Any integer type is fine: numpy arrays have their own.
        chosen = [partition if isinstance(partition, bool) else _index(partition) for partition in column]
        for partition in chosen:
            check_partition("partition_column()", partition, view)
        return chosen

    def _append(self, partitioner: Partitioner, partition: int, size: int, *, topic: str = TOPIC) -> None:
        if has_ability(partitioner, SupportsAppended):
            call_of(f"appended() for partition {partition}", lambda: partitioner.appended(topic, partition, size))

    def _ask_for_new_batch(self, partitioner: Partitioner, view: TopicView, topic: str = TOPIC) -> int:
        """Return the partition of a record without a key that fills a batch, so that the next one may move."""
        chosen = self._ask(partitioner, None, view, topic=topic)
        self._append(partitioner, chosen, LARGE, topic=topic)
        if has_ability(partitioner, SupportsOnNewBatch):
            call_of("on_new_batch()", lambda: partitioner.on_new_batch(topic, chosen, view))
        return chosen

    def _keys_decide(self, partitioner: Partitioner) -> bool:
        if self.keys_decide is not None:
            return self.keys_decide
        declared = has_ability(partitioner, SupportsPartitionColumn) or hash_of(partitioner) is not None
        return declared and not ignores_keys(partitioner)


def hash_of(partitioner: Partitioner) -> str | None:
    return partitioner.hashes if supports(partitioner, SupportsHashes) else None


def ignores_keys(partitioner: Partitioner) -> bool:
    return supports(partitioner, SupportsIgnoresKeys) and partitioner.ignores_keys


def call_of(call: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        fail(f"{call} raised {error!r}; it must have a partition for every record", error)


def _index(partition: Any) -> Any:
    try:
        return operator.index(partition)
    except TypeError:
        return partition


def check_partition(call: str, chosen: object, view: TopicView) -> None:
    check(
        isinstance(chosen, int) and not isinstance(chosen, bool),
        f"{call} returned {chosen!r}, {with_article(type(chosen).__name__)}; a partition is an int",
    )
    check(
        isinstance(chosen, int) and 0 <= chosen < view.partitions,
        f"{call} chose partition {chosen} of a topic that has {view.partitions}, counted from 0",
    )


def view_of(
    count: int,
    *,
    available: Sequence[int] | None = None,
    queued: Sequence[int] = (),
    slow: frozenset[int] = frozenset(),
    racks: Mapping[int, str] = _RACKS,
) -> TopicView:
    with_leader = frozenset(range(count) if available is None else available)
    return TopicView(
        partitions=count,
        available=tuple(range(count)) if available is None else available,
        queued_bytes=list(queued) or [0] * count,
        slow=slow,
        leaders=tuple(1 + partition % 3 if partition in with_leader else -1 for partition in range(count)),
        racks=racks,
    )


def record_of(topic: str, key: bytes | None) -> RecordView:
    return RecordView(topic=topic, key=key, value=b"value", headers=(), timestamp_ms=None)


def all_views(chance: random.Random) -> Iterator[TopicView]:
    for count in COUNTS:
        yield from views_of(count, chance)


def views_of(count: int, chance: random.Random) -> Iterator[TopicView]:
    """Yield views of a topic: without leaders, with one, with slow brokers, with long queues, without known brokers."""
    yield view_of(count)
    yield view_of(count, racks={})
    yield TopicView(partitions=count, available=tuple(range(count)), queued_bytes=[0] * count)
    yield view_of(count, available=())
    yield view_of(count, available=(count - 1,))
    yield view_of(count, available=tuple(sorted(chance.sample(range(count), count // 2))))
    yield view_of(count, queued=[chance.randrange(1 << 24) for _ in range(count)])
    yield view_of(count, slow=frozenset(range(count)))
    yield view_of(count, slow=frozenset(chance.sample(range(count), count // 2)))
