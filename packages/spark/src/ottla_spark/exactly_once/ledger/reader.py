"""Reader of a ledger partition up to its current end: from the beginning at first, later from its last position.

It also reads records that are not committed: an open transaction of any other writer in the partition would block a
reader of committed records. Markers show which entries are committed. Entries of the lease have a marker as soon as the
next lease is taken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Final

import attrs

from ottla.errors import ErrorCode, TransactionError, error_code
from ottla.protocol.messages.fetch import (
    FETCH,
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
from ottla.transactions.admin.blocking_client import BlockingClient
from ottla_spark.exactly_once.ledger.batches import split
from ottla_spark.exactly_once.ledger.partition import LedgerPartition
from ottla_spark.exactly_once.ledger.scan import LedgerScan

_log = logging.getLogger(__name__)

_FETCH_BYTES: Final = 1024 * 1024
_WAIT_MS: Final = 100
_FIRST_WITH_ISOLATION: Final = 4
_LAST_WITH_NAMES: Final = 12
_FIRST_WITH_ONE_OFFSET: Final = 1
_A_CLIENT: Final = -1


@attrs.define
class LedgerReader:
    """Reads the entries of one name and keeps its position; `end` is where the partition ended at the last read."""

    name: str
    end: int = attrs.field(default=-1, init=False)
    _position: int = attrs.field(default=-1, init=False)
    _lease_ids: frozenset[int] | None = attrs.field(default=None, init=False)
    _scan: LedgerScan | None = attrs.field(default=None, init=False)

    @property
    def answered(self) -> bool:
        """Whether a read has found a committed entry of the name, or the committed deletion of one."""
        return self._scan is not None and self._scan.answered

    def read(
        self, client: BlockingClient, place: LedgerPartition, *, lease_ids: Collection[int] | None, timeout: float = 0.0
    ) -> LedgerScan:
        """Read up to the current end. If *lease_ids* is given, only entries of these producer ids count.

        Waits up to *timeout* seconds for the marker of an entry whose transaction is open.
        """
        self.end = _offset(client, place, LATEST)
        ids = None if lease_ids is None else frozenset(lease_ids)
        scan = self._scan
        # Compaction may remove a marker together with the entry that it ended, so an entry without one is read again.
        # If the end is before the position, the topic was created again or its newest records were lost.
        if scan is None or scan.has_open_entry or ids != self._lease_ids or self._position > self.end:
            scan = self._scan = LedgerScan(self.name, (lambda _id: True) if ids is None else ids.__contains__)
            self._position, self._lease_ids = _offset(client, place, EARLIEST), ids
        deadline = time.monotonic() + timeout
        while self._position < self.end or (scan.has_open_entry and time.monotonic() < deadline):
            before = self._position
            for batch in split(_fetch(client, place, before).records or b""):
                if batch.last_offset >= self._position:
                    scan.take(batch)
                    self._position = batch.last_offset + 1
            if self._position == before < self.end:
                self._check_end(client, place)
        self._report(scan, place)
        return scan

    def _check_end(self, client: BlockingClient, place: LedgerPartition) -> None:
        """Raise TransactionError if the partition ends earlier than before: what was to be read will never come."""
        end = _offset(client, place, LATEST)
        if end < self.end:
            raise TransactionError(
                f"partition {place.partition} of the ledger topic {place.topic!r} ended at offset {self.end}, and now "
                f"at {end}: while it was read, the topic was created again, or its newest records were lost. Start the "
                "query again"
            )

    def _report(self, scan: LedgerScan, place: LedgerPartition) -> None:
        count, first = scan.skipped.take()
        if count:
            _log.warning(
                "%d of the batches in partition %d of the ledger topic %r are not entries of %r and were skipped: %s",
                count,
                place.partition,
                place.topic,
                self.name,
                first,
            )


def _offset(client: BlockingClient, place: LedgerPartition, which: int) -> int:
    def request(_version: int) -> ListOffsetsRequest:
        partition = ListOffsetsPartition(
            partition_index=place.partition, current_leader_epoch=place.epoch, timestamp=which
        )
        return ListOffsetsRequest(
            replica_id=_A_CLIENT, topics=[ListOffsetsTopic(name=place.topic, partitions=[partition])]
        )

    found, code = place.ask(
        client,
        LIST_OFFSETS,
        request,
        of=lambda answer: answer.topics[0].partitions[0],
        floor=_FIRST_WITH_ONE_OFFSET,
    )
    if code is not ErrorCode.NONE:
        raise place.refused(code, "its first and last offsets cannot be read", right="Read")
    offset: int = found.offset
    return offset


def _fetch(client: BlockingClient, place: LedgerPartition, position: int) -> PartitionData:
    def request(_version: int) -> FetchRequest:
        partition = FetchPartition(
            partition=place.partition,
            current_leader_epoch=place.epoch,
            fetch_offset=position,
            partition_max_bytes=_FETCH_BYTES,
        )
        return FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            topics=[FetchTopic(topic=place.topic, partitions=[partition])],
        )

    found, code = place.ask(client, FETCH, request, of=_of, floor=_FIRST_WITH_ISOLATION, ceiling=_LAST_WITH_NAMES)
    if code is not ErrorCode.NONE:
        raise place.refused(code, "it cannot be read", right="Read")
    data: PartitionData = found
    return data


def _of(answer: FetchResponse) -> PartitionData:
    """Return the requested partition's data; if the whole request failed, data with only that error code."""
    if error_code(answer.error_code) is not ErrorCode.NONE:
        return PartitionData(error_code=answer.error_code)
    return answer.responses[0].partitions[0]
