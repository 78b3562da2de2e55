"""All requirements for a `Partitioner`.

```python
class TestMine(PartitionerConformance):
    @pytest.fixture
    def partitioner(self):
        return MyPartitioner()
```

The suite calls it as the core does: from many threads, with views of topics that grow, shrink and lose brokers, and
with its optional abilities in the core's order.
"""

from __future__ import annotations

import itertools
import operator
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import pytest

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
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite, check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, has_ability, needed
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.schedules import Schedule
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

COUNTS: Final = (1, 2, 3, 7, 12, 100, 5000)
TOPIC: Final = "conformance"

_KEYS: Final = (b"", b"\0", b"a", b"\xff\xfe not UTF-8", b"key-1", bytes(255), bytes(range(256)) * 40)
_MANY: Final = 2000
_THREADS: Final = 8
_SCHEDULES: Final = 3
_SCHEDULED: Final = 4
_TIMED: Final = 20
_SLOW: Final = 0.01
"""Seconds; the shortest of some calls is measured, so that a busy machine makes no partitioner slow."""
_LARGE: Final = 1 << 20
_RACKS: Final[Mapping[int, str]] = {1: "rack-1", 2: "rack-2"}
"""The racks of two brokers; the third one has none."""


class PartitionerConformance(BoundedSuite):
    """Subclass it as `Test...`, and override the fixture `partitioner`."""

    subject: ClassVar[str] = "partitioner"
    contract: ClassVar[type] = Partitioner
    keys_decide: ClassVar[bool | None] = None
    """Whether the key alone decides a record's partition, as long as the topic's number of partitions is the same.

    None: yes for a partitioner that has `partition_column` or `hashes`, and does not ignore keys.
    """
    heeds_availability: ClassVar[bool] = False
    """Whether records without a key go to partitions that have a leader, if there is one."""
    spreads_keys: ClassVar[bool] = True
    """Whether many different keys reach at least half of a topic's partitions."""
    places: ClassVar[Mapping[tuple[bytes, int], int]] = {}
    """Required partitions by key and number of partitions, for compatibility with others, such as Java's producer."""
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call fails as blocking."""

    @pytest.fixture
    def partitioner(self) -> Partitioner:
        """The partitioner under test; a new one for each test."""
        raise NotImplementedError("give a fixture `partitioner` that returns your Partitioner")

    def test_it_has_every_method_of_the_contract(self, partitioner: Partitioner) -> None:
        check_contract(partitioner, Partitioner)
        for ability in ("partition_record", "partition_column", "appended", "finished", "on_new_batch"):
            method = getattr(partitioner, ability, None)
            check(method is None or callable(method), f"{ability} is {method!r}, which cannot be called")
        for flag in ("sticky", "ignores_keys"):
            value = getattr(partitioner, flag, False)
            check(isinstance(value, bool), f"{flag} is {value!r}, which is neither True nor False")

    def test_a_sticky_partitioner_can_be_notified_of_appended_bytes(self, partitioner: Partitioner) -> None:
        sticky = getattr(partitioner, "sticky", False)
        check(
            not sticky or callable(getattr(partitioner, "appended", None)),
            "sticky is True without `appended`: it is asked once for many records, and learns of them in no other way",
        )

    # One record

    def test_every_partition_is_in_range_for_any_topic(self, partitioner: Partitioner, chance: random.Random) -> None:
        for view in _views(chance):
            for key in (None, *_KEYS, chance.randbytes(16)):
                for _ in range(3):
                    self._ask(partitioner, key, view)

    def test_every_record_has_a_partition_in_range(self, partitioner: Partitioner, chance: random.Random) -> None:
        partition_record = needed(partitioner, SupportsPartitionRecord).partition_record
        for view in _views(chance):
            for record in _records():
                chosen = _call(
                    f"partition_record() for {record!r:.200} and a topic of {view.partitions} partitions",
                    partial(partition_record, record, view),
                )
                _check_partition("partition_record()", chosen, view)

    def test_a_topic_that_grows_or_shrinks_is_seen_in_its_current_state(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        for count in (12, 3, 100, 1, 7, 2):
            view = _view(count)
            for key in (None, *_KEYS):
                for _ in range(count + 2):
                    self._ask(partitioner, key, view)
                    self._append(partitioner, chance.randrange(count), _LARGE)

    def test_topics_are_independent(self, partitioner: Partitioner) -> None:
        large, small = _view(100), _view(2)
        for number in range(50):
            for of_large, of_small in itertools.product((None, b"%d" % number), repeat=2):
                self._ask(partitioner, of_large, large, topic="large")
                self._ask(partitioner, of_small, small, topic="small")

    def test_choosing_a_partition_does_not_change_the_view(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        for view in _views(chance):
            lists = [list(view.queued_bytes), list(view.available), list(view.leaders), dict(view.racks)]
            for key in (None, b"key"):
                self._ask(partitioner, key, view)
            check(
                [list(view.queued_bytes), list(view.available), list(view.leaders), dict(view.racks)] == lists,
                "partition() changed the view: its lists are the core's own",
            )

    def test_records_without_a_key_are_sent_to_a_partition_with_a_leader(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        if not self.heeds_availability:
            pytest.skip("heeds_availability is False")
        for count in COUNTS[1:]:
            available = tuple(sorted(chance.sample(range(count), chance.randrange(1, count))))
            view = _view(count, available=available)
            for _ in range(20):
                chosen = self._ask(partitioner, None, view)
                check(
                    chosen in available,
                    f"a record without a key was put on partition {chosen}, which has no leader now; partitions with "
                    f"one: {available[:8]}",
                )
                self._append(partitioner, chosen, _LARGE)

    def test_every_call_returns_at_once(self, partitioner: Partitioner) -> None:
        for key in (None, b"key"):
            within(
                self.timeout,
                "partition()",
                lambda key=key: self._ask(partitioner, key, _view(12)),  # type: ignore[misc]
                remedy="the caller of send() waits for it, and the I/O thread as well: it must not wait for anything",
            )

    def test_a_call_takes_much_less_than_a_record_may_wait(self, partitioner: Partitioner) -> None:
        took = []
        for number in range(_TIMED):
            started_at = time.perf_counter()
            self._ask(partitioner, b"%d" % number, _view(12))
            took.append(time.perf_counter() - started_at)
        check(
            min(took) < _SLOW,
            f"partition() took {min(took) * 1000:.3g} ms or more in each of {_TIMED} calls: every record waits for it, "
            f"and no thread sends more than {1 / min(took):.0f} records per second",
        )

    # Keys

    def test_a_key_always_has_the_same_partition(self, partitioner: Partitioner, chance: random.Random) -> None:
        if not self._keys_decide(partitioner):
            pytest.skip("keys do not decide where records go")
        keys = [*_KEYS, *(chance.randbytes(chance.randrange(1, 40)) for _ in range(200))]
        for count in COUNTS:
            first = [self._ask(partitioner, key, _view(count)) for key in keys]
            for view in _views_of(count, chance):
                self._ask(partitioner, None, view)
                for key, before in zip(keys, first, strict=True):
                    chosen = self._ask(partitioner, key, view)
                    check(
                        chosen == before,
                        f"the key {key[:24]!r} went to partition {before} and then to {chosen} of {count}: records of "
                        "one key have to stay in order, so only the key and the number of partitions may decide",
                    )

    def test_different_keys_reach_many_partitions(self, partitioner: Partitioner) -> None:
        if not self.spreads_keys or _ignores_keys(partitioner):
            pytest.skip("keys need not be spread")
        keys, count = [b"key-%d" % number for number in range(_MANY)], 12
        seen = {self._ask(partitioner, key, _view(count)) for key in keys}
        check(
            2 * len(seen) >= count,
            f"{len(keys)} different keys went to {len(seen)} of {count} partitions ({sorted(seen)}): the others stay "
            "empty; spreads_keys = False allows it",
        )

    def test_keys_have_the_partitions_of_other_clients(self, partitioner: Partitioner, chance: random.Random) -> None:
        for (key, count), expected in self.places.items():
            chosen = self._ask(partitioner, key, _view(count))
            check(
                chosen == expected, f"the key {key!r} went to partition {chosen} of {count}; it belongs on {expected}"
            )
        if _ignores_keys(partitioner) or _hash(partitioner) != "murmur2":
            return
        for key, count in itertools.product((*_KEYS, *(chance.randbytes(size) for size in range(40))), COUNTS):
            chosen, expected = self._ask(partitioner, key, _view(count)), partition_for_key(key, count)
            check(
                chosen == expected,
                f'hashes is "murmur2", and the key {key[:24]!r} went to partition {chosen} of {count}; '
                f"Java's producer puts it on {expected}",
            )

    @pytest.mark.parametrize("number", [1, 2, 12, 13, 1000])
    def test_many_keys_at_once_have_the_partitions_of_single_keys(
        self, partitioner: Partitioner, chance: random.Random, number: int
    ) -> None:
        for keys in (
            [chance.randbytes(chance.choice((0, 1, 7, 16, 300))) for _ in range(number)],
            [b"%016d" % one for one in range(number)],
            [b"the same"] * number,
        ):
            for count in COUNTS:
                view = _view(count)
                column = self._column(partitioner, keys, view)
                if not self._keys_decide(partitioner):
                    continue
                for key, chosen in zip(keys, column, strict=True):
                    alone = self._ask(partitioner, key, view)
                    check(
                        chosen == alone,
                        f"partition_column() put the key {key[:24]!r} on partition {chosen} of {count}, "
                        f"and partition() on {alone}",
                    )

    # Optional abilities, in the order in which the core uses them

    def test_appended_bytes_change_the_partition_of_a_sticky_partitioner(self, partitioner: Partitioner) -> None:
        needed(partitioner, SupportsAppended)
        view, seen = _view(4), set()
        for _ in range(400):
            chosen = self._ask(partitioner, None, view)
            seen.add(chosen)
            self._append(partitioner, chosen, _LARGE)
        check(
            seen == {0, 1, 2, 3},
            f"after 400 times {_LARGE} bytes without a key, only the partitions {sorted(seen)} of 4 were chosen",
        )

    def test_it_can_be_notified_of_unknown_partitions_and_topics(self, partitioner: Partitioner) -> None:
        needed(partitioner, SupportsAppended)
        for topic, partition, size in (("never asked", 0, 1), (TOPIC, 4999, 0), (TOPIC, 0, 1 << 31)):
            self._append(partitioner, partition, size, topic=topic)
        self._ask(partitioner, None, _view(2))
        self._append(partitioner, 4999, 10)
        self._ask(partitioner, None, _view(1))

    def test_it_is_called_again_after_a_new_batch(self, partitioner: Partitioner) -> None:
        on_new_batch = needed(partitioner, SupportsOnNewBatch).on_new_batch

        def begin_batch(partition: int, view: TopicView) -> None:
            _call(f"on_new_batch() for partition {partition}", lambda: on_new_batch(TOPIC, partition, view))

        begin_batch(0, _view(1))
        for count in COUNTS:
            view = _view(count)
            for key in (None, b"key") * 10:
                chosen = self._ask(partitioner, key, view)
                begin_batch(chosen, view)
                begin_batch(chosen, view)  # on another thread, for the same reason
                self._ask(partitioner, key, view)

    # Threads

    def test_many_threads_call_it_at_once(self, partitioner: Partitioner, chance: random.Random) -> None:
        views = {f"topic {count}": _view(count) for count in (1, 3, 12, 100)}
        keys = [None, *(chance.randbytes(8) for _ in range(20))]
        decided = self._keys_decide(partitioner)
        first = {
            (topic, key): self._ask(partitioner, key, view, topic=topic)
            for topic, view in views.items()
            for key in keys
        }

        def ask(topic: str, view: TopicView) -> None:
            for key in itertools.islice(itertools.cycle(keys), _MANY):
                chosen = self._ask(partitioner, key, view, topic=topic)
                if key is None:
                    self._append(partitioner, chosen, 4000, topic=topic)
                elif decided and chosen != first[topic, key]:
                    fail(
                        f"by many threads at once, a key went to partition {chosen}, and before to {first[topic, key]}"
                    )

        topics = itertools.islice(itertools.cycle(views.items()), _THREADS)
        together(
            self.timeout * 3,
            [lambda topic=topic, view=view: ask(topic, view) for topic, view in topics],  # type: ignore[misc]
            call="partition()",
        )

    def test_threads_may_change_at_any_line(self, partitioner: Partitioner) -> None:
        views = [_view(count) for count in (1, 3, 12, 100)]
        keys = (None, b"a", b"another key")
        decided = self._keys_decide(partitioner)
        first = {(topic, key): self._ask(partitioner, key, view, topic=f"topic {topic}")
                 for topic, view in enumerate(views) for key in keys}  # fmt: skip

        def ask(topic: int) -> None:
            for key in keys * _SCHEDULED:
                chosen = self._ask(partitioner, key, views[topic], topic=f"topic {topic}")
                check(
                    key is None or not decided or chosen == first[topic, key],
                    f"a key went to partition {chosen}, and before to {first[topic, key]}",
                )

        for seed in range(_SCHEDULES):
            error = Schedule(seed).run([partial(ask, topic) for topic in range(len(views))])
            if error is not None:
                fail(
                    f"it is not safe for threads: when they change between two of its lines, {error} (order {seed}, "
                    "the same each time); state that calls share needs a lock",
                    error,
                )

    # The end

    def test_close_ends_background_work(self, started_threads: StartedThreads, partitioner: Partitioner) -> None:
        with self._closed_after(partitioner, started_threads):
            for key in (None, *_KEYS):
                self._append(partitioner, self._ask(partitioner, key, _view(12)), _LARGE)

    # Shared by the tests

    def _ask(self, partitioner: Partitioner, key: bytes | None, view: TopicView, *, topic: str = TOPIC) -> int:
        what = "no key" if key is None else f"the key {key[:24]!r}"
        method, ask = "partition()", lambda: partitioner.partition(topic, key, view)
        if supports(partitioner, SupportsPartitionRecord):
            by_record = partitioner.partition_record
            method, ask = "partition_record()", lambda: by_record(_record(topic, key), view)
        chosen: Any = _call(
            f"{method} for {what} and a topic of {view.partitions} partitions, {len(view.available)} of them with a "
            "leader,",
            lambda: self.timed(method, ask),
        )
        _check_partition(method, chosen, view)
        return int(chosen)

    def _column(self, partitioner: Partitioner, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        partition_column = needed(partitioner, SupportsPartitionColumn).partition_column
        given = list(keys)
        column: Any = _call(
            f"partition_column() for {len(keys)} keys",
            lambda: partition_column(TOPIC, given, view),
        )
        check(given == list(keys), "partition_column() changed the list of keys, which is the core's")
        check(len(column) == len(keys), f"partition_column() gave {len(column)} partitions for {len(keys)} keys")
        # Any integer type is fine: numpy arrays have their own.
        chosen = [partition if isinstance(partition, bool) else _index(partition) for partition in column]
        for partition in chosen:
            _check_partition("partition_column()", partition, view)
        return chosen

    def _append(self, partitioner: Partitioner, partition: int, size: int, *, topic: str = TOPIC) -> None:
        if has_ability(partitioner, SupportsAppended):
            _call(f"appended() for partition {partition}", lambda: partitioner.appended(topic, partition, size))

    def _keys_decide(self, partitioner: Partitioner) -> bool:
        if self.keys_decide is not None:
            return self.keys_decide
        declared = has_ability(partitioner, SupportsPartitionColumn) or _hash(partitioner) is not None
        return declared and not _ignores_keys(partitioner)


def _hash(partitioner: Partitioner) -> str | None:
    return partitioner.hashes if supports(partitioner, SupportsHashes) else None


def _ignores_keys(partitioner: Partitioner) -> bool:
    return supports(partitioner, SupportsIgnoresKeys) and partitioner.ignores_keys


def _call(call: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        fail(f"{call} raised {error!r}; it must have a partition for every record", error)


def _index(partition: Any) -> Any:
    try:
        return operator.index(partition)
    except TypeError:
        return partition


def _check_partition(call: str, chosen: object, view: TopicView) -> None:
    check(
        isinstance(chosen, int) and not isinstance(chosen, bool),
        f"{call} returned {chosen!r}, a {type(chosen).__name__}; a partition is an int",
    )
    check(
        isinstance(chosen, int) and 0 <= chosen < view.partitions,
        f"{call} chose partition {chosen} of a topic that has {view.partitions}, counted from 0",
    )


def _view(
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


def _record(topic: str, key: bytes | None) -> RecordView:
    return RecordView(topic=topic, key=key, value=b"value", headers=(), timestamp_ms=None)


def _records() -> Iterator[RecordView]:
    """Yield records that `send` takes, with and without each of their parts."""
    headers = [(), (("name", None),), (("", b""), ("name", b"\xff"), ("name", b"1")), (("n\u00e4me", bytes(300)),)]
    for key, value in itertools.product((None, b"", b"key", b"\xff\0"), (None, b"", b"{}", bytes(range(256)))):
        for each, timestamp_ms in zip(headers, (None, 0, 1_700_000_000_000, (1 << 63) - 1), strict=True):
            yield RecordView(topic=TOPIC, key=key, value=value, headers=each, timestamp_ms=timestamp_ms)


def _views(chance: random.Random) -> Iterator[TopicView]:
    for count in COUNTS:
        yield from _views_of(count, chance)


def _views_of(count: int, chance: random.Random) -> Iterator[TopicView]:
    """Yield views of a topic: without leaders, with one, with slow brokers, with long queues, without known brokers."""
    yield _view(count)
    yield _view(count, racks={})
    yield TopicView(partitions=count, available=tuple(range(count)), queued_bytes=[0] * count)
    yield _view(count, available=())
    yield _view(count, available=(count - 1,))
    yield _view(count, available=tuple(sorted(chance.sample(range(count), count // 2))))
    yield _view(count, queued=[chance.randrange(1 << 24) for _ in range(count)])
    yield _view(count, slow=frozenset(range(count)))
    yield _view(count, slow=frozenset(chance.sample(range(count), count // 2)))
