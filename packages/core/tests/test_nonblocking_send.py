"""Sending in steps that never block: what a record waits for, the errors of `Producer.send`, and interceptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs
import pytest

from ottla import (
    BufferExhaustedError,
    Delivery,
    InvalidRecordError,
    ProducerClosedError,
    RecordMetadata,
    RecordTooLargeError,
    TopicUnavailableError,
)
from ottla.accumulator.record_appender import MemoryWait
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.errors import IllegalStateError, NotPreparedError
from ottla.interfaces import Header, Headers, ProducerRecord, TopicView
from ottla.network.nonblocking_metadata_wait import MetadataWait
from ottla.plugins.serializer_lookups import Lookup
from ottla.producer.build import build_nonblocking_send
from ottla.producer.nonblocking_send import NonblockingSend, PendingSend
from simulated_producer import Simulated, simulated


def sender(simulation: Simulated) -> NonblockingSend:
    slow, _quick = build_nonblocking_send(
        simulation.producer._engine, simulation.producer._check_sendable, event_loop=RUNNING_LOOP
    )
    return slow


def pending(made: Delivery | PendingSend) -> PendingSend:
    assert isinstance(made, PendingSend)
    return made


def test_a_record_of_a_known_topic_is_queued_immediately() -> None:
    with simulated(1) as simulation:
        delivery = sender(simulation).send("t", b"v", b"k", headers={"h": b"1"}, partition=0, timestamp_ms=7)
        assert isinstance(delivery, Delivery)
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
        assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 7)
        assert delivery.result(0).offset == 0


def test_a_record_of_an_unknown_topic_waits_for_metadata() -> None:
    with simulated(1, know=False) as simulation:
        waiting = pending(sender(simulation).send("t", b"v"))
        step = waiting.step
        assert isinstance(step, MetadataWait)
        called: list[None] = []
        step.on_ready(lambda: called.append(None))

        simulation.run_until(lambda: called)
        delivery = waiting.advance()
        assert isinstance(delivery, Delivery)
        simulation.run_until_idle()

        assert simulation.log() == [b"v"]


def test_a_record_without_memory_waits_for_it() -> None:
    with simulated(1, config={"buffer.memory": 3_000}) as simulation:
        send = sender(simulation).send
        first = send("t", bytes(2_000))
        assert isinstance(first, Delivery)
        waiting = pending(send("t", b"behind" + bytes(1_500)))
        step = waiting.step
        assert isinstance(step, MemoryWait)
        called: list[None] = []
        step.on_ready(lambda: called.append(None))

        simulation.clock.advance(3.0)
        simulation.run_until(lambda: called)
        assert isinstance(waiting.advance(), Delivery)
        simulation.run_until_idle()
        assert 3e9 <= simulation.producer.metrics("bufferpool-wait-time-ns-total") < 4e9

        assert [value[:6] for value in simulation.log() if value] == [bytes(6), b"behind"]
        assert simulation.pool.free == simulation.pool.capacity


def test_a_wait_for_memory_that_is_given_up_returns_its_memory() -> None:
    with simulated(1, config={"buffer.memory": 3_000}) as simulation:
        send = sender(simulation).send
        send("t", bytes(2_000))
        waiting = pending(send("t", bytes(1_500)))

        waiting.cancel(ProducerClosedError("given up"))
        simulation.run_until_idle()

        assert len(simulation.log()) == 1
        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.parametrize(
    ("topic", "memory", "error"), [("t", 3_000, BufferExhaustedError), ("missing", 1_000_000, TopicUnavailableError)]
)
def test_a_wait_that_times_out_raises_the_error_of_send(topic: str, memory: int, error: type[Exception]) -> None:
    with simulated(1, config={"buffer.memory": memory}) as simulation:
        send = sender(simulation).send
        send("t", bytes(2_000))
        waiting = pending(send(topic, bytes(1_500)))

        with pytest.raises(error):
            waiting.time_out(waited=1.0)

        simulation.run_until_idle()
        assert simulation.pool.free == simulation.pool.capacity


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "no name", "value": b"v"}, InvalidRecordError),
        ({"topic": "t", "value": 1}, InvalidRecordError),
        ({"topic": "t", "value": b"v", "partition": -1}, InvalidRecordError),
        ({"topic": "t", "value": b"v", "partition": "0"}, InvalidRecordError),
        ({"topic": "t", "value": b"v", "timestamp_ms": -1}, InvalidRecordError),
        ({"topic": "t", "value": b"v", "headers": [("h", "text")]}, InvalidRecordError),
        ({"topic": "t", "value": bytes(2_000_000)}, RecordTooLargeError),
    ],
    ids=lambda value: "" if isinstance(value, type) else ",".join(value),
)
def test_a_wrong_record_is_refused_as_by_send(arguments: dict[str, Any], error: type[Exception]) -> None:
    with simulated(1) as simulation:
        with pytest.raises(error) as of_send:
            simulation.producer.send(**arguments)
        with pytest.raises(error) as refused:
            sender(simulation).send(**arguments)

        assert str(refused.value) == str(of_send.value)
        assert simulation.accumulator.incomplete == 0


def test_a_record_behind_others_of_its_topic_is_refused_as_by_send() -> None:
    with simulated(1) as simulation:
        send = sender(simulation).send
        send("t", b"v")
        simulation.run_until_idle()

        with pytest.raises(RecordTooLargeError) as of_send:
            simulation.producer.send("t", bytes(2_000_000))
        with pytest.raises(RecordTooLargeError) as refused:
            send("t", bytes(2_000_000))

        assert str(refused.value) == str(of_send.value)
        assert simulation.accumulator.incomplete == 0


def test_a_wait_for_memory_has_the_timeout_of_its_send() -> None:
    with simulated(1, config={"buffer.memory": 3_000}) as simulation:
        send = sender(simulation).send
        send("t", bytes(2_000))
        waiting = pending(send("t", bytes(1_500), timeout=0.25))

        assert waiting.limit.seconds == 0.25
        with pytest.raises(BufferExhaustedError, match="within timeout"):
            waiting.time_out(waited=0.0)


@pytest.mark.parametrize("sent_before", [0, 1])
def test_a_closed_producer_refuses_records(sent_before: int) -> None:
    with simulated(1) as simulation:
        send = sender(simulation).send
        for _ in range(sent_before):
            send("t", b"v")
        simulation.producer.close()

        with pytest.raises(ProducerClosedError):
            send("t", b"v")


def test_a_producer_that_closes_refuses_waiting_records() -> None:
    with simulated(1, know=False) as simulation:
        waiting = pending(sender(simulation).send("t", b"v"))
        simulation.producer.close()

        with pytest.raises(ProducerClosedError):
            waiting.advance()


@pytest.mark.parametrize("sent_before", [0, 1])
def test_a_record_outside_of_a_transaction_is_refused(sent_before: int) -> None:
    with simulated(1, config={"transactional.id": "x"}) as simulation:
        send = sender(simulation).send
        simulation.producer.init_transactions()
        if sent_before:
            simulation.producer.begin_transaction()
            send("t", b"v")
            simulation.producer.commit_transaction()

        with pytest.raises(IllegalStateError):
            send("t", b"v")


def test_a_record_in_no_transaction_does_not_wait_for_its_topic() -> None:
    with simulated(1, config={"transactional.id": "x"}) as simulation:
        simulation.producer.init_transactions()

        with pytest.raises(IllegalStateError):
            sender(simulation).send("unknown", b"v")


def test_a_wait_beyond_a_transaction_returns_its_memory() -> None:
    with simulated(1, config={"transactional.id": "x", "buffer.memory": 3_000}) as simulation:
        producer, send = simulation.producer, sender(simulation).send
        producer.init_transactions()
        producer.begin_transaction()
        send("t", bytes(2_000))
        waiting = pending(send("t", bytes(1_500)))
        producer.commit_transaction()
        producer.begin_transaction()

        with pytest.raises(IllegalStateError):
            waiting.advance()
        producer.commit_transaction()

        assert simulation.pool.free == simulation.pool.capacity


class EndingTransaction:
    """A partitioner during whose call another thread ends the transaction and begins the next one."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self.meanwhile()
        return 0


