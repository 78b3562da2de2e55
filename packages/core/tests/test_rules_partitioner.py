"""The rules of where a record goes: by name, by key, by stay, and together with others in a run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine import columns, wait_until
from ottla import (
    BufferExhaustedError,
    Delivery,
    InvalidPluginError,
    InvalidRecordError,
    OttlaError,
    ProducerClosedError,
)
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_memory import MemoryGrant
from ottla.accumulator.batch_sizes import BatchSizes
from ottla.accumulator.buffer_pool import BufferPool
from ottla.accumulator.build import SEALING_SECONDS
from ottla.accumulator.key_partitioning import KeyPartitioner
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.unassigned_memory import UnassignedMemory, unassigned_memory
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import SignalSafeLock
from ottla.interfaces import Header, RecordView, TopicView
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla.recordbatch.objects import ObjectColumns
from ottla_testkit.simulation.brokers import SimulatedCluster
from simulated_producer import HANG_GUARD, Calling, simulated

HOUR_MS = 3_600_000
"""A linger that no test waits for."""


class Choosing:
    """A partitioner that returns the test's choices in order, and records its calls."""

    def __init__(self, *choices: int) -> None:
        self.choices = list(choices)
        self.new_batches: list[tuple[str, int]] = []

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return self.choices.pop(0)


class TellingNewBatches(Choosing):
    """One that wants to know when a batch begins."""

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> None:
        self.new_batches.append((topic, partition))


class Columnar(Choosing):
    """A partitioner that takes many keys at once."""

    def __init__(self, column: Callable[[Sequence[bytes | None]], Sequence[int]]) -> None:
        super().__init__()
        self._column = column
        self.columns: list[Sequence[bytes | None]] = []

    def partition_column(self, topic: str, keys: Sequence[bytes | None], view: TopicView) -> Sequence[int]:
        self.columns.append(list(keys))
        return self._column(keys)


class ByHeader(Choosing):
    """A partitioner that reads whole records, and takes the partition from their first header."""

    sticky = True
    ignores_keys = True
    hashes = "murmur2"

    def __init__(self) -> None:
        super().__init__()
        self.records: list[RecordView] = []

    def appended(self, topic: str, partition: int, size: int) -> None:
        raise AssertionError("each record is asked for")

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        raise AssertionError("each record is asked for")

    def partition_record(self, record: RecordView, view: TopicView) -> int:
        self.records.append(record)
        return int(record.headers[0][1] or b"0")


class ByHeaderOnNewBatch(ByHeader, TellingNewBatches):
    """The same with a call for each new batch."""


@pytest.mark.rule("partitioner.record")
@pytest.mark.parametrize("kind", [ByHeader, ByHeaderOnNewBatch])
@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_partitioner_by_records_reads_headers_value_and_time(kind: type[ByHeader], encoder: str) -> None:
    partitioner = kind()
    with simulated(1, 1, 1, plugins={"partitioner": partitioner}, record_encoder=encoder) as simulation:
        send = simulation.producer.send
        deliveries = [
            send("t", b"v", b"k", headers=[("to", b"2")], timestamp_ms=7),
            send("t", b"w", headers={"to": b"1"}),
            send("t", b"x", headers=[("to", b"0")], partition=1),
            send("t", None, b"k", headers=[("to", None)]),
        ]
        simulation.run_until_idle()

        assert [delivery.result().partition for delivery in deliveries] == [2, 1, 1, 0]
    distinct = list(dict.fromkeys(partitioner.records))
    assert distinct == [
        RecordView(topic="t", key=b"k", value=b"v", headers=(("to", b"2"),), timestamp_ms=7),
        RecordView(topic="t", key=None, value=b"w", headers=(("to", b"1"),), timestamp_ms=None),
        RecordView(topic="t", key=b"k", value=None, headers=(("to", None),), timestamp_ms=None),
    ]


