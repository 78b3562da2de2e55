"""The rules of a batch and its outcome that need the whole machine, or a broker that says more than usual."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence

import attrs
import error_copies
import pytest
from unretrieved import unretrieved_errors

from edited_broker import Edit, edited_machine, run_until
from machine import Machine, columns
from ottla.accumulator.batch import ProducerBatch, size_of
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.errors import BrokerError, DeliveryError, DeliveryTimeoutError, ErrorCode, ProducerClosedError
from ottla.interfaces import Facts, Header
from ottla.protocol import BatchIndexAndErrorMessage
from ottla.results import RecordMetadata

HANG_GUARD = 20.0


def machine_with_topic(**settings: float) -> Machine:
    return edited_machine({}, **settings)


def refused(named: Mapping[int, str | None], *, code: ErrorCode = ErrorCode.INVALID_RECORD) -> Edit:
    """An answer that refuses the batch because of these records."""
    errors = [BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text) for i, text in named.items()]
    return lambda answer: attrs.evolve(
        answer,
        error_code=code,
        base_offset=-1,
        record_errors=errors,
        error_message="some records are not valid",
    )


# The result of each record


@pytest.mark.rule("batch.collects", "producer.record.timestamp")
def test_each_record_of_a_batch_gets_its_own_offset_and_timestamp() -> None:
    machine = edited_machine({1: lambda answer: attrs.evolve(answer, base_offset=70, log_append_time_ms=9_000)})
    own = [machine.send(b"v" * n, partition=0) for n in range(3)]
    brokers = [machine.send(b"v" * n, partition=1) for n in range(3)]

    machine.run_until_idle()

    assert [(r.partition, r.offset, r.timestamp_ms, r.serialized_value_size) for r in map(Delivery.result, own)] == [
        (0, 0, 0, 0),
        (0, 1, 0, 1),
        (0, 2, 0, 2),
    ]
    assert [(r.partition, r.offset, r.timestamp_ms) for r in map(Delivery.result, brokers)] == [
        (1, 70, 9_000),
        (1, 71, 9_000),
        (1, 72, 9_000),
    ]


@pytest.mark.parametrize("named", [{}, {0: "Timestamp 7 of message with offset 0 is out of range"}])
def test_a_timestamp_that_a_broker_refuses_names_the_clock(named: Mapping[int, str | None]) -> None:
    machine = edited_machine({0: refused(named, code=ErrorCode.INVALID_TIMESTAMP)})
    delivery = machine.send(b"value")
    machine.run_until_idle()

    error = str(delivery.exception())
    assert "INVALID_TIMESTAMP (32): " in error
    assert "; check the clock of this machine, or the timestamps that send was given" in error


@pytest.mark.rule("batch.record-errors")
def test_named_records_fail_with_the_broker_message_and_fail_the_others() -> None:
    machine = edited_machine({0: refused({1: "no key", 2: None})})
    deliveries = [machine.send(b"%d" % number) for number in range(4)]

    machine.run_until_idle()

    errors = [delivery.exception() for delivery in deliveries]
    texts = [str(error) for error in errors]
    refused_record = "the broker refused the record for topic 't', partition 0: INVALID_RECORD (87): "
    assert texts[1] == f"{refused_record}no key"
    assert texts[2] == f"{refused_record}{ErrorCode.INVALID_RECORD.meaning}"
    for error, text in ((errors[0], texts[0]), (errors[3], texts[3])):
        assert error_copies.same(error, errors[0])
        assert text.startswith("a batch of 4 records for topic 't', partition 0 was not delivered: ")
        assert "INVALID_RECORD (87): some records are not valid" in text
    assert all(isinstance(error, DeliveryError) and not error.possibly_persisted for error in errors)
    assert [error.__cause__.code for error in errors if error and isinstance(error.__cause__, BrokerError)] == [
        ErrorCode.INVALID_RECORD
    ] * 4


@pytest.mark.rule("batch.record-errors")
def test_records_that_the_broker_does_not_name_fail_because_of_others() -> None:
    machine = edited_machine({0: refused({1: "no key"})})
    innocent, _guilty = machine.send(b"0"), machine.send(b"1")

    machine.run_until_idle()

    assert "1 other record" in str(innocent.exception())


@pytest.mark.rule("batch.record-errors")
def test_a_batch_that_is_refused_as_a_whole_blames_no_other_record() -> None:
    machine = edited_machine({0: refused({}, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    deliveries = [machine.send(b"%d" % number) for number in range(2)]

    machine.run_until_idle()

    for delivery in deliveries:
        assert "TOPIC_AUTHORIZATION_FAILED" in str(delivery.exception())
        assert "other record" not in str(delivery.exception())


@pytest.mark.rule("batch.record-errors")
def test_the_error_of_a_batch_has_the_reason_of_its_refused_records() -> None:
    machine = edited_machine({0: refused({0: "no key", 1: "no key"})})
    for _ in range(2):
        machine.send(b"v")

    machine.run_until_idle()

    _counts, unretrieved, error = machine.accumulator.report()
    assert unretrieved == 2
    assert "no key" in str(error)


@pytest.mark.rule("producer.callback.once", "batch.record-errors")
def test_the_callback_of_a_named_record_gets_its_own_error() -> None:
    machine = edited_machine({0: refused({1: "no key"})})
    reported: list[str] = []

    def note(delivery: Delivery) -> None:
        reported.append("no key" if "no key" in str(delivery.error) else "other")

    for _ in range(3):
        machine.send(b"v", on_delivery=note)

    machine.run_until_idle()

    assert reported == ["other", "no key", "other"]


# Once


@pytest.mark.rule("batch.once")
def test_of_many_completing_threads_one_wins_and_callbacks_run_once() -> None:
    for _ in range(50):
        reported: list[RecordMetadata | None] = []
        batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
        batch.append(None, b"v", (), 0, lambda delivery, reported=reported: reported.append(delivery.metadata))  # type: ignore[misc]  # the default binds it
        start, ends = threading.Barrier(4), list[bool]()

        def end(
            offset: int, batch: ProducerBatch = batch, start: threading.Barrier = start, ends: list[bool] = ends
        ) -> None:
            start.wait(HANG_GUARD)
            ends.append(batch.complete_and_call_back(Acknowledged(base_offset=offset)))

        threads = [threading.Thread(target=end, args=(offset,)) for offset in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_GUARD)

        assert sorted(ends) == [False, False, False, True]
        assert len(reported) == 1
        assert reported[0] == Delivery(batch, 0).result()


@pytest.mark.rule("batch.late", "sender.retry.completed")
@pytest.mark.parametrize(
    "code",
    [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD],
    ids=lambda code: code.name,
)
def test_a_response_after_completion_changes_no_outcome(code: ErrorCode) -> None:
    machine = edited_machine({1: lambda answer: attrs.evolve(answer, error_code=code)})

    def abort(_delivery: Delivery) -> None:
        machine.accumulator.abort(ProducerClosedError("closed in a callback"))

    acknowledged = machine.send(b"a", partition=0, on_delivery=abort)
    deliveries = [machine.send(b"b", partition=1), machine.send(b"c", partition=1)]

    machine.run_until_idle()

    assert acknowledged.result().offset == 0
    for delivery in deliveries:
        error = delivery.exception()
        assert error is not None
        assert "closed in a callback" in str(error)
        assert error.possibly_persisted
    machine.run(1.0)
    report = machine.accumulator.report()[0]
    assert (report.acknowledged, report.failed, report.possibly_persisted, report.pending) == (1, 2, 2, 0)
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.rule("batch.late", "sender.retry.completed")
def test_a_batch_aborted_in_flight_is_not_retried_after_a_disconnect() -> None:
    machine = machine_with_topic()
    machine.cluster.brokers[1].codes.append(None)
    delivery = machine.send(b"a")
    run_until(machine, lambda: delivery._batch.in_flight)
    machine.accumulator.abort(ProducerClosedError("closed"))
    error = delivery.exception()
    machine.network.cut(1)

    machine.run(1.0)

    assert error_copies.same(delivery.exception(), error)
    assert not delivery._batch.in_flight
    assert machine.log() == [b"a"]  # once


def test_a_failure_callback_finds_the_memory_of_acknowledged_batches() -> None:
    """A callback that sends the record somewhere else, in the broker's own round, would have no time to wait for it."""
    machine = edited_machine({1: refused({})}, linger=1.0)
    seen: list[tuple[int, int]] = []
    acknowledged = machine.send(b"v" * 1_000, partition=0)
    machine.send(
        b"v", partition=1, on_delivery=lambda *_: seen.append((machine.accumulator.incomplete, machine.pool.free))
    )

    machine.run_until_idle()

    assert acknowledged.done()
    [(incomplete, free)] = seen
    assert incomplete == 1
    assert free > machine.pool.capacity - 1_000


