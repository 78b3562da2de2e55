"""Numbers about single records that also callers without an encoder need."""

from __future__ import annotations

from typing import Final

from ottla.recordbatch.header_v2 import HEADER_SIZE

TIMESTAMP_MAX: Final = 2**63 - 1

RECORD_OVERHEAD: Final = HEADER_SIZE + 21
"""Bytes that a record alone in its batch can take besides key, value and headers: batch header, lengths, deltas.

Its own deltas are 0, so that it needs less than other records of a batch.
"""

MAX_FRAME: Final = 31
"""Maximum bytes of a record besides its key, value and headers, without the number of headers.

Length 5, attributes 1, timestamp delta 10, offset delta 5, lengths of key and value 5 each.
"""

OBJECT_COST: Final = 176
"""Bytes of memory that a queued record takes besides its data: object headers, timestamp, entries in the columns."""
