"""A mock producer is a producer: same signatures, same checks, same outcomes, and the test plays the brokers."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla import (
    AbortableTransactionError,
    BrokerError,
    BufferExhaustedError,
    ConfigError,
    ConsumerGroupMetadata,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    FlushTimeoutError,
    InvalidRecordError,
    Producer,
    ProducerClosedError,
    ProducerFencedError,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    TableDeliveryError,
    TableReadError,
    TopicUnavailableError,
    TransactionAbortedError,
    UndeliveredError,
)
from ottla.cli.send.blocks import send_block
from ottla.cli.send.columns import Parts
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import Input
from ottla.errors import IllegalStateError, NotPreparedError
from ottla.interfaces import Header
from ottla.plugins.partitioners.murmur2 import partition_for_key
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.tables.sealed import TableSealer
from ottla.transactions.shared_transaction import SharedTransaction
from ottla_testkit.mock_producer import MockProducer, SentRecord

METHODS = [name for name, _method in inspect.getmembers(Producer, inspect.isfunction) if not name.startswith("_")]
BROKEN = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)

Make = Callable[..., MockProducer]


def sealed(*values: str) -> SealedBatch:
    """One batch of these, made without a producer."""
    sealer = TableSealer({"bootstrap.servers": "mock:9092"}, {"orders": 1})
    [batch] = sealer.seal("orders", pa.table({"value": list(values)})).batches
    return batch


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes producers, and closes them whatever has become of their records."""
    made: list[MockProducer] = []

    def make(*config: Any, **options: Any) -> MockProducer:
        made.append(MockProducer(*config, **options))
        return made[-1]

    yield make
    for producer in made:
        with contextlib.suppress(UndeliveredError):
            producer.close(0)


@pytest.fixture
def waiting(make: Make) -> MockProducer:
    """One whose records wait for an answer."""
    return make(auto_complete=False)


@pytest.fixture
def transactional(make: Make) -> MockProducer:
    """One in its first transaction."""
    producer = make(transactional_id="payments", auto_complete=False)
    producer.init_transactions()
    producer.begin_transaction()
    return producer


# The same face


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_signature_of_the_real_producer(method: str) -> None:
    mock, real = getattr(MockProducer, method), getattr(Producer, method)

    assert inspect.signature(mock) == inspect.signature(real)
    assert inspect.getdoc(mock) == inspect.getdoc(real)


