"""The story of a batch, made of the times that it has noted; each of its records has this story."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.results.stories import RecordStory
from ottla.results.stories.tries import CloseReason, Try
from ottla.results.stories.waits import NO_NOTES, Journal, Notes

if TYPE_CHECKING:
    from ottla.accumulator.batch import ProducerBatch


def story_of(batch: ProducerBatch, *, failing_at: float | None = None) -> RecordStory:
    """The story until now; *failing_at*: the batch is about to fail, at this time. For any thread."""
    notes, clock = _notes(batch)
    outcome = batch.outcome
    pending = outcome is None and failing_at is None
    waited = batch.waited or (0.0, 0.0)
    tries = _tries(batch)
    until = batch.completed_at or failing_at or (clock() if clock is not None else None)
    return RecordStory(
        topic=batch.topic,
        partition=batch.partition if batch.partition >= 0 else None,
        records=batch.count,
        outcome="acknowledged" if isinstance(outcome, Acknowledged) else "pending" if pending else "failed",
        pending=pending,
        queued_at=batch.created_at,
        until=max(batch.created_at, until or batch.sent_at or 0.0),
        closed_at=batch.created_at if batch.full and batch.closed_at is None else batch.closed_at,
        closed_by=CloseReason.FULL if batch.full and batch.closed_by is None else batch.closed_by,
        drained_at=batch.drained_at,
        sealed_at=batch.sealed_at if batch.drained_at is not None else None,
        tries=tries,
        attempts=batch.attempts,
        waited_for_topic=waited[0],
        waited_for_memory=waited[1],
        wanted_node=batch.wanted_node if batch.wanted_node is not None else batch.last_node,
        behind_until=batch.behind_until,
        held_since=batch.held_since,
        notes=notes,
    )


def _notes(batch: ProducerBatch) -> tuple[Notes, Callable[[], float] | None]:
    journal = batch.journal
    if isinstance(journal, Journal):
        return journal.notes, journal.clock
    return NO_NOTES if journal is None else journal, None


def _tries(batch: ProducerBatch) -> tuple[Try, ...]:
    earlier = tuple(batch.earlier_tries or ())
    if batch.sent_at is None:
        return earlier
    return (*earlier, batch.last_try(_answer(batch)))


def _answer(batch: ProducerBatch) -> str:
    """The answer to the last attempt."""
    match batch.outcome:
        case Acknowledged(base_offset=base):
            return f"acknowledged at offset {base}" if base >= 0 else "acknowledged"
        case Failed(error=error):
            return str(error.__cause__ or error)
        case _:
            return str(batch.last_error) if batch.last_error is not None else "no answer yet"
