"""What `ottla send` shows while it runs without a terminal."""

from __future__ import annotations

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
