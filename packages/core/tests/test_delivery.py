"""A batch is completed once, and each delivery reads its own part of the outcome."""

from __future__ import annotations

import asyncio
import threading
import traceback

import error_copies
import pytest
from unretrieved import unretrieved_errors

from machine import columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery import Delivery
from ottla.concurrency import io_threads
from ottla.errors import DeliveryError, IllegalStateError, OttlaError
from ottla.results import RecordMetadata
from simulated_producer import simulated

HANG_GUARD = 20.0


def batch_of(count: int = 3) -> tuple[ProducerBatch, list[Delivery]]:
    batch = ProducerBatch(topic="t", partition=7, columns=columns(10_000), now=0.0)
    for number in range(count):
        batch.append(b"key", b"v" * number, (), 1_000 + number, None)
    return batch, [Delivery(batch, index) for index in range(count)]


def error_of(batch: ProducerBatch, text: str = "refused") -> DeliveryError:
    return DeliveryError(text, topic=batch.topic, partition=batch.partition, attempts=1, possibly_persisted=False)


@pytest.mark.rule("batch.collects")
def test_each_record_has_its_own_offset_size_and_timestamp() -> None:
    batch, deliveries = batch_of(3)
    batch.columns.encode(2)

    batch.complete_and_call_back(Acknowledged(base_offset=100))

    assert deliveries[2].result() == RecordMetadata(
        topic="t", partition=7, offset=102, timestamp_ms=1_002, serialized_key_size=3, serialized_value_size=2
    )


@pytest.mark.rule("producer.record.timestamp")
def test_the_log_append_time_replaces_the_timestamp_of_the_record() -> None:
    batch, deliveries = batch_of(1)

    batch.complete_and_call_back(Acknowledged(base_offset=0, log_append_time_ms=5_000))

    assert deliveries[0].result().timestamp_ms == 5_000


def test_without_a_base_offset_every_offset_is_unknown() -> None:
    batch, deliveries = batch_of(2)

    batch.complete_and_call_back(Acknowledged(base_offset=-1))

    assert [delivery.result().offset for delivery in deliveries] == [-1, -1]


@pytest.mark.rule("batch.once")
def test_the_first_outcome_is_final() -> None:
    batch, deliveries = batch_of(1)

    assert batch.complete_and_call_back(Acknowledged(base_offset=5))
    assert not batch.complete_and_call_back(Failed(error=error_of(batch)))
    assert deliveries[0].result().offset == 5


def test_a_failure_is_raised_by_result_and_returned_by_exception() -> None:
    batch, deliveries = batch_of(1)
    error = error_of(batch)
    batch.complete_and_call_back(Failed(error=error))

    with pytest.raises(DeliveryError, match="refused"):
        deliveries[0].result()
    assert error_copies.same(deliveries[0].exception(), error)


def test_each_task_gets_an_error_of_its_own_when_a_batch_fails() -> None:
    """Sentry, and the debug pages of web frameworks, report the local variables of an error's frames."""
    batch, deliveries = batch_of(2)

    async def request(user: str, delivery: Delivery) -> DeliveryError:
        try:
            raise PermissionError(user)
        except PermissionError:
            try:
                await delivery
            except DeliveryError as error:
                error.add_note(user)
                await asyncio.sleep(0)  # the other task gets its error
                return error
        raise AssertionError

    async def requests() -> list[DeliveryError]:
        tasks = asyncio.gather(request("alice", deliveries[0]), request("bob", deliveries[1]))
        await asyncio.sleep(0)  # both wait
        cause = ConnectionError("reset")
        failure = error_of(batch)
        failure.__cause__ = cause
        batch.complete_and_call_back(Failed(error=failure))
        found = await tasks
        assert all(error.__cause__ is cause and str(error) == "refused" and error.attempts == 1 for error in found)
        return list(found)

    for user, error in zip(("alice", "bob"), asyncio.run(requests()), strict=True):
        frames = [frame.f_locals for frame, _line in traceback.walk_tb(error.__traceback__)]
        assert [variables["user"] for variables in frames if "user" in variables] == [user]
        assert error.__notes__ == [user]
        assert isinstance(error.__context__, PermissionError)
        assert str(error.__context__) == user


def test_an_error_that_was_raised_is_in_no_later_one() -> None:
    batch, (delivery, other) = batch_of(2)
    batch.complete_and_call_back(Failed(error=error_of(batch)))

    with pytest.raises(DeliveryError) as raised:
        delivery.result()
    raised.value.add_note("mine")
    later = [delivery.error, delivery.exception(), delivery.future().exception()]
    with pytest.raises(DeliveryError) as again:
        other.result()

    assert raised.value.__traceback__ is not None
    for error in later:
        assert error is not None
        assert error.__traceback__ is None
    for error in (*later, again.value):
        assert not hasattr(error, "__notes__")


def test_records_that_the_broker_names_have_their_own_error() -> None:
    batch, deliveries = batch_of(3)
    own = error_of(batch, "no key")
    batch.complete_and_call_back(Failed(error=error_of(batch, "because of others"), record_errors={1: own}))

    assert [str(delivery.exception()) for delivery in deliveries] == [
        "because of others",
        "no key",
        "because of others",
    ]


