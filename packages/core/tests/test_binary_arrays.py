"""Arrays and scalars, as pyarrow's functions make them, but without an import of pandas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pyarrow as pa
import pytest

from ottla.protocol.binary_arrays import (
    binary_array,
    flags,
    null,
    nullable_binary_array,
    number,
    numbers,
    string,
    strings,
)

WITHIN = 60.0  # seconds


@pytest.mark.parametrize("values", [[], [b""], [b"a", b"", b"bc"], [bytes([n]) * n for n in range(256)]], ids=len)
def test_they_equal_those_of_pyarrow(values: Sequence[bytes]) -> None:
    made = binary_array(values)
    made.validate(full=True)

    assert made.equals(pa.array(values, pa.binary()))
    assert [each.as_py() for each in made] == values


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()], ids=str)
@pytest.mark.parametrize("values", [[], [0], [5, 2**31 - 1, 0, 1]], ids=len)
def test_integers_equal_those_of_pyarrow(kind: pa.DataType, values: Sequence[int]) -> None:
    made = numbers(values, kind)
    made.validate(full=True)

    assert made.equals(pa.array(values, kind))
    assert [number(value, kind) for value in values] == [pa.scalar(value, kind) for value in values]


def test_a_negative_integer_equals_that_of_pyarrow() -> None:
    assert number(-1, pa.int32()).equals(pa.scalar(-1, pa.int32()))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_integers_of_each_width_equal_those_of_pyarrow(kind: pa.DataType) -> None:
    assert numbers([-128, 0, 127], kind).equals(pa.array([-128, 0, 127], kind))


@pytest.mark.parametrize("values", [[], ["", "a", "äß"]], ids=len)
def test_texts_equal_those_of_pyarrow(values: Sequence[str]) -> None:
    assert strings(values).equals(pa.array(values, pa.string()))
    assert [string(value) for value in values] == [pa.scalar(value) for value in values]


def test_flags_and_nulls_equal_those_of_pyarrow() -> None:
    assert flags([True, False, True]).equals(pa.array([True, False, True]))
    assert null(pa.int64()).equals(pa.scalar(None, pa.int64()))


@pytest.mark.parametrize("large", [False, True])
def test_nullable_bytes_equal_those_of_pyarrow(large: bool) -> None:
    for values in ([], [None], [b"", None, b"ab"]):
        made = nullable_binary_array(values, large=large)
        made.validate(full=True)

        assert made.equals(pa.array(values, pa.large_binary() if large else pa.binary()))


SENDING = """
import sys
from array import array
import pyarrow as pa
from ottla import Producer
from ottla_testkit.mock_cluster import MockCluster

def column(size, count):
    offsets = array("i", range(0, (count + 1) * size, size))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(bytes(size * count))])

parts = [pa.record_batch([column(8, 500), column(100, 500)], ["key", "value"])] * 4
with MockCluster() as brokers, Producer(
    bootstrap_servers=brokers.bootstrap_servers, record_encoder=sys.argv[1]
) as ours:
    brokers.create_topic("t", partitions=4)
    ours.send_table("t", pa.Table.from_batches(parts)).result(30)
    ours.send_table("t", pa.Table.from_batches(parts), key=None).result(30)
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_sending_a_table_imports_no_pandas(encoder: str) -> None:
    """Several record batches, which are joined, with keys and without."""
    pytest.importorskip("confluent_kafka")  # of the mock cluster
    done = subprocess.run(
        [sys.executable, "-c", SENDING, encoder], capture_output=True, text=True, timeout=WITHIN, check=True
    )

    assert done.stdout.strip() == "False"


def test_importing_the_parts_for_tables_imports_no_pandas() -> None:
    program = "import sys, ottla.producer.tables, ottla.tables.sending; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WITHIN, check=True)

    assert done.stdout.strip() == "False"
