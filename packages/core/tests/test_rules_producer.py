"""The rules of the face, with everything below it on a simulated cluster."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from ottla import (
    BrokerError,
    BufferExhaustedError,
    Delivery,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    FlushTimeoutError,
    InvalidRecordError,
    OttlaError,
    ProducerClosedError,
    ProducerFailedError,
    RecordTooLargeError,
    SerializationError,
    TopicUnavailableError,
    UndeliveredError,
)
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.concurrency.environment import SYSTEM
from ottla.errors import IllegalStateError
from ottla.interfaces import Header
from ottla.network import Request
from ottla.producer.build import build_nonblocking_send
from ottla.recordbatch.record_limits import RECORD_OVERHEAD
from ottla.sender.round_recovery import Rounds
from simulated_producer import HANG_GUARD, Calling, Simulated, simulated

HOUR_MS = 3_600_000
"""A linger that no test waits for."""


def codes(simulation: Simulated, *answers: ErrorCode | None) -> None:
    """Responses of broker 1 to its next Produce requests; None: no response."""
    simulation.cluster.brokers[1].codes.extend(answers)


def produced(simulation: Simulated, broker: int = 1) -> int:
    return sum(name == "Produce" for name, _version in simulation.cluster.brokers[broker].requests)


COPIES: dict[str, Callable[[Any], object]] = {"pickle": pickle.dumps, "copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("way", COPIES)
def test_a_producer_is_not_copied_or_pickled_and_the_error_has_a_remedy(way: str) -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"a")
        rows = simulation.producer.send_table("t", pa.table({"value": [b"b"]}))
        simulation.run_until_idle()

        with pytest.raises(TypeError, match=r"^a producer cannot be copied .*; create one where it is used, "):
            COPIES[way](simulation.producer)
        with pytest.raises(TypeError, match=r"^a delivery cannot be copied .*; wait for its result\(\) and "):
            COPIES[way](delivery)
        with pytest.raises(TypeError, match=r"^a table's delivery cannot be copied .*; wait for its result\(\) and "):
            COPIES[way](rows)
        assert COPIES[way](delivery.result())
        assert COPIES[way](rows.result())


# send


@pytest.mark.rule("producer.send.returns")
def test_send_does_no_io_and_its_delivery_completes_later() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"a")
        assert produced(simulation) == 0
        assert not delivery.done()

        simulation.run_until_idle()

        assert delivery.result().offset == 0


@pytest.mark.rule("producer.send.wakes")
def test_send_wakes_the_io_thread_only_for_a_new_or_full_batch() -> None:
    with simulated(1, batch_size=1_000, linger_ms=1_000) as simulation:
        simulation.round()
        wakeups = simulation.network.wakeups

        def wakes(size: int) -> int:
            before = simulation.network.wakeups
            simulation.producer.send("t", bytes(size))
            return simulation.network.wakeups - before

        assert [wakes(200), wakes(200), wakes(200)] == [1, 0, 0]
        assert wakes(500) == 1
        assert [wakes(100), wakes(100)] == [0, 0]
        assert simulation.network.wakeups == wakeups + 2


@pytest.mark.rule("producer.send.serializers")
def test_serializers_get_the_topic_and_the_headers() -> None:
    reported: list[tuple[str, Any, Sequence[Header]]] = []

    class Noting:
        def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
            reported.append((topic, data, headers))
            return None if data is None else str(data).encode()

    with simulated(1, plugins={"value_serializer": Noting(), "key_serializer": Noting()}) as simulation:
        simulation.producer.send("t", 1, 2, headers=[("name", b"content")])
        simulation.producer.send("t", None)
        simulation.run_until_idle()

        assert reported == [("t", 1, (("name", b"content"),)), ("t", 2, (("name", b"content"),)), ("t", None, ())]
        assert [(record.key, record.value) for record in simulation.cluster.topics["t"].log[0]] == [
            (b"2", b"1"),
            (None, None),
        ]


REFUSALS: dict[str, tuple[type[OttlaError], Callable[[Simulated], object]]] = {
    "type": (InvalidRecordError, lambda simulation: simulation.producer.send("t", "text")),
    "timestamp": (InvalidRecordError, lambda simulation: simulation.producer.send("t", b"v", timestamp_ms=-1)),
    "header": (InvalidRecordError, lambda simulation: simulation.producer.send("t", b"v", headers=[("name", "text")])),  # type: ignore[list-item]  # the test's point
    "header name": (
        InvalidRecordError,
        lambda simulation: simulation.producer.send("t", b"v", headers=[("\ud800", b"")]),
    ),
    "size": (RecordTooLargeError, lambda simulation: simulation.producer.send("t", bytes(40_001))),
    "topic": (TopicUnavailableError, lambda simulation: simulation.producer.send("other", b"v")),
    "partition": (TopicUnavailableError, lambda simulation: simulation.producer.send("t", b"v", partition=7)),
    "negative partition": (InvalidRecordError, lambda simulation: simulation.producer.send("t", b"v", partition=-1)),
}


@pytest.mark.rule(
    "producer.send.refused.silent",
    "producer.send.refused.type",
    "producer.send.refused.timestamp",
    "producer.send.refused.topic",
    "producer.send.refused.partition",
    "producer.send.refused.size",
)
@pytest.mark.parametrize("why", REFUSALS)
def test_a_refused_record_leaves_no_trace(why: str) -> None:
    kind, send = REFUSALS[why]
    called: list[object] = []
    with simulated(1, max_block_ms=0, max_request_size=40_000) as simulation:
        original = simulation.producer.send
        simulation.producer.send = lambda *args, **options: original(  # type: ignore[method-assign]  # each with a callback
            *args, **options, on_delivery=called.append
        )
        with pytest.raises(kind):
            send(simulation)

        assert simulation.accumulator.incomplete == 0
        assert simulation.pool.free == simulation.pool.capacity
        assert simulation.accumulator.report()[0].topics == {}
        simulation.producer.send("t", b"sound")
        simulation.run_until_idle()
        assert len(called) == 1


@pytest.mark.rule("producer.send.refused.size")
@pytest.mark.parametrize(
    ("limit", "name"),
    [
        ({"max.request.size": 10_000}, r"max\.request\.size=10000"),
        ({"buffer.memory": 20_000}, r"buffer\.memory=20000"),
    ],
)
def test_a_record_that_is_too_large_is_refused_with_the_setting(limit: dict[str, int], name: str) -> None:
    with simulated(1, config={"max.block.ms": 0, **limit}) as simulation:
        for topic in ("t", "unknown"):
            with pytest.raises(RecordTooLargeError, match=name):
                simulation.producer.send(topic, bytes(20_000))

        simulation.producer.send("t", bytes(9_000))
        with pytest.raises(RecordTooLargeError):
            simulation.producer.send("t", bytes(20_000))  # also where a batch is open
        simulation.run_until_idle()


@pytest.mark.rule("producer.send.refused.size")
@pytest.mark.parametrize("limit", [5_000, 100_000, 1_048_576])
@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("nonblocking", [False, True])
def test_a_keyed_record_is_refused_exactly_above_the_limit(limit: int, encoder: str, nonblocking: bool) -> None:
    """Keyed records wait for their partitions together, in a batch that may become much larger than one record."""
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    config = {"record.encoder": encoder, "max.request.size": limit, "linger.ms": HOUR_MS, "max.block.ms": 0}
    partitions = (1,) * 300
    with simulated(*partitions, config=config) as simulation:
        producer = simulation.producer
        kept, send = build_nonblocking_send(producer._engine, producer._check_sendable, event_loop=RUNNING_LOOP)
        if not nonblocking:
            send = producer.send
        largest = limit - RECORD_OVERHEAD - len(b"key")
        for number in range(60):
            for _ in range(number):
                send("t", b"small", b"key")
            with pytest.raises(RecordTooLargeError):
                send("t", bytes(largest + 1), b"key")
        accepted = send("t", bytes(largest), b"key")
        Calling(simulation, simulation.producer.flush).rounds()

        assert isinstance(accepted, Delivery)
        assert accepted.exception(0) is None
        del kept


@pytest.mark.rule("producer.send.refused.serializer", "producer.send.refused.silent")
def test_an_error_of_a_serializer_fails_its_record_only() -> None:
    with simulated(1, value_serializer=lambda data: b"%d" % (1 // data)) as simulation:
        with pytest.raises(SerializationError) as caught:
            simulation.producer.send("t", 0)
        delivery = simulation.producer.send("t", 1)
        simulation.run_until_idle()

        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert delivery.result().offset == 0


@pytest.mark.rule("producer.send.refused.memory")
def test_a_record_refused_without_memory_is_accepted_later() -> None:
    with simulated(1, buffer_memory=20_000, batch_size=100, max_block_ms=0) as simulation:
        sent = [simulation.producer.send("t", bytes(500)) for _ in range(10)]
        with pytest.raises(BufferExhaustedError, match=r"no memory for \d+ bytes within max\.block\.ms"):
            simulation.producer.send("t", bytes(15_000))

        simulation.run_until_idle()
        sent.append(simulation.producer.send("t", bytes(15_000)))
        simulation.run_until_idle()
        assert [delivery.result().offset for delivery in sent] == list(range(11))


@pytest.mark.rule("producer.send.after")
@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.MESSAGE_TOO_LARGE])
def test_the_result_of_a_queued_record_is_known_by_its_delivery_only(code: ErrorCode) -> None:
    with simulated(1) as simulation:
        codes(simulation, code)
        failed = simulation.producer.send("t", b"a")
        simulation.run_until_idle()

        after = simulation.producer.send("t", b"b")
        simulation.run_until_idle()

        error = failed.exception()
        assert error is not None
        assert isinstance(error.__cause__, BrokerError)
        assert after.result().offset == 0


@pytest.mark.rule("producer.record.headers")
def test_headers_keep_order_repeated_names_and_nulls() -> None:
    headers = [("b", b"1"), ("a", None), ("b", b"2"), ("", b"")]
    with simulated(1) as simulation:
        simulation.producer.send("t", b"v", headers=headers)
        simulation.producer.send("t", b"v", headers={"one": b"x"}.items())
        simulation.producer.send("t", b"v", headers={"one": b"x"})
        simulation.run_until_idle()

        one = (("one", b"x"),)
        assert [record.headers for record in simulation.cluster.topics["t"].log[0]] == [tuple(headers), one, one]


@pytest.mark.rule("producer.record.timestamp")
def test_a_record_keeps_its_timestamp_or_gets_the_time_of_send() -> None:
    with simulated(1) as simulation:
        own = simulation.producer.send("t", b"v", timestamp_ms=7)
        zero = simulation.producer.send("t", b"v", timestamp_ms=0)
        now = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert (own.result().timestamp_ms, zero.result().timestamp_ms) == (7, 0)
        assert now.result().timestamp_ms > 1_700_000_000_000
        assert [record.timestamp_ms for record in simulation.cluster.topics["t"].log[0]][:2] == [7, 0]


# flush


@pytest.mark.rule("producer.flush.leaves", "producer.flush.accounted", "producer.report.since")
def test_a_flush_sends_everything_and_reports_after_the_callbacks() -> None:
    reported: list[str] = []
    with simulated(1, 1, linger_ms=HOUR_MS, delivery_timeout_ms=2 * HOUR_MS) as simulation:
        for partition in (0, 1):
            simulation.producer.send(
                "t", b"a", partition=partition, on_delivery=lambda _delivery: reported.append("callback")
            )
        simulation.producer.send("t", b"with a key", b"k")
        started = simulation.clock()

        def flush() -> object:
            report = simulation.producer.flush()
            reported.append("flushed")
            return report

        flushing = Calling(simulation, flush)
        flushing.rounds()

        assert reported == ["callback", "callback", "flushed"]
        assert str(flushing.result) == "3 acknowledged, 0 failed, 0 pending"
        assert simulation.clock() == started


@pytest.mark.rule("producer.flush.moment")
def test_a_flush_does_not_wait_for_records_sent_by_its_callbacks() -> None:
    with simulated(1, linger_ms=HOUR_MS, delivery_timeout_ms=2 * HOUR_MS) as simulation:
        later: list[Delivery] = []
        simulation.producer.send(
            "t", b"a", on_delivery=lambda *_reported: later.append(simulation.producer.send("t", b"b"))
        )
        flushing = Calling(simulation, simulation.producer.flush)
        simulation.run_until(lambda: later)
        flushing.thread.join(HANG_GUARD)

        assert flushing.error is None
        assert not later[0].done()


@pytest.mark.rule("producer.flush.timeout", "producer.report.pending")
def test_a_flush_that_times_out_raises_the_report_and_drops_nothing() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"a")

        with pytest.raises(FlushTimeoutError) as caught:
            simulation.producer.flush(0)

        assert (caught.value.report.acknowledged, caught.value.report.pending) == (0, 1)
        simulation.run_until_idle()
        assert delivery.result().offset == 0
        assert simulation.producer.flush(0).acknowledged == 1


@pytest.mark.rule("producer.flush.timeout")
def test_a_flush_that_times_out_leaves_the_errors_to_the_next_call() -> None:
    with simulated(1, 1) as simulation:
        producer = simulation.producer
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_TIMESTAMP)
        producer.send("t", b"a", partition=0)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].silent = True
        pending = producer.send("t", b"b", partition=1)
        with pytest.raises(FlushTimeoutError) as caught:
            producer.flush(0)
        assert (caught.value.report.failed, caught.value.report.pending) == (1, 1)
        simulation.cluster.brokers[1].silent = False
        simulation.run_until_idle()

        with pytest.raises(UndeliveredError, match=r"^1 record failed \(in an earlier report\) .*TIMESTAMP"):
            producer.flush(0)
        assert pending.done()


@pytest.mark.rule("producer.flush.callback", "producer.callback.waits")
@pytest.mark.parametrize("call", ["flush", "result", "exception"])
def test_a_callback_that_would_deadlock_is_refused(call: str) -> None:
    raised: list[BaseException] = []
    with simulated(1) as simulation:

        def wait(_delivery: Delivery) -> None:
            try:
                getattr(simulation.producer if call == "flush" else simulation.producer.send("t", b"b"), call)(
                    timeout=0
                )
            except OttlaError as error:
                raised.append(error)

        simulation.producer.send("t", b"a", on_delivery=wait)
        simulation.run_until_idle()

        assert [type(error) for error in raised] == [IllegalStateError]
        assert "callback" in str(raised[0])


# close


@pytest.mark.rule("producer.close.drains", "producer.send.refused.closed")
def test_close_sends_queued_records_despite_errors_and_disconnects() -> None:
    with simulated(1, 1, linger_ms=HOUR_MS, delivery_timeout_ms=2 * HOUR_MS) as simulation:
        deliveries = [simulation.producer.send("t", b"%d" % n, partition=n % 2) for n in range(10)]
        codes(simulation, ErrorCode.NOT_ENOUGH_REPLICAS, None, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        report = simulation.producer.close()

        assert str(report) == "10 acknowledged, 0 failed, 0 pending"
        assert all(delivery.exception() is None for delivery in deliveries)
        with pytest.raises(ProducerClosedError):
            simulation.producer.send("t", b"late")
        assert simulation.producer.close().topics == {}


@pytest.mark.rule("producer.close.fails-rest", "producer.close.drains")
def test_records_that_close_cannot_send_in_time_fail_and_say_so() -> None:
    with simulated(1, 1) as simulation:
        simulation.cluster.brokers[1].silent = True
        in_flight = simulation.producer.send("t", b"a", partition=0)
        simulation.round(until=simulation.clock())
        queued = simulation.producer.send("t", b"b", partition=1)
        started = simulation.clock()

        with pytest.raises(UndeliveredError, match="2 record") as caught:
            simulation.producer.close(3.0)

        assert simulation.clock() - started == pytest.approx(3.0, abs=0.01)
        assert caught.value.report.failed == 2
        for delivery in (in_flight, queued):
            assert "the producer was closed before they could be sent" in str(delivery.exception())


@pytest.mark.rule("producer.close.force")
def test_close_with_timeout_zero_waits_for_nothing() -> None:
    with simulated(1, linger_ms=HOUR_MS, delivery_timeout_ms=2 * HOUR_MS) as simulation:
        delivery = simulation.producer.send("t", b"a")
        started = simulation.clock()

        with pytest.raises(UndeliveredError):
            simulation.producer.close(0)

        assert simulation.clock() == started
        assert isinstance(delivery.exception(), DeliveryError)


@pytest.mark.rule("producer.close.bounded")
def test_close_without_a_timeout_takes_at_most_the_delivery_timeout() -> None:
    with simulated(1, delivery_timeout_ms=9_000, request_timeout_ms=5_000) as simulation:
        simulation.cluster.brokers[1].up = False
        delivery = simulation.producer.send("t", b"a")
        started = simulation.clock()

        with pytest.raises(UndeliveredError):
            simulation.producer.close()

        assert simulation.clock() - started <= 9.01
        assert delivery.done()


@pytest.mark.rule("producer.close.callback")
def test_close_in_a_callback_refuses_sends_and_forces_the_end() -> None:
    reported: list[str] = []
    with simulated(1, 1) as simulation:

        def close(_delivery: Delivery) -> None:
            simulation.producer.close()
            with pytest.raises(ProducerClosedError):
                simulation.producer.send("t", b"refused")
            reported.append("finished")

        simulation.producer.send("t", b"a", partition=0, on_delivery=close)
        simulation.metadata.request_update()
        simulation.cluster.topics["t"].leaders[1] = -1
        stuck = simulation.producer.send("t", b"b", partition=1)
        started = simulation.clock()
        simulation.run_until(lambda: reported, time_passes=False)

        simulation.thread.join(HANG_GUARD)  # the thread goes on where the callback left it

        assert reported == ["finished"]
        assert "the producer was closed" in str(stuck.exception())
        assert simulation.clock() == started


def fail_one(simulation: Simulated, error: type[BaseException] | None = None) -> None:
    """A with block whose record fails, and which raises."""
    with simulation.producer:
        codes(simulation, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send("t", b"a")
        if error is not None:
            raise error


@pytest.mark.rule("producer.close.exception")
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, GeneratorExit, KeyboardInterrupt])
def test_an_exception_in_a_with_block_gets_a_note_and_the_log_a_line(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The exception need not be printed: SystemExit never is, and a caller may catch it."""
    with simulated(1) as simulation:
        with pytest.raises(error) as caught:
            fail_one(simulation, error)

        assert "1 record failed and its error was never retrieved" in caught.value.__notes__[0]
        assert simulation.sender.idle
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    [line] = [line for line in logged if "an exception left the with block of the producer" in line]
    assert "1 record failed and its error was never retrieved" in line


