"""librdkafka's `consistent`: the CRC-32 of the key; all records without a key go to one partition."""

from __future__ import annotations

from zlib import crc32

from ottla.hookspecs import hookimpl
from ottla.interfaces import Partitioner
from ottla.plugins.partitioners.hashed_keys import HashedKeys


@hookimpl
def ottla_partitioner() -> Partitioner:
    return HashedKeys(crc32)