@pytest.mark.rule("partitioner.record", "partitioner.out-of-range")
@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"3", "chose partition 3 for topic 't', which has 3"),
        (b"-1", "chose partition -1 for topic 't', which has 3"),
        (b"no", "failed in partition_record for topic 't': ValueError"),
    ],
)
def test_a_fault_of_a_partitioner_by_records_is_raised_by_send(header: bytes, said: str) -> None:
    with (
        simulated(1, 1, 1, plugins={"partitioner": ByHeader()}) as simulation,
        pytest.raises(InvalidPluginError, match=said),
    ):
        simulation.producer.send("t", b"v", headers=[("to", header)])


@pytest.mark.rule("partitioner.rack")
def test_records_without_a_key_go_to_leaders_in_the_rack_of_the_client() -> None:
    cluster = SimulatedCluster.of(1, 2)
    cluster.brokers[1].rack, cluster.brokers[2].rack = "a", "b"
    cluster.create("t", 1, 2, 1, 2)
    near = {"partitioner.rack.aware": True, "client.rack": "b", "batch.size": 1000, "batch.growth.enable": False}
    with simulated(cluster=cluster, config=near) as simulation:
        deliveries = [simulation.producer.send("t", bytes(600)) for _ in range(50)]
        simulation.run_until_idle()

        assert {delivery.result().partition for delivery in deliveries} == {1, 3}


@pytest.mark.rule("partitioner.explicit")
def test_an_explicit_partition_overrides_key_and_partitioner() -> None:
    with simulated(1, 1, 1, plugins={"partitioner": Choosing()}) as simulation:
        deliveries = [simulation.producer.send("t", b"v", b"key", partition=partition) for partition in (2, 0, 1)]
        simulation.run_until_idle()

        assert [delivery.result().partition for delivery in deliveries] == [2, 0, 1]


@pytest.mark.rule("partitioner.sticky.batch", "partitioner.sticky")
def test_records_without_a_key_fill_one_batch_after_another() -> None:
    lasting: dict[str, Any] = {"linger_ms": HOUR_MS, "delivery_timeout_ms": 2 * HOUR_MS}
    with simulated(*[1] * 50, batch_size=1_000, batch_growth_enable=False, **lasting) as simulation:
        deliveries = [simulation.producer.send("t", bytes(80)) for _ in range(100)]
        Calling(simulation, simulation.producer.flush).rounds()

        places = [delivery.result().partition for delivery in deliveries]
        stays = [place for place, before in zip(places, [-1, *places], strict=False) if place != before]
        assert 8 <= len(stays) <= 14  # 100 records, 8 to 11 of them in a batch
        assert simulation.accumulator.incomplete == 0


@pytest.mark.rule("partitioner.new-batch")
def test_a_partitioner_is_notified_of_a_new_batch_and_called_once_more() -> None:
    partitioner = TellingNewBatches(0, 1, 1, 2, 2)
    with simulated(1, 1, 1, plugins={"partitioner": partitioner}) as simulation:
        deliveries = [simulation.producer.send("t", b"v") for _ in range(3)]
        simulation.run_until_idle()

        # The first begins a batch: on_new_batch for 0 moves it to 1. The second fits there. The third needs another.
        assert partitioner.new_batches == [("t", 0), ("t", 2)]
        assert [delivery.result().partition for delivery in deliveries] == [1, 1, 2]
        assert partitioner.choices == []


@pytest.mark.rule("partitioner.new-batch", "partitioner.explicit")
def test_a_partitioner_is_not_notified_if_the_partition_is_explicit() -> None:
    partitioner = TellingNewBatches()
    with simulated(1, 1, plugins={"partitioner": partitioner}) as simulation:
        simulation.producer.send("t", b"v", partition=1)
        simulation.run_until_idle()

    assert partitioner.new_batches == []


@pytest.mark.rule("partitioner.out-of-range")
@pytest.mark.parametrize("choice", [-1, 2, 99])
def test_a_missing_partition_is_an_error_of_the_partitioner(choice: int) -> None:
    with simulated(1, 1, plugins={"partitioner": Choosing(choice, 1)}) as simulation:
        with pytest.raises(InvalidPluginError, match=rf"the partitioner \S*Choosing chose partition {choice} for "):
            simulation.producer.send("t", b"v")
        assert simulation.accumulator.incomplete == 0

        assert simulation.producer.send("t", b"v")
        simulation.run_until_idle()


