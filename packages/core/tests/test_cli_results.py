"""The result of `ottla send` and `ottla perf` is printed where it can be, and does not change the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "from ottla.cli.results import print_result; print_result('acknowledged: 5')"
FULL = Path("/dev/full")


def printed(stdout: int, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=stdout, stderr=stderr, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.skipif(not FULL.exists(), reason="Linux has this device")
def test_with_a_full_disk_the_result_is_on_the_standard_error() -> None:
    with FULL.open("wb") as full:
        code, shown = printed(full.fileno())
        assert printed(full.fileno(), full.fileno())[0] == 0

    assert (code, shown) == (
        0,
        "the standard output cannot be written (No space left on device); the result:\nacknowledged: 5\n",
    )


@pytest.mark.skipif(os.name == "nt", reason="a pipe without a reader is another error there")
def test_with_an_ended_pipe_the_result_is_on_the_standard_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, shown = printed(writer)
    os.close(writer)

    assert (code, shown) == (0, "the standard output cannot be written (Broken pipe); the result:\nacknowledged: 5\n")


@pytest.mark.skipif(os.name == "nt", reason="its shell closes no output")
def test_with_a_closed_output_the_result_is_on_the_standard_error() -> None:
    command = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    shown = "the standard output is closed; the result:\nacknowledged: 5\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", shown)
