"""Errors of failed records: the cause, the partition, the attempts, and whether the broker may hold the records."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import (
    DeliveryError,
    DeliveryTimeoutError,
    OttlaError,
    TransactionAbortedError,
    counted,
    printable,
    were,
)


def delivery_failed(batch: ProducerBatch, cause: Exception, now: float, *, why: str | None = None) -> DeliveryError:
    """The error of a batch that fails for a reason other than time; *why* replaces the text of its *cause*."""
    error = DeliveryError(
        f"{_records(batch)} not delivered: {why or cause}" + _history(batch, now),
        topic=batch.topic,
        partition=batch.partition,
        attempts=batch.attempts,
        possibly_persisted=batch.possibly_persisted,
    )
    error.__cause__ = cause
    error.story = batch.story(failing_at=now)
    return error


def dropped(batch: ProducerBatch, cause: OttlaError, now: float) -> TransactionAbortedError:
    """The error of a batch whose transaction cannot be committed."""
    error = TransactionAbortedError(
        f"{_records(batch)} dropped: {cause}" + _history(batch, now),
        topic=batch.topic,
        partition=batch.partition,
        attempts=batch.attempts,
        possibly_persisted=batch.possibly_persisted,
    )
    error.__cause__ = cause
    error.story = batch.story(failing_at=now)
    return error


def expired(batch: ProducerBatch, now: float) -> DeliveryTimeoutError:
    """The error of a batch whose `delivery.timeout.ms` has passed."""
    error = DeliveryTimeoutError(
        f"{_records(batch)} not delivered within "
        f"delivery.timeout.ms: {now - batch.created_at:.3f} s after the batch was opened" + _history(batch, now),
        topic=batch.topic,
        partition=batch.partition,
        attempts=batch.attempts,
        possibly_persisted=batch.possibly_persisted,
    )
    error.__cause__ = batch.last_error
    error.story = batch.story(failing_at=now)
    return error


def _records(batch: ProducerBatch) -> str:
    return f"{counted(batch.count, 'record')} for {batch} {were(batch.count)}"


def _history(batch: ProducerBatch, now: float) -> str:
    queued, in_flight = batch.times(now)
    tries = counted(batch.attempts, "attempt") if batch.attempts else "never sent"
    spent = f", {queued:.3f} s in the queue"
    if batch.attempts:
        spent += f" and {in_flight:.3f} s in flight"
    last = f", last to broker {batch.last_node}" if batch.last_node is not None else ""
    why = f", last error: {batch.last_error}" if batch.last_error is not None else ""
    perhaps = "; the broker may have written them" if batch.possibly_persisted else ""
    return f" ({tries}{spent}{last}{why}){perhaps}"


def refused_records(batch: ProducerBatch, messages: Mapping[int, str | None]) -> Mapping[int, DeliveryError]:
    """Errors of the records that the broker names, by index; the others failed because of these (KIP-467)."""
    return {
        index: DeliveryError(
            f"the broker refused the record for {batch}: " + (printable(message or "") or "no reason given"),
            topic=batch.topic,
            partition=batch.partition,
            attempts=batch.attempts,
            possibly_persisted=batch.possibly_persisted,  # by an earlier attempt
        )
        for index, message in messages.items()
    }