# The content of an error


@pytest.mark.rule("batch.possibly")
def test_only_a_batch_in_flight_is_possibly_persisted_on_abort() -> None:
    machine = machine_with_topic(linger=0.0)
    machine.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS, None])
    answered = machine.send(b"answered", partition=0)
    run_until(machine, lambda: answered._batch.attempts)
    under_way = machine.send(b"under way", partition=1)
    machine.round()
    assert (answered._batch.in_flight, under_way._batch.in_flight) == (False, True)
    never_sent = machine.send(b"never sent", partition=1)

    machine.accumulator.abort(ProducerClosedError("closed"))

    perhaps = []
    for delivery in (answered, under_way, never_sent):
        error = delivery.exception()
        assert error is not None
        assert ("the broker may have written them" in str(error)) is error.possibly_persisted
        perhaps.append(error.possibly_persisted)
    assert perhaps == [False, True, False]


@pytest.mark.rule("batch.possibly")
def test_one_attempt_without_a_response_makes_a_batch_maybe_written() -> None:
    machine = machine_with_topic(retries=1, request_timeout=2.0)
    machine.cluster.brokers[1].codes.extend([None, ErrorCode.NOT_ENOUGH_REPLICAS])
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert error.attempts == 2
    assert error.possibly_persisted
    assert machine.log() == [b"a"]


