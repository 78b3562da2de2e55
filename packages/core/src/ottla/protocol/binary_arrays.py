"""Arrow arrays and scalars, made without `pyarrow.array` and `pyarrow.scalar`: these import pandas.

If pandas is installed, that takes some 0.2 s of processor time and 40 MiB, in each process that sends a table. A
function of `pyarrow.compute` makes such a scalar of each int or str that it gets, so it gets a `number` or a `string`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_CODES: Final = {8: "b", 16: "h", 32: "i", 64: "q"}
"""The codes of signed integers in the module `array`, by bits."""


def binary_array(values: Sequence[bytes], *, large: bool = False) -> Any:
    """The values as an array of type binary or *large* binary. An item is a scalar, as `pyarrow.scalar` makes it."""
    kind = pa.large_binary() if large else pa.binary()
    offsets = array("q" if large else "i", [0, *accumulate(map(len, values))])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])


def numbers(values: Sequence[int], kind: Any) -> Any:
    """The values as an array of an integer type."""
    code = _CODES[kind.bit_width]
    content = array(code if pa.types.is_signed_integer(kind) else code.upper(), values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(content)])


@lru_cache(maxsize=64)
def number(value: int, kind: Any) -> Any:
    """A scalar of an integer type."""
    return numbers([value], kind)[0]


@lru_cache(maxsize=64)
def string(value: str) -> Any:
    """A scalar of type string."""
    return strings([value])[0]


def strings(values: Sequence[str]) -> Any:
    """The values as an array of type string."""
    return binary_array([value.encode() for value in values]).cast(pa.string())


def flags(values: Sequence[bool]) -> Any:
    """The values as an array of type bool."""
    return numbers(values, pa.uint8()).cast(pa.bool_())


def list_offsets(counts: Any) -> Any:
    """The offsets of lists with these int32 lengths."""
    return pa.concat_arrays([numbers([0], pa.int32()), pc.cumulative_sum(counts)])


def null(kind: Any) -> Any:
    """A scalar without a value."""
    return pa.nulls(1, kind)[0]


def nullable_binary_array(values: Sequence[bytes | None], *, large: bool = False) -> Any:
    """The values as an array of type binary or *large* binary, with nulls."""
    present = flags([value is not None for value in values])
    made = binary_array([value or b"" for value in values], large=large)
    return pc.if_else(present, made, null(made.type))