def test_its_arguments_are_those_of_the_producer_and_more_keywords() -> None:
    mock, real = inspect.signature(MockProducer).parameters, inspect.signature(Producer).parameters
    more = {name: parameter for name, parameter in mock.items() if name not in real}

    assert [mock[name] for name in real] == list(real.values())
    assert {parameter.kind for parameter in more.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_a_program_can_use_it_as_a_producer(mock_producer: MockProducer) -> None:
    assert isinstance(mock_producer, Producer)

    delivery = mock_producer.send("orders", b"value", key=b"key", headers=[("trace", b"1")], timestamp_ms=5)

    assert delivery.result(0) == RecordMetadata("orders", 0, 0, 5, 3, 5)
    assert mock_producer.history == (
        SentRecord(topic="orders", partition=0, key=b"key", value=b"value", headers=(("trace", b"1"),), timestamp_ms=5),
    )


def test_a_configuration_is_checked_as_usual(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"did you mean .linger\.ms"):
        make(linger_mss=5)
    with pytest.raises(ConfigError, match="acks"):
        make({"enable.idempotence": "true", "acks": "1"})


def test_keys_of_security_and_servers_are_accepted_without_connecting(make: Make) -> None:
    producer = make(
        {"bootstrap.servers": "kafka-1:9093", "security.protocol": "SASL_SSL", "ssl.truststore.location": "/no/where"},
        sasl_mechanism="SCRAM-SHA-512",
        sasl_password="secret",
    )

    assert producer.send("orders", b"value").done()


def test_no_thread_is_started(make: Make) -> None:
    before = threading.active_count()

    make().send("orders", b"value")

    assert threading.active_count() == before


# What is done to records


def test_serializers_are_applied(make: Make) -> None:
    producer = make(key_serializer="string", value_serializer=lambda number: b"%d" % number)

    producer.send("orders", 7, key="caf\u00e9")

    assert [(record.key, record.value) for record in producer.history] == [("caf\u00e9".encode(), b"7")]
    with pytest.raises(SerializationError, match="key for topic 'orders'"):
        producer.send("orders", 7, key=b"bytes")
    assert len(producer.history) == 1


def test_the_partitioner_is_applied(make: Make) -> None:
    producer = make(partitions=12)

    for number in range(50):
        producer.send("orders", b"value", key=b"key-%d" % number)
    producer.send("orders", b"value", key=b"key-0", partition=7)

    asked = [record.partition for record in producer.history]
    assert asked == [*(partition_for_key(b"key-%d" % number, 12) for number in range(50)), 7]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_records_pass_encoder_and_codec_unchanged(make: Make, codec: str) -> None:
    producer = make(compression_type=codec)

    producer.send("orders", bytes(10_000), key=None, headers=[("nothing", None)])

    [record] = producer.history
    assert (record.key, record.value, record.headers) == (None, bytes(10_000), (("nothing", None),))


def test_offsets_are_counted_in_each_partition(make: Make) -> None:
    producer = make(partitions=2)

    found = [producer.send("orders", b"v", partition=partition).result(0).offset for partition in (0, 1, 0, 0, 1)]

    assert found == [0, 0, 1, 2, 1]
    assert make(acks=0).send("orders", b"v").result(0).offset == -1


def test_history_has_the_order_of_send(waiting: MockProducer) -> None:
    for number in range(20):
        waiting.send("orders", b"%d" % number, key=None if number % 3 else b"key")

    assert [record.value for record in waiting.history] == [b"%d" % number for number in range(20)]
    waiting.raise_next("send", BROKEN)
    waiting.clear()
    assert waiting.history == ()
    waiting.send("orders", b"20")
    assert waiting.pending == 21


def test_records_that_no_broker_would_accept_are_refused(make: Make) -> None:
    producer = make(max_request_size=1000, topics={"orders": 3})

    with pytest.raises(RecordTooLargeError):
        producer.send("orders", bytes(1000))
    with pytest.raises(InvalidRecordError, match="is not a topic name"):
        producer.send("no topic", b"")
    with pytest.raises(TopicUnavailableError, match=r"^topic .payments. is not available: UNKNOWN_TOPIC"):
        producer.send("payments", b"")
    with pytest.raises(TopicUnavailableError, match="partition 3 does not exist; the topic has 3"):
        producer.send("orders", b"", partition=3)
    assert producer.history == ()


def place_order(producer: Producer, order: bytes) -> RecordMetadata:
    """A function as programs have it, which waits for its record itself."""
    return producer.send("orders", order).result()


def test_a_function_that_waits_for_its_record_gets_the_planned_failure(mock_producer: MockProducer) -> None:
    mock_producer.fail_next(BROKEN)

    with pytest.raises(DeliveryError, match="NOT_ENOUGH_REPLICAS") as caught:
        place_order(mock_producer, b"1")

    assert caught.value.__cause__ is BROKEN
    assert caught.value.attempts == 1
    assert place_order(mock_producer, b"2").offset == 0
    assert len(mock_producer.history) == 2


def test_planned_failures_hit_as_many_records_in_turn(mock_producer: MockProducer) -> None:
    late = DeliveryTimeoutError("too late", topic="orders", partition=0, attempts=3, possibly_persisted=True)
    mock_producer.fail_next(late)
    mock_producer.fail_next(BROKEN)

    errors = [mock_producer.send("orders", b"1").exception() for _ in range(3)]

    assert isinstance(errors[0], DeliveryTimeoutError)
    assert str(errors[0]) == "too late"
    assert errors[1] is not None
    assert errors[1].__cause__ is BROKEN
    assert errors[2] is None


def test_a_failure_can_be_planned_behind_records_without_one(make: Make) -> None:
    with make() as producer:
        producer.fail_next(BROKEN, after=1)
        producer.fail_next(BROKEN, after=2)
        errors = [producer.send("orders", b"1").exception() for _ in range(6)]
        producer.fail_next(BROKEN, after=1)
        producer.clear()
        errors += [producer.send("orders", b"1").exception() for _ in range(2)]

    assert [number for number, error in enumerate(errors) if error is not None] == [1, 4]


def test_an_error_can_be_planned_behind_calls_without_one(mock_producer: MockProducer) -> None:
    mock_producer.raise_next("send", BufferExhaustedError("full"), after=2)
    outcomes = []
    for _ in range(4):
        try:
            outcomes.append(mock_producer.send("orders", b"1").result().offset)
        except BufferExhaustedError:
            outcomes.append(-1)

    assert outcomes == [0, 1, -1, 2]


@pytest.mark.parametrize(("after", "error"), [(-1, ValueError), ("1", TypeError), (True, TypeError)])
def test_an_impossible_number_of_calls_before_an_error_is_refused(after: Any, error: type[Exception]) -> None:
    with MockProducer() as producer:
        with pytest.raises(error, match="fail_next: after="):
            producer.fail_next(BROKEN, after=after)
        with pytest.raises(error, match="raise_next: after="):
            producer.raise_next("send", BROKEN, after=after)


def test_a_planned_failure_hits_the_next_record_that_is_sent(waiting: MockProducer) -> None:
    first = waiting.send("orders", b"1")
    waiting.fail_next(BROKEN)
    second, third = waiting.send("orders", b"2"), waiting.send("orders", b"3")

    assert waiting.complete_next()
    assert first.result(0).offset == 0
    assert not second.done()
    assert waiting.complete_next()
    assert isinstance(second.exception(0), DeliveryError)
    waiting.flush()
    assert third.result(0).offset == 1


class Meanwhile:
    """A lock that calls a function once, after it is released for the first time, as another thread could."""

    def __init__(self, lock: threading.Lock, function: Callable[[], object]) -> None:
        self._lock, self._functions = lock, [function]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        if self._functions:
            self._functions.pop()()


def test_a_planned_failure_hits_its_record_though_two_threads_answer(waiting: MockProducer) -> None:
    first = waiting.send("orders", b"1")
    waiting.fail_next(BROKEN)
    second = waiting.send("orders", b"2")
    batches: Any = waiting._parts.sent_batches
    batches._lock = Meanwhile(batches._lock, waiting.complete_next)

    waiting.complete_next()

    assert first.result(0).offset == 0
    error = second.exception(0)
    assert error is not None
    assert error.__cause__ is BROKEN


def test_an_error_of_the_moment_replaces_a_planned_one(waiting: MockProducer) -> None:
    waiting.fail_next(BROKEN)
    first, second = waiting.send("orders", b"1"), waiting.send("orders", b"2")
    other = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)

    waiting.error_next(other)
    waiting.complete_next()

    error = first.exception(0)
    assert error is not None
    assert error.__cause__ is other
    assert second.result(0).offset == 0


