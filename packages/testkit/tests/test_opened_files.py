"""Files that are opened in a block are seen, with their paths as they are written."""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla_testkit.conformance.harness.opened_files import opened_files

WAYS: dict[str, Callable[[str], Any]] = {
    "open": lambda path: open(path).close(),
    "open by keyword": lambda path: open(file=path).close(),
    "open of bytes": lambda path: open(os.fsencode(path)).close(),
    "io.open": lambda path: io.open(path).close(),  # noqa: UP020  # another place of the same function
    "os.open": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "os.open by keyword": lambda path: os.close(os.open(path=path, flags=os.O_RDONLY)),
    "pathlib": lambda path: Path(path).read_bytes(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_seen_however_it_is_opened(tmp_path: Path, way: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with opened_files() as opened:
        WAYS[way](str(file))

    assert set(opened) == {str(file)}


def test_files_of_other_threads_and_missing_ones_are_seen(tmp_path: Path) -> None:
    def work() -> None:
        with pytest.raises(FileNotFoundError):
            (tmp_path / "missing").read_bytes()

    with opened_files() as opened:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert opened == [str(tmp_path / "missing")]


def test_the_number_of_an_open_file_is_no_path(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    number = os.open(file, os.O_RDONLY)
    with opened_files() as opened:
        open(number).close()

    assert opened == []


def test_the_functions_are_the_same_after_the_block(tmp_path: Path) -> None:
    before = (builtins.open, io.open, os.open)
    with pytest.raises(ZeroDivisionError), opened_files():
        raise ZeroDivisionError

    assert (builtins.open, io.open, os.open) == before
