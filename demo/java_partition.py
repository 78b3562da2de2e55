"""The partition of a key in Java's producer: 32-bit MurmurHash2 of its bytes, sign bit off, modulo the partitions.

Written from the algorithm's description and not from Ottla's own, so that one can check the other.
"""

from __future__ import annotations

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF


def java_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with this number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned number."""
    digest = (SEED ^ len(data)) & MASK
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        digest = digest * MULTIPLIER & MASK ^ word
    if data[whole:]:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & MASK
    digest = (digest ^ digest >> 13) * MULTIPLIER & MASK
    return digest ^ digest >> 15
