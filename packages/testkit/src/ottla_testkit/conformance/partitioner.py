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
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import pytest

from ottla.interfaces import (
    Partitioner,
    RecordView,
    SupportsAppended,
    SupportsOnNewBatch,
    SupportsPartitionRecord,
    TopicView,
)
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail, needed, sentence_of
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.schedules import Schedule, check_orders
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads
from ottla_testkit.conformance.partitioner_calls import (
    COUNTS,
    KEYS,
    LARGE,
    TOPIC,
    all_views,
    call_of,
    check_partition,
    record_of,
    view_of,
)
from ottla_testkit.conformance.partitioner_keys import PartitionerKeys
from ottla_testkit.conformance.partitioner_leaders import PartitionerLeaders

_MANY: Final = 2000
_THREADS: Final = 8
_SCHEDULES: Final = 3
_SCHEDULED: Final = 4
_TIMED: Final = 20
_TURNS: Final = 40
_SLOW: Final = 0.01
"""Seconds; the shortest of some calls is measured, so that a busy machine makes no partitioner slow."""


class PartitionerConformance(PartitionerKeys, PartitionerLeaders):
    """Tests of a partitioner: derive a class `Test...` from it, and override the fixture `partitioner`."""

    subject: ClassVar[str] = "partitioner"
    contract: ClassVar[type] = Partitioner
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
        keys = self._keys(partitioner)
        for view in all_views(chance):
            for key in (None, *keys, chance.randbytes(16)):
                for _ in range(3):
                    self._ask(partitioner, key, view)

    def test_every_record_has_a_partition_in_range(self, partitioner: Partitioner, chance: random.Random) -> None:
        partition_record = needed(partitioner, SupportsPartitionRecord).partition_record
        keys = self._keys(partitioner)
        for view in all_views(chance):
            for record in (*_records(), *(record_of(TOPIC, key) for key in keys)):
                chosen = call_of(
                    f"partition_record() for {record!r:.200} and a topic of {view.partitions} partitions",
                    partial(partition_record, record, view),
                )
                check_partition("partition_record()", chosen, view)

    def test_a_topic_that_grows_or_shrinks_is_seen_in_its_current_state(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        keys = self._keys(partitioner)
        for count in (12, 3, 100, 1, 7, 2):
            view = view_of(count)
            for key in (None, *keys):
                for _ in range(count + 2):
                    self._ask(partitioner, key, view)
                    self._append(partitioner, chance.randrange(count), LARGE)

    def test_topics_are_independent(self, partitioner: Partitioner) -> None:
        large, small = view_of(100), view_of(2)
        for number in range(50):
            for of_large, of_small in itertools.product((None, b"%d" % number), repeat=2):
                self._ask(partitioner, of_large, large, topic="large")
                self._ask(partitioner, of_small, small, topic="small")

    def test_topics_by_turns_use_the_partitions_that_one_topic_uses(self, partitioner: Partitioner) -> None:
        for count in (2, 3):
            view, topics = view_of(count), [f"{number} of {count}" for number in range(count)]
            one = {self._ask_for_new_batch(partitioner, view, f"one of {count}") for _ in range(_TURNS)}
            by_turns: dict[str, set[int]] = {topic: set() for topic in topics}
            for topic in topics * _TURNS:
                by_turns[topic].add(self._ask_for_new_batch(partitioner, view, topic))
            for seen in by_turns.values():
                check(
                    len(one) < count or seen == one,
                    f"records without a key reached all {count} partitions of one topic, and of {count} topics by "
                    f"turns only {sorted(seen)} of one of them: keep a count for each topic",
                )

    def test_choosing_a_partition_does_not_change_the_view(
        self, partitioner: Partitioner, chance: random.Random
    ) -> None:
        for view in all_views(chance):
            lists = [list(view.queued_bytes), list(view.available), list(view.leaders), dict(view.racks)]
            for key in (None, b"key"):
                self._ask(partitioner, key, view)
            check(
                [list(view.queued_bytes), list(view.available), list(view.leaders), dict(view.racks)] == lists,
                "partition() changed the view: its lists are the core's own",
            )

    def test_every_call_returns_at_once(self, partitioner: Partitioner) -> None:
        for key in (None, b"key"):
            within(
                self.timeout,
                "partition()",
                lambda key=key: self._ask(partitioner, key, view_of(12)),  # type: ignore[misc]
                remedy="the caller of send() waits for it, and the I/O thread as well: it must not wait for anything",
            )

    def test_a_call_takes_much_less_than_a_record_may_wait(self, partitioner: Partitioner) -> None:
        took = []
        for number in range(_TIMED):
            started_at = time.perf_counter()
            self._ask(partitioner, b"%d" % number, view_of(12))
            took.append(time.perf_counter() - started_at)
        check(
            min(took) < _SLOW,
            f"partition() took {min(took) * 1000:.3g} ms or more in each of {_TIMED} calls: every record waits for it, "
            f"and no thread sends more than {1 / min(took):.0f} records per second",
        )

    # Optional abilities, in the order in which the core uses them

    def test_appended_bytes_change_the_partition_of_a_sticky_partitioner(self, partitioner: Partitioner) -> None:
        needed(partitioner, SupportsAppended)
        view, seen = view_of(4), set()
        for _ in range(400):
            chosen = self._ask(partitioner, None, view)
            seen.add(chosen)
            self._append(partitioner, chosen, LARGE)
        check(
            seen == {0, 1, 2, 3},
            f"after 400 times {LARGE} bytes without a key, only the partitions {sorted(seen)} of 4 were chosen",
        )

    def test_it_can_be_notified_of_unknown_partitions_and_topics(self, partitioner: Partitioner) -> None:
        needed(partitioner, SupportsAppended)
        for topic, partition, size in (("never asked", 0, 1), (TOPIC, 4999, 0), (TOPIC, 0, 1 << 31)):
            self._append(partitioner, partition, size, topic=topic)
        self._ask(partitioner, None, view_of(2))
        self._append(partitioner, 4999, 10)
        self._ask(partitioner, None, view_of(1))

    def test_it_is_called_again_after_a_new_batch(self, partitioner: Partitioner) -> None:
        on_new_batch = needed(partitioner, SupportsOnNewBatch).on_new_batch

        def begin_batch(partition: int, view: TopicView) -> None:
            call_of(f"on_new_batch() for partition {partition}", lambda: on_new_batch(TOPIC, partition, view))

        begin_batch(0, view_of(1))
        for count in COUNTS:
            view = view_of(count)
            for key in (None, b"key") * 10:
                chosen = self._ask(partitioner, key, view)
                begin_batch(chosen, view)
                begin_batch(chosen, view)  # on another thread, for the same reason
                self._ask(partitioner, key, view)

    # Threads

    def test_many_threads_call_it_at_once(self, partitioner: Partitioner, chance: random.Random) -> None:
        views = {f"topic {count}": view_of(count) for count in (1, 3, 12, 100)}
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
        views = [view_of(count) for count in (1, 3, 12, 100)]
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

        check_orders([partial(ask, topic) for topic in range(len(views))], "state that calls share needs a lock")

    def test_threads_may_ask_for_a_topic_of_an_unknown_size(self, partitioner: Partitioner) -> None:
        keys = (None, b"a", b"another key")
        for seed in range(_SCHEDULES):
            view, placed = view_of(2 + seed), set[tuple[bytes, int]]()

            def ask(view: TopicView = view, placed: set[tuple[bytes, int]] = placed) -> None:
                for key in keys:
                    chosen = self._ask(partitioner, key, view)
                    if key is not None:
                        placed.add((key, chosen))

            error = Schedule(seed).run([ask] * _SCHEDULED)
            if error is not None:
                fail(
                    f"of threads that are the first to ask for {view.partitions} partitions, one saw: "
                    f"{sentence_of(error)}",
                    error,
                )
            check(
                not self._keys_decide(partitioner) or len(placed) == len(keys) - 1,
                f"threads that are the first to ask for {view.partitions} partitions put a key on different ones: what "
                "is kept for a number of partitions must be whole before other threads can read it",
            )

    # The end

    def test_close_ends_background_work(self, started_threads: StartedThreads, partitioner: Partitioner) -> None:
        with self._closed_after(partitioner, started_threads):
            for key in (None, *KEYS):
                self._append(partitioner, self._ask(partitioner, key, view_of(12)), LARGE)


def _records() -> Iterator[RecordView]:
    """Yield records that `send` takes, with and without each of their parts."""
    headers = [(), (("name", None),), (("", b""), ("name", b"\xff"), ("name", b"1")), (("n\u00e4me", bytes(300)),)]
    for key, value in itertools.product((None, b"", b"key", b"\xff\0"), (None, b"", b"{}", bytes(range(256)))):
        for each, timestamp_ms in zip(headers, (None, 0, 1_700_000_000_000, (1 << 63) - 1), strict=True):
            yield RecordView(topic=TOPIC, key=key, value=value, headers=each, timestamp_ms=timestamp_ms)
