"""Records for the encoder's suite: ordinary ones and unusual ones."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from ottla.interfaces import Header

NOW: Final = 1_700_000_000_000


class Row(NamedTuple):
    """One record, with the arguments of `append`."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NOW


def drawn(chance: random.Random) -> list[Row]:
    """Return random records, ordinary and unusual."""
    sort = chance.randrange(4)
    if sort == 0:
        return [Row(None, _bytes(chance), (), NOW + number) for number in range(chance.randrange(1, 200))]
    if sort == 1:
        return [Row(_bytes(chance), _bytes(chance), (), _moment(chance, 9000)) for _ in range(chance.randrange(1, 100))]
    return [
        Row(_part(chance), _part(chance), _headers(chance), _moment(chance, chance.choice((70, 1 << 21, NOW))))
        for _ in range(chance.randrange(1, 30))
    ]


def _bytes(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(40))


def _part(chance: random.Random) -> bytes | None:
    size = chance.choice((-1, 0, 1, 7, 62, 63, 64, 200, 4090, 8191, 8192, 20_000))
    return None if size < 0 else chance.randbytes(size)


def _headers(chance: random.Random) -> tuple[Header, ...]:
    names = ("", "a", "trace-id", "\u00e9\u4e2d\U0001f600", "x" * 70)
    return tuple((chance.choice(names), _part(chance)) for _ in range(chance.choice((0, 0, 1, 3))))


def _moment(chance: random.Random, around: int) -> int:
    return NOW + chance.randrange(-around, around)


def size(part: bytes | None) -> int:
    """Return the size as facts report it: -1 for null."""
    return -1 if part is None else len(part)


def shown(row: Row) -> str:
    """Return the important parts of a record, for a message."""
    return (
        f"a key of {size(row.key)} bytes (-1: null), a value of {size(row.value)}, {len(row.headers)} headers, "
        f"timestamp {row.timestamp_ms}"
    )