class Raising(TellingNewBatches):
    """One that fails in the methods of these names."""

    def __init__(self, *methods: str) -> None:
        super().__init__(0, 0, 0)
        self._methods = methods

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self._fail("partition")
        return super().partition(topic, key, view)

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> None:
        self._fail("on_new_batch")

    def _fail(self, method: str) -> None:
        if method in self._methods:
            raise KeyError("x")


@pytest.mark.rule("partitioner.out-of-range")
@pytest.mark.parametrize("choice", ["1", 1.0, None])
def test_an_invalid_partition_is_an_error_that_names_the_partitioner(choice: Any) -> None:
    with simulated(1, 1, plugins={"partitioner": Choosing(choice)}) as simulation:
        chose = rf"chose {type(choice).__name__} for topic 't', but a partition is an int; correct it, "
        said = rf"^the partitioner \S*Choosing {chose}"
        with pytest.raises(InvalidPluginError, match=said):
            simulation.producer.send("t", b"v")
        assert simulation.accumulator.incomplete == 0


class OutOfMemory(Choosing):
    """Has none for the first record."""

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        chosen = super().partition(topic, key, view)
        if key == b"much":
            raise MemoryError("no room")
        return chosen

    def partition_column(self, topic: str, keys: Sequence[bytes | None], view: TopicView) -> Sequence[int]:
        return [self.partition(topic, key, view) for key in keys]


def test_a_memory_error_in_a_partitioner_costs_one_record_only() -> None:
    with simulated(1, 1, plugins={"partitioner": OutOfMemory(0, 0, 0)}) as simulation:
        failed = simulation.producer.send("t", b"v", b"much")
        simulation.producer.send("t", b"other", partition=1)
        simulation.run_until_idle()
        after = simulation.producer.send("t", b"v", b"little")
        simulation.run_until_idle()

        error = failed.exception()
        assert error is not None
        assert "there was no memory to queue them" in str(error)
        assert isinstance(error.__cause__, MemoryError)
        assert after.result().partition == 0
        assert simulation.accumulator.incomplete == 0
        assert simulation.accumulator.pool.free == simulation.accumulator.pool.capacity


def test_a_memory_error_in_a_partitioner_is_raised_by_send_unchanged() -> None:
    class Small(Choosing):
        def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
            raise MemoryError("no room")

    with simulated(1, 1, plugins={"partitioner": Small()}) as simulation:
        with pytest.raises(MemoryError, match="no room"):
            simulation.producer.send("t", b"v", b"much")
        assert simulation.accumulator.incomplete == 0
        assert simulation.accumulator.pool.free == simulation.accumulator.pool.capacity


@pytest.mark.parametrize("method", ["partition", "on_new_batch"])
def test_an_error_of_a_partitioner_is_the_cause_of_the_error_of_send(method: str) -> None:
    with simulated(1, 1, plugins={"partitioner": Raising(method)}) as simulation:
        said = rf"^the partitioner \S*Raising failed in {method} for topic 't': KeyError: 'x'; correct it, "
        with pytest.raises(InvalidPluginError, match=said) as caught:
            simulation.producer.send("t", b"v", b"key")
        assert isinstance(caught.value.__cause__, KeyError)
        assert simulation.accumulator.incomplete == 0


def test_an_ottla_error_of_a_partitioner_is_raised_by_send_unchanged() -> None:
    class Keyed(Choosing):
        def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
            raise InvalidRecordError(f"topic {topic!r} takes no records without a key")

    with (
        simulated(1, 1, plugins={"partitioner": Keyed()}) as simulation,
        pytest.raises(InvalidRecordError, match="takes no records without a key"),
    ):
        simulation.producer.send("t", b"v")


