"""murmur2 of an Arrow column of keys without a loop over them: each step is one call for a whole column of words.

Keys of several sizes are sorted by size. Then the keys that have an n-th word are at the end.

For 10,000 keys of 16 bytes on CPython 3.11 it takes 50 ns for each key. The large integers of `murmur2_column` take
235 ns, including the conversions from and to a column. For keys of 5 to 40 bytes it is 175 against 480 ns.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.plugins.partitioners.murmur2_hash import MULTIPLIER, SEED, murmur2
from ottla.protocol.binary_arrays import binary_array, number, numbers

_FEW: Final = 40
"""The number of keys up to which a loop is as fast."""


def _number(value: int) -> Any:
    return number(value, pa.uint32())


_MULTIPLIER, _SEED, _POSITIVE = map(_number, (MULTIPLIER, SEED, 0x7FFFFFFF))
_0, _2, _3, _13, _15, _24 = map(_number, (0, 2, 3, 13, 15, 24))

_PADDING: Final = binary_array([b"", b"\0\0\0", b"\0\0", b"\0"])
"""Padding of the last word, by the number of its bytes."""


def murmur2_partitions(keys: Any, partitions: int) -> Any:
    """The partitions of keys, binary or large_binary without nulls: a buffer of int32.

    Raises ValueError without partitions.
    """
    if partitions <= 0:
        raise ValueError(f"the number of partitions must be positive, not {partitions}")
    among = _number(partitions)
    hashes = pc.bit_wise_and(_hashes(keys), _POSITIVE)
    return pc.subtract(hashes, pc.multiply(pc.divide(hashes, among), among)).buffers()[1]


def _hashes(keys: Any) -> Any:
    count = len(keys)
    if count <= _FEW or sys.byteorder == "big":
        return _one_by_one(keys)
    sizes = pc.binary_length(keys).cast(pa.uint32())
    ends = pc.cumulative_sum(pc.shift_right(pc.add(sizes, _3), _2).cast(pa.int64()))
    starts = pa.concat_arrays([numbers([0], pa.int64()), ends.slice(0, count - 1)])
    words = _words(_padded(keys, sizes), ends[-1].as_py())
    span = pc.min_max(sizes).as_py()
    if span["min"] == span["max"]:
        return _in_order(words, starts, sizes)
    order = pc.array_sort_indices(sizes)
    sizes, starts = sizes.take(order), starts.take(order)
    stop = bisect_right(_view(sizes), sizes[count - 1 - _FEW].as_py())  # a few long keys must not cause many steps
    aligned = _in_order(words, starts.slice(0, stop), sizes.slice(0, stop))
    hashes = pa.concat_arrays([aligned, _one_by_one(keys.take(order.slice(stop)))])
    return hashes.take(pc.array_sort_indices(order))


def _one_by_one(keys: Any) -> Any:
    return numbers([murmur2(key) for key in keys.to_pylist()], pa.uint32())


def _padded(keys: Any, sizes: Any) -> Any:
    """The keys, padded with zeros to whole words."""
    if not _any_ends(sizes):
        return keys
    padding = _PADDING.take(pc.bit_wise_and(sizes, _3)).cast(keys.type)
    return pc.binary_join_element_wise(keys, padding, binary_array([b""]).cast(keys.type)[0])


def _words(keys: Any, count: int) -> Any:
    """All words of keys that have only whole ones."""
    _valid, offsets, content = keys.buffers()
    width = 8 if pa.types.is_large_binary(keys.type) else 4
    start = int.from_bytes(offsets[keys.offset * width : (keys.offset + 1) * width], sys.byteorder)
    content = content.slice(start, 4 * count)
    if content.address % 4:
        content = pa.py_buffer(bytes(content))
    return pa.Array.from_buffers(pa.uint32(), count, [None, content])


def _any_ends(sizes: Any) -> bool:
    return bool(pc.max(pc.bit_wise_and(sizes, _3)).as_py())


def _in_order(words: Any, starts: Any, sizes: Any) -> Any:
    """The hashes of keys that begin at *starts*, sorted by size."""
    hashed = pc.bit_wise_xor(sizes, _SEED)
    ordered, done, ended = _view(sizes), 0, []
    for position in range(ordered[-1] // 4):
        more = bisect_left(ordered, 4 * position + 4, done)
        if more > done:
            ended.append(hashed.slice(0, more - done))
            hashed, done = hashed.slice(more - done), more
        mixed = pc.multiply(words.take(pc.add(starts.slice(done), number(position, pa.int64()))), _MULTIPLIER)
        mixed = pc.multiply(pc.bit_wise_xor(mixed, pc.shift_right(mixed, _24)), _MULTIPLIER)
        hashed = pc.bit_wise_xor(pc.multiply(hashed, _MULTIPLIER), mixed)
    hashed = pa.concat_arrays([*ended, hashed])
    if _any_ends(sizes):
        hashed = _with_ends(hashed, words, starts, sizes)
    hashed = pc.multiply(pc.bit_wise_xor(hashed, pc.shift_right(hashed, _13)), _MULTIPLIER)
    return pc.bit_wise_xor(hashed, pc.shift_right(hashed, _15))


def _with_ends(hashed: Any, words: Any, starts: Any, sizes: Any) -> Any:
    """Add the remaining one to three bytes of some keys to the hashes."""
    unaligned = pc.not_equal(pc.bit_wise_and(sizes, _3), _0)
    last = words.take(pc.if_else(unaligned, pc.add(starts, pc.shift_right(sizes, _2)), number(0, pa.int64())))
    return pc.if_else(unaligned, pc.multiply(pc.bit_wise_xor(hashed, last), _MULTIPLIER), hashed)


def _view(numbers: Any) -> memoryview:
    """The numbers of an array of uint32."""
    return memoryview(numbers.buffers()[1]).cast("B")[4 * numbers.offset :][: 4 * len(numbers)].cast("I")
