"""Compiled code raises MemoryError when memory runs out: no crash, and no object is freed twice."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ottla_accel

PUTS = """
import sys
import _testcapi
from ottla_accel.columns import NativeColumns

def called(delivery): pass

keys, values = [b"k%d" % n for n in range(40)], [b"v" * n for n in range(40)]
headers = [("h", b"x")]
columns = NativeColumns(100_000)
put = 0
try:
    _testcapi.set_nomemory(int(sys.argv[1]), 1_000_000)  # from this allocation on there is no memory
    for n in range(40):
        columns.put(keys[n], values[n], headers if n % 3 else (), n, called if n % 4 == 0 else None)
        put = n + 1
except MemoryError:
    pass
finally:
    _testcapi.remove_mem_hooks()
assert len(columns) == put < 40
assert columns.lock.acquire(blocking=False)
columns.lock.release()
assert columns.put(b"k", b"v", (), 1, None) == put
"""

TYPES = """
import sys
import _testcapi
from ottla.interfaces import AvroKind, AvroType
from ottla_accel.avro_values import avro_values

array = AvroType(kind=AvroKind.ARRAY, children=(AvroType(kind=AvroKind.DOUBLE),))
record = AvroType(kind=AvroKind.RECORD, names=("a", "b"), defaults=(None, b"x"), children=(array, array))
avro_values(record)
try:
    _testcapi.set_nomemory(int(sys.argv[1]), 1_000_000)
    for _ in range(1_000):
        avro_values(record)
except MemoryError:
    pass
finally:
    _testcapi.remove_mem_hooks()
avro_values(record)
"""


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and sys.version_info < (3, 14),
    reason="without memory, a list such as [n] breaks the heap of a Python 3.13 without the GIL",
)
@pytest.mark.parametrize("program", [PUTS, TYPES], ids=["put", "types"])
def test_without_memory_a_call_raises_an_error(program: str) -> None:
    """Wherever in the call the memory ends: each in a process of its own."""
    pytest.importorskip("_testcapi")
    for first in range(20):
        done = subprocess.run(
            [sys.executable, "-c", program, str(first)], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), first


def test_no_list_comprehension_is_compiled() -> None:
    """Cython 3.3 frees the element of a list comprehension twice if the list cannot grow; `append` in a loop does not.

    Only a debug build of Python notices it: the second time is a decrement in freed memory.
    """
    sources = list(Path(ottla_accel.__file__).parent.glob("*.pyx"))
    found = [
        (source.name, line.strip())
        for source in sources
        for line in source.read_text("utf-8").splitlines()
        if re.search(r"\[.* for .* in ", line) or re.match(r" *for .* in [^:]*$", line)
    ]

    assert sources
    assert found == []