def test_clear_drops_planned_failures(mock_producer: MockProducer) -> None:
    mock_producer.fail_next(BROKEN)
    mock_producer.clear()

    assert place_order(mock_producer, b"1").offset == 0


def test_a_planned_failure_hits_the_next_batch_of_a_table(mock_producer: MockProducer) -> None:
    mock_producer.fail_next(BROKEN)

    with pytest.raises(TableDeliveryError):
        mock_producer.send_table("orders", pa.table({"value": ["1", "2"]})).result(0)


def test_a_planned_failure_aborts_a_transaction(make: Make) -> None:
    producer = make(transactional_id="payments")
    producer.init_transactions()
    producer.fail_next(BROKEN)
    producer.begin_transaction()
    producer.send("orders", b"1")

    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()

    assert producer.history == ()


def test_a_fenced_producer_whose_error_was_raised_closes_without_another(make: Make) -> None:
    with make(transactional_id="x") as producer:
        producer.init_transactions()
        producer.fence()
        with pytest.raises(ProducerFencedError), producer.transaction():
            producer.send("orders", b"1")
        producer.close()

    assert producer.history == ()


def test_an_error_for_no_record_names_the_method_that_plans_one(mock_producer: MockProducer) -> None:
    with pytest.raises(IllegalStateError, match=r"no record is pending, because auto_complete .* call fail_next"):
        mock_producer.error_next(BROKEN)


def test_exhausted_memory_is_an_error_until_a_response_frees_it(make: Make) -> None:
    producer = make(buffer_memory=3000, auto_complete=False)
    producer.send("orders", bytes(2500))

    with pytest.raises(BufferExhaustedError):
        producer.send("orders", bytes(2500))

    producer.complete_next()
    producer.send("orders", bytes(2500))
    assert producer.pending == 1


# Answers


def test_records_wait_until_they_are_completed_in_order(waiting: MockProducer) -> None:
    first, second = waiting.send("orders", b"1"), waiting.send("orders", b"2")
    assert (first.done(), second.done(), waiting.pending) == (False, False, 2)

    assert waiting.complete_next()

    assert (first.done(), second.done(), waiting.pending) == (True, False, 1)
    assert waiting.complete_next()
    assert not waiting.complete_next()
    assert second.result(0).offset == 1


def test_a_record_fails_with_the_cause_given_by_the_test(waiting: MockProducer) -> None:
    first, second = waiting.send("orders", b"1"), waiting.send("orders", b"2")

    assert waiting.error_next(BROKEN)

    error = first.exception(0)
    assert isinstance(error, DeliveryError)
    assert error.__cause__ is BROKEN
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    assert (error.topic, error.partition, error.attempts, error.possibly_persisted) == ("orders", 0, 1, False)
    assert not second.done()