@pytest.mark.rule("producer.close.exception", "producer.report.unretrieved")
def test_without_an_exception_a_with_block_raises_failed_records() -> None:
    with simulated(1) as simulation, pytest.raises(UndeliveredError):
        fail_one(simulation)


# Reports


@pytest.mark.rule("producer.report.unretrieved", "producer.report.retrieved")
@pytest.mark.parametrize("look", ["result", "exception", "on_delivery", "add_done_callback", "nothing"])
def test_flush_raises_a_failure_unless_its_error_was_retrieved(look: str) -> None:
    with simulated(1) as simulation:
        codes(simulation, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        callback = (lambda *_reported: None) if look == "on_delivery" else None
        delivery = simulation.producer.send("t", b"a", on_delivery=callback)
        if look == "add_done_callback":
            delivery.add_done_callback(lambda _delivery: None)
        simulation.run_until_idle()
        if look == "result":
            with pytest.raises(DeliveryError):
                delivery.result()
        elif look == "exception":
            delivery.exception()

        if look == "nothing":
            with pytest.raises(UndeliveredError) as caught:
                simulation.producer.flush(0)
            assert caught.value.report.failed == 1
            assert isinstance(caught.value.__cause__, DeliveryError)
        else:
            assert simulation.producer.flush(0).failed == 1
        assert simulation.producer.flush(0).failed == 0  # once


@pytest.mark.rule("producer.report.since", "producer.report.pending")
def test_consecutive_reports_have_no_gap_and_no_overlap() -> None:
    with simulated(1, 1) as simulation:
        simulation.producer.send("t", b"a", partition=0)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].silent = True
        simulation.producer.send("t", b"b", partition=1)
        with pytest.raises(FlushTimeoutError) as caught:
            simulation.producer.flush(0)
        first = caught.value.report
        simulation.cluster.brokers[1].silent = False
        simulation.run_until_idle()
        second = simulation.producer.flush(0)

        assert (first.acknowledged, first.pending) == (1, 1)
        assert (second.acknowledged, second.pending) == (1, 0)


