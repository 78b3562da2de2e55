"""Threads that append, send and read at the same time, with the GIL and without it: each record is there once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest
from broker_on_a_socket import SocketBroker

from ottla import Delivery, OttlaError, Producer
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.topic_routes import Route
from ottla.interfaces import AvroKind, AvroType, Columns, Header, TopicView
from ottla.recordbatch.parse import Record, parse_batches
from ottla.recordbatch.sealed_records import finish
from ottla_accel.avro_values import avro_values
from ottla_accel.columns import NativeColumns
from ottla_accel.sending import QuickSend
from ottla_testkit.simulation import SimulatedCluster

pytestmark = pytest.mark.unmeasured

NOW = 1_700_000_000_000
HANG_GUARD = 60.0
WRITERS = 3


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """With the GIL, threads take turns as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


class Work:
    """Threads, the exceptions that ended one, and whether all writers have ended."""

    def __init__(self) -> None:
        self.raised: list[BaseException] = []
        self.over = threading.Event()
        self._writers: list[threading.Thread] = []
        self._others: list[threading.Thread] = []

    def write(self, work: Callable[[], object]) -> None:
        """Do this on a thread, once."""
        self._writers.append(threading.Thread(target=self._guarded, args=(work,), daemon=True))

    def repeat(self, work: Callable[[], object]) -> None:
        """Do this on a thread, again and again until all writers have ended."""

        def repeated() -> None:
            while not self.over.is_set():
                work()

        self._others.append(threading.Thread(target=self._guarded, args=(repeated,), daemon=True))

    def run(self) -> None:
        """Run all threads to their ends."""
        for thread in (*self._others, *self._writers):
            thread.start()
        for thread in self._writers:
            thread.join(HANG_GUARD)
        self.over.set()
        for thread in self._others:
            thread.join(HANG_GUARD)
        assert not any(thread.is_alive() for thread in (*self._others, *self._writers)), "a thread hangs"
        assert self.raised == []

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self.raised.append(error)


def parsed(columns: Columns) -> Sequence[Record]:
    """The records of columns, as a consumer reads them."""
    if not len(columns):
        return ()
    sealed = finish(columns.encode(2), magic=2, compressor=None)
    [batch] = parse_batches(b"".join(sealed.wire_chunks()), compressors={})
    return batch.records


def headers_of(writer: int, number: int) -> list[Header]:
    return [("writer", b"%d" % writer), ("number", b"%d" % number * (number % 50))] if number % 3 == 0 else []