@pytest.mark.rule("batch.error.content")
def test_an_error_has_broker_attempts_duration_and_cause() -> None:
    machine = machine_with_topic(request_timeout=2.0, delivery_timeout=5.0)
    machine.send(b"warm", partition=1)
    machine.run_until_idle()
    machine.cluster.brokers[1].silent = True
    delivery = machine.send(b"a", partition=1)

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert (error.topic, error.partition) == ("t", 1)
    reported = re.search(
        r"1 record for topic 't', partition 1 was not delivered within delivery\.timeout\.ms: 5\.000 s after the "
        r"batch was opened \((\d+) attempts?, (\d\.\d{3}) s in the queue and (\d\.\d{3}) s in flight, "
        r"last to broker 1, last error: .*did not answer a Produce request within request\.timeout\.ms",
        str(error),
    )
    assert reported, str(error)
    assert int(reported[1]) == error.attempts
    assert float(reported[2]) + float(reported[3]) == pytest.approx(5.0, abs=0.01)
    assert float(reported[3]) >= 2.0


@pytest.mark.rule("batch.error.content")
def test_an_error_of_a_batch_that_was_never_sent_says_so() -> None:
    machine = machine_with_topic(delivery_timeout=5.0)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].up = False
    machine.round()
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert "(never sent, 5.000 s in the queue" in str(delivery.exception())


# Closed


@pytest.mark.rule("batch.closed")
def test_a_closed_batch_takes_no_record_and_keeps_its_own() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    assert batch.append(None, b"v", (), 0, None) == 0
    batch.close()
    batch.allow(1_000_000)

    called: list[object] = []
    assert batch.append(None, b"late", (), 0, lambda delivery: called.append(delivery.metadata)) is None
    assert batch.count == 1
    batch.complete_and_call_back(Acknowledged(base_offset=0))
    assert called == []


@pytest.mark.rule("producer.callback.raises")
@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_raises_affects_neither_others_nor_memory(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_with_topic()
    reported: list[str] = []

    def fail(_delivery: Delivery) -> None:
        raise kind("the user's own fault")

    machine.send(b"a", on_delivery=fail).add_done_callback(lambda _delivery: reported.append("added"))
    machine.send(b"b", on_delivery=lambda _delivery: reported.append("behind"))

    machine.run_until_idle()

    assert reported == ["added", "behind"]
    assert "the user's own fault" in caplog.text
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.rule("producer.report.retrieved")
def test_only_errors_given_to_a_callback_count_as_retrieved() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    batch.append(None, b"v", (), 0, lambda _delivery: None)
    batch.append(None, b"v", (), 0, None)
    error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)

    batch.complete_and_call_back(Failed(error=error))

    assert unretrieved_errors(batch) == 1


