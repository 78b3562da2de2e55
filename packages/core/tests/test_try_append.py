"""Appending without blocking: a record waits for memory, metadata or a partition, and is notified."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from machine import CONSTANT, Queues
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.accumulator.record_appender import MemoryWait, Placed
from ottla.accumulator.topic_routes import Routes
from ottla.accumulator.try_appender import TryAppender, Wait
from ottla.concurrency.environment import Environment
from ottla.errors import (
    BufferExhaustedError,
    ConnectionFailedError,
    ProducerClosedError,
    SecurityError,
    TopicUnavailableError,
)
from ottla.interfaces import TopicView
from ottla.network.cluster import Broker, Topic
from ottla.network.metadata import Metadata
from ottla.network.nonblocking_metadata_wait import MetadataWait

SIZE = 900
RECORD = (None, bytes(SIZE), (), 0, None)


class Short:
    """Queues whose memory one batch of partition 1 has used up."""

    def __init__(self) -> None:
        self.queues = Queues(buffer_memory=2_000, batch_size=1_000)
        self.appender = self.queues.accumulator.appender
        self.first = self.queues.append(bytes(1_800), partition=1)

    def try_append(self, wait: MemoryWait | None = None, partition: int = 0) -> Placed | MemoryWait:
        return self.appender.try_append("t", partition, RECORD, SIZE, wait=wait)

    def wait(self) -> MemoryWait:
        wait = self.try_append()
        assert isinstance(wait, MemoryWait)
        return wait

    def free(self) -> None:
        self.queues.accumulator.complete(self.first._batch, Acknowledged(base_offset=0))

    @property
    def all_free(self) -> bool:
        return self.queues.pool.free == self.queues.pool.capacity


def test_a_record_for_which_there_is_memory_is_queued_at_once() -> None:
    queues = Queues()

    placed = queues.accumulator.appender.try_append("t", 0, RECORD, SIZE)
    assert not isinstance(placed, MemoryWait)
    batch, index = placed
    again = queues.accumulator.appender.try_append("t", 0, RECORD, SIZE)

    assert (batch.topic, batch.partition, index) == ("t", 0, 0)
    assert again == (batch, 1)


def test_without_memory_a_record_gets_a_wait_and_nothing_is_queued() -> None:
    short = Short()
    wakes = short.queues.wakes

    wait = short.wait()

    assert not wait.ready
    assert short.queues.pool.waiting == 1  # so that batches leave without linger
    assert short.queues.wakes > wakes
    assert short.queues.accumulator.incomplete == 1


def test_a_wait_is_notified_of_memory_and_then_the_record_is_queued() -> None:
    short, notified = Short(), list[bool]()
    wait = short.wait()
    wait.on_ready(lambda: notified.append(True))
    assert short.try_append(wait) is wait

    assert notified == []
    short.free()
    assert notified == [True]
    placed = short.try_append(wait)

    assert not isinstance(placed, MemoryWait)
    batch, _index = placed
    short.queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    assert short.all_free


def test_a_wait_that_is_ready_is_notified_at_once() -> None:
    short, notified = Short(), list[bool]()
    wait = short.wait()
    short.free()
    wait.on_ready(lambda: notified.append(True))

    assert notified == [True]
    wait.cancel()
    assert short.all_free


def test_waits_and_blocked_threads_get_memory_in_order_of_arrival() -> None:
    short, order = Short(), list[str]()
    wait = short.wait()
    wait.on_ready(lambda: order.append("first"))
    later = short.try_append(partition=2)
    assert isinstance(later, MemoryWait)
    later.on_ready(lambda: order.append("second"))
    short.free()

    assert order == ["first"]  # each needs more than half of the memory
    wait.cancel()
    assert order == ["first", "second"]
    later.cancel()
    assert short.all_free


@pytest.mark.parametrize("served", [False, True])
def test_a_cancelled_wait_gives_its_memory_back_once(served: bool) -> None:
    short = Short()
    wait = short.wait()
    if served:
        short.free()
    wait.cancel()
    wait.cancel()
    if not served:
        short.free()

    assert short.queues.pool.waiting == 0
    assert short.all_free


def test_cancelling_after_the_record_was_queued_changes_nothing() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    placed = short.try_append(wait)
    assert not isinstance(placed, MemoryWait)
    free = short.queues.pool.free
    wait.cancel()

    assert short.queues.pool.free == free


def test_a_record_that_fits_meanwhile_is_queued_without_its_memory() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    growing = short.queues.accumulator.appender.append("t", 0, (None, b"v", (), 0, None), 1)[0]
    growing.allow(2_000)
    placed = short.try_append(wait)

    assert placed == (growing, 1)
    growing.held_bytes = min(growing.held_bytes, 2_000)
    short.queues.accumulator.complete(growing, Acknowledged(base_offset=0))
    assert short.all_free


def test_close_notifies_waits_and_the_next_try_raises_the_refusal() -> None:
    short, notified = Short(), list[bool]()
    wait = short.wait()
    wait.on_ready(lambda: notified.append(True))
    refusal = ProducerClosedError("closed")
    short.queues.accumulator.close(refusal)

    assert notified == [True]
    with pytest.raises(ProducerClosedError):
        short.try_append(wait)
    wait.cancel()
    short.free()
    assert short.all_free


def test_a_wait_with_its_memory_is_refused_after_close_and_returns_it() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    assert wait.ready
    short.queues.accumulator.close(ProducerClosedError("closed"))

    with pytest.raises(ProducerClosedError):
        short.try_append(wait)
    assert short.queues.accumulator.incomplete == 0
    assert short.all_free


def test_after_a_timeout_for_memory_the_open_batch_leaves_at_once() -> None:
    queues = Queues(buffer_memory=2_000, batch_size=4_000)
    appender = queues.accumulator.appender
    batch, _index = appender.append("t", 0, RECORD, SIZE)
    wait = appender.try_append("t", 0, (None, bytes(1_500), (), 0, None), 1_500)
    assert isinstance(wait, MemoryWait)
    assert not batch.closed
    wakes = queues.wakes
    with pytest.raises(BufferExhaustedError):
        appender.time_out(wait)

    assert batch.closed
    assert queues.wakes == wakes + 1


def test_a_wait_that_times_out_raises_the_error_of_a_blocked_append() -> None:
    short = Short()
    short.queues.clock.advance(10)
    wait = short.wait()
    short.queues.clock.advance(0.25)
    with pytest.raises(BufferExhaustedError, match=r"waited 0\.250 s after 1\.000 s of other waits"):
        short.appender.time_out(wait, waited=1.0)

    assert short.queues.pool.refusals == 1
    assert short.queues.pool.waiting == 0
    short.free()
    assert short.all_free


def test_giving_up_a_wait_that_is_ready_keeps_its_memory_for_the_next_try() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    short.appender.time_out(wait)

    assert not isinstance(short.try_append(wait), MemoryWait)


def test_a_record_whose_time_is_over_takes_memory_that_is_enough_for_it() -> None:
    queues = Queues(buffer_memory=4_000, batch_size=4_000)
    appender = queues.accumulator.appender
    queues.append(bytes(2_400))
    queues.accumulator.close_open_batches()
    wait = appender.try_append("t", 0, RECORD, SIZE)
    assert isinstance(wait, MemoryWait)
    assert not wait.ready

    appender.time_out(wait)  # less than a batch, but more than this record

    assert not isinstance(appender.try_append("t", 0, RECORD, SIZE, wait=wait), MemoryWait)


def test_no_try_blocks_while_other_threads_wait_for_memory() -> None:
    short = Short()
    waits: list[Placed | MemoryWait] = []
    threads = [threading.Thread(target=lambda: waits.append(short.try_append())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(waits) == short.queues.pool.waiting == 5
    for wait in waits:
        assert isinstance(wait, MemoryWait)
        wait.cancel()
    short.free()
    assert short.all_free


class LastPartition:
    """A partitioner that notes its calls."""

    def __init__(self) -> None:
        self.asked: list[bytes | None] = []
        self.appended_bytes = 0

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self.asked.append(key)
        return view.partitions - 1


class StickyPartition(LastPartition):
    sticky = True

    def appended(self, topic: str, partition: int, size: int) -> None:
        self.appended_bytes += size


class NewBatches(LastPartition):
    def __init__(self) -> None:
        super().__init__()
        self.new_batches: list[int] = []

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> None:
        self.new_batches.append(partition)


class Topics:
    """A TryAppender with metadata that the test sets."""

    def __init__(self, partitioner: Any = None, *, buffer_memory: int = 1_000_000) -> None:
        self.queues = Queues(buffer_memory=buffer_memory, batch_size=1_000)
        self.wakes = 0
        self.metadata = Metadata(
            bootstrap=[("seed", 9092)],
            max_age=300.0,
            max_idle=300.0,
            refresh_backoff=CONSTANT,
            wake=self.wake,
            environment=Environment(clock=self.queues.clock),
        )
        abilities = PartitionerAbilities.of(partitioner or LastPartition())
        self.routes = Routes(
            metadata=self.metadata,
            appender=self.queues.accumulator.appender,
            partitioner=abilities,
            slow=frozenset,
            max_block=60.0,
        )
        self.metadata.on_change = self.routes.forget
        self.appender = TryAppender(
            routes=self.routes, appender=self.queues.accumulator.appender, keyed=None, partitioner=abilities
        )

    def wake(self) -> None:
        self.wakes += 1

    def answer(self, leaders: Sequence[int], topic: str = "t") -> None:
        """A metadata response: the topic has these leaders."""
        now = self.queues.clock()
        self.metadata.begin(now)
        known = Topic(name=topic, leaders=tuple(leaders), epochs=(0,) * len(leaders))
        self.metadata.update({1: Broker(id=1, host="one", port=9092)}, {topic: known}, now)

    def append(
        self, partition: int | None = None, *, key: bytes | None = None, size: int = 5, wait: Wait | None = None
    ) -> Placed | Wait:
        return self.appender.append("t", partition, (key, bytes(size), (), 0, None), wait=wait)

    def wait(self, partition: int | None = None) -> MetadataWait:
        wait = self.append(partition)
        assert isinstance(wait, MetadataWait)
        return wait


def partition_of_placed(placed: Placed | Wait) -> int:
    assert isinstance(placed, tuple)
    return placed[0].partition


def test_a_record_for_an_unknown_topic_requests_metadata_and_waits() -> None:
    topics, notified = Topics(), list[bool]()
    wait = topics.wait()
    wait.on_ready(lambda: notified.append(True))

    assert (wait.ready, notified) == (False, [])
    assert topics.wakes == 1
    assert list(topics.metadata.begin(topics.queues.clock()).topics) == ["t"]
    topics.answer([1, 1])
    assert (wait.ready, notified) == (True, [True])
    assert partition_of_placed(topics.append(wait=wait)) == 1


def test_a_metadata_wait_that_is_over_notifies_at_once() -> None:
    topics, notified = Topics(), list[bool]()
    wait = topics.wait()
    topics.answer([1])
    wait.on_ready(lambda: notified.append(True))

    assert notified == [True]


def test_an_answer_without_the_topic_makes_the_record_wait_again() -> None:
    topics = Topics()
    wait = topics.wait()
    topics.answer([1], topic="other")

    assert wait.ready
    again = topics.append(wait=wait)
    assert isinstance(again, MetadataWait)
    assert not again.ready
    assert list(topics.metadata.begin(topics.queues.clock()).topics) == ["t"]


def test_a_record_for_a_missing_partition_waits_until_the_topic_has_it() -> None:
    topics = Topics()
    topics.answer([1])
    wait = topics.wait(partition=1)

    assert wait.partition == 1
    assert topics.metadata.due_at() <= topics.queues.clock() + 1.0
    topics.answer([1, 1])
    assert partition_of_placed(topics.append(1, wait=wait)) == 1


def test_a_cancelled_metadata_wait_is_not_notified() -> None:
    topics, notified = Topics(), list[bool]()
    wait = topics.wait()
    wait.on_ready(lambda: notified.append(True))
    wait.cancel()
    wait.cancel()
    topics.answer([1])

    assert notified == []


def test_a_metadata_wait_that_times_out_raises_the_error_of_send() -> None:
    topics = Topics()
    wait = topics.wait()
    topics.metadata.note(ConnectionFailedError("no route"))
    with pytest.raises(TopicUnavailableError, match=r"'t' was not available within max\.block\.ms \(60 s\).*no route"):
        topics.appender.time_out(wait)

    topics.answer([1])
    topics.appender.time_out(wait)  # the topic has come meanwhile


@pytest.mark.parametrize("how", ["fatal", "closed"])
def test_errors_that_waiting_cannot_fix_end_a_metadata_wait(how: str) -> None:
    topics, notified = Topics(), list[bool]()
    wait = topics.wait()
    wait.on_ready(lambda: notified.append(True))
    error: SecurityError | ProducerClosedError
    if how == "fatal":
        error = SecurityError("refused")
        topics.metadata.fail_fatally(error)
    else:
        error = ProducerClosedError("closed")
        topics.metadata.close(error)

    assert notified == [True]
    with pytest.raises(type(error)):
        topics.append(wait=wait)


def test_a_record_that_waited_for_memory_keeps_its_partition() -> None:
    partitioner = LastPartition()
    topics = Topics(partitioner, buffer_memory=2_000)
    topics.answer([1, 1])
    first = topics.append(0, size=1_800)
    assert isinstance(first, tuple)
    wait = topics.append(key=b"k", size=900)
    assert isinstance(wait, MemoryWait)
    topics.queues.accumulator.complete(first[0], Acknowledged(base_offset=0))

    assert partition_of_placed(topics.append(key=b"k", size=900, wait=wait)) == 1
    assert partitioner.asked == [b"k"]


def test_a_memory_wait_whose_time_has_run_out_raises_buffer_exhausted() -> None:
    topics = Topics(buffer_memory=2_000)
    topics.answer([1])
    topics.append(0, size=1_800)
    wait = topics.append(0, size=900)
    assert isinstance(wait, MemoryWait)
    with pytest.raises(BufferExhaustedError):
        topics.appender.time_out(wait)


def test_memory_is_given_back_when_the_topic_is_lost_meanwhile() -> None:
    topics = Topics(buffer_memory=2_000)
    topics.answer([1, 1])
    topics.append(0, size=1_800)
    wait = topics.append(1, size=900)
    assert isinstance(wait, MemoryWait)
    topics.answer([1])

    assert isinstance(topics.append(1, size=900, wait=wait), MetadataWait)
    assert topics.queues.pool.waiting == 0


def test_records_without_a_key_go_to_the_sticky_batch() -> None:
    partitioner = StickyPartition()
    topics = Topics(partitioner)
    topics.answer([1, 1, 1])
    places = [topics.append() for _ in range(3)]

    assert [partition_of_placed(placed) for placed in places] == [2, 2, 2]
    assert partitioner.asked == [None]
    assert isinstance(places[0], tuple)
    assert topics.routes.known["t"].sticky_batch is places[0][0]


def test_the_open_batch_of_a_record_with_a_key_is_never_the_sticky_one() -> None:
    topics = Topics(StickyPartition())
    topics.answer([1, 1])
    topics.append()
    route = topics.routes.known["t"]

    assert route.sticky_batch is not None
    assert topics.appender.open_batch(route, None) is route.sticky_batch
    assert topics.appender.open_batch(route, b"key") is None


def test_the_sticky_batch_is_set_after_a_wait_for_memory() -> None:
    topics = Topics(StickyPartition(), buffer_memory=2_000)
    topics.answer([1, 1])
    first = topics.append(0, size=1_800)
    assert isinstance(first, tuple)
    wait = topics.append(size=900)
    assert isinstance(wait, MemoryWait)
    topics.queues.accumulator.complete(first[0], Acknowledged(base_offset=0))
    placed = topics.append(size=900, wait=wait)

    assert isinstance(placed, tuple)
    assert topics.routes.known["t"].sticky_batch is placed[0]


def test_a_partitioner_hears_of_a_new_batch_before_it_is_begun() -> None:
    partitioner = NewBatches()
    topics = Topics(partitioner)
    topics.answer([1, 1])
    topics.append(key=b"a")
    topics.append(key=b"b")

    assert partitioner.new_batches == [1]
    assert partitioner.asked == [b"a", b"a", b"b"]
