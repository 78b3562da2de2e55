"""One batch becomes several: whatever its records, whatever the limit, nothing is lost, doubled or moved."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import error_copies
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unretrieved import unretrieved_errors

from machine import columns
from ottla.accumulator.batch import NewRecord, ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed, Forwarded
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.splitting import Splitter
from ottla.errors import DeliveryError
from ottla.interfaces import Compressor
from ottla.plugins.compressors.gzip import ottla_compressor

HANG_GUARD = 20.0
UNLIMITED = 1 << 40

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
records = st.lists(
    st.tuples(blobs, blobs, headers, st.integers(min_value=0, max_value=2**40), st.none()), min_size=1, max_size=40
)


def sealed_batch(rows: Sequence[NewRecord], compressor: Compressor | None = None) -> tuple[ProducerBatch, Sealer]:
    """A batch that was sent once, at 1.0, and then came back."""
    batch = ProducerBatch(topic="t", partition=3, columns=columns(UNLIMITED), now=0.0)
    for row in rows:
        batch.append(*row)
    batch.close()
    sealer = Sealer(compressor)
    batch.sealed = sealer.seal(batch, 1)
    batch.mark_sent(1, 1.0)
    batch.mark_returned(1.5)
    return batch, sealer


def split(batch: ProducerBatch, sealer: Sealer, *, target: int = UNLIMITED) -> tuple[Sequence[ProducerBatch], int]:
    return Splitter(target=target, columns=columns, records=sealer.records).split(batch, 2.0)


def values_of(count: int, size: int = 50) -> Sequence[NewRecord]:
    return [(None, bytes([number]) * size, (), 0, None) for number in range(count)]


@pytest.mark.rule("accumulator.split.order", "accumulator.split.size", "batch.split.deliveries")
@given(records, st.integers(min_value=0, max_value=5_000))
def test_all_records_are_in_the_parts_in_order(rows: list[NewRecord], target: int) -> None:
    batch, sealer = sealed_batch(rows)
    deliveries = [Delivery(batch, index) for index in range(batch.count)]

    parts, most = split(batch, sealer, target=target)
    assert batch.forward_to(Forwarded.in_order(parts))

    contents = []
    base = 100
    for part in parts:
        part.sealed = sealer.seal(part, 1)
        assert part.sealed.plain_size <= most or part.count == 1
        contents += [(r.key, r.value, r.headers, r.timestamp_ms) for r in sealer.records(part)]
        part.complete_and_call_back(Acknowledged(base_offset=base))
        base += part.count
    assert contents == [row[:4] for row in rows]
    assert [delivery.result().offset for delivery in deliveries] == list(range(100, 100 + len(rows)))
    assert [delivery.result().timestamp_ms for delivery in deliveries] == [row[3] for row in rows]
    assert most <= target


def test_the_parts_have_the_waits_and_times_of_the_batch() -> None:
    batch, sealer = sealed_batch(list(values_of(4)))
    batch.waited = (0.5, 0.25)

    parts, _most = split(batch, sealer, target=60)

    assert len(parts) > 1
    for part in parts:
        assert part.waited == (0.5, 0.25)
        assert part.times(3.0) == batch.times(3.0)


@pytest.mark.rule("accumulator.split.size")
@pytest.mark.parametrize("compressor", [None, ottla_compressor()], ids=["none", "gzip"])
def test_a_batch_below_its_target_is_halved_by_uncompressed_size(compressor: Compressor | None) -> None:
    batch, sealer = sealed_batch(values_of(100), compressor)
    assert batch.sealed is not None

    parts, most = split(batch, sealer, target=1_000_000)

    assert most == batch.sealed.plain_size // 2
    assert 2 <= len(parts) <= 4
    assert sum(part.count for part in parts) == 100


def test_a_large_batch_is_reduced_to_its_target_at_once() -> None:
    batch, sealer = sealed_batch(values_of(100))

    parts, most = split(batch, sealer, target=500)

    assert most == 500
    assert {part.count for part in parts[:-1]} == {6}


@pytest.mark.parametrize("large", ["key", "value", "header"])
def test_no_part_is_larger_than_the_limit_whatever_makes_it_large(large: str) -> None:
    many = bytes(200)
    row: NewRecord = {
        "key": (many, None, (), 0, None),
        "value": (None, many, (), 0, None),
        "header": (None, None, (("h", many),), 0, None),
    }[large]
    batch, sealer = sealed_batch([row] * 20)

    parts, most = split(batch, sealer, target=1_000)

    assert most == 1_000
    assert max(part.columns.size_estimate() for part in parts) <= most


def test_two_records_become_two_parts() -> None:
    batch, sealer = sealed_batch(values_of(2))

    parts, _most = split(batch, sealer)

    assert [part.count for part in parts] == [1, 1]


def test_a_part_has_the_age_of_its_batch_and_is_ready() -> None:
    batch, sealer = sealed_batch(values_of(2))
    batch.last_error = DeliveryError("too large", topic="t", partition=3, attempts=1, possibly_persisted=False)

    parts, _most = split(batch, sealer)

    for part in parts:
        assert (part.topic, part.partition, part.created_at) == ("t", 3, 0.0)
        assert (part.retry_at, part.closed) == (2.0, True)
        assert (part.last_node, part.last_error) == (1, batch.last_error)


@pytest.mark.rule("sender.split.attempt")
def test_the_attempt_that_was_too_large_does_not_count() -> None:
    batch, sealer = sealed_batch(values_of(2))
    batch.mark_sent(1, 2.0)
    assert batch.attempts == 2

    parts, _most = split(batch, sealer)

    assert [part.attempts for part in parts] == [1, 1]


@pytest.mark.rule("batch.possibly")
def test_a_part_of_a_batch_with_a_response_is_not_possibly_persisted() -> None:
    batch, sealer = sealed_batch(values_of(2))

    parts, _most = split(batch, sealer)

    assert [part.possibly_persisted for part in parts] == [False, False]


@pytest.mark.rule("accumulator.drain.closed")
def test_a_part_takes_no_more_records() -> None:
    parts, _most = split(*sealed_batch(values_of(2)))

    assert [part.append(None, b"late", (), 0, None) for part in parts] == [None, None]


# Deliveries


def split_in_two() -> tuple[ProducerBatch, list[ProducerBatch], list[Delivery]]:
    batch, sealer = sealed_batch(values_of(4))
    deliveries = [Delivery(batch, index) for index in range(4)]
    parts, _most = split(batch, sealer)
    assert len(parts) == 4
    return batch, list(parts), deliveries


@pytest.mark.rule("batch.split.deliveries")
def test_a_thread_that_waits_for_a_record_waits_for_its_part() -> None:
    batch, parts, deliveries = split_in_two()
    found: list[int] = []
    waiters = [
        threading.Thread(target=lambda each=each: found.append(each.result(HANG_GUARD).offset)) for each in deliveries
    ]
    for waiter in waiters:
        waiter.start()
    batch.forward_to(Forwarded.in_order(parts))
    assert not any(delivery.done() for delivery in deliveries)

    for offset, part in enumerate(parts):
        part.complete_and_call_back(Acknowledged(base_offset=offset))
    for waiter in waiters:
        waiter.join(HANG_GUARD)

    assert sorted(found) == [0, 1, 2, 3]


@pytest.mark.rule("batch.split.deliveries", "producer.callback.order")
def test_callbacks_before_and_after_the_split_run_once_in_order() -> None:
    reported: list[tuple[str, int]] = []

    def note(name: str, delivery: Delivery) -> None:
        assert delivery.metadata is not None
        reported.append((name, delivery.metadata.offset))

    rows: list[NewRecord] = [
        (None, bytes(50), (), 0, lambda delivery, name=f"sent {number}": note(name, delivery))  # type: ignore[misc]  # the default binds it
        for number in range(3)
    ]
    batch, sealer = sealed_batch(rows)
    parts, _most = split(batch, sealer)
    batch.forward_to(Forwarded.in_order(parts))
    batch.call_when_complete(1, lambda delivery: note("added 1", delivery))
    for offset, part in enumerate(parts):
        part.complete_and_call_back(Acknowledged(base_offset=offset))
    batch.call_when_complete(2, lambda delivery: note("late 2", delivery))

    assert reported == [("sent 0", 0), ("sent 1", 1), ("added 1", 1), ("sent 2", 2), ("late 2", 2)]


@pytest.mark.rule("batch.split.deliveries")
def test_each_part_has_its_own_outcome() -> None:
    batch, parts, deliveries = split_in_two()
    batch.forward_to(Forwarded.in_order(parts))
    error = DeliveryError("expired", topic="t", partition=3, attempts=1, possibly_persisted=False)
    parts[1].complete_and_call_back(Failed(error=error))
    parts[3].complete_and_call_back(Acknowledged(base_offset=7))

    assert [delivery.done() for delivery in deliveries] == [False, True, False, True]
    assert error_copies.same(deliveries[1].exception(), error)
    assert deliveries[3].result().offset == 7
    assert (unretrieved_errors(parts[1]), unretrieved_errors(parts[3])) == (
        0,
        1,
    )  # the look counts where the record is


@pytest.mark.rule("batch.split.deliveries")
def test_a_part_that_is_split_again_forwards_its_records() -> None:
    batch, sealer = sealed_batch(values_of(8))
    deliveries = [Delivery(batch, index) for index in range(8)]
    batch.forward_to(Forwarded.in_order(split(batch, sealer, target=200)[0]))
    assert isinstance(batch.outcome, Forwarded)
    base = 0
    for part in batch.outcome.parts:
        part.sealed = sealer.seal(part, 1)
        finest, _most = split(part, sealer, target=1)
        part.forward_to(Forwarded.in_order(finest))
        for each in finest:
            each.complete_and_call_back(Acknowledged(base_offset=base))
            base += 1

    assert [delivery.result().offset for delivery in deliveries] == list(range(8))
    assert repr(deliveries[5]) == "<Delivery for topic 't', partition 3: at offset 5>"


@pytest.mark.rule("batch.once")
def test_a_completed_batch_is_not_split() -> None:
    batch, parts, deliveries = split_in_two()
    batch.complete_and_call_back(Acknowledged(base_offset=5))

    assert not batch.forward_to(Forwarded.in_order(parts))
    assert deliveries[0].result().offset == 5


@pytest.mark.rule("batch.once")
def test_a_batch_that_was_split_gets_no_other_outcome() -> None:
    batch, parts, deliveries = split_in_two()
    assert batch.forward_to(Forwarded.in_order(parts))

    assert not batch.complete_and_call_back(Acknowledged(base_offset=5))
    assert not deliveries[0].done()


OF_EACH_PART = {
    "_columns",
    "append",
    "behind_until",
    "closed",
    "closed_by",
    "completed_at",
    "created_at",
    "full",
    "held_bytes",
    "held_since",
    "in_flight",
    "overhead",
    "queued_bytes",
    "retry_at",
    "sequence",
    "wanted_node",
}
"""Attributes of a batch that its parts do not take over: a new one belongs here, or into `ProducerBatch.inherit`."""


def test_a_part_inherits_each_attribute_that_is_not_its_own() -> None:
    whole = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    part = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    inherited = set(ProducerBatch.__slots__) - OF_EACH_PART
    for name in inherited:
        setattr(whole, name, [name])

    part.inherit(whole)

    assert {name: getattr(part, name) for name in inherited} == {name: [name] for name in inherited}
