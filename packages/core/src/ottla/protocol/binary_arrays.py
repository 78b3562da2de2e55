"""Arrow arrays of bytes and integers, made without `pyarrow.array` and `pyarrow.scalar`: these import pandas.

If pandas is installed, that takes some 0.2 s of processor time and 40 MiB, in each process that sends a table. A
function of `pyarrow.compute` makes such a scalar of each int that it gets, so it gets a `number` in place of an int.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa


def binary_array(values: Sequence[bytes]) -> Any:
    """The values as an array of type binary. An item of it is a scalar, as `pyarrow.scalar` makes it."""
    offsets = array("i", [0, *accumulate(map(len, values))])
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def numbers(values: Sequence[int], kind: Any) -> Any:
    """The values as an array of an integer type."""
    width = kind.bit_width // 8
    signed = pa.types.is_signed_integer(kind)
    content = b"".join([value.to_bytes(width, sys.byteorder, signed=signed) for value in values])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(content)])


@lru_cache(maxsize=64)
def number(value: int, kind: Any) -> Any:
    """A scalar of an integer type."""
    return numbers([value], kind)[0]