# Callbacks


@pytest.mark.rule("producer.callback.send")
def test_a_callback_may_send_and_is_refused_where_it_would_block() -> None:
    sent: list[Delivery] = []
    refused: list[type[BaseException]] = []
    with simulated(1, buffer_memory=20_000, batch_size=15_000, max_block_ms=HOUR_MS) as simulation:

        def send_more(_delivery: Delivery) -> None:
            sent.append(simulation.producer.send("t", bytes(5_000)))
            for topic in ("t", "unknown"):
                try:
                    simulation.producer.send(topic, bytes(16_000))
                except (BufferExhaustedError, TopicUnavailableError) as error:
                    refused.append(type(error))

        simulation.producer.send("t", b"a", on_delivery=send_more)
        simulation.run_until_idle()

        assert refused == [BufferExhaustedError, TopicUnavailableError]
        assert sent[0].result().offset == 1


@pytest.mark.rule("producer.callback.order", "producer.callback.once")
def test_callbacks_run_in_the_order_of_each_partition() -> None:
    order: dict[int, list[int]] = defaultdict(list)
    with simulated(1, 1, 1, batch_size=300) as simulation:

        def note(delivery: Delivery) -> None:
            metadata = delivery.result()
            order[metadata.partition].append(metadata.offset)

        for number in range(300):
            key, partition = (b"%d" % number, None) if number % 3 else (None, number % 2 or None)
            simulation.producer.send("t", bytes(20), key, partition=partition, on_delivery=note)
            if number % 50 == 0:
                simulation.round(until=simulation.clock())
        simulation.run_until_idle()

        assert sum(map(len, order.values())) == 300
        assert all(offsets == list(range(len(offsets))) for offsets in order.values())


