"""The partitioner for `partitioner.class=hash-ring`."""

from ottla_partitioner_hash_ring.plugin import HashRingPartitioner

__all__ = ["HashRingPartitioner"]
