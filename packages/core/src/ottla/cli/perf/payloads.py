"""The values that are sent: random capital letters, or the lines of a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

_POOL: Final = 8 * 1024 * 1024
"""Bytes from which values are cut: more than a compressor looks back, so that repetitions gain nothing."""

_LETTERS: Final = bytes(ord("A") + number % 26 for number in range(256))


def random_letters(size: int, *, seed: int = 0) -> Iterator[bytes]:
    """Values of *size* bytes without end, as compressible as those of Kafka's own tool; the same ones each time."""
    pool = Random(seed).randbytes(max(_POOL, 2 * size)).translate(_LETTERS)
    step = max(size, 1)
    while True:
        for start in range(0, len(pool) - size + 1, step):
            yield pool[start : start + size]


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, again and again, without their ends. Raises ValueError if it has none."""
    lines = path.read_bytes().splitlines()
    if not lines:
        raise ValueError(f"{path} has no lines")
    return itertools.cycle(lines)
