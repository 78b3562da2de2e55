"""What one run sends, and the settings that are the same for every peer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import attrs

T = TypeVar("T")

DISTINCT_VALUES: Final = 10_000
DISTINCT_KEYS: Final = 100_000
HEADERS: Final[list[tuple[str, Any]]] = [("trace", b"4bf92f3577b34da6"), ("source", b"bench")]


@attrs.frozen(kw_only=True)
class Workload:
    """So many records and how they are sent. Travels to a run's process as JSON."""

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
    authorities: str | None = None
    """With SSL: the file with the authorities that a broker's certificate may come from."""

    @property
    def librdkafka_security(self) -> dict[str, Any]:
        """How confluent-kafka's clients are told of the security."""
        return {"security.protocol": self.security, "ssl.ca.location": self.authorities or ""}

    @property
    def header_list(self) -> list[tuple[str, Any]] | None:
        """Every record's headers; None: it has none."""
        return HEADERS if self.headers else None

    def values(self, count: int) -> Sequence[bytes]:
        """Text that compresses about as well as JSON does; the same in every process."""
        words = [b"%08d" % number for number in random.Random(1).sample(range(10**8), 500)]
        pick = random.Random(2).choices
        count_of_words = self.value_size // 9 + 1
        pool = [b" ".join(pick(words, k=count_of_words))[: self.value_size] for _ in range(DISTINCT_VALUES)]
        return _repeated(pool, count)

    def keys(self, count: int) -> Sequence[bytes | None]:
        """So many keys in turn, or none."""
        pool = [b"key-%09d" % number for number in range(self.distinct_keys)] if self.keyed else [None]
        return _repeated(pool, count)


def _repeated(pool: Sequence[T], count: int) -> Sequence[T]:
    return (list(pool) * (count // len(pool) + 1))[:count]