# The thread


class Unusable:
    """Has nothing of what it stands for."""

    def begin_round(self) -> None:
        raise ZeroDivisionError("a fault of our own")

    def wake(self) -> None:
        """Nothing is to be called."""

    def end_watch(self) -> None:
        """Nothing is watched."""


class FailingPolls:
    """Makes the next polls of a simulated network fail."""

    def __init__(self, simulation: Simulated, times: int) -> None:
        self._left = times
        self._poll = simulation.network.poll
        simulation.network.poll = self.poll  # type: ignore[method-assign]  # a fault of ours, anywhere in a round

    def poll(self, timeout: float) -> None:
        if self._left:
            self._left -= 1
            raise ZeroDivisionError("a fault of our own")
        self._poll(timeout)


@pytest.mark.rule("producer.thread.lives")
def test_consecutive_failing_rounds_are_logged_once_and_rounds_continue(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"a")
        FailingPolls(simulation, 30)

        simulation.producer.close()

        assert delivery.result().offset == 0
        assert caplog.text.count("a round of the I/O thread failed") == 1
        assert "a fault of our own" in caplog.text


@pytest.mark.rule("producer.thread.lives")
def test_the_end_of_failing_rounds_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with simulated(1) as simulation:
        for times in (3, 5):
            FailingPolls(simulation, times)
            for _ in range(20):
                simulation.rounds.run(simulation.clock(), simulation.clock() + 0.01)

    assert caplog.text.count("the I/O thread works again") == 2


