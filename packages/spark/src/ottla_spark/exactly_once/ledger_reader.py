"""The last entry of a name, read back from its partition of the ledger topic as a reader of committed records would.

A first read goes through what compaction has left; a later one of the same process goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from ottla.compressors.gzip import Gzip
from ottla.errors import ErrorCode, error_code
from ottla.protocol.messages.fetch import (
    FETCH,
    READ_COMMITTED,
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.stored import ControlMarker, Record, RecordBatch
from ottla.transactions.asking import Asking
from ottla_spark.exactly_once.ledger import Entry, Ledger
from ottla_spark.exactly_once.place import Place

COMPRESSORS: Final = {1: Gzip(-1)}

_FETCH_BYTES: Final = 4 * 1024 * 1024
_WAIT_MS: Final = 100
_FIRST_WITH_ISOLATION: Final = 4
_LAST_WITH_NAMES: Final = 12
_FIRST_WITH_ONE_OFFSET: Final = 1
_A_CLIENT: Final = -1


@attrs.define
class LedgerReader:
    """Reads one name's entries; `position` is what is read up to, `last` what was found until there."""

    name: str
    position: int = -1
    last: Entry | None = None

    def read(self, asked: Asking, place: Place) -> Ledger:
        """Go on to what is the end now. Waits for transactions of others in the same partition."""
        end = _offset(asked, place, LATEST)
        if self.position < 0 or self.position > end:  # never read; or the topic was made anew
            self.position, self.last = _offset(asked, place, EARLIEST), None
        while self.position < end:
            data = _fetch(asked, place, self.position)
            batches = list(parse_batches(data.records or b"", compressors=COMPRESSORS, partial_tail=True))
            for record in committed(batches, data.aborted_transactions or ()):
                if record.offset >= self.position and record.key == self.name.encode():
                    self.last = None if record.value is None else Entry.from_bytes(record.value)
            if batches:
                self.position = batches[-1].last_offset + 1
        return Ledger(last=self.last, end=end)


def committed(batches: Sequence[RecordBatch], aborted: Sequence[AbortedTransaction]) -> Iterator[Record]:
    """The records that a reader of committed ones sees, of what one Fetch brought."""
    coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_to_abort: set[int] = set()
    for batch in batches:
        while coming and coming[-1].first_offset <= batch.last_offset:
            open_to_abort.add(coming.pop().producer_id)
        if batch.control:
            if batch.marker is ControlMarker.ABORT:
                open_to_abort.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in open_to_abort):
            yield from batch.records


def _offset(asked: Asking, place: Place, which: int) -> int:
    request = ListOffsetsRequest(
        replica_id=_A_CLIENT,
        topics=[
            ListOffsetsTopic(
                name=place.topic, partitions=[ListOffsetsPartition(partition_index=place.partition, timestamp=which)]
            )
        ],
    )

    found, code = place.ask(
        asked,
        LIST_OFFSETS,
        lambda _version: request,
        of=lambda answer: answer.topics[0].partitions[0],
        floor=_FIRST_WITH_ONE_OFFSET,
    )
    if code is not ErrorCode.NONE:
        raise place.refused(code, "its ends cannot be found out", right="Read")
    offset: int = found.offset
    return offset


def _fetch(asked: Asking, place: Place, position: int) -> PartitionData:
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=READ_COMMITTED,
        topics=[
            FetchTopic(
                topic=place.topic,
                partitions=[
                    FetchPartition(partition=place.partition, fetch_offset=position, partition_max_bytes=_FETCH_BYTES)
                ],
            )
        ],
    )

    found, code = place.ask(
        asked, FETCH, lambda _version: request, of=_of, floor=_FIRST_WITH_ISOLATION, ceiling=_LAST_WITH_NAMES
    )
    if code is not ErrorCode.NONE:
        raise place.refused(code, "it cannot be read", right="Read")
    data: PartitionData = found
    return data


def _of(answer: FetchResponse) -> PartitionData:
    """The one partition that was asked for, or the error of the whole request in its place."""
    if error_code(answer.error_code) is not ErrorCode.NONE:
        return PartitionData(error_code=answer.error_code)
    return answer.responses[0].partitions[0]
