"""Checked calls of an encoder's abilities for tables: a fault of an encoder is reported with its plugin and package.

An OttlaError that an encoder raises passes unchanged. Without an ability, the core's own code does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ottla.accumulator.locked_columns import LockedColumns
from ottla.errors import OttlaError, counted
from ottla.errors.plugin_origin import faults
from ottla.interfaces import Cut, RecordEncoder, SupportsCutRows, SupportsMurmur2Partitions, TableRows, supports
from ottla.recordbatch import arrow
from ottla.recordbatch.encoder_faults import encoder_failed, encoder_fault

T = TypeVar("T")


def partitions_of_keys(encoder: RecordEncoder, keys: Any, partitions: int) -> Any:
    """Java's partitions of *keys* as an int32 array. Raises InvalidPluginError for a fault of the encoder."""
    if not supports(encoder, SupportsMurmur2Partitions):
        from ottla.plugins.partitioners.murmur2_arrow import murmur2_partitions

        return _int32(len(keys), murmur2_partitions(keys, partitions))
    method = "murmur2_partitions"
    chosen = _call(encoder, method, partial(encoder.murmur2_partitions, keys, partitions))
    size = _call(encoder, method, lambda: memoryview(chosen).nbytes)
    if size != 4 * len(keys):
        what = f"returned {counted(size, 'byte')} in {method} for {counted(len(keys), 'key')}, not four for each"
        raise encoder_fault(encoder, what)
    made = _int32(len(keys), chosen)
    span = pc.min_max(made).as_py()
    if len(keys) and not 0 <= span["min"] <= span["max"] < partitions:
        what = f"chose partitions from {span['min']} to {span['max']} in {method}, where there are {partitions}"
        raise encoder_fault(encoder, what)
    return made


def cut_rows(
    encoder: RecordEncoder, rows: TableRows, chosen: Any | None, *, max_bytes: int, partitions: int
) -> Iterator[Cut]:
    """The rows in batches for their *chosen* partitions. Raises InvalidPluginError for a fault of the encoder.

    *partitions* is the number that the topic has.
    """
    if not supports(encoder, SupportsCutRows):
        yield from arrow.cut_rows(rows, chosen, max_bytes=max_bytes)
        return
    allowed = [arrow.UNASSIGNED] if chosen is None else range(partitions)
    cuts = _call(encoder, "cut_rows", lambda: iter(encoder.cut_rows(rows, chosen, max_bytes=max_bytes)))
    remaining = rows.count
    while (cut := _call(encoder, "cut_rows", partial(next, cuts, None))) is not None:
        partition, indexes, size = _call(encoder, "cut_rows", partial(_parts, cut))
        if partition not in allowed:
            raise encoder_fault(encoder, f"returned a batch for partition {partition!r} in cut_rows, which no row has")
        if not size or size != len(indexes):
            what = f"returned a batch with {counted(size, 'record')} for {counted(len(indexes), 'row')} in cut_rows"
            raise encoder_fault(encoder, what)
        remaining -= size
        yield Cut(partition, indexes, LockedColumns(cut.columns))  # whose results are checked
    if remaining:
        what = (
            f"returned batches with {counted(rows.count - remaining, 'row')} in cut_rows, where there are {rows.count}"
        )
        raise encoder_fault(encoder, what)


def _parts(cut: Cut) -> tuple[int, Sequence[int], int]:
    partition, indexes, columns = cut
    return partition, indexes, len(columns)


def _call(encoder: object, method: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except (OttlaError, MemoryError):  # a lack of memory is no fault of the encoder
        raise
    except faults() as cause:
        raise encoder_failed(encoder, method, cause) from cause


def _int32(count: int, numbers: Any) -> Any:
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(numbers)])
