"""Columns with more than 2 GiB: of memory that is never touched, so that none of it is taken."""

from __future__ import annotations

import mmap
import struct
from typing import Any, Final

import pyarrow as pa
import pytest

from ottla.errors import RecordTooLargeError, TableDeliveryError
from simulated_producer import simulated

GIB: Final = 2**30
LARGEST_SETTINGS: Final = {"max.request.size": 2**31 - 1, "buffer.memory": 8 * GIB, "batch.size": 2**31 - 1}

encoders = pytest.mark.parametrize("encoder", ["python", "native"])


def column(*sizes: int, kind: Any = None) -> Any:
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    content = pa.py_buffer(mmap.mmap(-1, offsets[-1]))
    return pa.Array.from_buffers(
        kind or pa.large_binary(), len(sizes), [None, pa.py_buffer(struct.pack(f"<{len(offsets)}q", *offsets)), content]
    )


@encoders
@pytest.mark.parametrize("kind", [pa.large_binary(), pa.large_string()])
@pytest.mark.parametrize("sizes", [(5, 2 * GIB + 2**27, 6), (2 * GIB + 5, 7), (1, 4 * GIB + 5, 8, 9)])
def test_rows_around_one_larger_than_any_record_are_sent(encoder: str, kind: Any, sizes: tuple[int, ...]) -> None:
    table = pa.RecordBatch.from_arrays([column(*sizes, kind=kind)], ["value"])
    with simulated(1, config={**LARGEST_SETTINGS, "record.encoder": encoder}) as simulation:
        delivery = simulation.producer.send_table("t", table)
        simulation.run_until_idle()

        assert [len(value or b"") for value in simulation.log()] == [size for size in sizes if size < GIB]
        [(row, error)] = delivery.failed_rows().items()
        assert sizes[row] > GIB
        assert isinstance(error.__cause__, RecordTooLargeError)
        assert isinstance(delivery.exception(0), TableDeliveryError)


@encoders
@pytest.mark.parametrize("size", [2 * GIB - 1, 2 * GIB, 4 * GIB, 4 * GIB + 5])
def test_a_row_larger_than_any_request_is_refused(encoder: str, size: int) -> None:
    table = pa.RecordBatch.from_arrays([column(size)], ["value"])
    with simulated(1, config={**LARGEST_SETTINGS, "record.encoder": encoder}) as simulation:
        delivery = simulation.producer.send_table("t", table)

        assert isinstance(delivery.failed_rows()[0].__cause__, RecordTooLargeError)