def test_integers_of_other_libraries_are_accepted_as_partitions() -> None:
    class Number:
        def __index__(self) -> int:
            return 1

    with simulated(1, 1, plugins={"partitioner": Choosing(cast(int, Number()))}) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert delivery.result().partition == 1


@pytest.mark.rule("partitioner.slow", "partitioner.slow.over")
def test_partitions_of_a_slow_broker_are_avoided_until_it_takes_batches() -> None:
    with simulated(1, 2, 1, 2, partitioner_availability_timeout_ms=1_000, batch_size=100) as simulation:
        simulation.network.hosts.black_holes.add("broker-2")
        simulation.network.cut(2)  # it may have given the producer its id
        simulation.producer.send("t", b"v", partition=1)
        simulation.pass_time(3.0)
        simulation.round(until=simulation.clock())  # nothing was due before

        deliveries = [simulation.producer.send("t", bytes(90)) for _ in range(100)]
        simulation.pass_time(0.1)
        assert {delivery.result(0).partition for delivery in deliveries} == {0, 2}

        simulation.network.hosts.black_holes.clear()
        simulation.run_until_idle()
        simulation.pass_time(1.0)
        deliveries = [simulation.producer.send("t", bytes(90)) for _ in range(100)]
        simulation.run_until_idle()
        assert {delivery.result().partition for delivery in deliveries} == {0, 1, 2, 3}


@pytest.mark.rule("partitioner.news")
def test_new_partitions_of_a_topic_are_used_with_and_without_keys() -> None:
    with simulated(1) as simulation:
        simulation.producer.send("t", b"v", b"key")
        simulation.run_until_idle()
        simulation.cluster.topics["t"].leaders.extend([1, 1, 1])
        simulation.metadata.request_update()
        simulation.pass_time(1.0)

        keyed = [simulation.producer.send("t", b"v", b"%d" % n) for n in range(20)]
        unkeyed = [simulation.producer.send("t", bytes(20_000)) for _ in range(200)]
        simulation.run_until_idle()

        assert [d.result().partition for d in keyed] == [partition_for_key(b"%d" % n, 4) for n in range(20)]
        assert {d.result().partition for d in unkeyed} == {0, 1, 2, 3}


# Runs


@pytest.mark.rule("partitioner.run", "partitioner.keyed")
def test_keys_are_partitioned_together_and_each_record_is_sent_to_its_own() -> None:
    partitioner = Columnar(lambda keys: [int(key or b"0") % 3 for key in keys])
    with simulated(1, 1, 1, plugins={"partitioner": partitioner}) as simulation:
        deliveries = [simulation.producer.send("t", b"v%d" % n, b"%d" % n) for n in range(100)]
        simulation.run_until_idle()

        assert partitioner.columns == [[b"%d" % n for n in range(100)]]
        assert [delivery.result().partition for delivery in deliveries] == [n % 3 for n in range(100)]
        assert simulation.log(1) == [b"v%d" % n for n in range(1, 100, 3)]


@pytest.mark.rule("partitioner.run", "accumulator.balance")
@pytest.mark.parametrize(("partitions", "memory"), [(1, 256 << 10), (100, 800 << 10), (1_000, 4 << 20)])
def test_an_unassigned_batch_reserves_memory_seldom_and_returns_the_rest(partitions: int, memory: int) -> None:
    partitioner = Columnar(lambda keys: [0] * len(keys))
    with simulated(*[1] * partitions, linger_ms=HOUR_MS, plugins={"partitioner": partitioner}) as simulation:
        simulation.producer.send("t", bytes(100), b"key")
        run = simulation.producer._known_routes["t"].unassigned
        first = run.open
        assert first is not None
        held = []
        while run.open is first:
            held.append(first.held_bytes)
            assert first.held_bytes <= max(5 * first.columns.memory(), 16_384)
            simulation.producer.send("t", bytes(100), b"key")
        Calling(simulation, simulation.producer.flush).rounds()

        assert max(held) == memory
        assert len(set(held)) <= 6
        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.parametrize(
    ("partitions", "buffer_memory", "most"),
    [(32, 32 << 20, 256 << 10), (33, 32 << 20, 264 << 10), (10_000, 1 << 30, 4 << 20), (10_000, 16 << 20, 2 << 20)],
)
def test_an_unassigned_batch_grows_with_partitions_and_spares_memory(
    partitions: int, buffer_memory: int, most: int
) -> None:
    assert unassigned_memory(partitions, buffer_memory) == most


