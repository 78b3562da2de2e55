"""Memory of the whole process: it grows by `buffer.memory` and a few megabytes, whatever waits in the buffer.

The benchmark's cases, each in a process of its own, with brokers that respond late until the buffer is used up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.unmeasured,
]

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "memory.py"
MIB = 1024 * 1024
BUFFER = 32 * MIB
BEYOND = 20 * MIB
"""At most 11 MiB were measured; without the bounds, these cases took 24 to 35 MiB.

Of the table for 5,000 partitions, 18 MiB were measured, and 144 before its batches were counted.
"""

RUN_WITHIN = 120.0


@pytest.mark.parametrize(
    ("case", "beyond"),
    [
        ("send, none, native", BEYOND),
        ("send_table, none, native", BEYOND),
        pytest.param(
            "send_table, keys, 5,000 partitions, native",
            2 * BEYOND,
            marks=pytest.mark.thorough("half a minute; the delivery's own tests count what it keeps"),
        ),
        pytest.param(
            "send, 10 B, python", BEYOND, marks=pytest.mark.thorough("half a minute; the gate has larger records")
        ),
    ],
)
def test_a_full_buffer_takes_little_more_memory_than_the_setting(case: str, beyond: int, tmp_path: Path) -> None:
    file = tmp_path / "growth.json"

    subprocess.run(
        [sys.executable, str(BENCHMARK), "--buffers", str(BUFFER // MIB), "--only", case, "--json", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RUN_WITHIN,
        check=True,
    )

    [growth] = json.loads(file.read_text())
    assert growth["filled"]
    assert growth["peak"] <= BUFFER + beyond
