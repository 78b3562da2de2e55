"""A signal at any step of a call leaves a producer that goes on: its handler may raise, or call the producer."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import NoneType
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker
from interrupted_anywhere import Handler, Interruption, free
from long_forms import LONG, share
from own_io_thread import io_thread_of

from machine import wait_until
from ottla import Delivery, DeliveryReport, OttlaError, Producer, ProducerClosedError, UndeliveredError
from ottla.accumulator.unretrieved_errors import UnretrievedErrors
from ottla.concurrency import signals
from ottla.interfaces import ProducerRecord
from ottla.producer import build as assembly
from ottla_testkit.simulation import SimulatedCluster

pytestmark = pytest.mark.unmeasured  # each step of coverage's would be one more at which to interrupt

WAIT = 20.0
STRIDE = 1 if LONG else 43
"""The short form takes every 43rd step, beginning elsewhere for each call."""

ENCODERS = ["python", "native"]
ONE_ENCODER = share(ENCODERS, gate=1, why="the gate has each encoder with half of these tests")
OTHER_ENCODER = share(ENCODERS[::-1], gate=1, why="the gate has each encoder with half of these tests")


@pytest.fixture(autouse=True)
def usual_ctrl_c() -> Iterator[None]:
    """Other tests have the main thread run rounds, which it does only without handlers of the program's own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class BrokerAndProducers:
    """One broker on a socket with topics "t" and "u", of two partitions each, and producers of it."""

    def __init__(self, encoder: str) -> None:
        if encoder == "native":
            pytest.importorskip("ottla_accel", exc_type=ImportError)
        self.cluster = SimulatedCluster.of(1)
        for topic in ("t", "u"):
            self.cluster.create(topic, 1, 1)
        self.broker = SocketBroker(self.cluster.brokers[1])
        self.encoder = encoder
        self.servers = ""

    def producer(self, **options: Any) -> Producer:
        made = Producer(bootstrap_servers=self.servers, record_encoder=self.encoder, **options)
        made.partitions_for("t")
        return made

    def values(self) -> list[bytes | None]:
        with self.broker.lock:
            return [r.value for topic in ("t", "u") for log in self.cluster.topics[topic].log.values() for r in log]

    def committed(self) -> list[bytes | None]:
        with self.broker.lock:
            return [
                value for topic in ("t", "u") for at in (0, 1) for value in self.cluster.topics[topic].committed(at)
            ]

    def forget(self) -> None:
        with self.broker.lock:
            for topic in self.cluster.topics.values():
                for log in topic.logs.values():
                    log.aborted.clear()
                    log.records.clear()


@contextmanager
def broker_and_producers(encoder: str) -> Iterator[BrokerAndProducers]:
    made = BrokerAndProducers(encoder)
    with made.broker.serving() as servers:
        made.servers = servers
        yield made


def locks(producer: Producer) -> list[Any]:
    queueing, metadata = producer._engine.queueing, producer._engine.metadata
    incomplete_batches = queueing.accumulator._batches
    found = [
        incomplete_batches.lock,
        queueing.pool._lock,
        metadata._changed.raw,
        queueing.accumulator._completion._counts._lock.raw,
    ]
    found += [producer._call_times.flush._lock, producer._call_times.metadata_wait._lock]
    if producer._transactions is not None:
        found.append(producer._transactions.manager._state.lock.raw)
    return found


def is_whole(producer: Producer) -> None:
    """It takes a record, delivers it, and holds no lock and no memory."""
    assert producer.send("t", b"after", b"k").result(WAIT).offset >= 0
    producer.flush(WAIT)
    assert all(map(free, locks(producer)))
    pool = producer._engine.queueing.pool
    assert pool.waiting == 0
    assert pool.free == pool.capacity


def interruptions(
    call: Callable[[], object], handler: Handler, *, stride: int = STRIDE
) -> Iterator[tuple[str, bool, BaseException | None]]:
    """The start of each signal, whether it was delivered, and the error of the call."""
    number = len(getattr(call, "__name__", "")) % stride
    while True:
        interruption = Interruption(number, handler)
        raised: BaseException | None = None
        try:
            interruption.during(call)
        except (Exception, KeyboardInterrupt) as error:
            raised = error
        if not interruption.where:
            assert raised is None
            return
        yield interruption.where, interruption.came, raised
        number += stride


def send(producer: Producer) -> None:
    """To an open batch, to a new one, with all that a record may have."""
    producer.send("t", b"v", partition=0)
    producer.send("t", b"v", partition=0)
    producer.send("t", None, b"k", headers=[("name", b"v")], timestamp_ms=1, on_delivery=lambda *_: None, partition=0)
    producer.send("t", b"v", b"k")
    producer.send("t", b"v")