class NotedBatches(EndingTransaction):
    """The same, and a partitioner that is called before each new batch."""

    def on_new_batch(self, topic: str, partition: int, view: TopicView) -> None:
        pass


def test_a_record_placed_too_late_is_in_no_batch_of_the_next_transaction() -> None:
    partitioner = NotedBatches()
    with simulated(1, config={"transactional.id": "x"}, plugins={"partitioner": partitioner}) as simulation:
        producer, send = simulation.producer, sender(simulation).send
        producer.init_transactions()
        producer.begin_transaction()

        def next_transaction() -> None:
            partitioner.meanwhile = lambda: None
            producer.commit_transaction()
            producer.begin_transaction()
            send("t", b"next")

        partitioner.meanwhile = next_transaction
        with pytest.raises(IllegalStateError):
            send("t", b"late")
        producer.commit_transaction()

        assert simulation.cluster.topics["t"].committed(0) == [b"next"]


@pytest.mark.parametrize("headers", [{}, {"h": b"1"}])
def test_a_record_placed_too_late_is_not_in_the_next_transaction(headers: Headers) -> None:
    partitioner = EndingTransaction()
    with simulated(1, config={"transactional.id": "x"}, plugins={"partitioner": partitioner}) as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()

        def next_transaction() -> None:
            producer.commit_transaction()
            producer.begin_transaction()

        partitioner.meanwhile = next_transaction
        with pytest.raises(IllegalStateError):
            sender(simulation).send("t", b"v", b"k", headers=headers)
        producer.commit_transaction()

        assert simulation.log() == []


