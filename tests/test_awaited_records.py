"""Records that are awaited one at a time: who waits runs the rounds, and nothing else is different by it.

A thread that is held up between the two leaves the record to the I/O thread, so what must be seen is tried again.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest
from own_io_thread import io_thread_of

from ottla import Delivery, DeliveryError, Producer, UndeliveredError
from ottla.concurrency import signals
from ottla.errors import AbortableTransactionError, TransactionAbortedError
from ottla.sender.io_handoff import HandoffState, IoHandoff
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.mock_cluster import MockCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

WAIT = 60.0
LATE = 5.0
LEEWAY = 4.0  # for a busy machine; less than what a wait for late responses would take
"""The delay of a broker that is not to respond in time."""
ENOUGH = 10


@pytest.fixture
def cluster(mock_cluster: MockCluster) -> MockCluster:
    mock_cluster.create_topic("t", partitions=2)
    return mock_cluster


@pytest.fixture
def producer(cluster: MockCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as made:
        yield made


@pytest.fixture(autouse=True)
def usual_ctrl_c() -> Iterator[None]:
    """Whatever the tests were started from, which may have them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def send(producer: Producer, value: bytes = b"v", **options: Any) -> Delivery:
    return producer.send("t", value, partition=0, **options)


def rest(producer: Producer) -> int:
    """Await records until the I/O thread leaves it to who waits; how many."""
    for sent in range(1, 100 * ENOUGH):
        send(producer, b"before").result(WAIT)
        soon = time.monotonic() + 0.05
        while sent >= ENOUGH and time.monotonic() < soon:
            if resting(producer):
                return sent
            time.sleep(0.0005)
    raise AssertionError("this thread was held up each time")


def resting(producer: Producer) -> bool:
    handoff = io_thread_of(producer._engine)._io_handoff
    return isinstance(handoff, IoHandoff) and handoff._state is not HandoffState.IO_THREAD and not handoff._called


def leader(producer: Producer) -> int | None:
    return io_thread_of(producer._engine)._io_handoff.polling_thread


def watch_rounds(producer: Producer, watch: Callable[[Callable[[], object]], None]) -> None:
    """Have *watch* run every round."""
    sender = io_thread_of(producer._engine)._sender
    run_once = sender.run_once

    def watched(now: float, **how: Any) -> bool:
        watch(lambda: run_once(now, **how))
        return False

    sender.run_once = watched  # type: ignore[method-assign]


def threads_of_rounds(producer: Producer) -> list[int]:
    found: list[int] = []

    def note(run: Callable[[], object]) -> None:
        found.append(threading.get_ident())
        run()

    watch_rounds(producer, note)
    return found


def slow(cluster: MockCluster) -> None:
    for broker in (1, 2, 3):
        cluster.set_rtt(broker, LATE)


def quick(cluster: MockCluster) -> None:
    for broker in (1, 2, 3):
        cluster.set_rtt(broker, 0.0)


def wait_leading(producer: Producer, cluster: MockCluster, pool: ThreadPoolExecutor) -> Future[DeliveryError | None]:
    """Send a record on a thread that runs rounds until it has an outcome, which takes long."""
    for _ in range(ENOUGH):
        rest(producer)
        slow(cluster)
        waiting = pool.submit(lambda: send(producer).exception(WAIT))
        until(lambda: leader(producer) is not None or (producer._accumulator.incomplete and not resting(producer)))
        if leader(producer) is not None:
            return waiting
        quick(cluster)
        waiting.result(WAIT)
    raise AssertionError("the thread was held up each time")


# Who runs the rounds


@pytest.mark.rule("producer.awaited.leads")
@pytest.mark.parametrize("settings", [{}, {"linger.ms": 5}, {"record.encoder": "python"}])
@pytest.mark.parametrize("key", [None, b"key"])
def test_a_record_awaited_at_once_is_sent_by_the_waiting_thread(
    cluster: MockCluster, settings: dict[str, Any], key: bytes | None
) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **settings}) as producer:
        threads = threads_of_rounds(producer)
        for _ in range(100):
            threads.clear()
            producer.send("t", b"value", key).result(WAIT)
            if set(threads) == {threading.get_ident()}:
                break

        assert set(threads) == {threading.get_ident()}


