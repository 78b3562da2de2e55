"""The topics of a batch's rows in its ledger entry: a batch is skipped only if its rows went where they would go now.

Without them, a copy of a checkpoint with another topic would skip batches that the topic never got.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from ottla.errors import quoted
from ottla_spark.exactly_once.errors import LedgerMismatchError

MAX_NAMED: Final = 20
"""Topics that an entry names. A digest stands for more of them, so that an entry does not grow with its topics."""

_DIGEST: Final = "sha256:"  # no topic name has a colon


def recorded_topics(topics: Collection[str]) -> tuple[str, ...]:
    """Return the topics for a ledger entry: their names in order, or a digest of them if there are many."""
    names = tuple(sorted(set(topics)))
    if len(names) <= MAX_NAMED:
        return names
    lines = "\n".join(names).encode("utf-8", "surrogatepass")
    return (_DIGEST + hashlib.sha256(lines).hexdigest(),)


def named_topics(topics: Sequence[str]) -> str:
    """Return topics that `recorded_topics` returned, for a message."""
    if any(each.startswith(_DIGEST) for each in topics):
        return f"more than {MAX_NAMED} topics"
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(map(quoted, topics))}"


def check_topics(now: Collection[str], before: Sequence[str] | None, *, batch: int, name: str) -> None:
    """Raise LedgerMismatchError if the rows of a batch that is in Kafka have other topics now.

    *before* is None if its entry does not say where they are. A batch without rows has no topics.
    """
    topics = recorded_topics(now)
    if not before or not topics or topics == tuple(before):
        return
    raise LedgerMismatchError(
        f"batch {batch} of {name!r} is in Kafka, in {named_topics(before)}, but now its rows would go to "
        f"{named_topics(topics)}, where they are missing. If this query has a copy of another query's checkpoint, give "
        "it a transactional.id.prefix of its own. If you have changed its topic, start it with the earlier one until "
        "this batch is over; or, if the rows of this batch may stay where they are, call "
        "ottla_spark.exactly_once.accept_other_rows to let the query continue after this batch"
    )