class Batches:
    """Columns one after the other, as a queue has them: when one is full or closed, a thread begins the next."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.all = [NativeColumns(limit)]

    def put(self, key: bytes, value: bytes, headers: Sequence[Header], callback: Any) -> tuple[int, int]:
        """Append a record, and return the number of the columns and the index there."""
        while True:
            number = len(self.all) - 1
            index = self.all[number].put(key, value, headers, NOW, callback)
            if index is not None:
                return number, index
            self.close(number)

    def close(self, number: int) -> None:
        """Close columns, and begin the next unless another thread has."""
        with self._lock:
            if number == len(self.all) - 1:
                self.all[number].close()
                self.all.append(NativeColumns(self._limit))


# Columns


@pytest.mark.parametrize("limit", [400, 40_000, 4_000_000], ids=["small", "medium", "large"])
def test_appends_of_several_threads_are_each_there_once(limit: int) -> None:
    """While others read the sizes and facts, and close the columns."""
    batches, work = Batches(limit), Work()
    placed: dict[tuple[int, int], tuple[int, int]] = {}
    called_back: dict[tuple[int, int], object] = {}

    def writer(number: int) -> None:
        for each in range(3_000):
            callback = (number, each) if each % 4 == 0 else None
            place = batches.put(b"%d" % number, b"%d-%d" % (number, each), headers_of(number, each), callback)
            assert place not in placed
            placed[place] = number, each

    def reader() -> None:
        columns = batches.all[-1]
        count, used = len(columns), columns.size_estimate()
        facts = columns.facts()
        assert len(facts.value_sizes) >= count
        assert columns.memory() >= used
        made = columns.metadata("t", 0, 0, count, 10, -1)
        assert [each.offset for each in made] == list(range(10, 10 + count))
        if count:
            assert len(columns.keys()) >= count

    def closer() -> None:
        time.sleep(0.002)
        batches.close(len(batches.all) - 1)

    for number in range(WRITERS):
        work.write(lambda number=number: writer(number))  # type: ignore[misc]
    work.repeat(reader)
    work.repeat(closer)
    work.run()

    for number, columns in enumerate(batches.all):
        columns.close()
        for index, callback in columns.take_callbacks([]):
            called_back[number, index] = callback
        facts = columns.facts()
        for index, record in enumerate(parsed(columns)):
            writer_number, each = placed.pop((number, index))
            assert record.key == b"%d" % writer_number
            assert record.value == b"%d-%d" % (writer_number, each)
            assert list(record.headers) == headers_of(writer_number, each)
            assert facts.value_sizes[index] == len(record.value)
            expected = (writer_number, each) if each % 4 == 0 else None
            assert called_back.pop((number, index), None) == expected
    assert placed == called_back == {}


@pytest.mark.parametrize("end", ["encode", "release", "extend", "old"])
def test_an_append_after_the_end_is_refused(end: str) -> None:
    """Whatever the other thread does at that moment, the records are those that were taken."""
    work = Work()
    rounds = [NativeColumns(10_000) for _ in range(300)]
    counts: list[int] = []
    taken: list[int] = []
    appended = Counter[int]()

    def writer() -> None:
        here = Counter[int]()
        number = 0
        while number < len(rounds):
            if rounds[number].put(b"k", b"value", (), NOW, None) is None:
                number += 1
            else:
                here[number] += 1
        with lock:
            appended.update(here)

    def ender() -> None:
        for columns in rounds:
            while len(columns) < 20:
                time.sleep(0)
            if end == "encode":
                taken.append(len(parsed(columns)))
            elif end == "old":
                taken.append(columns.encode(1).count)
            elif end == "release":
                columns.release()
                taken.append(len(columns))
            else:
                copy = NativeColumns(1_000_000)
                columns.close()
                taken.append(copy.extend(columns, range(len(columns))))
                assert len(parsed(copy)) == taken[-1]
            counts.append(len(columns))

    lock = threading.Lock()
    work.write(writer)
    work.write(writer)
    work.write(ender)
    work.run()

    assert taken == counts
    assert [appended[number] for number in range(len(rounds))] == counts


def test_columns_that_copy_from_each_other_do_not_wait_forever() -> None:
    one, other, work = NativeColumns(1 << 24), NativeColumns(1 << 24), Work()
    one.append(None, b"one", (), NOW)
    other.append(None, b"other", (), NOW)

    def copy(source: NativeColumns, to: NativeColumns) -> None:
        for _ in range(2_000):
            assert to.extend(source, [0]) == 1

    work.write(lambda: copy(one, other))
    work.write(lambda: copy(other, one))
    work.run()

    assert Counter(record.value for record in parsed(one)) == {b"one": 1, b"other": 2_000}
    assert Counter(record.value for record in parsed(other)) == {b"other": 1, b"one": 2_000}


def test_facts_of_closed_columns_are_the_same_for_all_threads() -> None:
    work, seen = Work(), []
    all_columns = [NativeColumns(1_000) for _ in range(500)]
    for columns in all_columns:
        columns.append(b"key", b"value", (), NOW)
        columns.close()

    def reader() -> None:
        for columns in all_columns:
            facts = columns.facts()
            seen.append((list(facts.timestamps_ms), list(facts.key_sizes or ()), list(facts.value_sizes)))

    for _ in range(3):
        work.write(reader)
    work.run()

    assert seen == [([NOW], [3], [5])] * 1_500


def test_memory_that_is_kept_has_one_user_at_a_time() -> None:
    """Blocks of completed batches, which batches of all threads take."""
    work = Work()

    def writer(number: int) -> None:
        value = b"%d" % number * 20_000
        for _ in range(300):
            columns = NativeColumns(1 << 20)
            for _ in range(5):
                columns.append(None, value, (), NOW)
            assert [record.value for record in parsed(columns)] == [value] * 5

    for number in range(WRITERS):
        work.write(lambda number=number: writer(number))  # type: ignore[misc]
    work.run()


# `send` in C


class Queue:
    """A queue with one sticky batch, whose `send` is that of C. Full batches are replaced, as by the core."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.full: deque[ProducerBatch] = deque()
        topic = TopicQueues("t")
        topic.view = TopicView(partitions=1, available=(0,), queued_bytes=())
        topic.reach(1)
        self.route = Route(topic)
        self._lock = threading.Lock()
        self.route.sticky_batch = self._new_batch()
        self.send: Callable[..., Delivery] = QuickSend(
            routes={"t": self.route},
            producer=cast("Any", lambda: self),
            slow=lambda _queue, _topic, value, key, *, on_delivery, **_others: self._slow(value, key, on_delivery),
            delivery=Delivery,
            sticky=True,
            hashes=False,
            ignores_keys=True,
        ).send

    def begin(self) -> None:
        """Close the sticky batch, and begin the next one."""
        with self._lock:
            self._begin()

    def _begin(self) -> ProducerBatch:
        batch = self.route.sticky_batch
        assert batch is not None
        batch.close()
        made = self.route.sticky_batch = self._new_batch()
        self.full.append(batch)
        return made

    def _slow(self, value: bytes | None, key: bytes | None, on_delivery: Any) -> Delivery:
        with self._lock:
            while True:
                batch = self.route.sticky_batch
                assert batch is not None
                index = batch.append(key, value, (), NOW, on_delivery)
                if index is not None:
                    return Delivery(batch, index)
                self._begin()

    def _new_batch(self) -> ProducerBatch:
        batch = ProducerBatch(topic="t", partition=0, columns=NativeColumns(self.limit), now=0.0)
        batch.held_bytes = self.limit
        return batch