def test_a_wait_that_times_out_raises_an_error_that_names_the_record() -> None:
    _batch, deliveries = batch_of(1)

    with pytest.raises(TimeoutError, match="topic 't', partition 7 is still pending"):
        deliveries[0].result(timeout=0)


@pytest.mark.rule("producer.delivery.threads")
def test_a_waiting_thread_is_woken_by_the_outcome() -> None:
    batch, deliveries = batch_of(1)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(deliveries[0].result(HANG_GUARD).offset))
    thread.start()

    batch.complete_and_call_back(Acknowledged(base_offset=9))
    thread.join(HANG_GUARD)

    assert found == [9]


@pytest.mark.rule("producer.callback.waits")
def test_waiting_on_the_io_thread_is_refused() -> None:
    _batch, deliveries = batch_of(1)
    io_threads.enter()
    try:
        with pytest.raises(IllegalStateError):
            deliveries[0].result()
    finally:
        io_threads.leave()


def test_an_existing_outcome_may_be_read_on_the_io_thread() -> None:
    batch, deliveries = batch_of(1)
    batch.complete_and_call_back(Acknowledged(base_offset=3))
    io_threads.enter()
    try:
        assert deliveries[0].result().offset == 3
    finally:
        io_threads.leave()


@pytest.mark.rule("producer.callback.once")
def test_a_callback_added_before_or_after_the_outcome_runs_once() -> None:
    batch, deliveries = batch_of(1)
    seen: list[Delivery] = []
    deliveries[0].add_done_callback(seen.append)
    assert seen == []

    batch.complete_and_call_back(Acknowledged(base_offset=0))
    assert seen == deliveries

    deliveries[0].add_done_callback(seen.append)
    assert seen == deliveries * 2


@pytest.mark.rule("producer.callback.once")
def test_the_delivery_of_a_callback_has_either_metadata_or_an_error() -> None:
    calls: list[tuple[RecordMetadata | None, OttlaError | None]] = []
    outcomes = []
    for outcome in ("good", "bad"):
        batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
        batch.append(None, b"v", (), 0, lambda delivery: calls.append((delivery.metadata, delivery.error)))
        outcomes.append(batch)
        batch.complete_and_call_back(
            Acknowledged(base_offset=0) if outcome == "good" else Failed(error=error_of(batch))
        )

    assert [(metadata is None, error is None) for metadata, error in calls] == [(False, True), (True, False)]


@pytest.mark.rule("producer.report.retrieved")
@pytest.mark.parametrize("look", ["result", "exception", "callback"])
def test_every_way_of_reading_a_failure_counts_as_retrieved(look: str) -> None:
    batch, deliveries = batch_of(2)
    if look == "callback":
        deliveries[0].add_done_callback(lambda _delivery: None)
    batch.complete_and_call_back(Failed(error=error_of(batch)))
    if look == "exception":
        assert deliveries[0].exception() is not None
    if look == "result":
        with pytest.raises(DeliveryError):
            deliveries[0].result()

    assert unretrieved_errors(batch) == 1


def test_done_and_repr_show_the_state_of_a_record() -> None:
    batch, deliveries = batch_of(1)
    assert not deliveries[0].done()
    assert repr(deliveries[0]) == "<Delivery for topic 't', partition 7: pending>"

    batch.complete_and_call_back(Acknowledged(base_offset=4))

    assert deliveries[0].done()
    assert repr(deliveries[0]) == "<Delivery for topic 't', partition 7: at offset 4>"


@pytest.mark.parametrize("outcome", [Acknowledged(base_offset=0), Failed(error=error_of(batch_of()[0]))])
def test_a_callback_runs_once_however_often_callbacks_are_run(outcome: Acknowledged | Failed) -> None:
    called: list[Delivery] = []
    batch, deliveries = batch_of(1)
    deliveries[0].add_done_callback(called.append)

    batch.complete_and_call_back(outcome)
    batch.run_callbacks()

    assert len(called) == 1


def test_an_error_without_a_cause_is_the_last_answer_of_a_story() -> None:
    batch, _deliveries = batch_of(1)
    batch.mark_sent(1, 0.0)
    batch.complete_and_call_back(Failed(error=error_of(batch, "refused by the broker")))

    assert "refused by the broker" in batch.story().tries[-1].response


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_the_metadata_of_all_records_is_that_of_each(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with simulated(1, linger_ms=10, record_encoder=encoder) as simulation:
        deliveries = [simulation.producer.send("t", bytes(size), b"k") for size in range(3)]
        simulation.run_until_idle()
        batch, _index = deliveries[0]._place()

        assert list(batch.all_metadata()) == [delivery.result() for delivery in deliveries]


def test_waits_that_ran_out_of_time_leave_nothing_behind() -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    batch.append(None, b"v", (), 0, None)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            Delivery(batch, 0).result(0)

    assert batch._latches == ()