@pytest.mark.parametrize("acks", ["all", "0"])
@pytest.mark.kafka
def test_a_broker_gets_every_awaited_record_in_order(kafka: KafkaCluster, make_topic: MakeTopic, acks: str) -> None:
    topic = make_topic()
    values = [b"%d" % number for number in range(300)]

    idempotence = acks == "all"
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers, linger_ms=0, acks=acks, enable_idempotence=idempotence
    ) as producer:
        offsets = [producer.send(topic, value).result(WAIT).offset for value in values]

    assert offsets == (list(range(300)) if acks == "all" else [-1] * 300)
    assert [record.value for record in read_back(kafka.bootstrap_servers, topic)] == values


@pytest.mark.rule("producer.awaited.none")
def test_a_record_that_is_never_awaited_is_sent_as_well(producer: Producer) -> None:
    rest(producer)

    delivery = send(producer)

    until(delivery.done)
    until(lambda: not resting(producer))


@pytest.mark.rule("producer.awaited.leads")
def test_concurrent_records_are_sent_by_the_io_thread(producer: Producer) -> None:
    threads = threads_of_rounds(producer)
    for _ in range(ENOUGH):
        pair = [send(producer), producer.send("t", b"other", partition=1)]
        for delivery in pair:
            delivery.result(WAIT)

    assert threading.get_ident() not in threads


def test_a_record_behind_a_refused_one_fails_at_once(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    """In a transaction, which that one fails: what is queued is dropped by the thread that waits for it."""
    topic = make_topic(max_message_bytes=1_000)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 0}
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(ENOUGH):
            producer.send(topic, b"before").result(WAIT)
        with pytest.raises(DeliveryError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, b"refused" * 1_000).result(WAIT)
        started = time.monotonic()
        with pytest.raises((TransactionAbortedError, AbortableTransactionError)):
            producer.send(topic, b"behind").result(WAIT / 2)
        producer.abort_transaction()

        assert time.monotonic() - started < WAIT / 4  # not a moment: the machine may be busy


def test_with_the_hand_off_disabled_the_io_thread_runs_all_rounds(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, io_handoff_enable=False) as producer:
        threads = threads_of_rounds(producer)
        for sent in range(10 * ENOUGH):
            assert send(producer).result(WAIT).offset == sent

        assert threading.get_ident() not in threads


def test_an_idle_producer_returns_its_sockets_to_the_io_thread(producer: Producer) -> None:
    before = rest(producer)

    until(lambda: not resting(producer))

    assert send(producer).result(WAIT).offset == before


def test_awaited_records_of_several_threads_all_arrive(producer: Producer) -> None:
    def awaited(_thread: int) -> list[int]:
        return [send(producer).result(WAIT).offset for _ in range(100)]

    with ThreadPoolExecutor(4) as pool:
        offsets = [offset for found in pool.map(awaited, range(4)) for offset in found]

    assert sorted(offsets) == list(range(400))


def test_a_thread_waiting_for_a_record_does_not_delay_another_thread(producer: Producer, cluster: MockCluster) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = wait_leading(producer, cluster, pool)
        other = send(producer, b"other")

        until(lambda: leader(producer) is None)
        assert not waiting.done()
        quick(cluster)
        assert other.exception(WAIT) is None
        assert waiting.result(WAIT) is None


def test_a_transaction_of_awaited_records_is_committed(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, transactional_id="awaited") as producer:
        producer.init_transactions()
        for _ in range(2):
            with producer.transaction():
                rest(producer)
            assert producer.flush().acknowledged == 0  # the commit has reported them


# Its ends


