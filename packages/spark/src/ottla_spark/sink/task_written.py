"""The result of a task, which the commit gets. Its process imports this module without what tasks need to send rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from ottla_spark.data_source_api import WriterCommitMessage


@attrs.frozen(kw_only=True)
class TaskWritten(WriterCommitMessage):
    """Records that one task sent and brokers acknowledged; `bytes` counts keys and values.

    `partitions` counts the records by topic and partition. `refused` counts rows that could not be sent; if they became
    dead letters, these are among the records. Seconds: waiting for Spark's rows, making batches of them (waiting for
    free bytes in `buffer.memory` included), and waiting for the last acknowledgements. `since_first` is the time
    after its first rows had been sent.
    """

    records: int = 0
    bytes: int = 0
    partitions: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    refused: int = 0
    reading: float = 0.0
    sending: float = 0.0
    waiting: float = 0.0
    since_first: float = 0.0

    def to_values(self) -> dict[str, Any]:
        """Return the result as values that JSON can represent."""
        partitions = [[*place, count] for place, count in self.partitions.items()]
        return {**attrs.asdict(self, recurse=False), "partitions": partitions}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the result that `to_values` was called on."""
        partitions = {(topic, partition): count for topic, partition, count in values["partitions"]}
        return cls(**{**values, "partitions": partitions})