@pytest.mark.rule("partitioner.run", "accumulator.many.share")
def test_unassigned_batches_of_many_topics_spare_memory_for_each_other() -> None:
    topics = [f"t{number}" for number in range(20)]
    partitioner = Columnar(lambda keys: [0] * len(keys))
    with simulated(1, linger_ms=HOUR_MS, max_block_ms=0, plugins={"partitioner": partitioner}) as simulation:
        for topic in topics:
            simulation.cluster.create(topic, *[1] * 256)
            simulation.know(topic)

        for topic in topics:
            for number in range(60):
                simulation.producer.send(topic, bytes(100), b"%d" % number)

        assert partitioner.columns == []  # none was assigned, because there was no memory
        assert simulation.pool.free > simulation.pool.capacity // 2


@pytest.mark.rule("partitioner.run.leaves")
@pytest.mark.parametrize("what", ["linger", "flush", "close", "memory", "much"])
def test_an_unassigned_batch_ends_with_everything_that_ends_linger(what: str) -> None:
    with simulated(
        1, 1, linger_ms=5_000, batch_size=300, buffer_memory=1_000_000 if what == "much" else 40_000
    ) as simulation:
        delivery = simulation.producer.send("t", b"v", b"key")
        simulation.round(until=simulation.clock())
        assert not delivery.done()
        started = simulation.clock()

        if what == "linger":
            simulation.run_until_idle()
            assert simulation.clock() - started == pytest.approx(5.0 - SEALING_SECONDS)
        elif what == "flush":
            Calling(simulation, simulation.producer.flush).rounds()
        elif what == "close":
            simulation.producer.close()
        elif what == "memory":
            calling = Calling(simulation, lambda: simulation.producer.send("t", bytes(39_900), partition=1))
            simulation.run_until(delivery.done, time_passes=False)
            calling.rounds()
            assert calling.error is None
        else:
            for _ in range(2_000):
                simulation.producer.send("t", bytes(100), b"key")
            simulation.run_until(delivery.done, time_passes=False)
        if what != "linger":
            assert simulation.clock() < started + 5.0
        assert delivery.result().offset == 0


@pytest.mark.rule("partitioner.run.fault", "partitioner.out-of-range")
@pytest.mark.parametrize("fault", ["raises", "out of range", "too few", "none", "texts", "floats"])
def test_a_partitioner_error_fails_only_its_unassigned_batch(fault: str) -> None:
    def column(keys: Sequence[bytes | None]) -> Sequence[int]:
        if b"bad" not in keys:
            return [0] * len(keys)
        if fault == "raises":
            raise ZeroDivisionError("a fault in a partitioner")
        return broken[fault](len(keys))

    broken: dict[str, Callable[[int], list[Any]]] = {
        "out of range": lambda count: [2] * count,
        "too few": lambda _count: [1],
        "none": lambda _count: [],
        "texts": lambda count: ["1"] * count,
        "floats": lambda count: [0, *[0.5] * (count - 1)],
    }
    who = f"the partitioner {__name__}.Columnar"
    said = {
        "raises": f"{who} failed in partition_column for topic 't': ZeroDivisionError: a fault in a partitioner",
        "out of range": f"{who} chose partitions from 2 to 2 for topic 't', which has 2",
        "too few": f"{who} returned 1 partition for 2 keys",
        "none": f"{who} returned 0 partitions for 2 keys",
        "texts": f"{who} chose list of str for topic 't', but a partition is an int",
        "floats": f"{who} chose list of int and float for topic 't', but a partition is an int",
    }
    reported: list[OttlaError | None] = []
    with simulated(1, 1, plugins={"partitioner": Columnar(column)}) as simulation:
        named = simulation.producer.send("t", b"named", partition=1)
        failed = [
            simulation.producer.send("t", b"v", key, on_delivery=lambda delivery: reported.append(delivery.error))
            for key in (b"good", b"bad")
        ]
        flushing = Calling(simulation, lambda: simulation.producer.flush(HANG_GUARD))
        flushing.rounds()

        assert flushing.error is None
        assert named.result().offset == 0
        for delivery in failed:
            error = delivery.exception()
            assert error is not None
            assert isinstance(error.__cause__, InvalidPluginError)
            assert isinstance(error.__cause__.__cause__, ZeroDivisionError if fault == "raises" else NoneType)
            assert said[fault] in str(error)
        assert len(reported) == 2
        assert simulation.pool.free == simulation.pool.capacity
        later = simulation.producer.send("t", b"v", b"good")
        simulation.run_until_idle()
        assert later.result().offset == 0