def test_a_wait_that_polls_itself_ends_in_time(producer: Producer, cluster: MockCluster) -> None:
    before = rest(producer)
    slow(cluster)
    delivery = send(producer)
    started = time.monotonic()

    with pytest.raises(TimeoutError):
        delivery.result(0.2)

    assert 0.2 <= time.monotonic() - started < 0.2 + LEEWAY
    quick(cluster)
    assert delivery.result(WAIT).offset == before


@pytest.mark.parametrize("timeout", [0.0, 0.3])
def test_a_close_is_in_time_while_another_thread_waits_for_a_record(cluster: MockCluster, timeout: float) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    with ThreadPoolExecutor(1) as pool:
        waiting = wait_leading(producer, cluster, pool)
        started = time.monotonic()

        with contextlib.suppress(UndeliveredError):  # who waits may not have looked yet
            producer.close(timeout)

        assert time.monotonic() - started < timeout + LEEWAY
        assert isinstance(waiting.result(WAIT), DeliveryError)
        assert not producer._accumulator.incomplete


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from 3.12 on, for there are threads
def test_a_forked_child_does_not_poll_the_sockets_of_its_parent(producer: Producer) -> None:
    before = rest(producer)
    delivery = send(producer)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if isinstance(delivery.exception(WAIT), DeliveryError) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert delivery.result(WAIT).offset == before
    assert send(producer).result(WAIT).offset == before + 1


@pytest.mark.rule("producer.fork.callback")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from 3.12 on, for there are threads
@pytest.mark.parametrize("end", [lambda: None, lambda: sys.exit(3)], ids=["returns", "exits"])
@pytest.mark.parametrize("place", ["callback", "compressor"])
def test_a_child_forked_on_the_io_thread_leaves_its_parent_connected(
    place: str, end: Callable[[], object], cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    forking = Forking(end)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "compression.type": forking}
    with Producer({**settings, "io.handoff.enable": False}) as producer:  # a child of this thread would run other tests
        send(producer).result(WAIT)
        forking.places.append(place)
        kept = send(producer, on_delivery=lambda _delivery: forking.fork("callback"))
        offsets = [send(producer).result(WAIT).offset for _ in range(50)]

        status = forking.child_status()
        assert [*offsets, send(producer).result(WAIT).offset] == list(range(2, 53))
        assert kept.result(WAIT).offset == 1
    assert os.WIFEXITED(status), "the child was killed: it did not end by itself"
    assert not [
        each for each in caplog.records if each.name.startswith("ottla.network") and each.levelno > logging.INFO
    ]


class Forking:
    """A codec, whose `compress` may fork, as the callback of a record may; the child then does what *end* does."""

    codec_id = 1

    def __init__(self, end: Callable[[], object]) -> None:
        self.places: list[str] = []
        self._end = end
        self._children: list[int] = []

    def fork(self, place: str) -> None:
        """Fork if it is the turn of this place."""
        if place not in self.places:
            return
        self.places.clear()
        child = os.fork()
        if child == 0:
            signal.alarm(int(LATE))
            self._end()
        else:
            self._children.append(child)

    def child_status(self) -> int:
        """Wait for the child, which is killed after some seconds."""
        [child] = self._children
        return os.waitpid(child, 0)[1]

    def compress(self, chunks: Sequence[Any], *, level: int | None = None) -> bytes:
        self.fork("compressor")
        return gzip.compress(b"".join(chunks))

    def decompress(self, buffer: Any, *, limit: int) -> bytes:
        return gzip.decompress(buffer)


