"""The marker: the number of the last batch that is in Kafka, committed in the same transaction as its records.

It is a committed offset of a consumer group that has no consumers. This module decides what the marker means for the
batch that Spark requests; it sends no requests.
"""

from __future__ import annotations

import enum
import json
from typing import Self

import attrs

from ottla.errors import InvalidRecordError
from ottla.transactions import OffsetAndMetadata
from ottla_spark.atomic.errors import BatchRefusedError


@attrs.frozen(kw_only=True)
class Marker:
    """A marker: this batch of this query, and all batches before it, are in Kafka."""

    query: str
    batch: int

    def to_offset(self) -> OffsetAndMetadata:
        """Return the marker as a group's offset with metadata."""
        return OffsetAndMetadata(self.batch + 1, json.dumps({"query": self.query, "batch": self.batch}))

    @classmethod
    def from_offset(cls, found: OffsetAndMetadata) -> Self:
        """Parse the result of `to_offset`. Raises InvalidRecordError for others, such as a real consumer's offset."""
        try:
            fields = json.loads(found.metadata)
            marker = cls(query=fields["query"], batch=fields["batch"])
        except (ValueError, TypeError, KeyError) as cause:
            raise InvalidRecordError(f"offset {found.offset} with the note {found.metadata!r} is no marker") from cause
        if type(marker.query) is not str or type(marker.batch) is not int or marker.batch + 1 != found.offset:
            raise InvalidRecordError(f"offset {found.offset} and its note {found.metadata!r} are not of one batch")
        return marker


class BatchAction(enum.Enum):
    """The action for a batch."""

    WRITE = "it is not in Kafka"
    SKIP = "it is in Kafka already"


def batch_action(found: Marker | None, asked: Marker, *, begins_with: int | None, where: str) -> BatchAction:
    """Return whether to write the batch that Spark requests. Raises BatchRefusedError when this cannot be decided.

    *begins_with* is the batch that the user declares to be missing in Kafka, although its predecessor's marker is
    missing.
    """
    if found is not None and found.query != asked.query:
        raise BatchRefusedError(
            f"{where} holds the marker of query {found.query} (batch {found.batch}), and this is query {asked.query}: "
            "two queries, or a new checkpoint, under one transactional id; give each query an id of its own"
        )
    last = -1 if found is None else found.batch
    if last == asked.batch:
        return BatchAction.SKIP
    if last == asked.batch - 1 or (last < asked.batch and begins_with == asked.batch):
        return BatchAction.WRITE
    if last > asked.batch:
        raise BatchRefusedError(
            f"Spark asks for batch {asked.batch}, and by {where} Kafka has batch {last} already: the checkpoint is "
            "older than what was written, restored from a copy perhaps; use the newest, or a new checkpoint and id"
        )
    missing = "there is no marker" if found is None else f"the marker is of batch {last}"
    raise BatchRefusedError(
        f"Spark asks for batch {asked.batch}, but {missing} in {where}: it expired (offsets.retention.minutes), its "
        "topic or group was deleted, or other batches were written without it; find out whether the batch is in "
        f"Kafka, and if it is not, continue with begins_with={asked.batch}"
    )