def test_an_error_given_by_the_test_is_raised_unchanged(waiting: MockProducer) -> None:
    delivery = waiting.send("orders", b"1")
    late = DeliveryTimeoutError("too late", topic="orders", partition=0, attempts=3, possibly_persisted=True)

    waiting.error_next(late)

    with pytest.raises(DeliveryTimeoutError) as caught:
        delivery.result(0)
    assert str(caught.value) == "too late"
    assert (caught.value.attempts, caught.value.possibly_persisted) == (3, True)


def test_callbacks_get_a_delivery_like_that_of_a_real_producer(waiting: MockProducer) -> None:
    heard: list[tuple[Any, Any]] = []
    for _ in range(2):
        waiting.send("orders", b"1", on_delivery=lambda delivery: heard.append((delivery.metadata, delivery.error)))

    waiting.complete_next()
    waiting.error_next(BROKEN)

    [(metadata, nothing), (none, error)] = heard
    assert (metadata.offset, nothing, none) == (0, None, None)
    assert error.__cause__ is BROKEN


def test_a_callback_may_send_but_not_wait(waiting: MockProducer) -> None:
    caught: list[Exception] = []

    def again(_delivery: object) -> None:
        delivery = waiting.send("orders", b"from a callback")
        for wait in (lambda: waiting.flush(5), lambda: delivery.result(5)):
            try:
                wait()
            except IllegalStateError as error:
                caught.append(error)

    waiting.send("orders", b"1", on_delivery=again)
    waiting.complete_next()

    assert len(caught) == 2
    assert waiting.pending == 1
    assert waiting.flush().acknowledged == 2


def test_a_record_of_a_callback_is_pending_until_that_returns(mock_producer: MockProducer) -> None:
    order: list[str] = []

    def again(_delivery: object) -> None:
        delivery = mock_producer.send("orders", b"inner", on_delivery=lambda _delivery: order.append("inner"))
        assert not delivery.done()
        with pytest.raises(IllegalStateError):
            delivery.result(5)
        order.append("outer")

    outer = mock_producer.send("orders", b"outer", on_delivery=again)

    assert order == ["outer", "inner"]
    assert outer.done()
    assert mock_producer.pending == 0


@pytest.mark.parametrize("end", ["complete_next", "flush", "commit_transaction"])
def test_a_callback_may_send_by_another_mock_producer(make: Make, mock_producer: MockProducer, end: str) -> None:
    first = make(auto_complete=False, transactional_id="orders" if end == "commit_transaction" else None)
    if end == "commit_transaction":
        first.init_transactions()
        first.begin_transaction()
    mock_producer.partitions_for("audit")
    done: list[bool] = []
    inner: list[Any] = []

    def audit(_delivery: object) -> None:
        inner.append(mock_producer.send("audit", b"1"))
        done.append(inner[0].done())

    first.send("orders", b"1", on_delivery=audit)
    getattr(first, end)()

    assert done == [False]
    assert inner[0].done()


def test_each_callback_may_send_the_next_of_many_records(mock_producer: MockProducer) -> None:
    sent: list[int] = []

    def again(_delivery: object) -> None:
        if len(sent) < 2_000:
            sent.append(mock_producer.pending)
            mock_producer.send("orders", b"1", on_delivery=again)

    mock_producer.send("orders", b"1", on_delivery=again)

    assert set(sent) == {0}
    assert len(mock_producer.history) == 2_001


def test_a_topic_that_a_callback_is_first_to_name_is_not_known(mock_producer: MockProducer) -> None:
    errors: list[str] = []

    def forward(_delivery: object) -> None:
        for call in (mock_producer.send, mock_producer.partitions_for):
            try:
                call("failures")
            except TopicUnavailableError as error:
                errors.append(str(error))

    mock_producer.send("orders", b"1", on_delivery=forward)
    assert len(errors) == 2
    assert all("its metadata has not arrived yet" in error for error in errors)

    mock_producer.send("orders", b"2", on_delivery=forward)  # by then it has
    assert len(errors) == 2
    assert [record.topic for record in mock_producer.history] == ["orders", "orders", "failures"]


def test_settings_of_production_do_not_set_the_exit_code_of_tests() -> None:
    program = """if True:
        from ottla import BrokerError, ErrorCode
        from ottla_testkit.mock_producer import MockProducer
        producer = MockProducer({"undelivered.exit.code": "70"})
        producer.fail_next(BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS))
        producer.send("orders", b"lost")
        del producer
    """

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "first error" in ended.stderr