@pytest.mark.rule("partitioner.run.fault", "accumulator.balance")
@pytest.mark.parametrize("broken", ["extend", "memory", "size_estimate"])
@pytest.mark.parametrize("fails_at", range(1, 6))
def test_an_unassigned_batch_that_fails_while_moving_is_maybe_written(
    monkeypatch: pytest.MonkeyPatch, broken: str, fails_at: int
) -> None:
    whole = getattr(ObjectColumns, broken)
    calls = []
    moving = False

    def break_off(columns: ObjectColumns, *arguments: Any) -> Any:
        if moving:
            calls.append(columns)
            if len(calls) == fails_at:
                raise MemoryError
        return whole(columns, *arguments)

    def column(keys: Sequence[bytes | None]) -> Sequence[int]:
        nonlocal moving
        moving = True
        return [int(key or b"") for key in keys]

    with simulated(1, 1, 1, plugins={"partitioner": Columnar(column)}, linger_ms=5) as simulation:
        monkeypatch.setattr(ObjectColumns, broken, break_off)
        deliveries = {key: simulation.producer.send("t", key, key) for key in (b"0", b"1", b"2")}
        simulation.run_until_idle()
        for key, delivery in deliveries.items():
            error = delivery.exception(0)
            assert error is None or error.possibly_persisted or key not in simulation.log(int(key))
        assert simulation.pool.free == simulation.pool.capacity


Sending = tuple[int | None, int | None, int, Sequence[Header]]
sendings = st.lists(
    st.tuples(
        st.none() | st.integers(0, 9),
        st.none() | st.none() | st.integers(0, 4),
        st.integers(0, 400),
        st.sampled_from([(), (), (), (("name", b"content"),)]),
    ),
    max_size=60,
)


@pytest.mark.rule("partitioner.run", "partitioner.run.order", "partitioner.run.deliveries", "accumulator.balance")
@given(st.integers(1, 5), sendings, st.lists(st.integers(0, 59), max_size=6), st.integers(5_000, 60_000))
def test_records_with_and_without_keys_and_partitions_keep_their_order(
    partitions: int, rows: list[Sending], pauses: list[int], memory: int
) -> None:
    reported: dict[int, list[int]] = defaultdict(list)
    with simulated(*[1] * partitions, batch_size=400, buffer_memory=memory, max_block_ms=0) as simulation:
        sent: list[tuple[int, Delivery, bytes | None]] = []
        send = simulation.producer.send

        def note(delivery: Delivery) -> None:
            metadata = delivery.result()
            reported[metadata.partition].append(metadata.offset)

        for number, (key, partition, size, headers) in enumerate(rows):
            name = None if key is None else b"%d" % key
            place = None if partition is None else partition % partitions
            value = b"%02d" % number + bytes(size)
            try:
                delivery = send("t", value, name, headers=headers, partition=place, on_delivery=note)
            except BufferExhaustedError:
                simulation.run_until_idle()
                delivery = send("t", value, name, headers=headers, partition=place, on_delivery=note)
            sent.append((number, delivery, name if place is None else None))
            if place is not None:
                assert delivery._batch.partition == place
            if number in pauses:
                simulation.round(until=simulation.clock())
        simulation.run_until_idle()

        in_order: dict[int, list[int]] = defaultdict(list)
        for number, delivery, name in sent:
            result = delivery.result(0)
            in_order[result.partition].append(result.offset)
            stored = simulation.log(result.partition)[result.offset]
            assert stored is not None
            assert stored[:2] == b"%02d" % number
            if name is not None:
                assert result.partition == partition_for_key(name, partitions)
        assert all(offsets == list(range(len(offsets))) for offsets in in_order.values())
        assert reported == in_order
        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.rule("partitioner.run.deliveries", "producer.delivery.threads")
