"""Arrays of bytes, as `pyarrow.array` makes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pyarrow as pa
import pytest

from ottla.recordbatch.binary_arrays import binary_array

WITHIN = 60.0  # seconds


@pytest.mark.parametrize("values", [[], [b""], [b"a", b"", b"bc"], [bytes([n]) * n for n in range(256)]], ids=len)
def test_they_equal_those_of_pyarrow(values: Sequence[bytes]) -> None:
    made = binary_array(values)
    made.validate(full=True)

    assert made.equals(pa.array(values, pa.binary()))
    assert [each.as_py() for each in made] == values


def test_importing_the_parts_for_tables_imports_no_pandas() -> None:
    program = "import sys, ottla.producer.tables, ottla.tables.sending; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WITHIN, check=True)

    assert done.stdout.strip() == "False"
