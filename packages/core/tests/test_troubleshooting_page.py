"""docs/troubleshooting.md names log lines and findings of the doctor that exist in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "troubleshooting.md"
LOGGING_PAGE: Final = ROOT / "docs" / "log-lines.md"
ROW: Final = re.compile(r"\| (?P<symptom>[^|]+) \| (?P<log>[^|]+) \| (?P<doctor>[^|]+) \| (?P<help>[^|]+) \|")
NOT_LOGGED: Final = ("none",)
NOT_FOUND: Final = "not visible"


def rows() -> list[re.Match[str]]:
    """The rows of the page's tables, without their heads."""
    found = map(ROW.fullmatch, PAGE.read_text(encoding="utf-8").splitlines())
    return [row for row in found if row and row["doctor"] != "`ottla doctor`"]


@cache
def texts() -> str:
    """All texts in the source of the packages, one after the other."""
    return "\n".join(found for file in sorted(ROOT.glob("packages/*/src/**/*.py")) for found in _texts_of(file))


def _texts_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_page_has_symptoms() -> None:
    assert len(rows()) > 15


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["symptom"][:40])
def test_the_log_line_of_a_symptom_is_on_the_logging_page(row: re.Match[str]) -> None:
    """A test of that page compares it with the source."""
    if not row["log"].startswith(NOT_LOGGED):
        line = row["log"].strip("`")

        assert [one for one in formats() if line == one or pattern_of(one).fullmatch(line)]


def formats() -> list[str]:
    """The format strings on the logging page."""
    return re.findall(r"^\| [A-Z]+ \| `(.+?)` \| ", LOGGING_PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def pattern_of(line: str) -> re.Pattern[str]:
    """The lines that a format string makes; one without words of its own makes none that could be recognised."""
    parts = re.split(r"%(?:\.\d)?([a-z])", line)
    words = "".join(parts[::2])
    kinds = {"s": ".+", "d": r"\d+", "f": r"[\d.]+"}
    pattern = "".join(kinds.get(part, ".+") if place % 2 else re.escape(part) for place, part in enumerate(parts))
    return re.compile(pattern if len(words) > 15 else r"(?!)")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["symptom"][:40])
def test_the_finding_of_a_symptom_is_in_the_source(row: re.Match[str]) -> None:
    if row["doctor"] != NOT_FOUND:
        parts = [part for part in row["doctor"].strip("`").split("…") if part.strip()]

        assert parts
        assert [part for part in parts if part not in texts()] == []