def test_a_kept_delivery_keeps_nothing_of_a_closed_producer_alive(cluster: MockCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        before = rest(producer)
        delivery = send(producer)
        delivery.result(WAIT)
        accumulator = weakref.ref(producer._accumulator)
    del producer
    gc.collect()

    assert accumulator() is None
    assert delivery.result().offset == before


# Callbacks


@pytest.mark.rule("producer.awaited.callbacks")
def test_callbacks_run_on_the_io_thread_in_every_case(producer: Producer) -> None:
    before = rest(producer)
    ran: list[str] = []
    for _ in range(ENOUGH):
        send(producer, on_delivery=lambda _delivery: ran.append(threading.current_thread().name)).result(WAIT)
    report = producer.flush()

    assert report.acknowledged == before + ENOUGH
    assert len(ran) == ENOUGH
    assert all(name.startswith("ottla-io-") for name in ran)


def test_a_slow_callback_does_not_delay_the_waiting_thread(producer: Producer) -> None:
    rest(producer)
    go_on = threading.Event()
    send(producer, on_delivery=lambda _delivery: go_on.wait(WAIT)).result(WAIT)
    go_on.set()

    assert producer.flush().pending == 0


@pytest.mark.rule("producer.awaited.callbacks")
def test_a_callback_due_in_a_waiting_thread_runs_on_the_io_thread(producer: Producer, cluster: MockCluster) -> None:
    ran: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        waiting = wait_leading(producer, cluster, pool)
        [batch] = producer._accumulator._batches.all
        Delivery(batch, 0).add_done_callback(lambda _delivery: ran.append(threading.current_thread().name))
        quick(cluster)
        waiting.result(WAIT)
    producer.flush()

    assert [name[:9] for name in ran] == ["ottla-io-"]


# Errors


def test_an_error_in_a_round_of_any_thread_is_handled_by_the_io_thread(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    before = rest(producer)
    errors = iter([RuntimeError("on purpose")])

    def fail_once(run: Callable[[], object]) -> None:
        for error in errors:
            raise error
        run()

    watch_rounds(producer, fail_once)

    assert send(producer).result(WAIT).offset == before
    [failed] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "a round of the I/O thread failed" in failed.getMessage()
    assert failed.exc_info is not None
    assert str(failed.exc_info[1]) == "on purpose"


def test_rounds_that_fail_outside_of_the_io_thread_cost_no_record(producer: Producer) -> None:
    io_thread = io_thread_of(producer._engine)._thread.ident
    failed = 0

    def fail_elsewhere(run: Callable[[], object]) -> None:
        nonlocal failed
        if threading.get_ident() != io_thread:
            failed += 1
            raise RuntimeError("on purpose")
        run()

    watch_rounds(producer, fail_elsewhere)
    deadline = time.monotonic() + WAIT
    sent = 0
    while failed <= ENOUGH:
        assert send(producer).result(WAIT).offset == sent
        sent += 1
        assert time.monotonic() < deadline


def test_records_awaited_up_to_the_recursion_limit_all_arrive(producer: Producer) -> None:
    deliveries: list[Delivery] = []

    def await_deeper() -> None:
        deliveries.append(send(producer))
        deliveries[-1].result(WAIT)
        await_deeper()

    with pytest.raises(RecursionError):
        await_deeper()

    assert _offsets(deliveries) == list(range(len(deliveries)))
    assert producer.flush(WAIT).pending == 0


def assert_the_producer_goes_on(producer: Producer, raised: type[BaseException]) -> None:
    """Assert that *raised* comes out of a wait, that its record arrives all the same, and that others follow."""
    deliveries: list[Delivery] = []

    def await_some() -> None:
        for _ in range(100):
            deliveries.append(send(producer))
            deliveries[-1].result(WAIT)

    with pytest.raises(raised):
        await_some()

    assert deliveries[-1].exception(WAIT) is None
    delivery = send(producer)
    producer.close()
    assert delivery.exception(WAIT) is None


def test_an_exception_in_a_waiting_thread_does_not_end_the_producer(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    main = threading.get_ident()

    def end(run: Callable[[], object]) -> None:
        if threading.get_ident() == main:
            raise SystemExit
        run()

    watch_rounds(producer, end)
    assert_the_producer_goes_on(producer, SystemExit)
    assert "a round of the I/O thread failed" in caplog.text


# Signals


@pytest.mark.rule("producer.awaited.signals")
def test_ctrl_c_ends_a_wait_at_once_and_the_record_still_arrives(producer: Producer, cluster: MockCluster) -> None:
    before = rest(producer)
    slow(cluster)
    delivery = send(producer)
    main = threading.get_ident()

    waiting = threading.Event()  # or else a thread that is held up is interrupted before

    def interrupt() -> None:
        assert waiting.wait(WAIT)
        until(lambda: leader(producer) == main or not resting(producer))
        signal.pthread_kill(main, signal.SIGINT)

    def await_it() -> None:
        waiting.set()
        delivery.result(WAIT)

    with ThreadPoolExecutor(1) as pool:
        interrupting = pool.submit(interrupt)
        started_at = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            await_it()
        # On a busy machine the other thread may be held up until the response comes.
        assert not delivery.done() or time.monotonic() - started_at > LATE - 1
        interrupting.result(WAIT)
    quick(cluster)
    assert delivery.result(WAIT).offset == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.rule("producer.awaited.signals")
def test_ctrl_c_at_any_point_of_a_round_leaves_a_working_producer(producer: Producer) -> None:
    others = rest(producer)
    main, points_left = threading.get_ident(), 0

    def interrupt(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal points_left
        points_left -= 1
        if points_left == 0:
            signal.raise_signal(signal.SIGINT)

    def run_with_interrupt(run: Callable[[], object]) -> None:
        if threading.get_ident() == main:
            sys.setprofile(interrupt)
        try:
            run()
        finally:
            sys.setprofile(None)

    watch_rounds(producer, run_with_interrupt)
    deliveries: list[Delivery] = []
    point, passed = 1, False
    while not passed:
        points_left = 0
        others += rest(producer)
        points_left = point
        deliveries.append(send(producer))
        if _interrupted(deliveries[-1]):
            point += 1
        else:
            passed = 0 < points_left < point

    points_left = 0
    assert point > 100
    assert _offsets(deliveries) == sorted(_offsets(deliveries))
    assert send(producer).result(WAIT).offset == others + len(deliveries)
    assert producer.flush().pending == 0


def _interrupted(delivery: Delivery) -> bool:
    try:
        delivery.result(WAIT)
    except KeyboardInterrupt:
        return True
    return False


def _offsets(deliveries: Sequence[Delivery]) -> list[int]:
    return [delivery.result(WAIT).offset for delivery in deliveries]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # from 3.12 on, for there are threads
def test_a_child_forked_during_a_wait_keeps_its_ctrl_c_handler(producer: Producer, cluster: MockCluster) -> None:
    main = threading.get_ident()

    def fork() -> int:
        until(lambda: leader(producer) == main or not resting(producer))
        child = os.fork()
        if child == 0:
            os._exit(int(signal.getsignal(signal.SIGINT) is not signal.default_int_handler))
        quick(cluster)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)

    rest(producer)
    slow(cluster)
    delivery = send(producer)
    with ThreadPoolExecutor(1) as pool:
        code = pool.submit(fork)
        delivery.result(WAIT)
        assert code.result(WAIT) == 0


def test_a_second_ctrl_c_ends_a_hanging_round_and_the_producer_works(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(signals, "HANG_SECONDS", 0.0)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    main = threading.get_ident()

    def hang(run: Callable[[], object]) -> None:
        if threading.get_ident() == main:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the round goes on")
        run()

    watch_rounds(producer, hang)
    assert_the_producer_goes_on(producer, KeyboardInterrupt)
    assert "KeyboardInterrupt" in caplog.text


@pytest.mark.rule("producer.awaited.signals")
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_with_signal_handlers_the_main_thread_does_not_poll(producer: Producer) -> None:
    rest(producer)
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    try:
        threads = threads_of_rounds(producer)
        for _ in range(ENOUGH):
            send(producer).result(WAIT)
        assert threading.get_ident() not in threads

        with ThreadPoolExecutor(1) as pool:
            pool.submit(rest, producer).result(WAIT)
            helper = pool.submit(threading.get_ident).result(WAIT)
        assert helper in threads
    finally:
        signal.signal(signal.SIGUSR1, before)
