"""The parts of a batch's story that are not times: the waits of its producer, and the answer to its last attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.accumulator.batch_outcome import Acknowledged, Failed, Outcome
from ottla.errors import OttlaError
from ottla.results.stories.waits import NO_NOTES, Journal, Notes


def notes_and_clock(journal: Journal | Notes | None) -> tuple[Notes, Callable[[], float] | None]:
    """The waits of a batch's producer, and its clock unless the batch is complete."""
    if isinstance(journal, Journal):
        return journal.notes, journal.clock
    return NO_NOTES if journal is None else journal, None


def answer(outcome: Outcome[Any] | None, last_error: OttlaError | None) -> str:
    """The answer to the last attempt of a batch."""
    match outcome:
        case Acknowledged(base_offset=base):
            return f"acknowledged at offset {base}" if base >= 0 else "acknowledged"
        case Failed(error=error):
            return str(error.__cause__ or error)
        case _:
            return str(last_error) if last_error is not None else "no answer yet"