@pytest.mark.rule("producer.thread.bounded")
def test_if_every_round_fails_records_expire_with_the_cause() -> None:
    reported: list[OttlaError | None] = []
    with simulated(1, 1, delivery_timeout_ms=30_000) as simulation:
        sent_at = simulation.clock()
        delivery = simulation.producer.send("t", b"a", on_delivery=lambda delivery: reported.append(delivery.error))
        FailingPolls(simulation, 1_000_000)
        while not delivery.done():
            simulation.rounds.run(simulation.clock(), float("inf"))

        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert "a fault of our own" in str(error)
        assert list(map(str, reported)) == [str(error)]
        assert 30.0 <= simulation.clock() - sent_at <= 31.5  # the rest before a round is at most 1.2 s
        simulation.network.poll = type(simulation.network).poll.__get__(simulation.network)  # type: ignore[method-assign]
        after = simulation.producer.send("t", b"b")
        simulation.producer.close()
        assert after.result().offset >= 0  # the first one may have been written, too


@pytest.mark.rule("producer.thread.dies", "producer.send.refused.failed")
def test_if_the_io_thread_cannot_continue_all_records_fail() -> None:
    reported: list[OttlaError | None] = []
    with simulated(1, 1, linger_ms=HOUR_MS, delivery_timeout_ms=2 * HOUR_MS) as simulation:
        deliveries = [
            simulation.producer.send(
                "t", b"a", partition=partition, on_delivery=lambda delivery: reported.append(delivery.error)
            )
            for partition in (0, 1)
        ]
        flushing = Calling(simulation, simulation.producer.flush)
        unusable: Any = Unusable()
        simulation.thread._io_handoff = unusable  # not even a round can begin

        simulation.thread.join(HANG_GUARD)
        flushing.thread.join(HANG_GUARD)

        assert flushing.error is None
        for delivery in deliveries:
            error = delivery.exception()
            assert error is not None
            assert isinstance(error.__cause__, ProducerFailedError)
            assert isinstance(error.__cause__.__cause__, ZeroDivisionError)
        assert len(reported) == 2
        with pytest.raises(ProducerFailedError, match="a fault of our own"):
            simulation.producer.send("t", b"b")
        simulation.producer._lifecycle._io_thread.join = lambda timeout: True  # type: ignore[method-assign]  # it has ended


