"""Programs of a test, run as processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

HANG_GUARD = 300.0
FORKS_ON_PURPOSE = "ignore:This process:DeprecationWarning"
"""Python 3.12 and newer warn of a fork in a process with threads. A producer has one, and some programs fork."""


@contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running program whose three streams are pipes."""
    child = subprocess.Popen(
        [sys.executable, "-W", FORKS_ON_PURPOSE, "-c", textwrap.dedent(text), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def run(text: str, *arguments: str) -> tuple[str, int]:
    """A program's log, and its exit code."""
    with program(text, *arguments) as child:
        _out, log = child.communicate(timeout=HANG_GUARD)
    return log, child.returncode