@pytest.mark.rule("producer.report.retrieved")
def test_a_callback_that_raises_retrieves_no_error(caplog: pytest.LogCaptureFixture) -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    later: list[Delivery] = []
    batch.append(None, b"v", (), 0, lambda delivery: print(delivery.metadata.offset))  # type: ignore[union-attr]  # the fault
    batch.append(None, b"v", (), 0, later.append)
    error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)

    batch.complete_and_call_back(Failed(error=error))

    assert unretrieved_errors(batch) == 1
    assert len(later) == 1
    assert "raised when it got this error, and the producer continues: refused" in caplog.text
    assert "AttributeError" in caplog.text


@pytest.mark.rule("producer.report.retrieved")
def test_a_callback_that_reads_the_error_and_raises_has_retrieved_it() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    error = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)

    def reraise(delivery: Delivery) -> None:
        assert delivery.error is not None
        raise delivery.error

    batch.append(None, b"v", (), 0, reraise)
    batch.complete_and_call_back(Failed(error=error))

    assert unretrieved_errors(batch) == 0


# Columns of others


class Plain:
    """Columns of a third-party encoder: no lock, no callbacks, one list."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.capacity = 3
        self.closed = False

    def append(
        self, _key: bytes | None, value: bytes | None, _headers: Sequence[Header], _timestamp_ms: int
    ) -> int | None:
        if self.closed or len(self.values) == self.capacity:
            return None
        self.values.append(value)
        return len(self.values) - 1

    def close(self) -> None:
        self.closed = True

    def __len__(self) -> int:
        return len(self.values)

    def facts(self) -> Facts:
        return Facts([0] * len(self.values), None, [len(value or b"") for value in self.values])


def test_third_party_columns_need_neither_a_lock_nor_callbacks() -> None:
    reported: list[tuple[str, int]] = []

    def recorder(name: str) -> OnDelivery:
        return lambda delivery: reported.append(
            (name, delivery.metadata.offset if delivery.metadata is not None else -1)
        )

    batch = ProducerBatch(topic="t", partition=0, columns=Plain(), now=0.0)  # type: ignore[arg-type]  # what is used
    assert batch.append(None, b"a", (), None, recorder("a")) == 0
    batch.call_when_complete(0, recorder("added"))
    assert batch.append(None, b"b", (), None, None) == 1
    assert batch.append(None, b"c", (), None, recorder("c")) == 2
    assert batch.append(None, b"d", (), None, recorder("no room")) is None
    batch.close()
    assert batch.append(None, b"e", (), None, recorder("too late")) is None
    assert batch.complete_and_call_back(Acknowledged(base_offset=10))
    batch.call_when_complete(1, recorder("afterwards"))

    assert reported == [("a", 10), ("added", 10), ("c", 12), ("afterwards", 11)]
    assert not batch.complete_and_call_back(Acknowledged(base_offset=20))


def test_seconds_in_the_queue_and_in_flight_add_up_over_attempts() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=10.0)
    assert batch.times(12.0) == (2.0, 0.0)

    batch.mark_sent(1, 13.0)
    assert batch.times(17.0) == (3.0, 4.0)
    batch.mark_returned(18.0)
    assert batch.times(20.0) == (5.0, 5.0)
    batch.mark_sent(2, 21.0)
    assert batch.times(22.0) == (6.0, 6.0)
    assert (batch.attempts, batch.last_node, batch.in_flight) == (2, 2, True)
    assert batch.times(0.0) == (6.0, 5.0)  # no clock turns them back


def test_the_size_of_a_record_has_no_bytes_of_what_it_lacks() -> None:
    assert size_of((None, None, (), 0, None)) == 0
    assert size_of((b"key", None, (), 0, None)) == 3
    assert size_of((None, b"value", (), 0, None)) == 5
    assert size_of((b"key", b"value", (), 0, None)) == 8
    with_headers = size_of((None, None, [("name", None), ("other", b"content")], 0, None))
    assert with_headers >= len("name") + len("other") + len(b"content")
