"""The attempts to send a batch, and what closed it."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

KEPT: Final = 8
"""The attempts that are kept at each end of the list: the first ones, and the last ones."""


class CloseReason(enum.StrEnum):
    """What ended the time in which a batch took records."""

    FULL = "it was full"
    LINGER = "its linger time had ended"
    FLUSH = "a flush"
    TRANSACTION = "its transaction ended"
    CLOSE = "the producer closed"
    MEMORY = "send needed memory"
    REQUEST = "there was room in the request of another batch"
    TABLE = "it is a batch of a table"
    SPLIT = "it is a part of a batch that was too large"


class Try(NamedTuple):
    """One request with the batch: its broker, when it was sent and answered (None if not yet), and the response.

    Times are those of the producer's clock; `RecordStory.queued_at` is the same clock.
    """

    number: int
    node: int
    sent_at: float
    answered_at: float | None
    response: str


def keep(tries: list[Try], another: Try) -> None:
    """Add an attempt, and drop one from the middle if there are too many."""
    tries.append(another)
    if len(tries) > 2 * KEPT:
        del tries[KEPT]