def test_automatic_responses_can_be_switched_on_and_off(waiting: MockProducer) -> None:
    first = waiting.send("orders", b"1")
    waiting.auto_complete = True

    second = waiting.send("orders", b"2")

    assert first.done()
    assert second.done()


def test_many_threads_send_at_once(make: Make) -> None:
    producer = make(auto_complete=False, partitions=3)

    def send(name: int) -> None:
        for number in range(100):
            producer.send("orders", b"%d-%d" % (name, number), key=b"%d" % name)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert producer.flush().acknowledged == 400
    for name in range(4):
        mine = [record.value for record in producer.history if record.key == b"%d" % name]
        assert mine == [b"%d-%d" % (name, number) for number in range(100)]


# Ends


def test_flush_completes_pending_records(waiting: MockProducer) -> None:
    delivery = waiting.send("orders", b"1")

    report = waiting.flush()

    assert delivery.done()
    assert (report.acknowledged, report.topics["orders"].acknowledged, report.pending) == (1, 1, 0)


@pytest.mark.parametrize("end", ["flush", "close", "commit"])
def test_rows_that_ottla_send_has_queued_are_completed(end: str, tmp_path: Path) -> None:
    path = tmp_path / "values.ndjson"
    path.write_text('{"value": 1}\n{"value": 2}\n', encoding="utf-8")
    producer = MockProducer({"transactional.id": "t"} if end == "commit" else None)
    if end == "commit":
        producer.init_transactions()
        producer.begin_transaction()
    [block] = Input.of(str(path), None, Parts(value="value"), None).blocks()
    counts = Counts()
    send_block(producer, "orders", "values.ndjson", block, counts)
    match end:
        case "flush":
            producer.flush(timeout=5)
        case "close":
            producer.close(timeout=5)
        case "commit":
            producer.commit_transaction(timeout=5)

    assert [record.value for record in producer.history] == [b"1", b"2"]
    counts.wait()
    assert counts.acknowledged == 2


def test_flush_raises_a_failure_that_was_not_retrieved(waiting: MockProducer) -> None:
    waiting.send("orders", b"1")
    waiting.error_next(BROKEN)

    with pytest.raises(UndeliveredError, match="NOT_ENOUGH_REPLICAS"):
        waiting.flush()
    waiting.flush()


def test_close_completes_pending_records_and_refuses_new_ones(waiting: MockProducer) -> None:
    delivery = waiting.send("orders", b"1")

    assert waiting.close().acknowledged == 1

    assert delivery.done()
    assert waiting.closed
    with pytest.raises(ProducerClosedError):
        waiting.send("orders", b"2")
    waiting.close()


def test_close_with_timeout_zero_fails_pending_records(waiting: MockProducer) -> None:
    delivery = waiting.send("orders", b"1")

    with pytest.raises(UndeliveredError):
        waiting.close(0)

    assert isinstance(delivery.exception(0), DeliveryError)


def test_it_closes_at_the_end_of_its_with_block(make: Make) -> None:
    with make(auto_complete=False) as producer:
        delivery = producer.send("orders", b"1")

    assert delivery.done()


@pytest.mark.parametrize("method", ["send", "send_table", "send_sealed", "flush", "close"])
def test_the_next_call_of_a_method_can_be_made_to_raise(mock_producer: MockProducer, method: str) -> None:
    error = FlushTimeoutError(mock_producer.flush(), "planned")
    mock_producer.raise_next(method, error)
    arguments = {
        "send": ("orders", b"1"),
        "send_table": ("orders", pa.table({"value": ["1"]})),
        "send_sealed": (sealed("1"),),
    }.get(method, ())

    with pytest.raises(FlushTimeoutError) as caught:
        getattr(mock_producer, method)(*arguments)

    assert caught.value is error
    assert mock_producer.history == ()
    getattr(mock_producer, method)(*arguments)


