"""Appending without blocking: what a record waits for, and the notification once it is worth to try again."""

from __future__ import annotations

import threading

import pytest

from machine import Queues
from ottla.accumulator.batch_appender import MemoryWait, Placed
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.errors import BufferExhaustedError, ProducerClosedError

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


def test_a_wait_is_notified_once_there_is_memory_and_then_the_record_is_queued() -> None:
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


def test_waits_and_blocked_threads_get_memory_in_the_order_of_their_arrival() -> None:
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


def test_a_record_is_queued_without_its_memory_if_another_thread_has_made_room() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    roomy = short.queues.accumulator.appender.append("t", 0, (None, b"v", (), 0, None), 1)[0]
    roomy.allow(2_000)
    placed = short.try_append(wait)

    assert placed == (roomy, 1)
    roomy.held_bytes = min(roomy.held_bytes, 2_000)
    short.queues.accumulator.complete(roomy, Acknowledged(base_offset=0))
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


def test_a_wait_whose_time_has_run_out_raises_what_a_blocked_append_raises() -> None:
    short = Short()
    wait = short.wait()
    short.queues.clock.advance(0.25)
    with pytest.raises(BufferExhaustedError, match=r"waited 0\.250 s after 1\.000 s of other waits"):
        short.appender.give_up(wait, waited=1.0)

    assert short.queues.pool.refusals == 1
    assert short.queues.pool.waiting == 0
    short.free()
    assert short.all_free


def test_giving_up_a_wait_that_is_ready_keeps_its_memory_for_the_next_try() -> None:
    short = Short()
    wait = short.wait()
    short.free()
    short.appender.give_up(wait)

    assert not isinstance(short.try_append(wait), MemoryWait)


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
