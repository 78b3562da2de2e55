"""The marker: the number of the last batch that is in Kafka, committed in the same transaction as its records.

It is a committed offset of a consumer group that has no consumers. This module decides what the marker means for the
batch that Spark requests; it sends no requests.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Self

import attrs

from ottla.errors import InvalidRecordError, quoted
from ottla.transactions import OffsetAndMetadata
from ottla_spark.atomic.errors import BatchRefusedError


@attrs.frozen(kw_only=True)
class Marker:
    """A marker: this batch of this query, and all batches before it, are in Kafka.

    `rows` counts the rows of the batch. It is None in a marker of an earlier version.
    """

    query: str
    batch: int
    rows: int | None = attrs.field(default=None, eq=False)

    def to_offset(self) -> OffsetAndMetadata:
        """Return the marker as a consumer group's committed offset with metadata."""
        fields: dict[str, str | int] = {"query": self.query, "batch": self.batch}
        if self.rows is not None:
            fields["rows"] = self.rows
        return OffsetAndMetadata(self.batch + 1, json.dumps(fields))

    @classmethod
    def from_offset(cls, found: OffsetAndMetadata) -> Self:
        """Parse the result of `to_offset`. Raises InvalidRecordError for any other offset, such as a consumer's."""
        try:
            fields = json.loads(found.metadata)
            marker = cls(query=fields["query"], batch=fields["batch"], rows=fields.get("rows"))
        # A kilobyte of brackets is enough for a RecursionError.
        except (ValueError, TypeError, KeyError, RecursionError) as cause:
            raise InvalidRecordError(
                f"the offset {found.offset} with metadata {found.metadata!r} is not a marker"
            ) from cause
        types = type(marker.query), type(marker.batch), type(marker.rows)
        if types not in ((str, int, int), (str, int, type(None))) or marker.batch + 1 != found.offset:
            raise InvalidRecordError(
                f"the offset {found.offset} and its metadata {found.metadata!r} are not those of one batch"
            )
        return marker


class BatchAction(enum.Enum):
    """The driver's next step for a batch."""

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
            "two queries, or a query with a new checkpoint, use one transactional id; give each query its own id"
        )
    last = -1 if found is None else found.batch
    if last == asked.batch:
        return BatchAction.SKIP
    if last == asked.batch - 1 or (last < asked.batch and begins_with == asked.batch):
        return BatchAction.WRITE
    if last > asked.batch:
        raise BatchRefusedError(
            f"Spark requests batch {asked.batch}, but Kafka already has batch {last} according to {where}: the "
            "checkpoint is older than the last commit to Kafka, perhaps because it was restored from a backup; use the "
            "newest checkpoint, or a new checkpoint with a new transactional id"
        )
    raise BatchRefusedError(_gap(last, asked.batch, where=where))


def with_other_topics(refused: BatchRefusedError, others: Mapping[str, Marker], asked: Marker) -> BatchRefusedError:
    """Return the refusal of a missing marker with what the group's markers for *others*, by topic, say about it."""
    mine = [(marker.batch, topic) for topic, marker in others.items() if marker.query == asked.query]
    if not mine:
        return refused
    batch, topic = max(mine)
    said = f"This query's marker for topic {quoted(topic)} is of batch {batch}, so its topic was changed"
    if batch >= asked.batch:
        said += f": start it with that topic until batch {batch} is over"
    elif batch == asked.batch - 1:
        said += f", and begins_with={asked.batch} skips and repeats nothing"
    return BatchRefusedError(f"{refused}. {said}")


def _gap(last: int, asked: int, *, where: str) -> str:
    """Return the text about a marker that is more than one batch behind, or missing where *last* is -1."""
    between = f"batch {asked - 1}" if last == asked - 2 else f"batches {last + 1} to {asked - 1}"
    if last < 0:
        found = "there is no marker"
        causes = (
            "another sink wrote them, the query had another topic, or another first one of topics, before, the marker "
            "expired (offsets.retention.minutes), or its topic or group is gone"
        )
    else:
        found = f"the marker is of batch {last}"
        causes = "another sink wrote them, or the cluster has lost its newest data, and their rows with it"
    return (
        f"Spark requests batch {asked}, but {found} in {where}: the function of foreachBatch returned without calling "
        f"the sink for {between} (call it for every batch, also for an empty frame), {causes}; find out whether batch "
        f"{asked} is in Kafka, and set begins_with={asked} if it is not"
    )


def check_rows(found: Marker, rows: int, *, where: str) -> None:
    """Raise BatchRefusedError if Spark has another number of rows for the batch that is in Kafka.

    With a checkpoint that is older by one batch, Spark plans the number of the last batch again, and adds the rows that
    have arrived since: skipped without a check, these would be lost.
    """
    if found.rows is None or found.rows == rows:
        return
    raise BatchRefusedError(
        f"batch {found.batch} is in Kafka with {found.rows} rows according to {where}, but Spark now has {rows} rows "
        "for it. If the checkpoint is older than Kafka by one batch, Spark planned this batch again: use the newest "
        "checkpoint. If the query was changed, joins a table that was changed, or filters by chance, its rows may "
        "differ. Once you know which rows are missing in Kafka and have written them by hand, or if none are, set "
        f"skips={found.batch} to let the query continue after this batch"
    )