@pytest.mark.parametrize("limit", [600, 16_000], ids=["small", "large"])
def test_no_record_of_four_threads_is_lost(limit: int) -> None:
    queue, work = Queue(limit), Work()
    arrived = Counter[bytes | None]()
    callback = print

    def writer(thread: int) -> None:
        send = queue.send
        for number in range(10_000):
            value = b"%d-%d" % (thread, number)
            if number % 4:
                send("t", value)
            else:
                send("t", value, b"key", headers=[("name", value)], on_delivery=callback)

    def take() -> None:
        while queue.full:
            arrived.update(record.value for record in parsed(queue.full.popleft().columns))

    def begin() -> None:
        time.sleep(0.001)
        queue.begin()

    for thread in range(4):
        work.write(lambda thread=thread: writer(thread))  # type: ignore[misc]
    work.repeat(take)
    work.repeat(begin)
    work.run()
    queue.begin()
    take()

    assert len(arrived) == 40_000
    assert set(arrived.values()) == {1}


def test_each_delivery_has_the_index_of_its_record() -> None:
    queue, work = Queue(2_000), Work()
    sent: list[tuple[bytes, Delivery]] = []

    def writer(thread: int) -> None:
        for number in range(3_000):
            value = b"%d-%d" % (thread, number)
            sent.append((value, queue.send("t", value)))

    for thread in range(WRITERS):
        work.write(lambda thread=thread: writer(thread))  # type: ignore[misc]
    work.run()
    queue.begin()

    content = {batch: [record.value for record in parsed(batch.columns)] for batch in queue.full}
    assert [content[delivery._batch][delivery._index] for _value, delivery in sent] == [value for value, _ in sent]


