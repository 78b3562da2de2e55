"""Workload of one run, and the settings that all peers share."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, Final, TypeVar, overload

import attrs

T = TypeVar("T")

DISTINCT_VALUES: Final = 10_000
DISTINCT_KEYS: Final = 100_000
HEADERS: Final[list[tuple[str, Any]]] = [("trace", b"4bf92f3577b34da6"), ("source", b"bench")]


class Repeated(Sequence[T]):
    """A few items repeated, so that ten million of them take no more memory than a thousand."""

    def __init__(self, pool: Sequence[T], count: int) -> None:
        self._pool = pool
        self._count = count

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        places = range(self._count)[index]
        if isinstance(places, int):
            return self._pool[places % len(self._pool)]
        return [self._pool[place % len(self._pool)] for place in places]

    def __iter__(self) -> Iterator[T]:
        return islice(cycle(self._pool), self._count)

    def __len__(self) -> int:
        return self._count


@attrs.frozen(kw_only=True)
class Workload:
    """Records and their settings. A run's process gets it as JSON."""

    records: int
    value_size: int
    partitions: int
    keyed: bool
    headers: bool
    callback: bool
    compression: str
    acks: str
    distinct_keys: int = DISTINCT_KEYS
    linger_ms: int = 5
    batch_size: int = 16_384
    max_in_flight: int = 5
    idempotent: bool = False
    security: str = "PLAINTEXT"
    buffer_mib: int | None = None
    """Memory that a producer may use for records; None: Ottla's default, no limit for confluent-kafka."""
    authorities: str | None = None
    """With SSL: the file with the authorities of the broker's certificate."""

    @property
    def librdkafka_security(self) -> dict[str, Any]:
        """Settings of confluent-kafka for the security protocol."""
        return {"security.protocol": self.security, "ssl.ca.location": self.authorities or ""}

    @property
    def header_list(self) -> list[tuple[str, Any]] | None:
        """Every record's headers, or None."""
        return HEADERS if self.headers else None

    def values(self, count: int) -> Sequence[bytes]:
        """Return text that compresses about as well as JSON; the same in every process."""
        words = [b"%08d" % number for number in random.Random(1).sample(range(10**8), 500)]
        pick = random.Random(2).choices
        count_of_words = self.value_size // 9 + 1
        pool = [b" ".join(pick(words, k=count_of_words))[: self.value_size] for _ in range(DISTINCT_VALUES)]
        return Repeated(pool, count)

    def keys(self, count: int) -> Sequence[bytes | None]:
        """Return the keys in turn, or None for each record."""
        pool = [b"key-%09d" % number for number in range(self.distinct_keys)] if self.keyed else [None]
        return Repeated(pool, count)
