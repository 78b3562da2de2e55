"""Counts and checksums of records in any order, and the differences of two of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
from flights_input import KeyAndValue
from flights_topic import Record
from java_partition import java_partition

DIGEST_BYTES: Final = 10


@attrs.define
class Tally:
    """Count and checksum of records. `checksum` is the sum of their hashes: a lost or changed record alters it."""

    records: int = 0
    without_key: int = 0
    size: int = 0
    checksum: int = 0
    keys: set[bytes] = attrs.Factory(set)

    def add(self, key: bytes | None, value: bytes) -> None:
        """Count one record."""
        self.records += 1
        self.size += len(value) + len(key or b"")
        if key is None:
            self.without_key += 1
        else:
            self.keys.add(key)
        # No tail number contains a zero byte, and none begins with one: a key and a missing key always differ.
        digest = hashlib.blake2b(b"\0\0" if key is None else key + b"\0", digest_size=DIGEST_BYTES)
        digest.update(value)
        self.checksum = (self.checksum + int.from_bytes(digest.digest(), "big")) % 2 ** (8 * DIGEST_BYTES)

    @property
    def checksum_text(self) -> str:
        return f"{self.checksum:0{2 * DIGEST_BYTES}x}"


@attrs.define
class ReadBack:
    """Tally of the records that were read, with the partitions of each key."""

    partitions: int
    tally: Tally = attrs.Factory(Tally)
    places: dict[bytes, set[int]] = attrs.Factory(dict)

    def add(self, record: Record) -> None:
        """Count one record."""
        self.tally.add(record.key, record.value)
        if record.key is not None:
            self.places.setdefault(record.key, set()).add(record.partition)

    def misplaced(self) -> Iterator[str]:
        """Yield a sentence for each key that is not in the one partition where Java's producer would put it."""
        for key, found in sorted(self.places.items()):
            wanted = java_partition(key, self.partitions)
            if found != {wanted}:
                yield f"key {key!r} is in partitions {sorted(found)}; Java would have put it into {wanted}"


def tally_of(records: Iterable[KeyAndValue]) -> Tally:
    """Return the tally of these records."""
    counter = Tally()
    for key, value in records:
        counter.add(key, value)
    return counter
