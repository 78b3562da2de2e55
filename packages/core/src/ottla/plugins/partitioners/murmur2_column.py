"""murmur2 of many keys in one call, without a loop over them: arithmetic on very large integers.

Keys of one size are laid side by side. Two integers, one for the even and one for the odd keys, have a lane of 64 bits
for each key's hash. A product of two 32-bit numbers stays within its lane. So one multiplication of such an integer
replaces one for each of half of the keys.

Nanoseconds per key of 16 bytes, CPython 3.11: 440 for 16 keys, 135 for 512, 120 for 4096; one after the other takes
1300.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from itertools import chain
from typing import Final

from ottla.plugins.partitioners.murmur2_hash import MULTIPLIER, SEED, murmur2

_LANE: Final = 64
_WORD: Final = 0xFFFFFFFF
_FEW: Final = 12
"""The number of keys up to which a loop is as fast."""
_MANY: Final = 2048
"""Maximum number of keys at once: more do not save time, and the masks for each number of lanes are cached."""


def murmur2_column(keys: Sequence[bytes]) -> Sequence[int]:
    """The hashes of all keys, in their order, as unsigned 32-bit numbers."""
    if len(keys) > _MANY:
        parts = (murmur2_column(keys[start : start + _MANY]) for start in range(0, len(keys), _MANY))
        return list(chain.from_iterable(parts))
    if len(keys) <= _FEW or sys.byteorder == "big":
        return [murmur2(key) for key in keys]
    sizes = set(map(len, keys))
    return _hash_of_one_size(keys, sizes.pop()) if len(sizes) == 1 else _hash_of_sizes(keys)


def _hash_of_sizes(keys: Sequence[bytes]) -> Sequence[int]:
    by_size: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        by_size.setdefault(len(key), []).append(index)
    hashes = [0] * len(keys)
    for size, indexes in by_size.items():
        same = [keys[index] for index in indexes]
        found = _hash_of_one_size(same, size) if len(same) > _FEW else map(murmur2, same)
        for index, hashed in zip(indexes, found, strict=True):
            hashes[index] = hashed
    return hashes


def _hash_of_one_size(keys: Sequence[bytes], size: int) -> Sequence[int]:
    count = len(keys)
    lanes = (count + 1) // 2
    ones, low, bits_8, bits_17, bits_19 = _masks(lanes)
    even = odd = ones * (SEED ^ size)  # lanes of keys 0, 2, 4 ... and of keys 1, 3, 5 ...
    whole = size >> 2
    for position, column in enumerate(_columns(keys, size)):
        word_even, word_odd = column & low, column >> 32 & low
        if position < whole:
            word_even = word_even * MULTIPLIER & low
            word_even = (word_even ^ word_even >> 24 & bits_8) * MULTIPLIER & low
            word_odd = word_odd * MULTIPLIER & low
            word_odd = (word_odd ^ word_odd >> 24 & bits_8) * MULTIPLIER & low
            even = even * MULTIPLIER & low ^ word_even
            odd = odd * MULTIPLIER & low ^ word_odd
        else:  # one to three bytes at the end
            even = (even ^ word_even) * MULTIPLIER & low
            odd = (odd ^ word_odd) * MULTIPLIER & low
    even = (even ^ even >> 13 & bits_19) * MULTIPLIER & low
    odd = (odd ^ odd >> 13 & bits_19) * MULTIPLIER & low
    even ^= even >> 15 & bits_17
    odd ^= odd >> 15 & bits_17
    packed = (even | odd << 32).to_bytes(lanes * _LANE // 8, "little")
    return memoryview(packed).cast("I").tolist()[:count]


def _columns(keys: Sequence[bytes], size: int) -> Sequence[int]:
    """The first words of all keys, the second ones ..., each as one little-endian integer of 32 bits for each key."""
    words = (size + 3) // 4
    if not words:
        return ()
    padding = bytes(words * 4 - size)
    joined = padding.join(keys) + padding
    if words == 1:
        return (int.from_bytes(joined, "little"),)
    view = memoryview(joined).cast("I")
    return [int.from_bytes(view[position::words].tobytes(), "little") for position in range(words)]


@functools.lru_cache(maxsize=64)
def _masks(lanes: int) -> tuple[int, int, int, int, int]:
    """1, 32 bits, 8 bits, 17 bits and 19 bits in each lane."""
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * lanes, "little")
    return ones, ones * _WORD, ones * 0xFF, ones * 0x1FFFF, ones * 0x7FFFF