def test_records_that_are_moved_into_an_open_batch_keep_their_index() -> None:
    """Those of an unassigned batch, while other threads send to the same partition."""
    queue, work = Queue(100_000), Work()
    source = ProducerBatch(topic="t", partition=-1, columns=NativeColumns(10_000), now=0.0)
    for number in range(3):
        source.append(None, b"moved %d" % number, (), NOW, None)
    source.close()
    moved: list[tuple[ProducerBatch, int]] = []

    def writer() -> None:
        for _ in range(20_000):
            queue.send("t", b"sent")

    def mover() -> None:
        batch = queue.route.sticky_batch
        assert batch is not None
        start, taken = batch.take_from(source, [0, 1, 2], memory=100_000)
        if taken == 3:
            moved.append((batch, start))
        time.sleep(0)

    work.write(writer)
    work.write(writer)
    work.repeat(mover)
    work.run()
    queue.begin()

    content = {batch: [record.value for record in parsed(batch.columns)] for batch in queue.full}
    assert moved
    for batch, start in moved:
        assert content[batch][start : start + 3] == [b"moved 0", b"moved 1", b"moved 2"]


# Producers


@contextmanager
def producer_for(cluster: SimulatedCluster, **options: Any) -> Iterator[Producer]:
    with (
        SocketBroker(cluster.brokers[1]).serving() as servers,
        Producer(bootstrap_servers=servers, record_encoder="native", **options) as producer,
    ):
        assert type(producer.send).__name__ == "builtin_function_or_method"
        yield producer


def cluster_with(partitions: int) -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", *[1] * partitions)
    return cluster


RECORDS = 1_500
"""Records of each thread."""


def arguments(writer: int, number: int, partitions: int) -> dict[str, Any]:
    """Those of a record, of every kind in turn."""
    made: dict[str, Any] = {"value": b"%d-%d" % (writer, number), "timestamp_ms": NOW + number}
    if number % 3:
        made["key"] = b"%d" % (number % 17)
    if number % 5 == 0:
        made["partition"] = number % partitions
    made["headers"] = headers_of(writer, number)
    return made


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_each_record_of_each_thread_arrives_with_its_own_offset(split: bool) -> None:
    """Sent with keys, partitions, headers and callbacks, while other threads flush and read results."""
    cluster, work = cluster_with(3), Work()
    if split:
        cluster.topics["t"].max_message_bytes = 2_000
    deliveries: dict[tuple[int, int], Delivery] = {}
    reported: list[tuple[tuple[int, int], int, int]] = []

    def recorder(which: tuple[int, int]) -> Callable[[Delivery], object]:
        def record(delivery: Delivery) -> None:
            metadata = delivery.result(0)
            reported.append((which, metadata.partition, metadata.offset))

        return record

    with producer_for(cluster, linger_ms=2, batch_size=20_000) as producer:

        def writer(thread: int) -> None:
            send = producer.send
            for number in range(RECORDS):
                options = arguments(thread, number, 3)
                if number % 2:
                    options["on_delivery"] = recorder((thread, number))
                deliveries[thread, number] = send("t", **options)

        def waiter() -> None:
            for delivery in list(deliveries.values())[-5:]:
                assert delivery.result(HANG_GUARD).partition == delivery.partition

        for thread in range(WRITERS):
            work.write(lambda thread=thread: writer(thread))  # type: ignore[misc]
        work.repeat(waiter)
        work.repeat(producer.flush)
        work.run()
        producer.flush()

    logs = [cluster.topics["t"].log[partition] for partition in range(3)]
    assert sum(map(len, logs)) == WRITERS * RECORDS
    assert len(deliveries) == WRITERS * RECORDS
    for (thread, number), delivery in deliveries.items():
        sent, metadata = arguments(thread, number, 3), delivery.result(0)
        record = logs[metadata.partition][metadata.offset]
        assert (record.value, record.key, list(record.headers), record.timestamp_ms) == (
            sent["value"],
            sent.get("key"),
            sent["headers"],
            sent["timestamp_ms"],
        )
        assert metadata.partition == sent.get("partition", metadata.partition)
        assert metadata.serialized_value_size == len(sent["value"])
        assert metadata.timestamp_ms == sent["timestamp_ms"]
    assert len(reported) == WRITERS * RECORDS // 2
    for which, partition, offset in reported:
        metadata = deliveries[which].result(0)
        assert (partition, offset) == (metadata.partition, metadata.offset)


