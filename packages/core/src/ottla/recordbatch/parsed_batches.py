"""Parsed log content: batches of any format, and their records."""

from __future__ import annotations

import enum

import attrs

from ottla.interfaces import Header
from ottla.results.value_methods import ValueMethods


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Record(ValueMethods):
    """One record in the log; `timestamp_ms` is the broker's if the batch has LogAppendTime, -1 in v0."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class ControlMarker(enum.Enum):
    """The outcome of a transaction in a control batch."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecordBatch(ValueMethods):
    """One batch with its records; in formats v0 and v1, one message: a record, or a wrapper with some inside.

    After compaction it may have fewer records than offsets, or none. Fields that a format lacks are -1 or False.
    """

    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int = -1
    codec_id: int
    log_append_time: bool
    transactional: bool = False
    control: bool = False
    first_timestamp: int
    max_timestamp: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    size: int
    records: tuple[Record, ...]

    @property
    def marker(self) -> ControlMarker | None:
        """The outcome of the transaction, if this is a control batch of a known kind."""
        key = self.records[0].key if self.control and self.records else None
        if key is None or len(key) < 4 or key[:2] != b"\0\0":
            return None
        kind = int.from_bytes(key[2:4], "big", signed=True)
        return ControlMarker(kind) if kind in (0, 1) else None
