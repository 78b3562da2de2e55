"""A consumer of one simulated partition that reads committed records, each as soon as it can be read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from ottla.recordbatch.parse import Record
from ottla_testkit.simulation.partition_log import LoggedBatch, Marker
from ottla_testkit.simulation.topics import SimulatedTopic


@attrs.define(eq=False)
class _Read:
    """A record below the high watermark, and its transaction's producer id, None once that is decided."""

    record: Record
    offset: int
    undecided: int | None
    aborted: bool = False


@attrs.define(eq=False)
class CommittedReader:
    """Reads one partition with `isolation.level=read_committed`: nothing behind the first open transaction.

    It reads what all replicas in sync have, so it needs no leader. What is deleted before it can be read is skipped.
    """

    topic: SimulatedTopic
    partition: int
    _entries: int = 0
    _records: int = 0
    _waiting: deque[_Read] = attrs.field(factory=deque)

    def poll(self) -> Sequence[Record]:
        """Return the records that can be read since the last call, in their order."""
        log = self.topic.log_of(self.partition)
        end = self.topic.watermark(self.partition)
        for entry in log.entries[self._entries : end]:
            if isinstance(entry, Marker):
                self._decide(entry)
            else:
                self._take(entry)
        self._entries = max(self._entries, end)
        found: list[Record] = []
        while self._waiting and self._waiting[0].undecided is None:
            read = self._waiting.popleft()
            if not read.aborted and read.offset >= log.start:
                found.append(read.record)
        return found

    @property
    def waits_for(self) -> int | None:
        """The producer id of the first open transaction; None if there is none."""
        return self._waiting[0].undecided if self._waiting else None

    def _take(self, entry: LoggedBatch) -> None:
        producer_id = entry.batch.producer_id if entry.batch.transactional else None
        self._waiting.extend(
            _Read(record, offset, producer_id) for offset, record in enumerate(entry.batch.records, self._records)
        )
        self._records += len(entry.batch.records)

    def _decide(self, marker: Marker) -> None:
        for read in self._waiting:
            if read.undecided == marker.producer_id:
                read.undecided, read.aborted = None, not marker.committed
