"""Reading of batch headers, for parsers. `header_v2` has the layout, and writes headers."""

from __future__ import annotations

from typing import Final, Self

import attrs

from ottla.recordbatch.codecs import CODEC_MASK
from ottla.recordbatch.header_v2 import CHECKED, CHECKED_FROM, COUNTED_FROM, LENGTH_OFFSET, UNCHECKED, Attributes

# Plain numbers: an operation on a flag takes ten times as long.
_LOG_APPEND_TIME: Final = Attributes.LOG_APPEND_TIME.value
_TRANSACTIONAL: Final = Attributes.TRANSACTIONAL.value
_CONTROL: Final = Attributes.CONTROL.value


def announced_size(view: memoryview) -> int:
    """The size of the batch, or message of an older format, at the start of *view*, by its length field."""
    return COUNTED_FROM + int.from_bytes(view[LENGTH_OFFSET:COUNTED_FROM], "big", signed=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchHeader:
    """The fields of a header as they are: nothing about them is checked."""

    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int
    count: int

    @classmethod
    def read(cls, view: memoryview) -> Self:
        """Read the header at the start of *view*."""
        base_offset, _length, leader_epoch, _magic, crc = UNCHECKED.unpack_from(view)
        attributes, last_delta, first_timestamp, max_timestamp, producer_id, epoch, sequence, count = (
            CHECKED.unpack_from(view, CHECKED_FROM)
        )
        return cls(
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            crc=crc,
            attributes=attributes,
            last_offset_delta=last_delta,
            first_timestamp=first_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            epoch=epoch,
            sequence=sequence,
            count=count,
        )

    @property
    def codec_id(self) -> int:
        """The codec of the records section."""
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's time, `max_timestamp`, replaces the timestamps of the records."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether its records are the end of a transaction, and no data."""
        return bool(self.attributes & _CONTROL)
