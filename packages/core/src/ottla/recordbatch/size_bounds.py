"""Maximum size of a record on the wire, by format: the upper bounds of Java's producer.

They are compared with `max.request.size` before a record is queued. So they include the header of a batch that has
only this record. They assume that compression saves nothing. For a compressed message of format v0 or v1, they include
the wrapper message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.interfaces import Header
from ottla.protocol.primitives import varint_size
from ottla.recordbatch.header_v2 import HEADER_SIZE
from ottla.recordbatch.message_sets import OVERHEADS

RECORD_OVERHEAD: Final = 21
"""In v2: length (5 bytes), attributes (1), timestamp delta (10), offset delta (5), each at its longest."""

_LOG_OVERHEAD: Final = 12
"""A message's offset and length; Java counts them once for wrapper and message together."""


def lone_record_bound(
    magic: int, *, key_size: int, value_size: int, headers: Sequence[Header] = (), compressed: bool = False
) -> int:
    """An upper bound of the bytes of a batch with only this record; sizes are -1 for null."""
    if magic == 2:
        return HEADER_SIZE + record_bound(key_size=key_size, value_size=value_size, headers=headers)
    message = OVERHEADS[magic] + max(key_size, 0) + max(value_size, 0)
    return message + (OVERHEADS[magic] - _LOG_OVERHEAD if compressed else 0)


def record_bound(*, key_size: int, value_size: int, headers: Sequence[Header] = ()) -> int:
    """An upper bound of the bytes of one record in format v2, without its batch; sizes are -1 for null."""
    size = RECORD_OVERHEAD + _sized(key_size) + _sized(value_size) + varint_size(len(headers))
    for name, content in headers:
        size += _sized(len(name.encode(errors="surrogatepass"))) + _sized(-1 if content is None else len(content))
    return size


def _sized(size: int) -> int:
    return varint_size(size) + max(size, 0)
