"""Errors of failed records: the cause, the partition, the attempts, and whether the broker may hold the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ottla.accumulator.batch import ProducerBatch
from ottla.errors import (
    DeliveryError,
    DeliveryTimeoutError,
    OttlaError,
    TransactionAbortedError,
    counted,
)

E = TypeVar("E", bound=DeliveryError)


def delivery_failed(batch: ProducerBatch, cause: Exception, now: float, *, why: str | None = None) -> DeliveryError:
    """The error of a batch that fails for a reason other than time; *why* replaces the text of its *cause*."""
    return _failed(DeliveryError, batch, f"not delivered: {why or cause}", cause, now)


def dropped(batch: ProducerBatch, cause: OttlaError, now: float) -> TransactionAbortedError:
    """The error of a batch whose transaction cannot be committed."""
    return _failed(TransactionAbortedError, batch, f"dropped: {cause}", cause, now)


def expired(batch: ProducerBatch, now: float) -> DeliveryTimeoutError:
    """The error of a batch whose `delivery.timeout.ms` has passed."""
    seconds = f"{now - batch.created_at:.3f} s after the batch was opened"
    what = f"not delivered within delivery.timeout.ms: {seconds}"
    return _failed(DeliveryTimeoutError, batch, what, batch.last_error, now)


def refused_records(batch: ProducerBatch, reasons: Mapping[int, str]) -> Mapping[int, DeliveryError]:
    """Errors of the records that the broker names, by index; the others failed because of these (KIP-467)."""
    refused = f"the broker refused the record for {batch}: "
    return {index: _error(DeliveryError, batch, refused + reason) for index, reason in reasons.items()}


def _failed(kind: type[E], batch: ProducerBatch, what: str, cause: Exception | None, now: float) -> E:
    """The error of all records of a batch, with the batch's story; *what* says what happened to the records."""
    records = counted(batch.count, "record")
    # One error stands for all of them, and its reader may have sent only one: so the text names the batch.
    subject = records if batch.count == 1 else f"a batch of {records}"
    error = _error(kind, batch, f"{subject} for {batch} was {what}{_history(batch, now)}")
    error.__cause__ = cause
    error.story = batch.story(failing_at=now)
    return error


def _error(kind: type[E], batch: ProducerBatch, text: str) -> E:
    return kind(
        text,
        topic=batch.topic,
        partition=batch.partition,
        attempts=batch.attempts,
        possibly_persisted=batch.possibly_persisted,
    )


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