def flush(producer: Producer) -> None:
    producer.send("t", b"v", b"k")
    producer.flush(WAIT)


def wait(producer: Producer) -> None:
    producer.send("t", b"v", b"k").result(WAIT)
    producer.send("t", b"v").add_done_callback(lambda _delivery: None)


def look(producer: Producer) -> None:
    producer._engine.queueing.routes.forget()
    producer.partitions_for("u")


def send_table(producer: Producer) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    producer.send_table("t", pyarrow.table({"value": [b"v"] * 4, "key": [b"1", b"2", None, b"3"]})).result(WAIT)


CALLS = [send, flush, wait, look, send_table]


def raise_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize("encoder", ONE_ENCODER)
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_that_raises_at_any_step_leaves_a_working_producer(
    call: Callable[[Producer], None], encoder: str
) -> None:
    with broker_and_producers(encoder) as made, made.producer(linger_ms=5) as producer:
        call(producer)
        for where, came, raised in interruptions(partial(call, producer), raise_ctrl_c):
            assert type(raised) is (KeyboardInterrupt if came else NoneType), where
            is_whole(producer)


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize("encoder", OTHER_ENCODER)
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_may_send_and_flush_at_any_step(call: Callable[[Producer], None], encoder: str) -> None:
    with broker_and_producers(encoder) as made, made.producer(linger_ms=5) as producer:
        deliveries: list[Delivery] = []

        def handle(_number: int, _frame: object) -> None:
            deliveries.append(producer.send("t", b"from the handler", partition=0))
            producer.flush(WAIT)

        call(producer)
        for where, came, raised in interruptions(partial(call, producer), handle):
            assert raised is None, where
            assert [delivery.done() for delivery in deliveries] == [True] * came, where
            deliveries.clear()
            is_whole(producer)


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize("encoder", ONE_ENCODER)
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_may_close_at_any_step_and_loses_no_record(call: Callable[[Producer], None], encoder: str) -> None:
    with broker_and_producers(encoder) as made:
        producers = [made.producer(linger_ms=5)]
        reports: list[DeliveryReport] = []

        def handle(_number: int, _frame: object) -> None:
            reports.append(producers[-1].close(WAIT))

        for where, came, raised in interruptions(lambda: call(producers[-1]), handle, stride=5 * STRIDE):
            assert raised is None or isinstance(raised, ProducerClosedError), where
            assert len(reports) == came, where
            assert all(report.failed == report.pending == 0 for report in reports), where
            producers[-1].close(WAIT)
            assert producers[-1]._engine.queueing.accumulator.incomplete == 0, where
            reports.clear()
            producers.append(made.producer(linger_ms=5))
        producers[-1].close(WAIT)


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize("encoder", OTHER_ENCODER)
@pytest.mark.parametrize("options", [{}, {"partition": 0}])
def test_a_send_during_which_a_handler_closes_reports_if_it_sent(options: Mapping[str, Any], encoder: str) -> None:
    with broker_and_producers(encoder) as made:
        producers: list[Producer] = []
        taken: list[Delivery] = []

        def begin() -> None:
            producers.append(made.producer(linger_ms=5_000))
            producers[-1].send("t", b"before", b"k", **options)

        begin()
        for where, _came, raised in interruptions(
            lambda: taken.append(producers[-1].send("t", b"v", b"k", **options)),
            lambda *_: producers[-1].close(WAIT),
            stride=1,
        ):
            assert (raised is None) == bool(taken), where
            producers[-1].close(WAIT)
            assert [delivery.exception(0) for delivery in taken] == [None] * len(taken), where
            assert made.values().count(b"v") == len(taken), where
            taken.clear()
            made.forget()
            begin()
        producers[-1].close(WAIT)


def transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send("t", b"v", b"k")


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize("encoder", ONE_ENCODER)
def test_a_handler_that_raises_leaves_a_transaction_that_can_end(encoder: str) -> None:
    with broker_and_producers(encoder) as made, made.producer(transactional_id="x", linger_ms=0) as producer:
        producer.init_transactions(WAIT)
        transaction(producer)
        for where, came, raised in interruptions(partial(transaction, producer), raise_ctrl_c):
            assert type(raised) is (KeyboardInterrupt if came else NoneType), where
            end_open(producer)
            transaction(producer)
            assert all(map(free, locks(producer))), where


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize("encoder", OTHER_ENCODER)
def test_ctrl_c_at_any_step_of_close_leaves_a_closable_producer(encoder: str) -> None:
    with broker_and_producers(encoder) as made:
        producers = [made.producer(linger_ms=5_000)]
        delivery = producers[-1].send("t", b"v", b"k")
        for where, came, raised in interruptions(lambda: producers[-1].close(WAIT), raise_ctrl_c, stride=3 * STRIDE):
            assert type(raised) is (KeyboardInterrupt if came else NoneType), where
            producers[-1].close(WAIT)
            assert delivery.exception(0) is None, where
            assert not io_thread_of(producers[-1]._engine)._thread.is_alive(), where
            producers.append(made.producer(linger_ms=5_000))
            delivery = producers[-1].send("t", b"v", b"k")
        producers[-1].close(WAIT)


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize("encoder", ONE_ENCODER)
@pytest.mark.parametrize("call", [transaction, Producer.close])
def test_a_handler_may_close_in_a_transaction_and_in_close(call: Callable[[Producer], object], encoder: str) -> None:
    with broker_and_producers(encoder) as made:
        producers: list[Producer] = []

        def begin() -> None:
            producers.append(made.producer(transactional_id="x", linger_ms=0))
            producers[-1].init_transactions(WAIT)

        def handle(_number: int, _frame: object) -> None:
            producers[-1].close(WAIT)

        begin()
        for where, _came, raised in interruptions(lambda: call(producers[-1]), handle, stride=5 * STRIDE):
            assert raised is None or isinstance(raised, OttlaError), where
            with suppress(UndeliveredError):  # close aborts what is open
                producers[-1].close(WAIT)
            assert not io_thread_of(producers[-1]._engine)._thread.is_alive(), where
            begin()
        producers[-1].close(WAIT)


def end_open(producer: Producer) -> None:
    """As a program would that was interrupted: abort what is open, or end it as it had begun to."""
    manager = producer._engine.transactions.manager  # type: ignore[union-attr]
    with manager._state.lock:  # without it, a commit that ends just now is ready, and its result has not ended yet
        state, result = manager._state.state, manager._state.result
        unclaimed = result is not None and result.unclaimed and result.ended
    match state.name:
        case "IN_TRANSACTION" | "ABORTING" | "ABORTABLE_ERROR":
            producer.abort_transaction(WAIT)
        case "COMMITTING":
            producer.commit_transaction(WAIT)
        case _:
            if result is not None and unclaimed:
                with suppress(Exception):
                    getattr(producer, result.method)(WAIT)


@pytest.mark.rule("producer.signals.raise")
def test_ctrl_c_at_any_step_leaves_no_report_open() -> None:
    unretrieved = UnretrievedErrors(wake=lambda: None)

    def report() -> None:
        with unretrieved.reporting():
            pass

    for number in range(100):
        interruption = Interruption(number, raise_ctrl_c)
        with suppress(KeyboardInterrupt):
            interruption.during(report)
        assert not unretrieved._reporting, interruption.where
        if not interruption.where:
            break
    assert number > 2


def has_ended(thread: Any) -> bool:
    return not thread.is_alive()


@pytest.mark.rule("producer.signals.raise")
def test_ctrl_c_while_a_producer_begins_leaves_no_thread() -> None:
    number = 0
    while True:
        engine = assembly.build({"bootstrap.servers": "127.0.0.1:1"}, {})  # which refuses connections
        made = Producer.__new__(Producer)
        interruption = Interruption(number, raise_ctrl_c)
        with suppress(KeyboardInterrupt):
            interruption.during(partial(made._begin, engine))
        if not interruption.where:
            made.close(0)
            break
        del made  # if it has begun: the signal may have come at the very end
        gc.collect()
        io_thread = io_thread_of(engine)
        wait_until(partial(has_ended, io_thread._thread), timeout=WAIT)
        io_thread._client.shutdown()  # else Python warns of sockets, which are freed with an engine without a thread
        number += STRIDE
    assert number > 300


class Closed:
    """An interceptor that notes that it is closed."""

    closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: object, error: object, context: object) -> None:
        pass

    def close(self) -> None:
        type(self).closed += 1


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize("place", [(assembly, "choose_send"), (signals, "Deferred")])
def test_ctrl_c_before_the_thread_of_a_producer_closes_its_plugins(
    place: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_keywords: object) -> None:
        raise KeyboardInterrupt

    engine = assembly.build({"bootstrap.servers": "127.0.0.1:1"}, {"interceptor_classes": [Closed]})
    made = Producer.__new__(Producer)
    before = Closed.closed
    with monkeypatch.context() as patch:
        patch.setattr(*place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            made._begin(engine)
    io_thread_of(engine)._client.shutdown()

    assert Closed.closed == before + 1
