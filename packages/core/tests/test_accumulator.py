"""The batches that exist and those that are ready: one test for each rule."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from machine import Queues, cluster_of, columns
from ottla.accumulator import accumulator as accumulator_module
from ottla.accumulator import hanging_plugins
from ottla.accumulator.accumulator import FILL_REQUEST_TO
from ottla.accumulator.batch import UNASSIGNED, ProducerBatch
from ottla.accumulator.batch_memory import BATCH_COST
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.flush_wait import FlushWait
from ottla.accumulator.partition_queue import PartitionQueue
from ottla.errors import (
    BufferExhaustedError,
    DeliveryError,
    DeliveryTimeoutError,
    InvalidRecordError,
    NetworkError,
    ProducerClosedError,
)
from ottla.interfaces import Columns, TopicView
from ottla.network.cluster import NO_LEADER, Cluster
from ottla.recordbatch.record_limits import OBJECT_COST
from ottla.recordbatch.sealed_records import SealedRecords

ONE = cluster_of(1)
HANG_GUARD = 20.0


def ready_now(queues: Queues, cluster: Cluster = ONE) -> set[int]:
    return set(queues.accumulator.ready(cluster, queues.clock()).nodes)


def look_again_in(queues: Queues, cluster: Cluster = ONE) -> float:
    return queues.accumulator.ready(cluster, queues.clock()).next_check_at - queues.clock()


def drain(
    queues: Queues, cluster: Cluster = ONE, nodes: Sequence[int] = (1,), max_size: int = 1_000_000
) -> list[ProducerBatch]:
    drained = queues.accumulator.drain(cluster, nodes, max_size=max_size, now=queues.clock())
    return [batch for batches in drained.values() for batch in batches]


class Full(dict[Any, None]):
    """A dictionary for which there is no memory to grow."""

    def __setitem__(self, key: Any, value: None) -> None:
        raise MemoryError

    def setdefault(self, key: Any, default: None = None) -> None:
        raise MemoryError


# Begin


def test_columns_are_made_for_the_memory_that_their_batch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues(buffer_memory=1_000_000)
    appender = queues.accumulator.appender
    appender.queues("t", TopicView(partitions=100, available=(), queued_bytes=()))
    limits: list[int] = []

    def noted(limit: int) -> Columns:
        limits.append(limit)
        return columns(limit)

    monkeypatch.setattr(appender, "_columns", noted)
    queues.append()
    [batch] = queues.accumulator._batches.all

    assert limits == [batch.held_bytes] == [5_000]
    while batch.held_bytes == 5_000:
        memory = batch.columns.memory()
        queues.append()
    assert memory > 4_500


# Ready


def test_no_batch_is_ready_when_none_is_queued() -> None:
    queues = Queues()

    assert ready_now(queues) == set()
    assert look_again_in(queues) == float("inf")


@pytest.mark.rule("accumulator.ready.linger")
def test_a_batch_waits_for_its_linger() -> None:
    queues = Queues(linger=5.0)
    queues.append()

    assert ready_now(queues) == set()
    assert look_again_in(queues) == pytest.approx(5.0)

    queues.clock.advance(5.0)
    assert ready_now(queues) == {1}


@pytest.mark.rule("accumulator.ready.full")
def test_a_full_batch_is_ready_at_once() -> None:
    queues = Queues(linger=5.0, batch_size=1_000)
    for _ in range(3):
        queues.append(bytes(400))

    assert ready_now(queues) == {1}


@pytest.mark.rule("accumulator.ready.flush")
def test_a_flush_makes_queued_batches_ready_but_no_later_ones() -> None:
    queues = Queues(linger=5.0)
    queues.append(partition=0)

    assert not queues.accumulator.flush(timeout=0)
    queues.append(partition=1)

    assert [batch.partition for batch in drain(queues, cluster_of(1, 1))] == [0]


@pytest.mark.rule("accumulator.ready.closed")
def test_close_makes_every_batch_ready() -> None:
    queues = Queues(linger=5.0)
    queues.append()

    queues.accumulator.close(ProducerClosedError("closed"))

    assert ready_now(queues) == {1}


@pytest.mark.rule("accumulator.ready.exhausted")
def test_a_waiter_for_memory_makes_every_batch_ready() -> None:
    queues = Queues(linger=5.0, buffer_memory=20_000, max_block=HANG_GUARD)
    queues.append()
    woken = threading.Event()
    queues.on_wake = woken.set
    waiter = threading.Thread(target=lambda: queues.append(bytes(19_000), partition=1))
    waiter.start()
    assert woken.wait(HANG_GUARD)

    assert ready_now(queues) == {1}

    [batch] = drain(queues)
    queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    waiter.join(HANG_GUARD)
    assert not waiter.is_alive()


@pytest.mark.rule("accumulator.ready.backoff")
def test_a_batch_in_backoff_is_not_ready_even_if_full() -> None:
    queues = Queues()
    queues.append()
    queues.clock.advance(1)
    [batch] = drain(queues)
    batch.attempts = 1

    queues.accumulator.requeue(batch, NetworkError("lost"), queues.clock())

    assert ready_now(queues) == set()
    assert look_again_in(queues) == pytest.approx(0.1)
    queues.clock.advance(0.1)
    assert ready_now(queues) == {1}


@pytest.mark.rule("accumulator.ready.muted")
def test_a_muted_partition_is_not_ready_until_it_is_unmuted() -> None:
    queues = Queues()
    queues.append()
    queues.clock.advance(1)
    [first] = drain(queues)
    queues.accumulator.mute(first)
    queues.append()
    queues.clock.advance(1)

    assert ready_now(queues) == set()
    assert drain(queues) == []

    queues.accumulator.unmute(first)
    assert ready_now(queues) == {1}


@pytest.mark.rule("accumulator.ready.leaderless")
def test_a_topic_without_a_leader_is_reported_and_not_ready() -> None:
    queues = Queues()
    queues.append()
    queues.clock.advance(1)

    ready = queues.accumulator.ready(cluster_of(NO_LEADER), queues.clock())

    assert ready.nodes == ()
    assert ready.leaderless == ("t",)


def test_the_next_expiry_limits_the_next_ready_check() -> None:
    queues = Queues(linger=500.0, delivery_timeout=120.0)
    queues.append()

    assert look_again_in(queues) == pytest.approx(120.0)


# Appending


@pytest.mark.rule("accumulator.append.open", "accumulator.grow.off")
def test_records_of_a_partition_share_a_batch_until_it_is_full() -> None:
    queues = Queues(batch_size=1_000, growing=False)
    for number in range(5):
        queues.append(b"%d" % number * 290)

    assert [batch.count for batch in drain_all(queues)] == [3, 2]


@pytest.mark.rule("producer.send.wakes")
def test_the_io_thread_is_woken_for_a_new_batch_not_for_each_record() -> None:
    queues = Queues()
    for _ in range(10):
        queues.append()

    assert queues.wakes == 1


def test_the_io_thread_is_woken_when_a_batch_begins_behind_another() -> None:
    queues = Queues(linger=5.0)
    queues.append()
    queues.accumulator.ready(ONE, queues.clock())
    wakes = queues.wakes
    queues.append(partition=1)
    assert queues.wakes == wakes  # the next check is in time for it

    queues.accumulator.flush(timeout=0)  # closes the batches
    queues.accumulator.ready(ONE, queues.clock())
    wakes = queues.wakes
    queues.append()
    assert queues.wakes == wakes + 1


@pytest.mark.rule("accumulator.append.large")
def test_a_record_larger_than_a_batch_gets_its_own_batch() -> None:
    queues = Queues(batch_size=100, growing=False)
    queues.append(bytes(5_000))
    queues.append(b"small")

    assert [batch.count for batch in drain_all(queues)] == [1, 1]


@pytest.mark.rule("producer.send.refused.memory")
def test_without_memory_the_append_is_refused_and_nothing_is_queued() -> None:
    queues = Queues(buffer_memory=10_000, batch_size=9_000)
    queues.append(bytes(9_000), partition=0)

    with pytest.raises(BufferExhaustedError):
        queues.append(bytes(2_000), partition=1)

    assert [batch.partition for batch in drain_all(queues, cluster_of(1, 1))] == [0]


@pytest.mark.rule("producer.send.refused.memory")
def test_a_record_begins_a_batch_with_what_is_free_if_it_is_enough() -> None:
    queues = Queues(buffer_memory=10_000, batch_size=9_000)
    queues.append(bytes(9_000), partition=0)

    queues.append(partition=1)

    assert [batch.partition for batch in drain_all(queues, cluster_of(1, 1))] == [0, 1]


@pytest.mark.rule("producer.close.refuses")
def test_an_append_after_close_is_refused() -> None:
    queues = Queues()
    queues.append()
    queues.accumulator.close(ProducerClosedError("closed"))

    with pytest.raises(ProducerClosedError):
        queues.append()


@pytest.mark.rule("accumulator.append.unused")
def test_a_record_that_the_format_cannot_hold_leaves_no_trace() -> None:
    queues = Queues()

    with pytest.raises(InvalidRecordError):
        queues.accumulator.appender.append("t", 0, (None, b"v", (), 2**70, None), 1)

    assert queues.pool.free == queues.pool.capacity
    assert queues.accumulator.incomplete == 0
    assert ready_now(queues) == set()
    assert queues.append().done() is False


@pytest.mark.rule("pool.objects")
def test_memory_includes_the_size_of_python_objects() -> None:
    queues = Queues(batch_size=1_000, buffer_memory=100_000)
    for _ in range(100):
        queues.append(b"")

    held = queues.pool.capacity - queues.pool.free

    assert held >= 100 * OBJECT_COST


@pytest.mark.rule("pool.objects", "pool.sealing", "pool.bound")
@pytest.mark.parametrize("capacity", [100_000, BATCH_COST, 100])
def test_a_batch_of_a_table_holds_its_cost_until_it_is_completed(capacity: int) -> None:
    queues = Queues(buffer_memory=capacity)
    rows: Any = columns(1_000)
    rows.put(None, b"v", (), 0, None)

    queues.accumulator.appender.enqueue("t", 0, rows)
    queued = queues.pool.capacity - queues.pool.free
    [batch] = drain(queues)

    assert batch.sealed is not None
    assert queued == min(rows.memory() + BATCH_COST, capacity)
    assert queues.pool.capacity - queues.pool.free == min(batch.sealed.size + BATCH_COST, capacity) == batch.held_bytes
    queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    assert queues.pool.free == queues.pool.capacity


@pytest.mark.rule("pool.sealing")
def test_sealing_returns_memory_that_the_encoded_batch_does_not_need() -> None:
    queues = Queues()
    queues.append(bytes(100))
    queues.clock.advance(1)

    [batch] = drain(queues)

    assert batch.sealed is not None
    assert queues.pool.capacity - queues.pool.free == batch.sealed.size == batch.held_bytes


@pytest.mark.rule("pool.bound")
def test_completing_returns_all_memory() -> None:
    queues = Queues()
    queues.append()

    for batch in drain_all(queues):
        queues.accumulator.complete(batch, Acknowledged(base_offset=0))

    assert queues.pool.free == queues.pool.capacity
    assert queues.accumulator.incomplete == 0


def test_concurrent_appends_lose_nothing() -> None:
    queues = Queues(batch_size=2_000, buffer_memory=50_000_000)

    def work() -> None:
        for number in range(2_000):
            queues.append(b"x" * 50, partition=number % 3)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_GUARD)

    batches = drain_all(queues, cluster_of(1, 1, 1))
    assert sum(batch.count for batch in batches) == 8_000
    for batch in batches:
        queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    assert queues.pool.free == queues.pool.capacity


def test_queued_bytes_grow_with_records_and_shrink_when_batches_leave() -> None:
    queues = Queues()
    view = TopicView(partitions=2, available=(0, 1), queued_bytes=())
    hint = queues.accumulator.appender.queues("t", view).queued_bytes
    queues.append(bytes(50), partition=1)

    assert hint[0] == 0
    assert hint[1] >= 50

    drain_all(queues, cluster_of(1, 1))
    assert list(hint) == [0, 0]


def test_a_batch_of_a_table_wakes_the_io_thread_and_counts_as_queued() -> None:
    queues = Queues(linger=10.0)
    view = TopicView(partitions=2, available=(0, 1), queued_bytes=())
    hint = queues.accumulator.appender.queues("t", view).queued_bytes
    rows: Any = columns(1_000)
    rows.put(None, bytes(50), (), 0, None)

    queues.accumulator.appender.enqueue("t", 1, rows)

    assert queues.wakes == 1
    assert hint[1] >= 50
    assert ready_now(queues, cluster_of(1, 1)) == {1}


def test_a_batch_of_a_table_is_never_the_one_that_sends_append_to() -> None:
    queues = Queues()
    queues.append(b"before")
    view = TopicView(partitions=1, available=(0,), queued_bytes=())
    queue = queues.accumulator.appender.queues("t", view).queues[0]
    rows: Any = columns(1_000)
    rows.put(None, b"v", (), 0, None)
    seen: list[ProducerBatch | None] = []

    # A `send` of another thread reads `open` at any moment, without the lock.
    queues.accumulator.appender.enqueue("t", 0, rows, on_queued=lambda _batch: seen.append(queue.open))

    assert seen == [None]
    assert len(queue.batches) == 2


def test_the_story_of_a_table_has_the_time_that_its_call_has_waited() -> None:
    rows: Any = columns(1_000)
    rows.put(None, b"value", (), 0, None)

    batch = Queues().accumulator.appender.enqueue("t", 0, rows, waited=1.5)

    assert batch.story().waited_for_topic == 1.5


def test_a_recovery_leaves_the_open_batch_open() -> None:
    queues = Queues(linger=10.0)
    first = queues.append()

    assert queues.accumulator.recover() == []
    assert queues.append()._batch is first._batch


@pytest.mark.parametrize("still_open", [True, False])
def test_a_batch_that_a_failed_round_has_taken_but_not_closed_is_closed(still_open: bool) -> None:
    queues = Queues(linger=0.0)
    taken = queues.append()._batch
    queue = queues.accumulator._batches.queue_of(taken)
    queue.batches.popleft()
    queue.open = taken if still_open else None

    assert queues.accumulator.recover() == [taken]
    assert taken.closed
    assert queues.append()._batch is not taken


def test_after_a_recovery_every_queue_is_checked_again() -> None:
    queues = Queues(linger=10.0)
    queues.append()
    assert look_again_in(queues) == pytest.approx(10.0)
    queues.accumulator.recover()

    assert queues.accumulator.queue_checks.next_check_at < queues.clock()


# Draining


@pytest.mark.rule("accumulator.drain.ready-only")
def test_only_ready_partitions_are_drained() -> None:
    queues = Queues(linger=5.0, batch_size=1_000)
    queues.append(partition=0)
    queues.append(bytes(900), partition=1)
    queues.append(bytes(900), partition=1)

    assert [batch.partition for batch in drain(queues, cluster_of(1, 1))] == [1]


@pytest.mark.rule("accumulator.drain.one")
def test_one_batch_of_a_partition_is_drained_at_a_time() -> None:
    queues = Queues(batch_size=1_000)
    for _ in range(4):
        queues.append(bytes(900))

    assert len(drain(queues)) == 1


@pytest.mark.rule("accumulator.drain.size")
def test_a_request_keeps_to_its_size_but_takes_at_least_one_batch() -> None:
    queues = Queues(linger=0.0)
    for partition in range(3):
        queues.append(bytes(600), partition=partition)
    cluster = cluster_of(1, 1, 1)

    assert [batch.partition for batch in drain(queues, cluster, max_size=1_500)] == [0, 1]
    assert [batch.partition for batch in drain(queues, cluster, max_size=10)] == [2]


@pytest.mark.rule("accumulator.drain.unfit")
def test_a_batch_that_did_not_fit_is_drained_first_and_unchanged() -> None:
    queues = Queues(linger=0.0)
    first = queues.append(bytes(600), partition=0)
    second = queues.append(bytes(600), partition=1)
    cluster = cluster_of(1, 1)
    drain(queues, cluster, max_size=700)

    [batch] = drain(queues, cluster, max_size=700)

    assert batch is second._batch
    assert batch is not first._batch
    assert batch.count == 1


@pytest.mark.rule("accumulator.drain.turns")
def test_no_partition_starves_when_requests_are_small() -> None:
    queues = Queues(linger=0.0, batch_size=500, growing=False)
    cluster = cluster_of(1, 1, 1)
    for _ in range(3):
        for partition in range(3):
            queues.append(bytes(450), partition=partition)

    served = [batch.partition for _ in range(6) for batch in drain(queues, cluster, max_size=600)]

    assert served == [0, 1, 2, 0, 1, 2]


@pytest.mark.rule("accumulator.drain.leader")
def test_batches_are_drained_for_their_leaders_only() -> None:
    queues = Queues(linger=0.0)
    for partition in range(3):
        queues.append(partition=partition)
    cluster = cluster_of(1, 2, 1)

    drained = queues.accumulator.drain(cluster, [1, 2], max_size=10_000, now=0.0)

    assert {node: [batch.partition for batch in batches] for node, batches in drained.items()} == {
        1: [0, 2],
        2: [1],
    }


def test_lingering_batches_fill_the_requests_of_all_brokers() -> None:
    queues, cluster = Queues(linger=1.0), cluster_of(*[1, 2] * 40)
    for partition in range(2):
        queues.append(partition=partition)
    queues.clock.advance(1.0)
    for partition in range(2, 80):
        queues.append(partition=partition)

    drained = queues.accumulator.drain(cluster, [1, 2], max_size=1_000_000, now=queues.clock())

    assert [len(drained[node]) for node in (1, 2)] == [FILL_REQUEST_TO, FILL_REQUEST_TO]


def test_a_lingering_batch_that_fails_during_a_drain_is_not_drained() -> None:
    """Another thread may fail what is queued while a batch before it is compressed, without the lock."""
    queues = Queues(linger=10.0, batch_size=1_000)
    queues.append(partition=0)
    queues.clock.advance(10.0)  # so that this one is ready, and the next one lingers
    lingering = queues.append(partition=1)
    queues.append(bytes(5_000), partition=2)
    seal = queues.accumulator._drained.seal

    def seal_meanwhile(batch: ProducerBatch, node: int) -> SealedRecords:
        if batch.partition == 2:
            queues.accumulator.fail_queued(NetworkError("refused"))
        return seal(batch, node)

    queues.accumulator._drained.seal = seal_meanwhile

    assert [batch.partition for batch in drain(queues, cluster_of(1, 1, 1))] == [0, 2]
    assert "refused" in str(lingering.exception())


@pytest.mark.rule("accumulator.put-back.head", "accumulator.order.retry")
def test_a_requeued_batch_is_drained_before_those_behind_it() -> None:
    queues = Queues(linger=0.0, batch_size=500)
    for number in range(3):
        queues.append(bytes([number]) * 450)
    [first] = drain(queues)
    first.attempts = 1
    queues.accumulator.requeue(first, NetworkError("lost"), queues.clock())
    assert drain(queues) == []  # nothing overtakes a batch in backoff

    queues.clock.advance(1)

    assert drain(queues) == [first]


@pytest.mark.rule("accumulator.drain.fault")
def test_a_batch_that_cannot_be_encoded_fails_alone() -> None:
    queues = Queues(linger=0.0)
    broken = queues.append(partition=0)
    sound = queues.append(partition=1)
    seal = queues.accumulator._drained.seal

    def seal_or_raise(batch: ProducerBatch, node: int) -> object:
        if batch.partition == 0:
            raise ZeroDivisionError("a fault in a codec")
        return seal(batch, node)

    queues.accumulator._drained.seal = seal_or_raise  # type: ignore[assignment]  # a codec that is not ours

    assert [batch.partition for batch in drain(queues, cluster_of(1, 1))] == [1]
    assert isinstance(broken.exception(), DeliveryError)
    assert "a fault in a codec" in str(broken.exception())
    assert not sound.done()


# Expiry and the end


@pytest.mark.rule("accumulator.expire.queue")
def test_a_batch_expires_in_the_queue_with_a_clear_error() -> None:
    queues = Queues(delivery_timeout=120.0)
    delivery = queues.append()
    queues.clock.advance(119.9)
    queues.accumulator.expire(queues.clock())
    assert not delivery.done()

    queues.clock.advance(0.2)
    queues.accumulator.expire(queues.clock())

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert not error.possibly_persisted
    assert "never sent" in str(error)
    assert queues.pool.free == queues.pool.capacity


@pytest.mark.rule("accumulator.expire.head")
def test_expiry_leaves_younger_batches_alone() -> None:
    queues = Queues(delivery_timeout=120.0, batch_size=500, growing=False)
    old = queues.append(bytes(450))
    queues.clock.advance(100)
    young = queues.append(bytes(450))
    queues.clock.advance(30)

    queues.accumulator.expire(queues.clock())

    assert old.done()
    assert not young.done()


@pytest.mark.rule("accumulator.abort.incomplete", "batch.possibly")
def test_abort_fails_queued_and_drained_batches_with_the_cause() -> None:
    queues = Queues(linger=0.0)
    taken = queues.append(partition=0)
    [batch] = drain(queues)
    batch.in_flight = True
    queued = queues.append(partition=0)
    cause = ProducerClosedError("closed by force")

    queues.accumulator.abort(cause)

    for delivery, perhaps in ((taken, True), (queued, False)):
        error = delivery.exception()
        assert error is not None
        assert error.__cause__ is cause
        assert error.possibly_persisted is perhaps
    assert queues.pool.free == queues.pool.capacity


@pytest.mark.rule("producer.flush.moment")
def test_a_flush_ends_when_all_records_before_it_are_completed() -> None:
    queues = Queues()
    queues.append()
    flushed = threading.Event()
    began = threading.Event()
    queues.on_wake = began.set

    def flush() -> None:
        assert queues.accumulator.flush(timeout=None)
        flushed.set()

    thread = threading.Thread(target=flush)
    thread.start()
    assert began.wait(HANG_GUARD)
    batches = drain(queues)
    queues.append()  # later: not waited for

    assert not flushed.is_set()
    for batch in batches:
        queues.accumulator.complete(batch, Acknowledged(base_offset=0))

    assert flushed.wait(HANG_GUARD)
    thread.join()


@pytest.mark.rule("producer.flush.timeout")
def test_a_flush_that_runs_out_of_time_drops_nothing() -> None:
    queues = Queues()
    delivery = queues.append()

    assert not queues.accumulator.flush(timeout=0)
    assert not delivery.done()


@pytest.mark.rule("accumulator.grow")
def test_a_full_batch_grows_while_it_waits_and_is_sent_whole() -> None:
    queues = Queues(linger=5.0, batch_size=1_000)
    for _ in range(40):
        queues.append(bytes(100))

    [batch] = drain(queues)

    assert batch.count == 40
    assert queues.accumulator.incomplete == 1


@pytest.mark.rule("accumulator.grow")
def test_a_batch_grows_no_larger_than_a_request() -> None:
    queues = Queues(linger=5.0, batch_size=1_000, max_request_size=10_000)
    for _ in range(300):
        queues.append(bytes(100))

    batches = drain_all(queues)

    assert all(8_000 < batch.sealed.size <= 10_000 for batch in batches[:-1] if batch.sealed is not None)
    assert sum(batch.count for batch in batches) == 300


def increments(queues: Queues, *, up_to: int) -> list[float]:
    """Fill the open batch up to a size; return by which factors its memory grew, after it had reached `batch.size`."""
    batch = queues.append(bytes(900))._batch
    held = [batch.held_bytes]
    while batch.columns.memory() < up_to:
        queues.append(bytes(900))
        if batch.full and batch.held_bytes != held[-1]:
            held.append(batch.held_bytes)
    return [after / before for before, after in pairwise(held[1:])]


@pytest.mark.rule("accumulator.grow")
def test_the_memory_of_a_full_batch_doubles_while_much_is_free() -> None:
    queues = Queues(linger=5.0, batch_size=16_384, buffer_memory=32_000_000)

    factors = increments(queues, up_to=900_000)

    assert 4 <= len(factors) <= 6
    assert all(factor > 1.9 for factor in factors[:-1])  # the last one brings it to the size of a request


@pytest.mark.rule("accumulator.grow")
def test_the_memory_of_a_large_batch_grows_by_a_quarter_if_little_is_free() -> None:
    queues = Queues(linger=5.0, batch_size=16_384, buffer_memory=1_200_000)

    factors = increments(queues, up_to=700_000)

    assert len(factors) > 6
    assert all(1.2 < factor < 1.3 for factor in factors[-3:])


@pytest.mark.rule("producer.send.wakes")
def test_a_record_that_fills_a_batch_alone_waits_for_no_other_linger() -> None:
    queues = Queues(linger=10.0, batch_size=1_000)
    queues.append(partition=0)
    queues.accumulator.ready(ONE, queues.clock())
    woken = queues.wakes

    queues.append(bytes(5_000), partition=1)

    assert queues.wakes == woken + 1


@pytest.mark.rule("producer.send.wakes")
def test_a_batch_that_becomes_full_wakes_the_io_thread_once() -> None:
    queues = Queues(linger=5.0, batch_size=1_000)
    queues.append(bytes(100))
    woken = queues.wakes
    for _ in range(40):
        queues.append(bytes(100))

    assert queues.wakes == woken + 1


def drain_all(queues: Queues, cluster: Cluster = ONE) -> list[ProducerBatch]:
    queues.accumulator.close(ProducerClosedError("drained"))
    batches: list[ProducerBatch] = []
    while taken := drain(queues, cluster):
        batches += taken
    return batches


def test_close_leaves_queues_alone_while_a_plugin_hangs_under_their_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator_module, "LOCK_TIMEOUT_SECONDS", 0.01)
    queues = Queues(linger=10.0)
    batch = queues.append()._batch
    with ThreadPoolExecutor(1) as pool:
        pool.submit(queues.accumulator._batches.lock.acquire).result()
        queues.accumulator.close(ProducerClosedError("closed"))
        closed = batch.closed
        pool.submit(queues.accumulator._batches.lock.release).result()

    assert not closed
    with pytest.raises(ProducerClosedError):
        queues.append()


def test_the_thread_that_hangs_is_the_holder_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging_plugins, "LOCK_TIMEOUT_SECONDS", 0.01)
    accumulator = Queues().accumulator
    assert accumulator.hanging.thread() is None
    with ThreadPoolExecutor(1) as pool:
        pool.submit(accumulator._batches.lock.acquire).result()
        holder = pool.submit(threading.get_ident).result()
        found = accumulator.hanging.thread()
        pool.submit(accumulator._batches.lock.release).result()

    assert found == holder


@pytest.mark.parametrize("timeout", [0.0, 0.001, None])
def test_flushes_leave_no_wait_behind(timeout: float | None) -> None:
    queues = Queues(linger=10.0)
    [first, second] = [queues.append(partition=partition)._place()[0] for partition in (0, 1)]
    flushes = [FlushWait(lambda: None), FlushWait(lambda: None)]
    for flush in flushes:
        assert queues.accumulator.flushes.begin(flush, None)

    if timeout is not None:
        assert not queues.accumulator.flush(timeout=timeout)
    queues.accumulator.flushes.leave(flushes[0])
    for batch in (second, first):
        assert not flushes[1].ended
        queues.accumulator.complete(batch, Acknowledged(base_offset=0))

    assert [flush.ended for flush in flushes] == [False, True]
    assert queues.accumulator.flush(timeout=timeout)
    assert not queues.accumulator._batches._flushes


def test_the_parts_of_a_batch_share_its_memory_in_proportion() -> None:
    queues = Queues(linger=0.0)
    whole = queues.append(bytes(400))._batch
    drain(queues)
    parts = [ProducerBatch(topic="t", partition=0, columns=columns(10_000), now=0.0) for _ in range(2)]
    for part in parts:
        part.append(None, bytes(200), (), 0, None)
    whole.held_bytes = 1_000
    queues.accumulator.replace(whole, parts, max_bytes=300)

    assert [part.held_bytes for part in parts] == [500, 500]
    assert whole.held_bytes == 0


@pytest.mark.parametrize("where", ["all", "waiting"])
@pytest.mark.parametrize("appender", ["appender", "keyed_appender"])
def test_a_batch_that_cannot_be_queued_returns_its_memory_once(
    where: str, appender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = Queues(linger=0.0)
    batches: object = queues.accumulator._batches
    append = getattr(queues.accumulator, appender).append
    if where == "waiting" and appender == "keyed_appender":
        batches, where = queues.accumulator.keyed_appender, "_lingering"
    partition = 0 if appender == "appender" else UNASSIGNED
    with monkeypatch.context() as patch:
        patch.setattr(batches, where, Full())
        with pytest.raises(MemoryError):
            append("t", partition, (b"k", b"v", (), 0, None), 2)

    assert queues.pool.free == queues.pool.capacity
    assert queues.accumulator.incomplete == 0
    assert ready_now(queues) == set()
    batch, _index = append("t", partition, (b"k", b"v", (), 0, None), 2)
    assert list(queues.accumulator._batches.all) == [batch]


@pytest.mark.parametrize("queued", [False, True])
def test_after_an_error_a_batch_is_queued_and_counted_or_neither(queued: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues(linger=0.0)
    add = PartitionQueue.add_closed

    def fails(queue: PartitionQueue, batch: ProducerBatch) -> None:
        if queued:
            add(queue, batch)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(PartitionQueue, "add_closed", fails)
        with pytest.raises(MemoryError):
            queues.accumulator.appender.append("t", 0, (b"k", b"v", (), 0, None), 2)

    assert queues.accumulator.incomplete == queued
    assert queues.accumulator._batches.has_unchecked == queued
    queues.accumulator.abort(ProducerClosedError("closed"))
    assert queues.accumulator.incomplete == 0
    assert queues.pool.free == queues.pool.capacity


def test_a_flush_begins_under_the_lock_of_the_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a batch that completes at that moment would never end it."""
    queues, locked = Queues(), list[bool]()
    batches = queues.accumulator._batches
    begin_flush = batches.begin_flush

    def noted(flush: FlushWait) -> None:
        locked.append(batches.lock._is_owned())
        begin_flush(flush)

    monkeypatch.setattr(batches, "begin_flush", noted)
    queues.append(b"v", partition=0)
    assert not queues.accumulator.flush(timeout=0.0)

    assert locked == [True]


def test_a_completion_that_is_interrupted_keeps_no_flush_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues()
    batches, flushes = queues.accumulator._batches, [FlushWait(lambda: None) for _ in range(2)]
    batch, _index = queues.append(b"v", partition=0)._place()
    for flush in flushes:
        batches.begin_flush(flush)

    def without_memory(_flush: FlushWait) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(batches, "_advance", without_memory)
        with pytest.raises(MemoryError):
            batches.remove_completed([batch])
    batches.remove_completed([batch])  # the recovery of the round

    assert [flush.ended for flush in flushes] == [True, True]
