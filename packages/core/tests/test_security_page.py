"""docs/security.md: each promise names tests that exist, and compares with Java's client and librdkafka."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "security.md"
HEAD: Final = "| promise | held by | Java | librdkafka |"

_TEST: Final = re.compile(r"`([a-z-]+)/(test_\w+\.py)::(test_\w+)`")
_ATTACKER: Final = re.compile(r"^\| \*\*([^*]+)\*\*", re.MULTILINE)
_GROUP: Final = re.compile(r"^### (.+)$", re.MULTILINE)
_CELLS: Final = re.compile(r"(?<!\\)\|")


@attrs.frozen
class Promise:
    """A row of one of the page's tables."""

    words: str
    held_by: str
    java: str
    librdkafka: str

    @property
    def tests(self) -> list[tuple[str, str, str]]:
        """The folder, the module and the function of each test."""
        return _TEST.findall(self.held_by)


def promises(text: str) -> Iterator[Promise]:
    """The rows of every table under the head of promises. ValueError: a row that has other cells."""
    inside = False
    for line in text.splitlines():
        if line == HEAD:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
            if len(cells) != 4:
                raise ValueError(f"{len(cells)} cells in place of 4: {line}")
            yield Promise(*cells)


@functools.cache
def functions(folder: str, module: str) -> frozenset[str]:
    """The tests that a module defines, also those in classes."""
    tests = ROOT / "tests" if folder == "tests" else ROOT / "packages" / folder / "tests"
    if not (tests / module).is_file():
        return frozenset()
    found = ast.walk(ast.parse((tests / module).read_text(encoding="utf-8")))
    return frozenset(node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


PROMISES: Final = list(promises(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.words[:60] for promise in PROMISES])
def test_each_promise_names_tests_that_exist(promise: Promise) -> None:
    assert promise.tests, "name a test: `package/test_module.py::test_function`"
    assert promise.held_by == ", ".join(f"`{folder}/{module}::{name}`" for folder, module, name in promise.tests)
    assert [each for each in promise.tests if each[2] not in functions(*each[:2])] == []


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.words[:60] for promise in PROMISES])
def test_each_promise_is_compared_with_both_clients(promise: Promise) -> None:
    assert "" not in (promise.words, promise.java, promise.librdkafka)


def test_each_attacker_has_its_own_promises() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]

    assert _GROUP.findall(text) == _ATTACKER.findall(text)
    assert [section.splitlines()[0] for section in sections if not list(promises(section))] == []


def test_no_promise_is_listed_twice() -> None:
    words = [promise.words for promise in PROMISES]

    assert sorted(set(words)) == sorted(words)


def test_a_row_with_too_many_cells_is_an_error() -> None:
    with pytest.raises(ValueError, match="5 cells in place of 4"):
        list(promises(f"{HEAD}\n|---|---|---|---|\n| a | b | c | d | e |"))