def test_a_producer_that_is_closed_meanwhile_loses_no_accepted_record() -> None:
    for _ in range(8):
        cluster, work = cluster_with(2), Work()
        deliveries: list[Delivery] = []
        with producer_for(cluster, linger_ms=1) as producer:

            def writer(thread: int, producer: Producer = producer, deliveries: list[Delivery] = deliveries) -> None:
                for number in range(100_000):
                    try:
                        deliveries.append(producer.send("t", b"%d-%d" % (thread, number), key=b"%d" % (number % 7)))
                    except OttlaError:
                        return

            def closer(producer: Producer = producer, deliveries: list[Delivery] = deliveries) -> None:
                while len(deliveries) < 200:
                    time.sleep(0)
                producer.close()

            for thread in range(WRITERS):
                work.write(lambda thread=thread: writer(thread))  # type: ignore[misc]
            work.write(closer)
            work.run()

        logs = [[record.value for record in cluster.topics["t"].log[partition]] for partition in range(2)]
        assert sum(map(len, logs)) == len(deliveries)
        places = [(each.result(0).partition, each.result(0).offset) for each in deliveries]
        assert len(set(places)) == len(deliveries)


def test_headers_that_another_thread_changes_are_sent_as_they_once_were() -> None:
    """Or the call raises; a half of a header is never sent."""
    cluster, work = cluster_with(1), Work()
    shared: list[Header] = [("first", b"1" * 40)]
    states = {b"%d" % size: b"%d" % size * 40 for size in range(10)}

    def change() -> None:
        shared.clear()
        for size in range(10):
            shared.append((f"name-{size}", states[b"%d" % size]))
        shared[:] = [("a", None)] * 30
        del shared[5:]

    refused: list[Exception] = []
    with producer_for(cluster, linger_ms=1) as producer:

        def writer() -> None:
            for number in range(RECORDS):
                try:
                    producer.send("t", b"%d" % number, headers=shared)
                except (OttlaError, TypeError, ValueError) as error:
                    refused.append(error)

        work.write(writer)
        work.write(writer)
        work.repeat(change)
        work.run()
        producer.flush()

    records = cluster.topics["t"].log[0]
    assert len(records) + len(refused) == 2 * RECORDS
    for record in records:
        for name, content in record.headers:
            assert (name, content) in (("a", None), ("first", b"1" * 40)) or content == states[name[-1:].encode()]


def test_data_that_another_thread_changes_is_encoded_whole_or_not_at_all() -> None:
    numbers: list[int] = []
    data = {"numbers": numbers}
    array = AvroType(kind=AvroKind.ARRAY, children=[AvroType(kind=AvroKind.LONG)])
    encode = avro_values(AvroType(kind=AvroKind.RECORD, names=["numbers"], defaults=[None], children=[array]))
    work = Work()

    def change() -> None:
        numbers.extend(range(20))
        data.pop("numbers")
        del numbers[3:]
        data["numbers"] = numbers
        numbers.clear()

    def encoder() -> None:
        for _ in range(10_000):
            encoded = encode(b"", data)
            assert encoded is None or encoded == b"\0" or (encoded[0] // 2, encoded[-1]) == (len(encoded) - 2, 0)

    work.write(encoder)
    work.repeat(change)
    work.run()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_can_encode_whatever_other_threads_did() -> None:
    """They do not run in the child, so a mutex that one of them held would be held there forever."""
    work = Work()

    def encode(size: int) -> None:
        columns = NativeColumns(1 << 20)
        columns.append(None, bytes(size), (), NOW)
        columns.encode(2)

    def fork() -> None:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                encode(50_000)
                os._exit(0)
            deadline = time.monotonic() + HANG_GUARD / 2
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.001)
            if ended == (0, 0):
                os.kill(child, signal.SIGKILL)
                ended = os.waitpid(child, 0)
            assert ended == (child, 0)

    work.write(fork)
    work.repeat(lambda: encode(40_000))
    work.repeat(lambda: encode(60_000))
    work.run()
