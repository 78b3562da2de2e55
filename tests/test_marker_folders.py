"""`tox` finds every test that needs a broker or Spark."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path
from typing import Final

import attrs
import pytest
from marker_folders import FOLDERS, ROOT, pytest_itemcollected


@attrs.frozen
class Item:
    """As much of a collected test as matters here."""

    path: Path
    markers: tuple[str, ...]
    nodeid: str = "test_it"

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None


ELSEWHERE: Final = [
    ("packages/core/tests/test_it.py", ("kafka",)),
    ("packages/spark/tests/test_it.py", ("kafka", "slow")),
    ("packages/testkit/tests/test_it.py", ("spark",)),
    ("examples/transport-unix/tests/test_it.py", ("kafka", "spark")),
]
FOUND: Final = [
    ("packages/testkit/tests/test_it.py", ("kafka",)),
    ("packages/spark/tests/test_it.py", ("kafka", "spark")),
    ("tests/test_it.py", ("kafka",)),
    ("packages/core/tests/test_it.py", ("slow",)),
]


@pytest.mark.parametrize(("path", "markers"), ELSEWHERE)
def test_a_test_in_a_folder_that_tox_does_not_search_is_refused(path: str, markers: tuple[str, ...]) -> None:
    with pytest.raises(pytest.UsageError, match=r"has the marker '(kafka|spark)'; move it to packages/"):
        pytest_itemcollected(Item(ROOT / path, markers))  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "markers"), FOUND)
def test_a_test_in_a_folder_that_tox_searches_is_collected(path: str, markers: tuple[str, ...]) -> None:
    pytest_itemcollected(Item(ROOT / path, markers))  # type: ignore[arg-type]


@pytest.mark.parametrize("environment", ["tests", "full-{simulation,brokers,spark}"])
@pytest.mark.parametrize("marker", FOLDERS)
def test_tox_searches_these_folders(environment: str, marker: str) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    wanted = {"spark": "spark", "kafka": "kafka and not spark"}[marker]
    commands = parser[f"testenv:{environment}"]["commands"].replace("\\\n", " ").splitlines()
    words = [word for line in commands if "pytest" in line for word in shlex.split(line)]
    searched = {
        word
        for position, expression in enumerate(words)
        if words[position - 1] == "-m" and wanted in expression and f"not {wanted}" not in expression
        for word in _folders(words[position + 1 :])
    }

    assert searched | {"tests"} == {*FOLDERS[marker]}


def _folders(words: list[str]) -> list[str]:
    """Return the words up to the next option or variable."""
    end = next(number for number, word in enumerate(words) if word.startswith(("-", "{")))
    return words[:end]
