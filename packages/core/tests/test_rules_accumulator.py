"""The rules of the queues that need threads, a split, or any order of events."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine import Queues, cluster_of, columns, wait_until
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.accumulator.flush_wait import FlushWait
from ottla.accumulator.partition_queue import TopicQueues
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.splitting import Splitter
from ottla.errors import BufferExhaustedError, DeliveryError, NetworkError, ProducerClosedError
from ottla.interfaces import TopicView
from ottla.plugins.compressors.gzip import ottla_compressor
from ottla.recordbatch.sealed_records import SealedRecords

HANG_GUARD = 20.0
ENOUGH_BYTES = 1_000_000
CLUSTER = cluster_of(1, 1, 1, 1)
LOST = NetworkError("lost")
CLOSED = ProducerClosedError("closed")
SEALER = Sealer(None)


def drain(queues: Queues, *, max_size: int = ENOUGH_BYTES) -> list[ProducerBatch]:
    drained = queues.accumulator.drain(CLUSTER, (1,), max_size=max_size, now=queues.clock())
    return drained.get(1, [])


def ready(queues: Queues) -> bool:
    return bool(queues.accumulator.ready(CLUSTER, queues.clock()).nodes)


def look_again_in(queues: Queues) -> float:
    return queues.accumulator.ready(CLUSTER, queues.clock()).next_check_at - queues.clock()


def put_back(queues: Queues, batch: ProducerBatch) -> None:
    batch.attempts += 1
    queues.accumulator.requeue(batch, LOST, queues.clock())


def acknowledge(queues: Queues, batch: ProducerBatch) -> None:
    queues.accumulator.complete(batch, Acknowledged(base_offset=0))


def split(queues: Queues, batch: ProducerBatch, *, target: int = ENOUGH_BYTES) -> Sequence[ProducerBatch]:
    """Split a drained batch as the sender does."""
    splitter = Splitter(target=target, columns=columns, records=SEALER.records)
    batch.attempts += 1
    parts, most = splitter.split(batch, queues.clock())
    assert batch.forward_to(Forwarded.in_order(parts))
    queues.accumulator.replace(batch, parts, max_bytes=most)
    return parts


def topic_queues(queues: Queues) -> TopicQueues:
    return queues.accumulator.appender.queues("t", TopicView(partitions=4, available=range(4), queued_bytes=()))


def held(queues: Queues) -> int:
    return queues.pool.capacity - queues.pool.free


def values(batches: Sequence[ProducerBatch]) -> list[bytes | None]:
    """The contents of sealed batches, in order."""
    return [record.value for batch in batches for record in SEALER.records(batch)]


class Working:
    """Threads that were started together; `join` fails when one is still at work or raised."""

    def __init__(self, *works: Callable[[], object]) -> None:
        self._errors: list[BaseException] = []
        start = threading.Barrier(len(works))

        def run(work: Callable[[], object]) -> None:
            try:
                start.wait(HANG_GUARD)
                work()
            except BaseException as error:
                self._errors.append(error)

        self._threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(HANG_GUARD)
        assert not any(thread.is_alive() for thread in self._threads)
        assert self._errors == []


class InLine(Queues):
    """Queues whose pool is small, with appends that wait; `in_line` are appends that began to wait."""

    def __init__(self, *, buffer_memory: int, batch_size: int) -> None:
        super().__init__(buffer_memory=buffer_memory, batch_size=batch_size, linger=0.0, max_block=HANG_GUARD)

    def await_line(self, length: int) -> None:
        wait_until(lambda: self.pool.waiting == length, timeout=HANG_GUARD)


# Appending


@pytest.mark.rule("accumulator.append.first-use", "accumulator.append.open")
def test_threads_that_start_a_partition_share_its_one_batch() -> None:
    queues = Queues()

    Working(*[queues.append] * 8).join()

    assert queues.accumulator.incomplete == 1
    assert [batch.count for batch in drain_all(queues)] == [8]


@pytest.mark.rule("accumulator.append.threads")
def test_records_of_each_thread_are_queued_once_and_in_its_order() -> None:
    queues = Queues(batch_size=2_000, buffer_memory=50_000_000, growing=False)

    def work(thread: int) -> None:
        for number in range(500):
            queues.append(b"%d %d" % (thread, number), partition=number % 2)

    Working(*(lambda thread=thread: work(thread) for thread in range(4))).join()

    seen: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for batch in drain_all(queues):
        for value in values([batch]):
            assert value is not None
            thread, number = value.split()
            seen[batch.partition, thread].append(int(number))
    assert seen == {(p, b"%d" % thread): list(range(p, 500, 2)) for p in range(2) for thread in range(4)}


@pytest.mark.rule("accumulator.append.outside")
def test_append_drain_and_complete_work_while_an_append_is_blocked() -> None:
    queues = InLine(buffer_memory=10_000, batch_size=9_000)
    first = queues.append(partition=0)
    waiting = Working(lambda: queues.append(bytes(8_000), partition=1))
    queues.await_line(1)

    second = queues.append(partition=0)
    [batch] = drain(queues)
    assert batch.count == 2
    acknowledge(queues, batch)

    waiting.join()
    assert first.done()
    assert second.done()


@pytest.mark.rule("accumulator.append.again", "accumulator.append.unused")
def test_of_two_blocked_appends_the_second_joins_the_batch_of_the_first() -> None:
    queues = InLine(buffer_memory=18_000, batch_size=9_000)
    queues.append(bytes(8_000), partition=1)
    queues.append(bytes(8_000), partition=2)
    waiting = Working(lambda: queues.append(partition=0), lambda: queues.append(partition=0))
    queues.await_line(2)

    for batch in drain(queues):
        acknowledge(queues, batch)
    waiting.join()

    assert queues.accumulator.incomplete == 1
    assert held(queues) == 18_000 // 6  # for three partitions
    assert [batch.count for batch in drain_all(queues)] == [2]


@pytest.mark.rule("accumulator.append.unused", "producer.close.refuses")
def test_an_append_blocked_during_close_is_refused_without_a_trace() -> None:
    queues = InLine(buffer_memory=10_000, batch_size=9_000)
    queues.append(bytes(8_000), partition=0)
    before = held(queues)

    def refused() -> None:
        with pytest.raises(ProducerClosedError):
            queues.append(partition=1)

    waiting = Working(refused)
    queues.await_line(1)
    queues.accumulator.close(CLOSED)
    waiting.join()

    assert queues.accumulator.incomplete == 1
    assert held(queues) == before


@pytest.mark.rule("accumulator.append.close")
def test_records_before_close_complete_and_later_ones_are_refused() -> None:
    queues = Queues(batch_size=500, buffer_memory=50_000_000)
    opened = topic_queues(queues)
    deliveries: list[list[Delivery]] = [[] for _ in range(4)]
    under_way = threading.Barrier(5)

    def work(thread: int) -> None:
        """Send as the face does: to the open batch directly, and by the accumulator when it takes no more."""
        own = deliveries[thread]
        while True:
            if len(own) == 100:
                under_way.wait(HANG_GUARD)
            batch = opened.queues[thread % 2].open
            index = batch.append(None, b"value", (), 0, None) if batch is not None else None
            if batch is not None and index is not None:
                own.append(Delivery(batch, index))
                continue
            try:
                own.append(queues.append(partition=thread % 2))
            except ProducerClosedError:
                return

    working = Working(*(lambda thread=thread: work(thread) for thread in range(4)))
    under_way.wait(HANG_GUARD)
    queues.accumulator.close(CLOSED)
    working.join()
    queues.accumulator.abort(CLOSED)

    assert all(delivery.done() for own in deliveries for delivery in own)
    assert queues.accumulator.report()[0].failed == sum(map(len, deliveries))
    assert (held(queues), queues.accumulator.incomplete) == (0, 0)


# Ready


@pytest.mark.rule("accumulator.ready.behind")
def test_a_batch_with_another_behind_it_is_ready_at_once() -> None:
    queues = Queues(linger=5.0, batch_size=1_000, growing=False)
    queues.append(bytes(100))
    assert not ready(queues)

    queues.append(bytes(5_000))

    assert [batch.count for batch in drain(queues)] == [1]


@pytest.mark.rule("accumulator.ready.backoff")
def test_a_batch_does_not_linger_after_its_backoff() -> None:
    queues = Queues(linger=50.0, batch_size=100)
    queues.append(bytes(200))
    [batch] = drain(queues)
    put_back(queues, batch)

    assert not ready(queues)
    assert look_again_in(queues) == pytest.approx(0.1)
    queues.clock.advance(0.1)
    assert ready(queues)


@pytest.mark.rule("accumulator.ready.backoff")
@pytest.mark.parametrize("urgency", ["closing", "flush", "full"])
def test_nothing_shortens_a_backoff(urgency: str) -> None:
    queues = Queues(linger=0.0, batch_size=500)
    queues.append()
    [batch] = drain(queues)
    put_back(queues, batch)

    if urgency == "closing":
        queues.accumulator.close(CLOSED)
    elif urgency == "flush":
        queues.accumulator.flush(timeout=0)
    else:
        for _ in range(3):
            queues.append(bytes(490))

    assert not ready(queues)
    assert drain(queues) == []


@pytest.mark.rule("accumulator.ready.backoff.grows")
def test_the_backoff_doubles_with_each_attempt_up_to_its_maximum() -> None:
    queues = Queues(linger=0.0)
    queues.append()
    backoffs = []
    for _ in range(6):
        [batch] = drain(queues)
        put_back(queues, batch)
        backoffs.append(look_again_in(queues))
        queues.clock.advance(backoffs[-1])

    assert backoffs == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


@pytest.mark.rule("accumulator.ready.throttled")
def test_a_throttled_partition_is_ready_when_the_throttle_time_ends() -> None:
    queues = Queues(linger=0.0)
    queues.append()
    [batch] = drain(queues)
    queues.accumulator.mute(batch)
    queues.append()
    queues.accumulator.unmute(batch, at=queues.clock() + 3.0)

    assert not ready(queues)
    assert drain(queues) == []
    assert look_again_in(queues) == pytest.approx(3.0)
    queues.clock.advance(3.0)
    assert ready(queues)


@pytest.mark.rule("accumulator.ready.throttled", "accumulator.ready.backoff")
def test_a_new_leader_ends_the_backoff_but_not_the_throttle_time() -> None:
    queues = Queues(linger=0.0)
    queues.append()
    [batch] = drain(queues)
    batch.mark_sent(1, queues.clock())
    batch.mark_returned(queues.clock())
    put_back(queues, batch)
    batch.retry_at = 9.0
    batch.leader_epoch = -1
    batch.last_node = 2  # led by another one now
    queues.accumulator.unmute(batch, at=3.0)

    assert look_again_in(queues) == pytest.approx(3.0)
    queues.clock.advance(3.0)
    assert ready(queues)


@pytest.mark.rule("accumulator.ready.look-again")
@pytest.mark.parametrize(
    ("linger", "backoff", "throttle", "expiry", "least"),
    [(1.0, 9.0, 9.0, 9.0, 1.0), (9.0, 2.0, 9.0, 9.0, 2.0), (9.0, 9.0, 3.0, 9.0, 3.0), (9.0, 9.0, 9.0, 4.0, 4.0)],
    ids=["linger", "backoff", "throttle", "expiry"],
)
def test_the_next_ready_check_is_the_earliest_of_all_times(
    linger: float, backoff: float, throttle: float, expiry: float, least: float
) -> None:
    queues = Queues(linger=linger, delivery_timeout=expiry)
    for partition in (1, 2):
        queues.append(partition=partition)
    queues.accumulator.flush(timeout=0)
    in_backoff, throttled = drain(queues)
    for batch in (in_backoff, throttled):
        put_back(queues, batch)
    in_backoff.retry_at, throttled.retry_at = backoff, 0.0
    queues.accumulator.unmute(throttled, at=throttle)
    queues.append(partition=0)

    assert look_again_in(queues) == pytest.approx(least)


# Draining


@pytest.mark.rule("accumulator.drain.encoded-once")
def test_a_batch_is_encoded_once_for_any_number_of_attempts() -> None:
    queues = Queues(linger=0.0)
    encoded: list[SealedRecords] = []
    seal = queues.accumulator._drained.seal

    def note(batch: ProducerBatch, node: int) -> SealedRecords:
        sealed = seal(batch, node)
        if sealed is not batch.sealed:
            encoded.append(sealed)
        return sealed

    queues.accumulator._drained.seal = note
    for partition in (0, 1):
        queues.append(bytes(500), partition=partition)
    [first] = drain(queues, max_size=600)
    for _ in range(3):
        put_back(queues, first)
        queues.clock.advance(1.0)
        drained = drain(queues, max_size=600)
    assert drained == [first]  # it is first in line again, the other one never fitted

    assert len(encoded) == 2
    assert first.sealed is encoded[0]


@pytest.mark.rule("accumulator.drain.closed", "accumulator.drain.unfit")
def test_a_drained_batch_takes_no_more_records_even_if_it_did_not_fit() -> None:
    queues = Queues(linger=0.0)
    deliveries = [queues.append(bytes(500), partition=partition) for partition in (0, 1)]
    drain(queues, max_size=600)

    later = [queues.append(b"later", partition=partition) for partition in (0, 1)]

    assert [delivery._batch.append(None, b"directly", (), 0, None) for delivery in deliveries] == [None, None]
    assert all(new._batch is not old._batch for new, old in zip(later, deliveries, strict=True))
    assert [batch.count for batch in drain(queues)] == [1, 1]


@pytest.mark.rule("accumulator.ratio.drift")
def test_the_ratio_falls_slowly_rises_fast_and_restarts_after_a_split() -> None:
    sealer = Sealer(ottla_compressor())
    random = Random(7)

    def sealed(value: bytes, topic: str = "t") -> float:
        batch = ProducerBatch(topic=topic, partition=0, columns=columns(ENOUGH_BYTES), now=0.0)
        batch.append(None, value, (), 0, None)
        batch.sealed = sealer.seal(batch, 1)
        latest[:] = [batch]
        return sealer.ratio(topic)

    latest: list[ProducerBatch] = []
    assert sealer.ratio("t") == pytest.approx(1.05)  # some caution
    assert [sealed(bytes(9_000)) for _ in range(3)] == pytest.approx([0.995 * 1.05, 0.99 * 1.05, 0.985 * 1.05])
    assert sealed(random.randbytes(9_000)) >= (0.985 + 0.05) * 1.05
    assert sealer.ratio("another") == pytest.approx(1.05)

    for _ in range(20):
        sealed(bytes(9_000))
    assert sealer.ratio("t") < 1.0
    sealer.records(latest[0])
    assert sealer.ratio("t") == pytest.approx(1.05)


# Splitting


@pytest.mark.rule("accumulator.split.order", "accumulator.put-back.head")
def test_parts_of_a_batch_are_sent_in_order_before_later_batches() -> None:
    queues = Queues(linger=0.0)
    for number in range(4):
        queues.append(b"%d" % number)
    [batch] = drain(queues)
    queues.append(b"behind")

    split(queues, batch)

    assert values(drain_all(queues)) == [b"0", b"1", b"2", b"3", b"behind"]


@pytest.mark.rule("accumulator.split.memory")
@given(st.lists(st.integers(min_value=0, max_value=300), min_size=2, max_size=30), st.integers(0, 2_000))
def test_the_parts_together_reserve_the_memory_of_the_batch(sizes: list[int], target: int) -> None:
    queues = Queues(linger=0.0)
    for size in sizes:
        queues.append(bytes(size))
    [batch] = drain(queues)
    before = held(queues)
    assert before == batch.held_bytes

    parts = split(queues, batch, target=target)

    assert held(queues) == before == sum(part.held_bytes for part in parts)
    assert all(part.held_bytes >= 0 for part in parts)
    assert batch.held_bytes == 0
    for part in drain_all(queues):
        acknowledge(queues, part)
    assert held(queues) == 0


@pytest.mark.rule("accumulator.split.learns")
def test_batches_after_a_split_are_no_larger_than_its_parts() -> None:
    queues = Queues(linger=0.0)
    for _ in range(20):
        queues.append(bytes(100))
    [batch] = drain(queues)
    assert batch.sealed is not None
    most = batch.sealed.plain_size // 2
    split(queues, batch)
    drain_all_but_close(queues)

    for partition in (0, 3):
        for _ in range(20):
            queues.append(bytes(100), partition=partition)
    others = [queues.append(bytes(100), topic="other") for _ in range(20)]

    sizes = [batch.sealed.size for batch in drain_all_but_close(queues) if batch.sealed is not None]
    assert len(sizes) >= 4
    assert max(sizes) <= most
    assert others[0]._batch.count == 20


@pytest.mark.rule("accumulator.split.flush")
def test_a_flush_waits_for_the_parts_of_a_batch_split_meanwhile() -> None:
    queues = Queues(linger=0.0)
    deliveries = [queues.append(b"%d" % number) for number in range(2)]
    [batch] = drain(queues)
    flush = FlushWait(lambda: None)
    assert queues.accumulator.flushes.begin(flush, HANG_GUARD)

    parts = split(queues, batch)
    for part in parts:
        assert not flush.ended
        acknowledge(queues, part)

    assert flush.ended
    assert all(delivery.done() for delivery in deliveries)


@pytest.mark.rule("accumulator.expire.queue")
def test_a_batch_expires_on_time_behind_a_younger_requeued_one() -> None:
    queues = Queues(linger=0.0, delivery_timeout=10.0)
    older = queues.append()
    [first] = drain(queues)
    queues.clock.advance(4.0)
    younger = queues.append()
    [second] = drain(queues)
    put_back(queues, first)
    put_back(queues, second)
    queues.clock.advance(6.0)

    queues.accumulator.expire(queues.clock())
    assert (older.done(), younger.done()) == (True, False)


# The end


@pytest.mark.rule("accumulator.abort.incomplete", "producer.callback.order")
def test_abort_completes_records_of_a_partition_in_order_in_any_state() -> None:
    queues = Queues(linger=0.0, batch_size=600, growing=False)
    reported: list[int] = []

    def note(number: int) -> OnDelivery:
        return lambda _delivery: reported.append(number)

    for number in range(20):
        queues.append(bytes(100), on_delivery=note(number))
    [in_flight] = drain(queues)
    [to_split] = drain(queues)
    in_flight.mark_sent(1, queues.clock())
    assert len(split(queues, to_split)) > 1
    assert queues.accumulator.incomplete > 3

    queues.accumulator.abort(CLOSED)

    assert reported == list(range(20))
    assert (held(queues), queues.accumulator.incomplete) == (0, 0)


@pytest.mark.rule("accumulator.expire.queue")
def test_a_batch_in_backoff_or_muted_expires_on_time_too() -> None:
    queues = Queues(linger=0.0, delivery_timeout=10.0)
    deliveries = [queues.append(partition=partition) for partition in (0, 1)]
    in_backoff, muted = drain(queues)
    for batch in (in_backoff, muted):
        put_back(queues, batch)
    in_backoff.retry_at = 99.0
    queues.accumulator.unmute(muted, at=99.0)
    queues.clock.advance(9.9)
    queues.accumulator.expire(queues.clock())
    assert not any(delivery.done() for delivery in deliveries)

    queues.clock.advance(0.1)

    queues.accumulator.expire(queues.clock())
    assert all(delivery.done() for delivery in deliveries)


@pytest.mark.rule("producer.flush.several", "producer.flush.leaves")
def test_concurrent_flushes_all_end_with_records_queued_before_them() -> None:
    queues = Queues(linger=500.0)
    first = queues.append(partition=0)
    woken = threading.Semaphore(0)
    queues.on_wake = woken.release

    def flush() -> None:
        assert queues.accumulator.flush(timeout=None)
        assert first.done()

    flushing = Working(flush, flush, flush)
    for _ in range(3):
        assert woken.acquire(timeout=HANG_GUARD)
    later = queues.append(partition=1)
    [batch] = drain(queues)
    acknowledge(queues, batch)
    flushing.join()

    assert not later.done()


# Whatever happens

appends = st.tuples(st.just("append"), st.integers(0, 3), st.integers(0, 900))
drains = st.tuples(st.just("drain"), st.integers(0, 3), st.integers(100, 3_000))
others = st.tuples(
    st.sampled_from(["acknowledge", "fail", "put back", "split", "pass", "flush"]), st.integers(0, 3), st.integers(0, 9)
)
Step = tuple[str, int, int]


class Story:
    """Queues through any sequence of events, one batch of a partition under way at a time, as if order were kept."""

    def __init__(self) -> None:
        self.queues = Queues(
            batch_size=800, linger=0.3, buffer_memory=12_000, delivery_timeout=20.0, max_request_size=2_000
        )
        self.sent: dict[int, int] = defaultdict(int)
        self.reported: dict[int, list[int]] = defaultdict(list)
        self.deliveries: list[Delivery] = []
        self.under_way: dict[int, ProducerBatch] = {}

    def append(self, partition: int, size: int) -> None:
        number = self.sent[partition]

        def note(_delivery: Delivery) -> None:
            self.reported[partition].append(number)

        try:
            delivery = self.queues.append(bytes(size), partition=partition, on_delivery=note)
        except BufferExhaustedError:
            return
        self.sent[partition] += 1
        self.deliveries.append(delivery)

    def drain(self, _partition: int, max_size: int) -> None:
        for batch in drain(self.queues, max_size=max_size):
            assert batch.partition not in self.under_way
            self.under_way[batch.partition] = batch
            self.queues.accumulator.mute(batch)

    def come_back(self, partition: int) -> ProducerBatch | None:
        batch = self.under_way.pop(partition, None)
        if batch is not None:
            self.queues.accumulator.unmute(batch)
        return batch

    def acknowledge(self, partition: int, _number: int) -> None:
        if (batch := self.come_back(partition)) is not None:
            acknowledge(self.queues, batch)

    def fail(self, partition: int, _number: int) -> None:
        if (batch := self.come_back(partition)) is not None:
            error = DeliveryError("refused", topic="t", partition=partition, attempts=1, possibly_persisted=False)
            self.queues.accumulator.complete(batch, Failed(error=error))

    def put_back(self, partition: int, _number: int) -> None:
        if (batch := self.come_back(partition)) is not None:
            put_back(self.queues, batch)

    def split(self, partition: int, number: int) -> None:
        batch = self.under_way.get(partition)
        if batch is not None and batch.count > 1:
            self.come_back(partition)
            split(self.queues, batch, target=100 * number)

    def pass_time(self, _partition: int, seconds: int) -> None:
        """Let time pass, and expire what is late: first what is under way, which is older."""
        self.queues.clock.advance(seconds / 2)
        for partition, batch in list(self.under_way.items()):
            if batch.created_at + 20.0 <= self.queues.clock():
                self.fail(partition, 0)
        self.queues.accumulator.expire(self.queues.clock())

    def flush(self, _partition: int, _number: int) -> None:
        self.queues.accumulator.flush(timeout=0)

    def check(self) -> None:
        """Check the invariants that hold after each step."""
        batches = {batch for delivery in self.deliveries for batch in [delivery._place()[0]] if batch.outcome is None}
        assert held(self.queues) == sum(batch.held_bytes for batch in batches)
        assert 0 <= self.queues.pool.free <= self.queues.pool.capacity
        assert self.queues.accumulator.incomplete == len(batches)
        for reported in self.reported.values():
            assert reported == list(range(len(reported)))
        queued = topic_queues(self.queues).queued_bytes
        under_way = set(self.under_way.values())
        for partition in range(4):
            waiting = [batch for batch in batches - under_way if batch.partition == partition]
            assert queued[partition] <= sum(batch.columns.memory() for batch in waiting)
            assert bool(queued[partition]) == bool(waiting)

    def end(self) -> None:
        """Everything leaves and is acknowledged."""
        self.queues.accumulator.close(CLOSED)
        for _ in range(10 * len(self.deliveries) + 10):
            self.drain(0, ENOUGH_BYTES)
            for partition in list(self.under_way):
                self.acknowledge(partition, 0)
            self.queues.clock.advance(0.5)
        assert self.queues.accumulator.incomplete == 0


@pytest.mark.rule("accumulator.balance", "pool.bound", "producer.callback.once")
@given(st.lists(st.one_of(appends, appends, drains, others), max_size=60))
def test_order_is_kept_and_memory_adds_up_whatever_happens(steps: list[Step]) -> None:
    story = Story()
    actions: dict[str, Callable[[int, int], None]] = {
        "append": story.append,
        "drain": story.drain,
        "acknowledge": story.acknowledge,
        "fail": story.fail,
        "put back": story.put_back,
        "split": story.split,
        "pass": story.pass_time,
        "flush": story.flush,
    }
    for action, partition, number in steps:
        actions[action](partition, number)
        story.check()
    story.end()
    story.check()

    assert {p: len(reported) for p, reported in story.reported.items()} == {
        p: count for p, count in story.sent.items() if count
    }
    assert held(story.queues) == 0


def drain_all_but_close(queues: Queues) -> list[ProducerBatch]:
    """Everything that is queued, in rounds, without closing."""
    queues.accumulator.flush(timeout=0)
    batches: list[ProducerBatch] = []
    while taken := drain(queues):
        batches += taken
    return batches


def drain_all(queues: Queues) -> list[ProducerBatch]:
    queues.accumulator.close(CLOSED)
    return drain_all_but_close(queues)