class Registry:
    """A serializer that must look up the topic first, and puts the result in front of the value."""

    sets_headers = True

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        if topic not in self.known:
            raise NotPreparedError
        assert isinstance(headers, list)
        headers.append(("schema", self.known[topic]))
        return self.known[topic] + bytes(data)

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.known[topic] = b"7:"


class Framing:
    """A serializer that needs no lookup; its data may be bytes."""

    def serialize(self, _topic: str, data: Any, _headers: Sequence[Header]) -> bytes:
        return b"<" + bytes(data) + b">"


@pytest.mark.parametrize("part", ["key", "value"])
def test_bytes_are_not_sent_past_a_serializer(part: str) -> None:
    with simulated(1, plugins={f"{part}_serializer": Framing()}) as simulation:
        sender(simulation).send("t", b"v", b"k")
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
        assert (record.key, record.value) == ((b"<k>", b"v") if part == "key" else (b"k", b"<v>"))


def test_a_record_waits_for_a_lookup_of_its_serializer() -> None:
    with simulated(1, plugins={"value_serializer": Registry()}) as simulation:
        waiting = pending(sender(simulation).send("t", b"v"))
        step = waiting.step
        assert isinstance(step, Lookup)

        step.prepare(1.0)
        assert isinstance(waiting.advance(), Delivery)
        simulation.run_until_idle()

        [record] = simulation.cluster.topics["t"].log[0]
        assert (record.value, tuple(record.headers)) == (b"7:v", (("schema", b"7:"),))


class Noting:
    """An interceptor that notes every record and every outcome."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.outcomes: list[tuple[int, type[Exception] | None, object]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record.value)
        return attrs.evolve(record, value=b"<" + bytes(record.value) + b">", context=record.value)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: object) -> None:
        self.outcomes.append((metadata.offset, None if error is None else type(error), context))


@pytest.fixture
def noting() -> Iterator[tuple[Simulated, Noting]]:
    interceptor = Noting()
    with simulated(1, know=False, plugins={"interceptors": {"noting": interceptor}}) as simulation:
        yield simulation, interceptor


def test_interceptors_get_a_waiting_record_once(noting: tuple[Simulated, Noting]) -> None:
    simulation, interceptor = noting
    waiting = pending(sender(simulation).send("t", b"v"))
    simulation.know("t")
    assert isinstance(waiting.advance(), Delivery)
    simulation.run_until_idle()

    assert interceptor.sent == [b"v"]
    assert simulation.log() == [b"<v>"]
    assert interceptor.outcomes == [(0, None, b"v")]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda waiting: waiting.cancel(ProducerClosedError("given up")), ProducerClosedError),
        (lambda waiting: waiting.time_out(waited=1.0), TopicUnavailableError),
    ],
    ids=["cancelled", "timed out"],
)
def test_interceptors_get_the_error_of_a_record_that_was_not_queued(
    noting: tuple[Simulated, Noting], end: Callable[[PendingSend], object], error: type[Exception]
) -> None:
    simulation, interceptor = noting

    with suppress(TopicUnavailableError):
        end(pending(sender(simulation).send("t", b"v")))

    assert interceptor.outcomes == [(-1, error, b"v")]
