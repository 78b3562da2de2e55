"""Records and offsets that a mock producer has sent: without a transaction, in committed ones, and in the open one."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.transactions.offsets import OffsetsToSend
from ottla_testkit.mock_producer.sent_batches import SentRecord


class History:
    """Records and offsets in the order in which they were sent."""

    def __init__(self) -> None:
        self.records: list[SentRecord] = []
        self.offsets: list[OffsetsToSend] = []
        self.uncommitted_records: list[SentRecord] = []
        self.uncommitted_offsets: list[OffsetsToSend] = []

    def add(self, records: Iterable[SentRecord], *, transactional: bool) -> None:
        """Add records that were sent, to the open transaction or outside of transactions."""
        (self.uncommitted_records if transactional else self.records).extend(records)

    def commit(self) -> None:
        """Keep the records and offsets of the open transaction."""
        self.leave()
        self.offsets += self.uncommitted_offsets
        self.uncommitted_offsets.clear()

    def leave(self) -> None:
        """Keep the records of the open transaction, which another process will commit or abort."""
        self.records += self.uncommitted_records
        self.uncommitted_records.clear()

    def abort(self) -> None:
        """Drop the records and offsets of the open transaction."""
        self.uncommitted_records.clear()
        self.uncommitted_offsets.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.abort()
        self.records.clear()
        self.offsets.clear()
