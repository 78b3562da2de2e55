"""Encoding of a column of header lists, as they stand at the end of each record, without a loop over the rows."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.recordbatch.arrow import varints

_NOTHING: Final = pa.scalar(b"", pa.binary())


def header_sections(column: Any) -> Any:
    """Encode the headers of each row of a list or map column; null means no headers.

    The result is null where a header has no name: the row cannot be a record.
    """
    kind = column.type
    if pa.types.is_map(kind):
        pair = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        column = column.cast(pa.list_(pair))
    counts = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    pairs = column.flatten()  # without those of null rows
    names = pc.struct_field(pairs, 0).cast(pa.binary())
    contents = pc.struct_field(pairs, 1).cast(pa.binary())
    each = pc.binary_join_element_wise(
        varints(pc.fill_null(pc.binary_length(names), -1)),
        names,
        varints(pc.fill_null(pc.binary_length(contents), -1)),
        pc.fill_null(contents, b""),
        _NOTHING,
    )
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, each), _NOTHING)
    return pc.binary_join_element_wise(varints(counts), joined, _NOTHING)
