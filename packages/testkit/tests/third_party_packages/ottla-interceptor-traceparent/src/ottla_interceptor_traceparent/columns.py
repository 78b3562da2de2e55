"""The same for rows of tables: a column of headers. No work for each row in Python."""

from __future__ import annotations

from typing import Any

from ottla_interceptor_traceparent.header import HEADER, SPAN_BYTES, beginning, end


def with_spans(headers: Any, trace: str, spans: str, *, count: int, sampled: bool) -> Any:
    """Return the column *headers* with a `traceparent` for each of *count* rows that has none, behind its others.

    *spans* are the span ids of all rows, one after the other.
    """
    import pyarrow as pa  # only programs that send tables need it

    added = _added(trace, spans, count=count, sampled=sampled)
    if headers is None:
        return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), added)
    return _merged(headers, added)


def _added(trace: str, spans: str, *, count: int, sampled: bool) -> Any:
    """One header for each row, as structs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = 2 * SPAN_BYTES
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(digits), count, [None, pa.py_buffer(spans.encode())])
    parts = (
        pa.scalar(beginning(trace).encode(), pa.binary()),
        ids.cast(pa.binary()),
        pa.scalar(end(sampled=sampled).encode(), pa.binary()),
    )
    values = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    names = pa.repeat(pa.scalar(HEADER, pa.string()), count)
    return pa.StructArray.from_arrays([names, values], fields=_fields())


def _merged(headers: Any, added: Any) -> Any:
    """The headers of each row, and behind them the added one, if none of them is a `traceparent`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own = pc.list_flatten(headers)
    rows_of_own = pc.list_parent_indices(headers)
    names = pc.struct_field(own, "key")
    having = rows_of_own.filter(pc.equal(names, HEADER))
    rows = pa.array(range(len(headers)), rows_of_own.type)
    lacking = pc.invert(pc.is_in(rows, value_set=having))

    all_headers = pa.concat_arrays([own.cast(pa.struct(_fields())), added.filter(lacking)])
    row_of_each = pa.concat_arrays([rows_of_own, rows.filter(lacking)])
    # The sort is stable: a row's own headers stay in order, and the added one comes last.
    in_order = all_headers.take(pc.array_sort_indices(row_of_each))
    lengths = pc.add(pc.fill_null(pc.list_value_length(headers), 0), lacking.cast(pa.int32()))
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), in_order)


def _fields() -> list[Any]:
    import pyarrow as pa

    return [pa.field("key", pa.string()), pa.field("value", pa.binary())]