def test_records_follow_a_round_that_failed_between_mute_and_request() -> None:
    with simulated(1, max_in_flight_requests_per_connection=1) as simulation:
        simulation.run_until_idle()
        client = simulation.sender._client
        send = client.send

        def fail(node: int, request: Request, now: float) -> None:
            raise ZeroDivisionError

        client.send = fail  # type: ignore[method-assign]
        deliveries = [simulation.producer.send("t", b"1")]
        with pytest.raises(ZeroDivisionError) as caught:
            simulation.run_until_idle()
        client.send = send  # type: ignore[method-assign]
        simulation.sender.recover(caught.value, simulation.clock())
        deliveries.append(simulation.producer.send("t", b"2"))
        simulation.run_until_idle()

        assert [delivery.exception() for delivery in deliveries] == [None, None]
        assert simulation.log() == [b"1", b"2"]


def test_routes_are_new_after_a_round_that_failed_in_a_metadata_change() -> None:
    with simulated(1) as simulation:
        changes: list[str] = []
        simulation.metadata.on_change = lambda: changes.append("changed")
        simulation.sender.recover(ZeroDivisionError(), simulation.clock())

        assert changes == ["changed"]


def test_a_first_round_is_no_repair_of_others(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1) as simulation, caplog.at_level("INFO", logger="ottla"):
        simulation.rounds.run(simulation.clock(), simulation.clock())

    assert "works again" not in caplog.text


def test_the_pause_after_a_failed_round_ends_when_the_producer_closes() -> None:
    with simulated(1) as simulation:
        rounds = Rounds(sender=simulation.sender, name="me", environment=SYSTEM)  # with a real pause
        rounds._next_at = rounds._clock() + HANG_GUARD
        rounds.end_sleep()
        started = rounds._clock()
        rounds.run(started, started + HANG_GUARD)

        assert rounds._clock() < started + HANG_GUARD


def test_close_ends_the_pause_after_a_failed_round() -> None:
    with simulated(1) as simulation:
        simulation.thread.begin_close(1.0)

        assert simulation.rounds._sleep_ended.wait(0)


def test_failed_rounds_are_logged_once_for_each_place_in_the_code(caplog: pytest.LogCaptureFixture) -> None:
    def first() -> None:
        raise ZeroDivisionError

    def second() -> None:
        raise ZeroDivisionError

    with simulated(1) as simulation:
        for place in (first, second, first):
            try:
                place()
            except ZeroDivisionError as error:
                simulation.rounds.failed(error)
        simulation.rounds.failed(ZeroDivisionError())  # one that was never raised has no place

    assert sum("a round of the I/O thread failed" in line for line in caplog.messages) == 3
