"""Thousands of partitions share a producer: its memory, its requests, and the visits to its queues."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from machine import Machine, Queues, cluster_of, wait_until
from ottla.accumulator.accumulator import GROWING_IN_A_REQUEST
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_memory import BatchMemory, MemoryGrant
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.sequences import Sequences
from ottla.errors import BufferExhaustedError, InvalidRecordError, NetworkError
from ottla.interfaces import TopicView
from ottla.recordbatch.batch_sequence import ProducerIdAndEpoch
from ottla.recordbatch.record_limits import OBJECT_COST
from ottla_testkit.simulation import SimulatedCluster

pytestmark = pytest.mark.unmeasured

MANY = 1_000
HANG_GUARD = 20.0
LEADERS = cluster_of(*[1] * MANY)


def held(queues: Queues) -> int:
    return queues.pool.capacity - queues.pool.free


def known(queues: Queues) -> Queues:
    """Queues of a topic whose partitions are known, as they are before the first record."""
    queues.accumulator.appender.queues("t", TopicView(partitions=MANY, available=range(MANY), queued_bytes=()))
    return queues


def drain(queues: Queues) -> list[ProducerBatch]:
    drained = queues.accumulator.drain(LEADERS, (1,), max_size=1_000_000, now=queues.clock())
    return [batch for batches in drained.values() for batch in batches]


def in_another_thread(work: Callable[[], object], *, until: Callable[[], bool]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    wait_until(until, timeout=HANG_GUARD)
    return thread


# Memory


@pytest.mark.rule("accumulator.many.share")
def test_each_partition_has_an_open_batch_before_memory_is_exhausted() -> None:
    queues = known(Queues(buffer_memory=1_000_000, batch_size=16_384))

    for _ in range(2):
        for partition in range(MANY):
            queues.append(bytes(100), partition=partition)

    assert queues.accumulator.incomplete == MANY
    assert held(queues) <= 1_000_000


@pytest.mark.rule("accumulator.many.share")
def test_with_few_partitions_a_batch_reserves_its_size_at_once() -> None:
    queues = Queues(buffer_memory=1_000_000, batch_size=16_384)

    queues.append(partition=3)

    assert held(queues) == 16_384


@pytest.mark.rule("accumulator.many.share")
def test_partitions_of_all_topics_share_the_memory() -> None:
    queues = Queues(buffer_memory=1_000_000, batch_size=16_384)
    for topic in range(10):
        queues.append(topic=f"t{topic}", partition=99)
    before = held(queues)

    queues.append(topic="t0", partition=0)

    assert held(queues) - before == 1_000_000 // (2 * 10 * 100)


@pytest.mark.rule("accumulator.many.share")
def test_a_small_batch_grows_to_its_size() -> None:
    queues = Queues(buffer_memory=10_000_000, batch_size=16_384, growing=False)
    queues.append(partition=MANY - 1)

    for _ in range(200):
        queues.append(bytes(100), partition=0)
    queues.clock.advance(1)

    first = next(batch for batch in drain(queues) if batch.partition == 0)
    assert first.sealed is not None
    assert 0.9 * 16_384 < first.sealed.wire_size <= 16_384


@pytest.mark.rule("accumulator.many.short")
def test_when_memory_is_short_a_batch_reserves_the_free_memory() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384)
    queues.append(bytes(7_900), partition=1)
    queues.append(bytes(5_000), partition=0)

    while queues.pool.free >= 1_000 + OBJECT_COST:
        queues.append(bytes(1_000), partition=0)

    assert queues.accumulator.incomplete == 2


@pytest.mark.rule("accumulator.many.short")
def test_the_last_memory_is_not_reserved_record_by_record() -> None:
    queues = Queues(buffer_memory=60_000, batch_size=16_384)
    queues.append(bytes(30_000), partition=1)
    batch = queues.append(bytes(16_200), partition=0)._batch

    queues.append(bytes(100), partition=0)  # a step would be as much again, which there is not

    assert queues.pool.free == 0
    assert batch.held_bytes == 60_000 - 30_000 - OBJECT_COST
    more = 0
    while batch.append(None, bytes(100), (), 0, None) is not None:
        more += 1  # by appends that find the open batch without the partitioner
    assert more > 40


@pytest.mark.rule("accumulator.many.short")
def test_a_batch_with_space_takes_a_record_without_free_memory() -> None:
    queues = Queues(buffer_memory=40_000, batch_size=16_384)
    batch = queues.append(bytes(16_200), partition=0)._batch
    queues.append(bytes(14_500), partition=1)
    room = queues.pool.free
    assert queues.pool.try_reserve(room)
    batch.held_bytes += room  # as one brings that has waited

    queues.append(bytes(1_000), partition=0)

    assert batch.count == 2
    assert queues.pool.free == 0


@pytest.mark.rule("accumulator.many.short")
def test_a_batch_takes_small_records_while_a_large_one_waits() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384, max_block=HANG_GUARD)
    first = queues.append(bytes(12_500), partition=1)
    batch = queues.append(bytes(1_000), partition=0)._batch
    waiting = in_another_thread(
        lambda: queues.append(bytes(9_000), partition=0), until=lambda: queues.pool.waiting == 1
    )

    small = queues.append(b"small", partition=0)
    queues.accumulator.complete(first._batch, Acknowledged(base_offset=0))
    waiting.join(HANG_GUARD)

    assert small._batch is batch
    assert batch.count == 3


@pytest.mark.rule("accumulator.many.short")
def test_a_batch_whose_record_is_refused_without_memory_is_sent_at_once() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384, linger=600.0)
    queues.append(bytes(8_000), partition=0)
    queues.append(bytes(9_000), partition=1)

    with pytest.raises(BufferExhaustedError):
        queues.append(bytes(6_000), partition=0)

    assert queues.wakes >= 1
    assert [batch.partition for batch in drain(queues)] == [0]


@pytest.mark.rule("accumulator.many.short")
def test_memory_of_a_blocked_append_is_added_to_the_open_batch() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384, max_block=HANG_GUARD)
    first = queues.append(bytes(9_000), partition=1)
    queues.append(bytes(8_000), partition=0)
    later: list[Delivery] = []
    waiting = in_another_thread(
        lambda: later.append(queues.append(bytes(6_000), partition=0)), until=lambda: queues.pool.waiting == 1
    )

    queues.accumulator.complete(first._batch, Acknowledged(base_offset=0))
    waiting.join(HANG_GUARD)

    assert later[0]._index == 1  # behind the record that had been there
    assert queues.accumulator.incomplete == 1


@pytest.mark.rule("accumulator.many.short", "accumulator.balance")
def test_memory_of_a_refused_blocked_append_is_counted_once() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384, max_block=HANG_GUARD)
    first = queues.append(bytes(9_000), partition=1)
    second = queues.append(bytes(8_000), partition=0)
    refused: list[InvalidRecordError] = []

    def send_what_the_format_cannot_hold() -> None:
        try:
            queues.accumulator.appender.append("t", 0, (None, bytes(6_000), (), 2**70, None), 6_000)
        except InvalidRecordError as error:
            refused.append(error)

    waiting = in_another_thread(send_what_the_format_cannot_hold, until=lambda: queues.pool.waiting == 1)
    queues.accumulator.complete(first._batch, Acknowledged(base_offset=0))
    waiting.join(HANG_GUARD)
    queues.accumulator.complete(second._batch, Acknowledged(base_offset=0))

    assert len(refused) == 1
    assert queues.pool.free == queues.pool.capacity


@pytest.mark.rule("accumulator.many.short", "pool.bound")
def test_a_batch_that_reserved_less_than_it_asked_uses_no_more() -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384)
    queues.append(bytes(12_500), partition=1)
    batch = queues.append(bytes(4_000), partition=0)._batch
    queues.append(bytes(2_500), partition=0)

    while batch.append(None, bytes(100), (), 0, None) is not None:
        pass  # as those do who find the open batch by themselves

    assert batch.columns.memory() <= batch.held_bytes


@pytest.mark.rule("accumulator.many.short", "accumulator.balance")
def test_memory_that_other_records_take_first_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues(buffer_memory=20_000, batch_size=16_384, max_block=HANG_GUARD)
    first = queues.append(bytes(12_500), partition=1)
    batch = queues.append(bytes(1_000), partition=0)._batch
    later: list[Delivery] = []
    waiting = in_another_thread(
        lambda: later.append(queues.append(bytes(9_000), partition=0)), until=lambda: queues.pool.waiting == 1
    )
    extend = BatchMemory.extend

    def others_are_quicker(
        memory: BatchMemory, extended: ProducerBatch, topic: TopicQueues, charge: int
    ) -> MemoryGrant:
        room = extend(memory, extended, topic, charge)
        if room is MemoryGrant.GIVEN and extended is batch:  # with what was waited for
            while extended.append(None, bytes(100), (), 0, None) is not None:
                pass
        return room

    with monkeypatch.context() as patch:
        patch.setattr(BatchMemory, "extend", others_are_quicker)
        missing = next(iter(queues.pool._waiters)).size - queues.pool._free
        first._batch.held_bytes -= missing  # as if it was sealed and needs less
        queues.pool.release(missing)
        wait_until(lambda: batch.closed and queues.pool.waiting, timeout=HANG_GUARD)
    queues.accumulator.complete(first._batch, Acknowledged(base_offset=0))
    queues.accumulator.complete(batch, Acknowledged(base_offset=0))
    waiting.join(HANG_GUARD)

    assert batch.columns.memory() <= 20_000
    assert later[0]._batch is not batch
    queues.accumulator.complete(later[0]._batch, Acknowledged(base_offset=0))
    assert queues.pool.free == queues.pool.capacity


# Requests


@pytest.mark.rule("accumulator.many.growing")
def test_a_request_takes_few_of_the_batches_that_can_grow() -> None:
    queues = known(Queues())
    for partition in range(MANY):
        queues.append(partition=partition)
    queues.clock.advance(1)

    taken = drain(queues)
    for partition in range(MANY):
        queues.append(partition=partition)  # those that stay take more

    assert [batch.partition for batch in taken] == list(range(GROWING_IN_A_REQUEST))
    assert {batch.count for batch in drain(queues)} == {2}


@pytest.mark.rule("accumulator.many.growing", "accumulator.drain.turns")
def test_all_growing_batches_are_drained_in_turn() -> None:
    queues = known(Queues())
    for partition in range(MANY):
        queues.append(partition=partition)
    queues.clock.advance(1)

    left = [batch.partition for _ in range(1 + MANY // GROWING_IN_A_REQUEST) for batch in drain(queues)]

    assert left == list(range(MANY))


@pytest.mark.rule("accumulator.many.growing")
def test_batches_that_cannot_grow_are_not_held_back() -> None:
    queues = known(Queues())
    for partition in range(MANY):
        queues.append(partition=partition)
    queues.accumulator.flush(timeout=0)

    assert len(drain(queues)) == MANY


@pytest.mark.rule("accumulator.many.growing")
def test_batches_that_may_not_leave_do_not_hold_up_those_behind_them() -> None:
    queues = known(Queues())
    sent = [queues.append(partition=partition)._batch for partition in range(MANY)]
    for batch in sent[:600]:  # more than a drain copies at first
        queues.accumulator.mute(batch)
    queues.clock.advance(1)

    assert [batch.partition for batch in drain(queues)] == list(range(600, 600 + GROWING_IN_A_REQUEST))


@pytest.mark.rule("accumulator.many.growing")
def test_each_broker_has_its_own_request() -> None:
    queues = known(Queues())
    cluster = cluster_of(*[1, 2] * (MANY // 2))
    for partition in range(MANY):
        queues.append(partition=partition)
    queues.clock.advance(1)

    drained = queues.accumulator.drain(cluster, (1, 2), max_size=1_000_000, now=queues.clock())

    assert {node: len(batches) for node, batches in drained.items()} == dict.fromkeys((1, 2), GROWING_IN_A_REQUEST)


# Looking


def machine(**options: Any) -> Machine:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", *[1] * 400)
    made = Machine(cluster, **options)
    made.metadata.use("t", 0.0)
    made.run(1.0)
    return made


@pytest.mark.rule("accumulator.many.looks", "accumulator.ready.linger")
def test_skipped_batches_are_sent_after_linger_without_any_response() -> None:
    made = machine(linger=0.1)
    made.send(b"warm")
    made.run_until_idle()
    made.network.holding = True
    made.send(bytes(20_000), partition=0)  # a full batch, which leaves at once and takes nothing along
    second = made.send(b"second", partition=1)._batch

    def rounds(end: float) -> None:
        while made.clock() < end:
            made.sender.run_once(made.clock(), until=end)

    began = made.clock()
    rounds(began + 0.099)
    assert not second.in_flight
    rounds(began + 0.101)
    assert second.in_flight


@pytest.mark.rule("accumulator.many.looks")
def test_no_round_is_run_while_no_broker_can_take_a_request() -> None:
    made = machine(max_in_flight=2)
    made.network.holding = True
    for _ in range(3):
        made.send(b"value", partition=0)
        for _ in range(3):
            made.sender.run_once(made.clock(), until=made.clock())
    for partition in range(1, 4):
        made.send(b"value", partition=partition)

    rounds, end = 0, made.clock() + 9.0
    while made.clock() < end:
        made.sender.run_once(made.clock(), until=end)
        rounds += 1

    assert rounds < 5


@pytest.mark.rule("accumulator.many.looks", "accumulator.expire.queue")
def test_a_permanent_backlog_does_not_cause_constant_expiry_checks() -> None:
    made = machine(delivery_timeout=2.0, linger=0.005, max_in_flight=1, max_request_size=10_000)
    sent = idle = 0
    end = made.clock() + 4.0
    while made.clock() < end:
        for _ in range(100):
            made.send(bytes(50), partition=sent % 400)
            sent += 1
        made.network.holding = True
        answered_at = made.clock() + 0.02
        while made.clock() < answered_at:
            before = made.clock()
            made.sender.run_once(before, until=answered_at)
            idle += made.clock() == before
            assert idle < 5_000, "rounds in which no time passes"
        made.network.holding = False
        made.sender.run_once(made.clock(), until=made.clock())


@pytest.mark.rule("accumulator.many.looks")
def test_for_a_broker_without_requests_all_queues_are_checked() -> None:
    queues = known(Queues(linger=0.0))
    cluster = cluster_of(*[1] * 500, 2)
    for partition in range(501):
        queues.append(partition=partition)

    assert queues.accumulator.ready(cluster, queues.clock()).nodes == (1, 2)


@pytest.mark.rule("accumulator.many.looks", "accumulator.expire.queue")
def test_a_requeued_batch_expires_at_its_own_time() -> None:
    """The queues are not searched for expired batches before the oldest one can have expired."""
    queues = Queues(delivery_timeout=120.0)
    old = queues.append(partition=0)
    queues.clock.advance(1)
    [batch] = drain(queues)
    queues.clock.advance(59)
    young = queues.append(partition=1)
    queues.accumulator.ready(LEADERS, queues.clock())
    queues.accumulator.requeue(batch, NetworkError("gone"), queues.clock())

    queues.clock.advance(60)
    queues.accumulator.expire(queues.clock())

    assert isinstance(old._batch.outcome, Failed)
    assert young._batch.outcome is None


@pytest.mark.rule("accumulator.many.looks", "accumulator.expire.queue")
def test_a_skipped_batch_expires_on_time() -> None:
    queues = Queues(linger=0.0, delivery_timeout=120.0)
    queues.append(partition=0)
    drain(queues)
    queues.append(partition=1)
    queues.clock.advance(60)
    [old] = drain(queues)
    young = queues.append(partition=0)
    queues.accumulator.requeue(old, NetworkError("gone"), queues.clock())
    queues.append(partition=1)
    queues.accumulator._batches.waiting.move_to_end(queues.accumulator._batches.queue("t", 1))
    queues.accumulator.ready(LEADERS, queues.clock())  # finds the young one, and looks no further

    queues.clock.advance(60)
    queues.accumulator.expire(queues.clock())

    assert isinstance(old.outcome, Failed)
    assert young._batch.outcome is None


@pytest.mark.rule("accumulator.many.looks", "accumulator.drain.transaction")
def test_all_partitions_are_added_to_a_transaction_in_one_request() -> None:
    sequences = Sequences(transactional=True)
    sequences.producer_id_and_epoch = ProducerIdAndEpoch(id=1, epoch=0)
    sequences.transaction_partitions.add([("t", 0)])
    queues = Queues(linger=0.0, sequences=sequences)
    for partition in range(10):
        queues.append(partition=partition)

    queues.accumulator.ready(LEADERS, queues.clock())

    assert set(sequences.transaction_partitions.wanted) == {("t", partition) for partition in range(1, 10)}