def test_an_unknown_method_cannot_be_made_to_raise(mock_producer: MockProducer) -> None:
    with pytest.raises(ValueError, match="'sent' is not a producer method that can fail; these are: abort_transaction"):
        mock_producer.raise_next("sent", BROKEN)
    with pytest.raises(ValueError, match=r"To fail a record, so that its result\(\) raises, use fail_next\(error\)"):
        mock_producer.raise_next("result", BROKEN)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("boom", "got 'boom', which is no exception"), (DeliveryError, r"give an error of it, DeliveryError\(\.\.\.\)")],
)
def test_a_planned_error_has_to_be_one(mock_producer: MockProducer, wrong: Any, said: str) -> None:
    plan: list[Callable[[Any], object]] = [mock_producer.fail_next, mock_producer.error_next]
    plan.append(partial(mock_producer.raise_next, "send"))
    for method in plan:
        with pytest.raises(TypeError, match=said):
            method(wrong)

    assert mock_producer.send("orders", b"1").result().offset == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": ["orders"]}, r"topics=\['orders'\]: give a dict of topics with their numbers of partitions"),
        ({"topics": {"orders": "3"}}, "topics: 'orders': '3' is no number of partitions"),
        ({"topics": {"orders": 0}}, "topics: 'orders': 0 is no number of partitions; a topic has at least one"),
        ({"timestamp_after_max_ms": "1"}, "timestamp_after_max_ms='1' is no number of milliseconds"),
        ({"timestamp_after_max_ms": True}, "timestamp_after_max_ms=True is no number of milliseconds"),
        ({"timestamp_after_max_ms": -1}, "timestamp_after_max_ms=-1 is below 0"),
        ({"partitions": "3"}, "partitions: '3' is no number of partitions"),
        ({"partitions": True}, "partitions: True is no number of partitions"),
        ({"partitions": -1}, "partitions: -1 is no number of partitions; a topic has at least one"),
    ],
)
def test_wrong_numbers_of_partitions_are_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        MockProducer(**options)


# Tables


def test_the_rows_of_a_table_are_in_the_history(make: Make) -> None:
    producer = make(partitions=4)
    keys = [f"key-{number}" for number in range(100)]

    delivery = producer.send_table("orders", pa.table({"key": keys, "value": keys}))

    assert delivery.result(0).acknowledged == 100
    assert {record.key: record.partition for record in producer.history} == {
        key.encode(): partition_for_key(key.encode(), 4) for key in keys
    }
    assert delivery.metadata(0) is not None


def test_a_batch_of_table_rows_completes_together(waiting: MockProducer) -> None:
    delivery = waiting.send_table("orders", pa.table({"value": ["1", "2", "3"]}))
    assert (waiting.pending, delivery.done()) == (3, False)

    waiting.error_next(BROKEN)

    assert isinstance(delivery.exception(0), TableDeliveryError)
    assert list(delivery.failed_rows()) == [0, 1, 2]


def test_a_sealed_batch_completes_like_its_rows(waiting: MockProducer) -> None:
    delivery = waiting.send_sealed(sealed("1", "2", "3"))
    assert [(record.partition, record.value) for record in waiting.history] == [(0, b"1"), (0, b"2"), (0, b"3")]
    assert (waiting.pending, delivery.done()) == (3, False)

    waiting.complete_next()

    assert delivery.result(0).acknowledged == 3


def test_the_rows_before_a_tables_fault_are_acknowledged(mock_producer: MockProducer) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["1", "2"]})
        yield pa.record_batch({"value": ["3"]})
        raise OSError("the file ends here")

    with pytest.raises(TableReadError) as caught:
        mock_producer.send_table("orders", batches())

    assert caught.value.delivery is not None
    assert caught.value.delivery.result(0).acknowledged == 3


# Transactions


def test_records_of_a_transaction_are_in_the_history_once_committed(transactional: MockProducer) -> None:
    delivery = transactional.send("orders", b"1")
    transactional.send_offsets_to_transaction({("input", 0): 5}, "group")
    assert (transactional.history, len(transactional.uncommitted_records)) == ((), 1)
    assert (transactional.transaction_in_flight, transactional.committed_offsets) == (True, ())

    report = transactional.commit_transaction()

    assert (report.acknowledged, delivery.done()) == (1, True)
    assert [record.value for record in transactional.history] == [b"1"]
    assert (transactional.uncommitted_records, transactional.uncommitted_offsets) == ((), ())
    assert (transactional.commit_count, transactional.abort_count, transactional.transaction_in_flight) == (1, 0, False)
    [sent] = transactional.committed_offsets
    assert sent.group == ConsumerGroupMetadata("group")
    assert {partition: position.offset for partition, position in sent.offsets.items()} == {("input", 0): 5}


def test_an_aborted_transaction_leaves_nothing_in_the_history(transactional: MockProducer) -> None:
    delivery = transactional.send("orders", b"1")
    transactional.send_offsets_to_transaction({("input", 0): 5}, "group")

    transactional.abort_transaction()

    assert isinstance(delivery.exception(0), TransactionAbortedError)
    assert (transactional.history, transactional.uncommitted_records, transactional.committed_offsets) == ((), (), ())
    assert (transactional.commit_count, transactional.abort_count) == (0, 1)