def test_concurrent_sends_of_every_kind_get_their_own_offsets() -> None:
    with simulated(1, 1, 1, batch_size=500, buffer_memory=100_000_000) as simulation:
        sent: list[list[Delivery]] = [[] for _ in range(4)]

        def work(thread: int) -> None:
            own = sent[thread]
            for number in range(1_000):
                value = b"%d %d" % (thread, number)
                key = b"%d" % number if thread % 2 else None
                partition = number % 3 if thread < 2 and number % 2 else None
                own.append(simulation.producer.send("t", value, key, partition=partition))

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            simulation.round(until=simulation.clock())
        simulation.run_until_idle()

        for sender, own in enumerate(sent):
            assert len(own) == 1_000
            for number, delivery in enumerate(own):
                result = delivery.result(0)
                assert simulation.log(result.partition)[result.offset] == b"%d %d" % (sender, number)
        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.rule("partitioner.run.order")
def test_records_sent_during_a_partitioning_follow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with simulated(1, linger_ms=100) as simulation:
        simulation.producer.send("t", b"0", partition=0)
        simulation.producer.send("t", b"1", b"key")
        by_partition, enter = KeyPartitioner._by_partition, SignalSafeLock.__enter__
        guard = simulation.accumulator._guard
        threads: list[threading.Thread] = []
        waits = threading.Event()

        def note_wait(lock: SignalSafeLock) -> Any:
            if lock is guard and threading.current_thread() in threads:
                waits.set()
            return enter(lock)

        def meanwhile(key_partitioner: KeyPartitioner, *arguments: Any) -> Any:
            sending = threading.Thread(
                target=simulation.producer.send, args=("t", b"2"), kwargs={"partition": 0}, daemon=True
            )
            threads.append(sending)
            sending.start()
            wait_until(lambda: waits.is_set() or not sending.is_alive(), timeout=HANG_GUARD)
            assert guard.raw._is_owned()  # so that the thread waits until this ends
            return by_partition(key_partitioner, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(KeyPartitioner, "_by_partition", meanwhile)
            patch.setattr(SignalSafeLock, "__enter__", note_wait)
            simulation.clock.advance(0.2)
            simulation.round(until=simulation.clock())
        [sending] = threads
        sending.join(HANG_GUARD)
        simulation.run_until_idle()

        assert simulation.log() == [b"0", b"1", b"2"]


def test_aborted_records_with_keys_get_no_partition_and_free_memory() -> None:
    partitioner = Columnar(lambda keys: [0] * len(keys))
    with simulated(1, linger_ms=HOUR_MS, plugins={"partitioner": partitioner}) as simulation:
        delivery = simulation.producer.send("t", b"v", b"key")
        simulation.accumulator.abort(ProducerClosedError("aborted"))
        simulation.run_until_idle()

        assert "aborted" in str(delivery.exception())
        assert partitioner.columns == []
        assert simulation.pool.free == simulation.pool.capacity


def test_records_without_a_key_among_others_count_for_their_partition() -> None:
    noted: list[tuple[str, int, int]] = []
    partitioner = KeyPartitioner(
        partition=lambda _topic, _key, _view: 1,
        partition_column=lambda _topic, keys, _view: [0] * len(keys),
        appended=lambda *what: noted.append(what),
        sizes=BatchSizes(target=16_384, max_bytes=1_000_000),
        columns=columns,
    )
    rows: Any = columns(100_000)
    for key in (b"k", None, b"k", None):
        rows.put(key, bytes(100), (), 0, None)
    view = TopicView(partitions=2, available=(0, 1), queued_bytes=(0, 0))

    assert [*partitioner._partitions("t", rows, view)] == [0, 1, 0, 1]
    assert noted == [("t", 1, rows.size_estimate() // 2)]


def test_keyed_records_that_fill_a_batch_wake_the_io_thread() -> None:
    with simulated(1, 1, linger_ms=10_000, batch_size=500) as simulation:
        other = 1 - partition_for_key(b"key", 2)
        simulation.producer.send("t", b"first", partition=other)
        simulation.pass_time(1.0)
        for _ in range(3):
            simulation.producer.send("t", bytes(300), b"key")
        before = simulation.network.wakeups
        simulation.producer.send("t", b"second", partition=other)

        assert simulation.network.wakeups > before


def test_an_unassigned_batch_keeps_no_record_once_partitions_are_chosen() -> None:
    with simulated(1, 1) as simulation:
        delivery = simulation.producer.send("t", b"value", b"key")
        unassigned = delivery._batch
        assert unassigned.partition < 0
        simulation.run_until_idle()

        assert list(unassigned.columns._values) == []
        assert len(unassigned.columns) == 1


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_a_partitioner_of_columns_gets_many_keys_with_each_encoder(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    calls: list[list[bytes]] = []

    class OfColumns:
        def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
            return 0

        def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
            calls.append([*keys])
            return [0] * len(keys)

    with simulated(1, 1, plugins={"partitioner": OfColumns()}, linger_ms=10, record_encoder=encoder) as simulation:
        for key in (b"a", b"b", b"c"):
            simulation.producer.send("t", b"value", key)
        simulation.run_until_idle()

    assert calls == [[b"a", b"b", b"c"]]


def test_a_keyed_record_that_fills_a_batch_alone_does_not_linger() -> None:
    with simulated(1, linger_ms=10_000) as simulation:
        sent_at = simulation.clock()
        delivery = simulation.producer.send("t", bytes(300_000), b"key")
        simulation.run_until(delivery.done)

        assert simulation.clock() - sent_at < 1.0


def test_a_keyed_record_of_exactly_the_limit_fills_an_unassigned_batch() -> None:
    queues = TopicQueues("t")
    pool = BufferPool(1_000_000, environment=Environment(clock=lambda: 0.0))
    memory = UnassignedMemory(sizes=BatchSizes(target=16_384, max_bytes=1_000_000), pool=pool)
    found = []
    for size in (1_000, 300_000):
        batch = ProducerBatch(topic="t", partition=-1, columns=columns(0), now=0.0)
        batch.append(b"key", bytes(size), (), 0, None)
        memory.begin(batch, queues, size)
        found.append(batch.full)

    assert found == [False, True]


@pytest.mark.rule("pool.bound")
@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_records_without_a_partition_take_no_more_memory_than_they_hold(size: int) -> None:
    """Otherwise a producer with keys would exceed `buffer.memory`."""
    queues = TopicQueues("t")
    pool = BufferPool(1_000_000, environment=Environment(clock=lambda: 0.0))
    memory = UnassignedMemory(sizes=BatchSizes(target=16_384, max_bytes=1_000_000), pool=pool)
    batch = ProducerBatch(topic="t", partition=-1, columns=columns(0), now=0.0)
    batch.append(b"key", bytes(size), (), 0, None)
    reserved = batch.columns.memory()
    memory.begin(batch, queues, reserved)

    while not batch.full:
        while batch.append(b"key", bytes(size), (), 0, None) is not None:
            assert batch.columns.memory() <= batch.held_bytes
        if memory.extend(batch, queues, size) is MemoryGrant.FULL:
            break

    assert batch.held_bytes - reserved == pool.capacity - pool.free
