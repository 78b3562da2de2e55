"""Outcomes of batches, from what Produce responses say of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery_errors import delivery_failed, refused_records
from ottla.errors import BrokerError, ErrorCode, OttlaError, counted, were
from ottla.sender.produce_messages import PartitionRefusal

_REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_TIMESTAMP: (
        "; check the clock of this machine, or the timestamps that send was given: the topic's "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms limit their distance from the broker's time"
    )
}


def without_time_of_repeat(batch: ProducerBatch, response: Acknowledged) -> Acknowledged:
    """Return the acknowledgement of a batch that was sent before, without the time that says only that it was.

    For a batch that it holds already, a broker returns the batch's newest timestamp, under CreateTime, too.
    """
    time_ms = response.log_append_time_ms
    if time_ms < 0 or time_ms != max(batch.columns.facts().timestamps_ms):
        return response
    return Acknowledged(base_offset=response.base_offset)


def failed(
    batch: ProducerBatch,
    cause: OttlaError,
    now: float,
    *,
    why: str | None = None,
    response: PartitionRefusal | None = None,
) -> Failed:
    """The outcome of a batch that is not sent again. *response* may refuse some of its records by name."""
    reasons: Mapping[int, str] = {}
    if response is not None:
        code, remedy = response.code, _REMEDIES.get(response.code, "")
        reasons = {
            index: f"{BrokerError(code, text or None)}{remedy}" for index, text in response.record_errors.items()
        }
    named = refused_records(batch, reasons)
    if len(named) >= batch.count and why is None:
        why = next(iter(reasons.values()))
    elif named and why is None:
        others = f"{counted(len(named), 'other record')} of the batch {were(len(named))} refused"
        why = f"{cause}; {others}, and a batch is written as a whole or not at all"
    for each in named.values():
        each.__cause__ = cause
    return Failed(error=delivery_failed(batch, cause, now, why=why), record_errors=named)


def remedy_of(batch: ProducerBatch, response: PartitionRefusal, error: BrokerError) -> str | None:
    """Advice for a refusal, where the error code's own message has none."""
    if response.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT and batch.sequence is not None:
        return f"{error} That format has no sequence numbers: set enable.idempotence=false for such topics"
    remedy = _REMEDIES.get(response.code)
    return f"{str(error).rstrip('.')}{remedy}" if remedy is not None and not response.record_errors else None
