"""What `ottla send` shows while it runs, on a terminal and without one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from io import StringIO

import pytest

from ottla.cli.send.counts import Counts
from ottla.cli.send.progress import progress_of

WAIT = 20.0


class Lines(StringIO):
    """A standard error without a terminal, which says when it has three lines."""

    def __init__(self) -> None:
        super().__init__()
        self.three = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.getvalue().count("\n") >= 3:
            self.three.set()
        return written


def test_counts_are_printed_line_by_line_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    monkeypatch.setattr(sys, "stderr", lines)
    with progress_of(Counts(), seconds=0.001):
        assert lines.three.wait(WAIT)

    assert not [thread for thread in threading.enumerate() if thread.name == "ottla-send-progress"]
    assert set(lines.getvalue().splitlines()) == {"records: 0, 0 MB, 0.0 MB/s, 0 in flight, 0 failed"}


def test_no_interval_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    monkeypatch.setattr(sys, "stderr", lines)
    with progress_of(Counts(), seconds=0):
        assert not [thread for thread in threading.enumerate() if thread.name == "ottla-send-progress"]

    assert lines.getvalue() == ""


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_terminal_that_was_closed_does_not_hide_the_result() -> None:
    """As by `nohup` or `disown`."""
    program = """
import os, sys
from ottla.cli.results import print_result
from ottla.cli.send.counts import Counts
from ottla.cli.send.progress import progress_of

def run():
    with progress_of(Counts(), seconds=1):
        os.write(1, b"ready\\n")
        os.read(0, 1)
        return "acknowledged: 5"

print_result(run())
"""
    terminal, its_end = os.openpty()
    command = [sys.executable, "-c", program]
    environment = os.environ | {"TERM": "xterm"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=its_end, env=environment) as child:
        os.close(its_end)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.close(terminal)
        out, _log = child.communicate(b"x", timeout=60)

    assert (out, child.returncode) == (b"acknowledged: 5\n", 0)
