"""librdkafka's `fnv1a`: the FNV-1a hash of the key; all records without a key go to one partition."""

from __future__ import annotations

from ottla.hookspecs import hookimpl
from ottla.interfaces import Partitioner
from ottla.plugins.partitioners.hashed_keys import HashedKeys, fnv1a


@hookimpl
def ottla_partitioner() -> Partitioner:
    return HashedKeys(fnv1a)