@pytest.mark.parametrize("auto_complete", [True, False])
def test_records_of_a_joined_transaction_are_in_the_history_once_left(make: Make, *, auto_complete: bool) -> None:
    producer = make({"transactional.id": "shared"}, auto_complete=auto_complete)
    producer.join_transaction(SharedTransaction(transactional_id="shared", producer_id=5, epoch=0, level=2))
    delivery = producer.send("orders", b"1")
    assert (producer.history, len(producer.uncommitted_records)) == ((), 1)

    report = producer.leave_transaction()

    assert (report.acknowledged, delivery.done()) == (1, True)
    assert ([record.value for record in producer.history], producer.uncommitted_records) == ([b"1"], ())


def test_transactions_may_follow_each_other(transactional: MockProducer) -> None:
    for number in range(3):
        transactional.send("orders", b"%d" % number)
        transactional.commit_transaction()
        transactional.begin_transaction()
    transactional.commit_transaction()

    assert [record.value for record in transactional.history] == [b"0", b"1", b"2"]
    assert transactional.commit_count == 4


def test_a_with_block_commits_or_aborts(transactional: MockProducer) -> None:
    transactional.commit_transaction()
    with transactional.transaction():
        transactional.send("orders", b"kept")
    with contextlib.suppress(ZeroDivisionError), transactional.transaction():
        transactional.send("orders", b"dropped")
        raise ZeroDivisionError

    assert [record.value for record in transactional.history] == [b"kept"]
    assert (transactional.commit_count, transactional.abort_count) == (2, 1)


def test_methods_in_the_wrong_state_are_refused_as_by_a_real_producer(make: Make) -> None:
    producer = make(transactional_id="payments")
    with pytest.raises(IllegalStateError, match="call init_transactions first"):
        producer.send("orders", b"1")
    with pytest.raises(IllegalStateError, match="call init_transactions first"):
        producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="call init_transactions first"):
        producer.fence()
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="call begin_transaction"):
        producer.send("orders", b"1")
    with pytest.raises(IllegalStateError, match="call begin_transaction"):
        producer.commit_transaction()
    with pytest.raises(IllegalStateError, match=r"needs a producer with a transactional\.id"):
        make().begin_transaction()
    with pytest.raises(IllegalStateError, match=r"fence needs a producer with a transactional\.id"):
        make().fence()


def test_a_failed_record_allows_only_an_abort(transactional: MockProducer) -> None:
    first, second = transactional.send("orders", b"1"), transactional.send("orders", b"2")
    transactional.error_next(BROKEN)

    with pytest.raises(AbortableTransactionError, match="call abort_transaction"):
        transactional.commit_transaction()
    transactional.abort_transaction()
    transactional.begin_transaction()

    assert isinstance(first.exception(0), DeliveryError)
    assert isinstance(second.exception(0), TransactionAbortedError)


@pytest.mark.parametrize("before", [0, 1])
def test_a_fenced_producer_can_only_be_closed(transactional: MockProducer, before: int) -> None:
    for _ in range(before):
        transactional.send("orders", b"before")
    transactional.fence()

    delivery = transactional.send("orders", b"1")
    with pytest.raises(ProducerFencedError):
        transactional.commit_transaction()
    with pytest.raises(ProducerFencedError):
        transactional.send("orders", b"2")

    assert isinstance(delivery.exception(0), DeliveryError)
    assert transactional.history == ()
    assert not transactional.transaction_in_flight


def test_a_fenced_producer_fails_at_its_first_request(transactional: MockProducer) -> None:
    transactional.fence()

    transactional.send("orders", b"the first for its partition")

    with pytest.raises(ProducerFencedError):
        transactional.send("orders", b"2")


def test_offsets_of_a_fenced_producer_are_refused(transactional: MockProducer) -> None:
    transactional.fence()

    with pytest.raises(ProducerFencedError):
        transactional.send_offsets_to_transaction({("input", 0): 5}, "group")

    assert transactional.uncommitted_offsets == ()


def test_the_next_commit_can_be_made_to_fail(transactional: MockProducer) -> None:
    transactional.send("orders", b"1")
    transactional.raise_next("commit_transaction", AbortableTransactionError("planned"))

    with pytest.raises(AbortableTransactionError, match="planned"):
        transactional.commit_transaction()

    assert transactional.commit_count == 0
    transactional.commit_transaction()
    transactional.close()
    assert (transactional.commit_count, transactional.abort_count) == (1, 0)


def test_a_prepared_transaction_remains_until_it_is_completed(make: Make) -> None:
    producer = make(transactional_id="payments", transaction_two_phase_commit_enable=True, auto_complete=False)
    producer.init_transactions()
    producer.begin_transaction()
    delivery = producer.send("orders", b"1")

    prepared = producer.prepare_transaction()

    assert (prepared.transactional_id, delivery.done(), producer.transaction_in_flight) == ("payments", True, True)
    producer.commit_transaction()
    assert len(producer.history) == 1


def test_close_aborts_an_open_transaction(transactional: MockProducer) -> None:
    delivery = transactional.send("orders", b"1")

    with pytest.raises(UndeliveredError):
        transactional.close()

    assert isinstance(delivery.exception(0), TransactionAbortedError)
    assert (transactional.history, transactional.abort_count) == ((), 1)


def test_a_table_may_be_part_of_a_transaction(transactional: MockProducer) -> None:
    transactional.send_table("orders", pa.table({"value": ["1", "2"]}))

    transactional.commit_transaction()

    assert [record.value for record in transactional.history] == [b"1", b"2"]


def test_an_unread_failure_is_logged_as_by_a_producer(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    producer = make(auto_complete=False, client_id="me", partitions=2)
    producer.send("orders", b"1", partition=0)
    kept = producer.send("orders", b"2", partition=1)

    producer.error_next(BROKEN)
    producer.error_next(BROKEN)
    assert kept.exception() is not None

    [line] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith("me: 1 record failed, and no delivery or callback is left to report the error: ")


class LooksUp:
    """A serializer that needs a lookup, such as of a schema, before it serializes."""

    def __init__(self) -> None:
        self.time_outs: list[float] = []

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        if not self.time_outs:
            raise NotPreparedError("not yet")
        return str(data).encode()

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.time_outs.append(timeout)


def test_lookups_of_serializers_have_the_time_that_is_configured() -> None:
    serializer = LooksUp()
    with MockProducer(value_serializer=serializer, max_block_ms=7000) as producer:
        producer.send("orders", 42)
        assert [record.value for record in producer.history] == [b"42"]
    [seconds] = serializer.time_outs
    assert 0.0 < seconds <= 7.0  # the wait for the topic is a part of the time


def test_a_timestamp_far_ahead_is_refused_as_by_a_broker() -> None:
    with MockProducer() as producer:
        wrong = producer.send("orders", b"1", timestamp_ms=time.time_ns() // 1000)  # microseconds
        soon = producer.send("orders", b"2", timestamp_ms=time.time_ns() // 1_000_000 + 3_000_000)
        with pytest.raises(DeliveryError, match=r"INVALID_TIMESTAMP .* out of range.* check the clock") as caught:
            wrong.result()

        assert isinstance(caught.value.__cause__, BrokerError)
        assert caught.value.__cause__.code is ErrorCode.INVALID_TIMESTAMP
        assert not caught.value.possibly_persisted
        assert soon.result().offset == 0


def test_a_refusal_of_a_whole_batch_names_no_other_records() -> None:
    with MockProducer() as producer:
        producer.send("orders", b"1", timestamp_ms=time.time_ns())
        with pytest.raises(UndeliveredError, match=r"is out of range.* check the clock") as caught:
            producer.flush()

    assert "other record" not in str(caught.value)


def test_a_table_names_the_row_whose_timestamp_is_refused() -> None:
    table = pa.table({"value": [b"1", b"2"], "timestamp": [1, time.time_ns() // 1000]})
    with MockProducer() as producer:
        delivery = producer.send_table("orders", table, timestamp="timestamp")
        with pytest.raises(TableDeliveryError, match="INVALID_TIMESTAMP"):
            delivery.result()

    errors = [str(error) for error in delivery.failed_rows().values()]
    assert "1 other record of the batch was refused" in errors[0]
    assert "is out of range" in errors[1]


def test_a_refused_timestamp_fails_its_transaction() -> None:
    with MockProducer({"transactional.id": "mover"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"1", timestamp_ms=time.time_ns())
        with pytest.raises(AbortableTransactionError, match="INVALID_TIMESTAMP"):
            producer.commit_transaction()
        producer.abort_transaction()

    assert producer.history == ()


@pytest.mark.parametrize("options", [{"timestamp_after_max_ms": None}, {"acks": 0, "enable_idempotence": False}])
def test_a_timestamp_far_ahead_is_taken_where_no_broker_refuses_it(options: dict[str, Any]) -> None:
    with MockProducer(**options) as producer:
        producer.send("orders", b"1", timestamp_ms=time.time_ns()).result()


def test_a_test_with_a_clock_of_its_own_may_use_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    in_ten_years = time.time_ns() + 10 * 365 * 86400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: in_ten_years)
    with MockProducer() as producer:
        producer.send("orders", b"1", timestamp_ms=in_ten_years // 1_000_000).result()
